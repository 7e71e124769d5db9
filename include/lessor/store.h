// lessor/store.h: what must outlive the process. Memory (nothing does) is the default.
#ifndef LESSOR_STORE_H_
#define LESSOR_STORE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lessor/change.h"
#include "lessor/export.h"
#include "lessor/ids.h"
#include "lessor/record.h"
#include "lessor/segment.h"
#include "lessor/segment_pool.h"
#include "lessor/time.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// A segment as a snapshot names it: enough to form batches and to apply retention, without bytes.
struct SegmentIndex {
  /// Consecutive records with one timestamp, which leave by retention together.
  struct Run {
    uint32_t end = 0;        ///< Records of the segment up to and with this run.
    uint32_t footprint = 0;  ///< Segment::Footprint summed over the segment up to this run's end.
    Instant timestamp;       ///< Of every record in the run.

    friend bool operator==(const Run&, const Run&) = default;
  };
  Offset base = 0;
  std::vector<Run> runs;

  friend bool operator==(const SegmentIndex&, const SegmentIndex&) = default;
};

/// A subscription's whole state at an instant.
struct SubscriptionSnapshot {
  /// A lease: active if leased_until is after the snapshot's time, otherwise expired with none of
  /// its records redelivered yet.
  struct Lease {
    BatchId batch;
    std::string worker;
    Instant leased_until;
    uint64_t group = 0;
    std::vector<OffsetRange> ranges;

    friend bool operator==(const Lease&, const Lease&) = default;
  };
  /// Records to deliver again that belong to no expired lease any more.
  struct Released {
    OffsetRange range;
    uint64_t group = 0;  ///< Records that were leased together share it.

    friend bool operator==(const Released&, const Released&) = default;
  };

  SubscriptionId id;
  std::string name;
  StartAt start_at = StartAt::kEarliest;
  Instant created_at;
  Offset start = 0;  ///< Where it started.
  Offset next = 0;   ///< The lowest offset never delivered.
  uint64_t skipped = 0;
  uint64_t next_group = 0;
  std::vector<Lease> leases;       ///< In the order of their groups.
  std::vector<Released> released;  ///< In the order of their offsets.

  friend bool operator==(const SubscriptionSnapshot&, const SubscriptionSnapshot&) = default;
};

/// A stream's whole state at an instant.
struct StreamSnapshot {
  Instant now;
  bool deleted = false;
  std::string name;
  Millis retention;
  bool http = true;
  bool worker_binding = true;
  Instant created_at;
  Instant modified_at;
  Offset begin = 0;  ///< The oldest retained record.
  Offset end = 0;    ///< One after the newest record.
  Instant last_timestamp;
  std::vector<SegmentIndex> segments;
  std::vector<SubscriptionSnapshot> subscriptions;  ///< Oldest first.

  friend bool operator==(const StreamSnapshot&, const StreamSnapshot&) = default;
};

/// A store holds, for each stream, a sequence of changes.
///
/// A Broker decides and submits under the stream's lock, then waits outside of every lock, and lets
/// a caller see only what a successful Wait covers. If a Wait fails it drops what it had assumed,
/// calls Load for that stream, and goes on from there.
///
/// Threads: Submit is called with the stream's lock held: it must be cheap, must not block on I/O
/// and
///   must not call back. All other functions are called under no lock of lessor's. Any may run at
///   once with any other.
/// Lifetime: outlives the Broker.
/// Spec: S27.
class LESSOR_EXPORT Store {
 public:
  /// A stream as the store has it. Sequence = number of changes ever accepted.
  struct Loaded {
    StreamId stream;
    uint64_t sequence = 0;
    std::optional<StreamSnapshot> snapshot;
    std::vector<std::string> tail;  ///< Encoded changes after the snapshot, in order.
  };

  /// Names a submitted change. `durable` means that Wait has nothing to do.
  struct Ticket {
    StreamId stream;
    uint64_t sequence = 0;  ///< The stream's sequence once this change is accepted.
    uint64_t token = 0;     ///< The store's own: tells apart changes that raced for one sequence.
    bool durable = true;
  };

  virtual ~Store() = default;

  /// Every stream that is not deleted, the one created first first. Errors refuse the opening.
  virtual absl::StatusOr<std::vector<Loaded>> Load() = 0;

  /// One stream: what is durable. Nothing if it does not exist or is deleted.
  virtual absl::StatusOr<std::optional<Loaded>> Load(StreamId stream) = 0;

  /// Takes `change` as the one after `expected_sequence`. If the stream's sequence, earlier
  /// submitted changes counted, is another one, the change loses: its Wait says kRaceLost.
  /// Submissions of one stream become durable in their order. The change's views end with this
  /// call.
  virtual Ticket Submit(StreamId stream, const Change& change, uint64_t expected_sequence) = 0;

  /// Returns once the change of `ticket`, and all before it, are durable. May serve many callers at
  /// once. A Reason says what else happened:
  ///   kUnavailable     it failed, and nothing of it is or will be stored;
  ///   kOutcomeUnknown  it failed, and Load will tell whether it is stored;
  ///   kRaceLost        another change was accepted in its place, or a change before it failed;
  ///                    nothing of it is stored. The Broker decides again.
  virtual absl::Status Wait(const Ticket& ticket) = 0;

  /// The segment that starts at `base`, filled with the records that the index of a Load promised
  /// (more may follow them), from `pool`.
  virtual absl::StatusOr<SegmentRef> Read(StreamId stream, Offset base, SegmentPool& pool) = 0;

  /// Tells that no record before `floor` is needed any more and lets the store free their space, at
  /// most about `budget` bytes in one call. True if more is left to free. Called after operations,
  /// on their threads; an error delays it to a later one.
  virtual absl::StatusOr<bool> Trim(StreamId stream, Offset floor, size_t budget) = 0;
};

/// The store of a Broker that keeps nothing beyond its own memory. One for the process.
LESSOR_EXPORT Store& MemoryStore();

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_STORE_H_
