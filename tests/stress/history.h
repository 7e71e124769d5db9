// What happened in a stress round: every call with its answer and its place in real time, and every
// reading of the clock. And the checker that looks for a contradiction in it.
#ifndef LESSOR_TESTS_STRESS_HISTORY_H_
#define LESSOR_TESTS_STRESS_HISTORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "lessor/batch.h"
#include "lessor/error.h"
#include "lessor/ids.h"
#include "lessor/position.h"
#include "lessor/record.h"

namespace lessor_tests {

/// A place in real time: one counter counts the beginnings and ends of all calls. A call that ended
/// at a smaller stamp than another began at happened before it.
using Stamp = uint64_t;

enum class Op {
  kCreateStream,
  kDeleteStream,
  kSubscribe,
  kUnsubscribe,
  kProduce,
  kConsume,
  kAck,
  kNack,
  kExtend,
  kPosition,
  kStats,
};

struct Event {
  Op op = Op::kStats;
  Stamp invoked = 0;
  Stamp answered = 0;
  /// The largest time that the call itself read from the clock.
  int64_t seen_ms = std::numeric_limits<int64_t>::min();
  lessor::Reason reason = lessor::Reason::kNone;

  lessor::StreamId stream;
  lessor::SubscriptionId subscription;
  std::string name = {};                     ///< Of a new stream or subscription.
  bool latest = false;                       ///< Where a new subscription starts.
  std::string worker = {};                   ///< Who consumes, acks, nacks or extends.
  lessor::BatchId batch;                     ///< Asked for, or given by a consume.
  int64_t max_records = 0;                   ///< Of a consume.
  bool waits = false;                        ///< A consume that waits,
  int64_t wait_until_ms = 0;                 ///< until then,
  bool stopped = false;                      ///< and that someone asked to stop.
  int64_t leased_until_ms = 0;               ///< Answer of consume and extend.
  std::vector<lessor::Offset> offsets = {};  ///< Produced, or given by a consume;
  std::vector<uint64_t> tokens = {};         ///< their contents
  std::vector<int64_t> timestamps_ms = {};   ///< and timestamps.
  lessor::Position position = {};            ///< Answer of kPosition.
  std::vector<uint64_t> counters = {};       ///< Answer of kStats; the first is `produced`.
};

/// A time read from the clock by a call, not before `at`.
struct Reading {
  Stamp at = 0;
  int64_t ms = 0;
};

struct History {
  int64_t lease_ms = 0;
  uint64_t max_active_leases = 0;
  std::vector<Event> events;  ///< In any order. Every call that was made has answered.
  std::vector<Reading> readings;
};

/// How often each kind of check had something to check: a round that proves nothing shows.
struct Coverage {
  uint64_t pairs = 0;      ///< Batches with a record in common.
  uint64_t acks = 0;       ///< Acks that must have counted.
  uint64_t late_acks = 0;  ///< Of these, known only because nothing was redelivered before.
  uint64_t refreshes = 0;  ///< Consumes of a worker whose lease was provably active.
  uint64_t denials = 0;    ///< Consumes that gave nothing, or were refused at the lease limit.
  uint64_t grants = 0;
  uint64_t extends = 0;
  uint64_t positions = 0;
};

/// What the history contradicts, one line each, the rule first; nothing if it is consistent as far
/// as this can tell. It is never wrong: what it reports cannot have happened in any order of the
/// calls that agrees with real time. It may miss what only a search through all orders would find.
///
/// How: a call's time is known to lie between the readings of calls that ended before it began, and
/// those made until it ended. A new lease tells its own instant exactly: its end less its length.
/// From these follow, for each lease, a time until which it was active for certain, and one after
/// which it was not; for each ack, whether it must have counted; for each record, whether it was
/// certainly available all through a call.
std::vector<std::string> CheckHistory(const History& history, Coverage* coverage = nullptr);

}  // namespace lessor_tests

#endif  // LESSOR_TESTS_STRESS_HISTORY_H_
