// lessor/stream.h: the handles that programs hold.
//
//   auto orders = broker.CreateStream({.name = "orders"});
//   orders->Produce({{.content = payload, .headers = {{"event-type", "order.created"}}}});
//   auto ingestion = orders->Subscribe({.name = "ingestion"});
//
//   auto batch = ingestion->Consume({.worker = "worker-1", .max_records = 100});
//   for (lessor::RecordView record : *batch) Handle(record);
//   ingestion->Ack(*batch, "worker-1");                       // or Nack, or Extend for more time
#ifndef LESSOR_STREAM_H_
#define LESSOR_STREAM_H_

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lessor/batch.h"
#include "lessor/export.h"
#include "lessor/ids.h"
#include "lessor/record.h"
#include "lessor/service.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// A handle of one subscription: a cursor over its stream that leases batches to workers.
///
/// Errors: kNoSuchStream or kNoSuchSubscription from every call once either is deleted;
///   kInvalidArgument for a worker id that is not 1-256 characters of UTF-8; kUnavailable or
///   kOutcomeUnknown where a store can fail.
/// Threads: a value; calls through it, copies included, may be concurrent.
/// Lifetime: the Service outlives it. Copies are cheap; dropping one ends nothing.
class Subscription {
 public:
  Subscription(Service& service, SubscriptionKey key) : service_(&service), key_(key) {}

  SubscriptionKey key() const { return key_; }
  SubscriptionId id() const { return key_.subscription; }

  /// The worker's batch: the one it holds already, its lease refreshed (S13), or else the longest
  /// batch of available records from the lowest offset on, under a new lease (S15). The empty batch
  /// if nothing is available.
  ///
  /// Effect: the records are the worker's until leased_until(); nobody else is given them.
  /// Time: the lease lasts Limits::lease (default 300 s) from now. Blocks only with
  ///   request.wait_until; waiters of a subscription are served in the order in which they came.
  /// Errors: kLeaseLimit: repeat after a lease has ended (with wait_until, waits for one instead);
  ///   kStillReading, kReadFailed: repeat; kCancelled: a wait was ended by stop or shutdown.
  /// Cost: no record is copied.
  /// Spec: S12-S19.
  absl::StatusOr<Batch> Consume(const ConsumeRequest& request) const {
    return service_->Consume(key_, request);
  }

  /// Marks the batch's records as processed and ends its lease. Counts while the lease is active,
  /// and afterwards until one of its records has been redelivered; else changes nothing and still
  /// succeeds. `worker` need not be the holder. Spec: S20.
  absl::Status Ack(BatchId batch, std::string_view worker) const {
    return service_->Ack(key_, batch, worker);
  }
  absl::Status Ack(const Batch& batch, std::string_view worker) const {
    return Ack(batch.id(), worker);
  }

  /// Gives the batch's records back: they are available at once, to anyone, under a new batch id.
  /// Counts, and succeeds, as Ack() does. Spec: S21.
  absl::Status Nack(BatchId batch, std::string_view worker) const {
    return service_->Nack(key_, batch, worker);
  }
  absl::Status Nack(const Batch& batch, std::string_view worker) const {
    return Nack(batch.id(), worker);
  }

  /// Renews the lease to Limits::lease from now, never shortening it, and says until when.
  /// Errors: kLeaseNotHeld if `worker` does not hold the batch in an active lease: drop the batch
  /// and
  ///   consume again. Spec: S22.
  absl::StatusOr<absl::Time> Extend(BatchId batch, std::string_view worker) const {
    return service_->Extend(key_, batch, worker);
  }
  absl::StatusOr<absl::Time> Extend(const Batch& batch, std::string_view worker) const {
    return Extend(batch.id(), worker);
  }

  /// Where the subscription stands. Spec: S24, S25, S30.
  absl::StatusOr<Position> GetPosition() const { return service_->GetPosition(key_); }
  /// Why a consume would give what it gives. Spec: S30.
  absl::StatusOr<Explanation> Explain() const { return service_->Explain(key_); }
  absl::StatusOr<SubscriptionInfo> Info() const { return service_->GetSubscription(key_); }
  /// Deletes the subscription and ends its leases. Spec: S10.
  absl::Status Delete() const { return service_->DeleteSubscription(key_); }

 private:
  Service* service_;
  SubscriptionKey key_;
};

/// A handle of one stream: an ordered log of records with a retention.
///
/// Errors: kNoSuchStream from every call once it is deleted; kUnavailable or kOutcomeUnknown where
/// a
///   store can fail.
/// Threads: a value; calls through it, copies included, may be concurrent.
/// Lifetime: the Service outlives it. Copies are cheap; dropping one ends nothing.
class Stream {
 public:
  Stream(Service& service, StreamId id) : service_(&service), id_(id) {}

  StreamId id() const { return id_; }

  /// Appends copies of all of `records`, contiguous and in order, or none.
  ///
  /// Time: all get one timestamp: now, or the newest record's if the clock went back (S2).
  /// Limits: Limits::max_record_bytes to max_headers_bytes, max_produce_bytes, max_bytes_held.
  /// Errors: kInvalidArgument: no records, or headers that break a limit, are named twice or are
  /// not
  ///   UTF-8; kRecordTooLarge; kProduceTooLarge; kFull: repeat after retention has freed room.
  /// Cost: one copy of the bytes.
  /// Spec: S2-S4, S31.
  absl::StatusOr<Appended> Produce(std::span<const Record> records) const {
    return service_->Produce(id_, records);
  }
  absl::StatusOr<Appended> Produce(std::initializer_list<Record> records) const {
    return Produce(std::span<const Record>(records.begin(), records.size()));
  }

  /// The subscription with this name and these settings, created if there is none.
  /// Errors: kNameTaken if it exists with other settings; kSubscriptionLimit. Spec: S7-S9.
  absl::StatusOr<Subscription> Subscribe(const SubscriptionSettings& settings) const {
    absl::StatusOr<SubscriptionInfo> info = service_->Subscribe(id_, settings);
    if (!info.ok()) return info.status();
    return Subscription(*service_, {id_, info->id});
  }
  /// The subscription with this name, ignoring case. Errors: kNoSuchSubscription. Spec: S10.
  LESSOR_EXPORT absl::StatusOr<Subscription> OpenSubscription(std::string_view name) const;
  /// All subscriptions, oldest first. Spec: S10.
  absl::StatusOr<std::vector<SubscriptionInfo>> ListSubscriptions() const {
    return service_->ListSubscriptions(id_, std::nullopt);
  }
  /// Who holds what until when, over all subscriptions.
  absl::StatusOr<std::vector<LeaseInfo>> ListLeases() const { return service_->ListLeases(id_); }

  absl::StatusOr<StreamInfo> Info() const { return service_->GetStream(id_); }
  /// Changes settings. A shorter retention removes records at once; what has left stays away.
  /// Spec: S5.
  absl::StatusOr<StreamInfo> Update(const StreamUpdate& update) const {
    return service_->UpdateStream(id_, update);
  }
  /// Deletes the stream and everything in it. Spec: S10.
  absl::Status Delete() const { return service_->DeleteStream(id_); }

 private:
  Service* service_;
  StreamId id_;
};

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_STREAM_H_
