// lessor/service.h: the interface behind the handles.
//
// Programs hold Stream and Subscription handles (lessor/stream.h); a Service answers them. The
// Broker (lessor/broker.h) is one. Fakes with faults and clients of a remote service are others,
// and a consumer written against the handles runs on all of them unchanged.
#ifndef LESSOR_SERVICE_H_
#define LESSOR_SERVICE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lessor/batch.h"
#include "lessor/change.h"
#include "lessor/export.h"
#include "lessor/ids.h"
#include "lessor/position.h"
#include "lessor/record.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

class Stream;

/// What a new stream is to be.
struct StreamSettings {
  /// 1-128 ASCII letters, digits and underscores; unique in the Service, ignoring case. Spec: S1.
  std::string name;
  /// 3,600 to 2,592,000 seconds; rounded up to a millisecond. Spec: S1, S5.
  absl::Duration retention = absl::Seconds(604'800);
  /// Whether producing over HTTP, and through a worker's binding, is enabled. Only hosts look at
  /// them; Produce() in process always works. Both false is refused.
  bool http = true;
  bool worker_binding = true;
};

/// Changes to a stream's settings; what is not given stays.
struct StreamUpdate {
  std::optional<absl::Duration> retention = std::nullopt;
  std::optional<bool> http = std::nullopt;
  std::optional<bool> worker_binding = std::nullopt;
};

struct StreamInfo {
  StreamId id;
  std::string name;  ///< As spelt at creation.
  absl::Duration retention;
  bool http = true;
  bool worker_binding = true;
  absl::Time created_at;
  absl::Time modified_at;
};

struct SubscriptionSettings {
  /// 1-128 ASCII letters, digits, underscores and hyphens; unique in its stream, ignoring case.
  /// Spec: S7.
  std::string name;
  StartAt start_at = StartAt::kEarliest;
};

struct SubscriptionInfo {
  SubscriptionId id;
  std::string name;
  StartAt start_at = StartAt::kEarliest;
  absl::Time created_at;
  absl::Time modified_at;  ///< The same: a subscription is immutable.
};

/// Where a produce put its records: [first, first + count), all with `timestamp`.
struct Appended {
  Offset first = 0;
  uint64_t count = 0;
  absl::Time timestamp;
};

struct ConsumeRequest {
  /// Who asks: 1-256 Unicode characters of valid UTF-8. Two processes with one worker id share one
  /// lease. Spec: S12, S13.
  std::string_view worker;
  /// The largest batch wanted, 1-10,000. Ignored when the worker already holds one. Spec: S12, S13.
  int64_t max_records = 100;
  /// Absent: answer at once. Given: while there is nothing to deliver, or no lease to be had, wait
  /// until the service's clock reaches it; then the answer is the empty batch.
  std::optional<absl::Time> wait_until = std::nullopt;
  /// Once requested, ends the call with Reason::kCancelled, before or while it waits.
  std::stop_token stop = {};
};

/// The operations of a lease service, by id. Every error carries a Reason (lessor/error.h); a call
/// that is refused changes nothing, except that the service has seen its time. What each call means
/// is said once, at the handles in lessor/stream.h.
///
/// Threads: every implementation's functions may be called from any thread at once.
/// Lifetime: outlives its handles.
/// Spec: S1-S31.
class LESSOR_EXPORT Service {
 public:
  virtual ~Service() = default;

  /// A new stream's handle. Errors: kInvalidArgument; kNameTaken; kStreamLimit. Spec: S1.
  absl::StatusOr<Stream> CreateStream(const StreamSettings& settings);
  /// The handle of the stream with this name, ignoring case. Errors: kNoSuchStream.
  absl::StatusOr<Stream> OpenStream(std::string_view name);

  virtual absl::StatusOr<StreamInfo> DoCreateStream(const StreamSettings& settings) = 0;
  /// All streams, the one created first first.
  virtual absl::StatusOr<std::vector<StreamInfo>> ListStreams() = 0;
  virtual absl::StatusOr<StreamInfo> GetStream(StreamId stream) = 0;
  virtual absl::StatusOr<StreamInfo> UpdateStream(StreamId stream, const StreamUpdate& update) = 0;
  virtual absl::Status DeleteStream(StreamId stream) = 0;
  virtual absl::StatusOr<Appended> Produce(StreamId stream, std::span<const Record> records) = 0;

  virtual absl::StatusOr<SubscriptionInfo> Subscribe(StreamId stream,
                                                     const SubscriptionSettings& settings) = 0;
  /// All subscriptions, or the one with this name (ignoring case) or none, oldest first.
  virtual absl::StatusOr<std::vector<SubscriptionInfo>> ListSubscriptions(
      StreamId stream, std::optional<std::string_view> name) = 0;
  virtual absl::StatusOr<SubscriptionInfo> GetSubscription(SubscriptionKey key) = 0;
  virtual absl::Status DeleteSubscription(SubscriptionKey key) = 0;

  virtual absl::StatusOr<Batch> Consume(SubscriptionKey key, const ConsumeRequest& request) = 0;
  virtual absl::Status Ack(SubscriptionKey key, BatchId batch, std::string_view worker) = 0;
  virtual absl::Status Nack(SubscriptionKey key, BatchId batch, std::string_view worker) = 0;
  virtual absl::StatusOr<absl::Time> Extend(SubscriptionKey key, BatchId batch,
                                            std::string_view worker) = 0;

  virtual absl::StatusOr<Position> GetPosition(SubscriptionKey key) = 0;
  virtual absl::StatusOr<Explanation> Explain(SubscriptionKey key) = 0;
  /// Active leases of all of the stream's subscriptions, oldest subscription first, in the order in
  /// which they were given.
  virtual absl::StatusOr<std::vector<LeaseInfo>> ListLeases(StreamId stream) = 0;
};

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_SERVICE_H_
