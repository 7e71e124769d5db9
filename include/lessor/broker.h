// lessor/broker.h: the engine: names, locks, time, ids and waiting around the pure core.
//
//   lessor::Broker broker;                                       // in memory, system clock
//   lessor::Broker broker({.clock = &clock, .limits = {.lease = absl::Seconds(30)}});
#ifndef LESSOR_BROKER_H_
#define LESSOR_BROKER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lessor/clock.h"
#include "lessor/export.h"
#include "lessor/ids.h"
#include "lessor/limits.h"
#include "lessor/policy.h"
#include "lessor/service.h"
#include "lessor/store.h"
#include "lessor/stream.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// What a Broker is made of. Pointers are borrowed and outlive it; null means the default.
struct BrokerOptions {
  Clock* clock = nullptr;   ///< Default: SystemClock().
  IdSource* ids = nullptr;  ///< Default: SystemIdSource().
  Store* store = nullptr;   ///< Default: MemoryStore().
  Limits limits = {};
  StreamPolicy policy = {};
};

/// Counts of one Broker. Gauges are exact at the instant of the call, stream by stream; counters
/// run from the Broker's making and never decrease, deletions included.
///
/// Counters count what was decided: a change that a failing store then lost stays counted.
struct Stats {
  // Held now.
  uint64_t streams = 0;
  uint64_t subscriptions = 0;
  uint64_t records = 0;          ///< Retained.
  uint64_t bytes = 0;            ///< What Limits::max_bytes_held counts.
  uint64_t bytes_allocated = 0;  ///< Memory in segments, spare ones and those of held batches too.
  uint64_t active_leases = 0;
  uint64_t waiters = 0;  ///< Threads blocked in a consume.
  // Since the Broker was made.
  uint64_t produced = 0;     ///< Records.
  uint64_t delivered = 0;    ///< Records given out under new leases.
  uint64_t redelivered = 0;  ///< Of these, records that had been given out before.
  uint64_t leases = 0;       ///< Leases given.
  uint64_t refreshes = 0;    ///< Consumes that returned the batch already held.
  uint64_t extends = 0;
  uint64_t acks = 0;      ///< That counted.
  uint64_t nacks = 0;     ///< That counted.
  uint64_t expiries = 0;  ///< Leases that ended by time.
  uint64_t reloads = 0;   ///< Times a stream was taken up anew because its store failed.
};

/// A lease broker in this process. `Broker` is BasicBroker<StandardRules>, compiled once into the
/// library; the test kit makes deliberately wrong ones of other rules.
///
/// Time: reads the clock once a call, refused calls and reads included. Starts no thread and no
///   timer: leases expire by the time of whichever call looks next.
/// Threads: every function may be called from any thread at once, except the destructor. One lock a
///   stream; no callback, wake-up or store wait happens under a lock. Do not use it in a forked
///   child.
/// Lifetime: outlives its handles. The destructor shuts down first; no call may be under way
///   otherwise.
/// Spec: S1-S31.
template <class Rules>
class BasicBroker final : public Service {
 public:
  /// Aborts with a message if `options` are refused or its store cannot be loaded; Open() returns
  /// the status instead. BasicBroker() with no options cannot fail.
  explicit BasicBroker(const BrokerOptions& options = {});

  /// A Broker over what the store holds. Errors: kInvalidArgument: limits out of range; the store's
  /// own.
  static absl::StatusOr<std::unique_ptr<BasicBroker>> Open(const BrokerOptions& options);

  ~BasicBroker() override;
  BasicBroker(const BasicBroker&) = delete;
  BasicBroker& operator=(const BasicBroker&) = delete;

  /// The earliest instant at which something changes by time alone: a lease ends or a wait does.
  /// absl::InfiniteFuture() if nothing is due. Cost: a look at each stream. Spec: S23.
  absl::Time NextDeadline();

  /// The earliest instant at which a record leaves by retention; absl::InfiniteFuture() if there is
  /// none. Spec: S5.
  absl::Time NextRetention();

  Stats GetStats();

  /// Sets what is called after anything that may matter to a host with an event loop: records may
  /// have become available, or NextDeadline() moved earlier. Replaces the one before; an empty one
  /// ends it. It is kept until its last call has returned, which may be after this has.
  ///
  /// Threads: called on the thread whose operation caused it, under no lock, from several at once.
  ///   It may call the Broker, though not Shutdown; posting an event to the loop is what it is for.
  void SetWakeUp(std::function<void()> wake_up);

  /// Ends every blocked call, and every later wait, with Reason::kCancelled; returns when no thread
  /// is blocked inside any more. Calls that do not wait go on working.
  void Shutdown();

  absl::StatusOr<StreamInfo> DoCreateStream(const StreamSettings& settings) override;
  absl::StatusOr<std::vector<StreamInfo>> ListStreams() override;
  absl::StatusOr<StreamInfo> GetStream(StreamId stream) override;
  absl::StatusOr<StreamInfo> UpdateStream(StreamId stream, const StreamUpdate& update) override;
  absl::Status DeleteStream(StreamId stream) override;
  absl::StatusOr<Appended> Produce(StreamId stream, std::span<const Record> records) override;
  absl::StatusOr<SubscriptionInfo> Subscribe(StreamId stream,
                                             const SubscriptionSettings& settings) override;
  absl::StatusOr<std::vector<SubscriptionInfo>> ListSubscriptions(
      StreamId stream, std::optional<std::string_view> name) override;
  absl::StatusOr<SubscriptionInfo> GetSubscription(SubscriptionKey key) override;
  absl::Status DeleteSubscription(SubscriptionKey key) override;
  absl::StatusOr<Batch> Consume(SubscriptionKey key, const ConsumeRequest& request) override;
  absl::Status Ack(SubscriptionKey key, BatchId batch, std::string_view worker) override;
  absl::Status Nack(SubscriptionKey key, BatchId batch, std::string_view worker) override;
  absl::StatusOr<absl::Time> Extend(SubscriptionKey key, BatchId batch,
                                    std::string_view worker) override;
  absl::StatusOr<Position> GetPosition(SubscriptionKey key) override;
  absl::StatusOr<Explanation> Explain(SubscriptionKey key) override;
  absl::StatusOr<std::vector<LeaseInfo>> ListLeases(StreamId stream) override;

 private:
  struct Impl;
  explicit BasicBroker(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

struct StandardRules;
extern template class LESSOR_EXTERN_TEMPLATE_EXPORT BasicBroker<StandardRules>;
using Broker = BasicBroker<StandardRules>;

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_BROKER_H_
