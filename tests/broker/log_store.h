// A fake store: per stream a log of encoded changes, with every misbehaviour that lessor/store.h
// allows, by the number of the call.
#ifndef LESSOR_TESTS_BROKER_LOG_STORE_H_
#define LESSOR_TESTS_BROKER_LOG_STORE_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lessor/change.h"
#include "lessor/clock.h"
#include "lessor/core/rules.h"
#include "lessor/core/stream_core.h"
#include "lessor/error.h"
#include "lessor/segment_pool.h"
#include "lessor/store.h"
#include "lessor/time.h"

namespace lessor_tests {

/// Holds calls back by their number, so that a test decides what happens meanwhile.
class Gate {
 public:
  /// Call number `call` (counted from 1) is to be held.
  void Hold(int call) {
    const std::lock_guard lock(mutex_);
    held_.insert(call);
  }
  void Release(int call) {
    const std::lock_guard lock(mutex_);
    held_.erase(call);
    condition_.notify_all();
  }
  /// Returns once call number `call` has come to the gate.
  void AwaitArrival(int call) {
    std::unique_lock lock(mutex_);
    condition_.wait(lock, [&] { return calls_ >= call; });
  }
  int calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

  /// For the store: counts a call, holds it, and gives its number.
  int Pass() {
    std::unique_lock lock(mutex_);
    const int call = ++calls_;
    condition_.notify_all();
    condition_.wait(lock, [&] { return !held_.contains(call); });
    return call;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable condition_;
  int calls_ = 0;
  std::set<int> held_;
};

/// What a call of Wait does instead of making its change durable.
enum class WaitFault {
  kUnavailable,    ///< Fails before storing.
  kUnknownStored,  ///< Stores, then loses the answer.
  kUnknownLost,    ///< Loses the change and cannot tell.
  kStrange,        ///< Loses the change, with a status that no store should give.
  kRaceDropped,    ///< Says that the race was lost, though nothing else is there.
  kForeignAppend,  ///< Another writer appends a record first.
  kForeignDelete,  ///< Another writer deletes the stream first.
};

enum class ReadFault { kFails, kNull, kOtherSegment, kShort };

/// Keeps the changes of each stream. Submitted changes are pending until a Wait for them or for a
/// later one; a failed one takes all pending after it with it.
///
/// Threads: safe, as a Store.
class LogStore final : public lessor::Store {
 public:
  using Core = lessor::StreamCore<lessor::StandardRules>;

  /// How Load presents what is durable.
  enum class Compaction {
    kNone,  ///< Changes only.
    kAll,   ///< A snapshot, and no change after it.
    kHalf,  ///< A snapshot of the first half of the changes, and the others.
  };

  explicit LogStore(Compaction how = Compaction::kNone, lessor::StreamPolicy policy = {})
      : compaction(how), settings_{{}, policy, {300'000}, lessor::SegmentPool::Create()} {}

  /// A store that holds what is durable in this one.
  std::unique_ptr<LogStore> Clone() const {
    const std::lock_guard lock(mutex_);
    auto clone = std::make_unique<LogStore>(compaction, settings_.policy);
    clone->order_ = order_;
    for (const auto& [id, log] : logs_) clone->logs_[id].durable = log.durable;
    return clone;
  }

  // The script. To be set while no call is under way.
  std::map<int, WaitFault> wait_faults;  ///< By the number of the Wait, from 1.
  std::set<int> load_failures;           ///< By the number of the Load of a stream.
  std::set<int> load_all_failures;
  std::map<int, ReadFault> read_faults;
  std::set<int> trim_failures;
  Compaction compaction;
  bool durable_at_once = false;  ///< Submit makes durable what fits.
  /// Given: Trim checks its floor against a replay at this clock's time.
  lessor::Clock* clock = nullptr;

  Gate waits;
  Gate loads;
  Gate reads;
  int loads_of_all() const { return Locked(loads_of_all_); }
  int trims() const { return Locked(trims_); }
  /// What the Broker did that the contract of Store forbids.
  std::vector<std::string> violations() const { return Locked(violations_); }
  lessor::Offset trimmed(lessor::StreamId stream) const {
    const std::lock_guard lock(mutex_);
    const auto found = logs_.find(stream);
    return found == logs_.end() ? 0 : found->second.trimmed;
  }
  size_t durable_changes(lessor::StreamId stream) const {
    const std::lock_guard lock(mutex_);
    const auto found = logs_.find(stream);
    return found == logs_.end() ? 0 : found->second.durable.size();
  }

  /// What is durable of a stream, replayed. Null if there is nothing.
  std::unique_ptr<Core> Replay(lessor::StreamId stream) const {
    const std::lock_guard lock(mutex_);
    const auto found = logs_.find(stream);
    return found == logs_.end() ? nullptr : ReplayOf(found->second, found->second.durable.size());
  }

  absl::StatusOr<std::vector<Loaded>> Load() override {
    const std::lock_guard lock(mutex_);
    if (load_all_failures.contains(++loads_of_all_)) return Unavailable("load of all");
    std::vector<Loaded> all;
    for (const lessor::StreamId id : order_) {
      std::optional<Loaded> loaded = Present(id);
      if (loaded) all.push_back(*std::move(loaded));
    }
    return all;
  }

  absl::StatusOr<std::optional<Loaded>> Load(lessor::StreamId stream) override {
    const int call = loads.Pass();
    if (load_failures.contains(call)) return Unavailable("load");
    const std::lock_guard lock(mutex_);
    return Present(stream);
  }

  Ticket Submit(lessor::StreamId stream, const lessor::Change& change,
                uint64_t expected_sequence) override {
    const std::lock_guard lock(mutex_);
    Log& log = logs_[stream];
    const uint64_t token = ++tokens_;
    if (expected_sequence == log.durable.size() + log.pending.size()) {
      log.pending.push_back({token, lessor::EncodeChange(change)});
      if (durable_at_once) CommitThrough(stream, token);
    } else {
      log.failed[token] = lessor::Reason::kRaceLost;
    }
    return {.stream = stream,
            .sequence = expected_sequence + 1,
            .token = token,
            .durable = durable_at_once && !log.failed.contains(token)};
  }

  absl::Status Wait(const Ticket& ticket) override {
    const int call = waits.Pass();
    const std::lock_guard lock(mutex_);
    Log& log = logs_[ticket.stream];
    const auto fault = wait_faults.find(call);
    if (const auto failed = log.failed.find(ticket.token); failed != log.failed.end()) {
      // Who came first is durable by the time that the other one hears of it.
      if (!log.pending.empty()) CommitThrough(ticket.stream, log.pending.back().token);
      return lessor::MakeError(failed->second, "an earlier failure");
    }
    if (fault != wait_faults.end() && IsPending(log, ticket.token)) {
      return Fail(ticket, fault->second);
    }
    CommitThrough(ticket.stream, ticket.token);
    return absl::OkStatus();
  }

  absl::StatusOr<lessor::SegmentRef> Read(lessor::StreamId stream, lessor::Offset base,
                                          lessor::SegmentPool& pool) override {
    const int call = reads.Pass();
    const std::lock_guard lock(mutex_);
    const auto fault = read_faults.find(call);
    const bool faulty = fault != read_faults.end();
    if (faulty && fault->second == ReadFault::kFails) return Unavailable("read");
    if (faulty && fault->second == ReadFault::kNull) return lessor::SegmentRef();
    const bool other = faulty && fault->second == ReadFault::kOtherSegment;
    const Log& log = logs_[stream];
    // Rebuilt from the changes. What fits is what fitted when it was appended.
    lessor::SegmentRef segment;
    bool full = false;
    lessor::Offset next = base;
    const auto promised = static_cast<uint32_t>(Promised(log, base));
    const uint32_t most = faulty && fault->second == ReadFault::kShort ? promised - 1 : UINT32_MAX;
    for (const std::string& bytes : log.durable) {
      const auto change = lessor::DecodedChange::Decode(bytes);
      const auto* appended = std::get_if<lessor::change::Appended>(&(*change)->what);
      if (appended == nullptr || full) continue;
      for (size_t i = 0; i < appended->records.size() && !full; ++i) {
        if (appended->first + i != next) continue;
        const auto record = appended->records.subspan(i, 1);
        if (!segment) {
          segment = pool.New(other ? base + 1 : base, appended->timestamp,
                             lessor::Segment::Footprint(record.front()));
        }
        full = segment->count() == most || segment->Append(record, appended->timestamp) == 0;
        ++next;
      }
    }
    if (next <= log.trimmed) {
      violations_.push_back("a segment is read that was given up for trimming");
    }
    if (!segment) return Unavailable("no such segment");
    return segment;
  }

  absl::StatusOr<bool> Trim(lessor::StreamId stream, lessor::Offset floor,
                            size_t /*budget*/) override {
    const std::lock_guard lock(mutex_);
    ++trims_;
    Log& log = logs_[stream];
    if (const auto core = ReplayOf(log, log.durable.size()); core != nullptr && clock != nullptr) {
      core->Advance(lessor::FloorToInstant(clock->Now()));
      if (floor > core->Floor()) {
        violations_.push_back("trimmed to " + std::to_string(floor) + " where " +
                              std::to_string(core->Floor()) + " is still needed");
      }
    }
    if (trim_failures.contains(trims_)) return Unavailable("trim");
    if (floor > log.trimmed) log.trimmed = floor;
    return false;
  }

 private:
  struct Pending {
    uint64_t token = 0;
    std::string bytes;
  };
  struct Log {
    std::vector<std::string> durable;
    std::deque<Pending> pending;
    std::map<uint64_t, lessor::Reason> failed;  ///< What became of tokens that are not stored.
    lessor::Offset trimmed = 0;
  };

  template <class Value>
  Value Locked(const Value& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }

  static absl::Status Unavailable(const char* what) {
    return lessor::MakeError(lessor::Reason::kUnavailable, what);
  }

  static bool IsPending(const Log& log, uint64_t token) {
    for (const Pending& pending : log.pending) {
      if (pending.token == token) return true;
    }
    return false;
  }

  void CommitThrough(lessor::StreamId stream, uint64_t token) {
    Log& log = logs_[stream];
    while (!log.pending.empty() && log.pending.front().token <= token) {
      if (log.durable.empty()) order_.push_back(stream);
      log.durable.push_back(std::move(log.pending.front().bytes));
      log.pending.pop_front();
    }
  }

  /// Everything pending is lost; `own` for the reason given, what comes after it as a lost race.
  static void Drop(Log& log, uint64_t own, lessor::Reason reason) {
    for (const Pending& pending : log.pending) {
      log.failed[pending.token] = pending.token == own ? reason : lessor::Reason::kRaceLost;
    }
    log.pending.clear();
  }

  absl::Status Fail(const Ticket& ticket, WaitFault fault) {
    using lessor::Reason;
    Log& log = logs_[ticket.stream];
    CommitThrough(ticket.stream, ticket.token - 1);
    switch (fault) {
      case WaitFault::kUnavailable:
        Drop(log, ticket.token, Reason::kUnavailable);
        return Unavailable("the disk is full");
      case WaitFault::kUnknownStored: {
        CommitThrough(ticket.stream, ticket.token);
        Drop(log, 0, Reason::kRaceLost);
        log.failed[ticket.token] = Reason::kOutcomeUnknown;  // For whoever else waits for it.
        return lessor::MakeError(Reason::kOutcomeUnknown, "the answer was lost");
      }
      case WaitFault::kUnknownLost:
        Drop(log, ticket.token, Reason::kOutcomeUnknown);
        return lessor::MakeError(Reason::kOutcomeUnknown, "the request was lost");
      case WaitFault::kStrange:
        Drop(log, ticket.token, Reason::kInternal);
        return absl::DataLossError("a status of no kind that stores give");
      case WaitFault::kRaceDropped:
        break;
      case WaitFault::kForeignAppend:
      case WaitFault::kForeignDelete:
        Foreign(log, fault);
        break;
    }
    Drop(log, ticket.token, Reason::kRaceLost);
    return lessor::MakeError(Reason::kRaceLost, "another writer came first");
  }

  void Foreign(Log& log, WaitFault fault) {
    const auto core = ReplayOf(log, log.durable.size());
    if (core == nullptr || core->deleted()) return;
    const lessor::Record record{.content = "foreign"};
    lessor::Change change{.now = core->now(), .what = lessor::change::StreamDeleted{}};
    if (fault == WaitFault::kForeignAppend) {
      change.what = *core->DecideProduce({&record, 1}).change;
    }
    log.durable.push_back(lessor::EncodeChange(change));
  }

  std::unique_ptr<Core> ReplayOf(const Log& log, size_t changes) const {
    if (changes == 0) return nullptr;
    const auto end = log.durable.begin() + static_cast<std::ptrdiff_t>(changes);
    return Core::Restore(
        settings_,
        {.stream = {}, .sequence = 0, .snapshot = {}, .tail = {log.durable.begin(), end}});
  }

  /// How many changes Present() puts into its snapshot.
  size_t Taken(const Log& log) const {
    if (compaction == Compaction::kNone) return 0;
    return compaction == Compaction::kAll ? log.durable.size() : (log.durable.size() + 1) / 2;
  }

  /// How many records the segment at `base` has at least, as Present() promised.
  uint64_t Promised(const Log& log, lessor::Offset base) const {
    const auto core = ReplayOf(log, Taken(log));
    if (core == nullptr) return 1;
    for (const lessor::SegmentIndex& index : core->Snapshot().segments) {
      if (index.base == base) return index.runs.back().end;
    }
    return 1;
  }

  std::optional<Loaded> Present(lessor::StreamId id) const {
    const auto found = logs_.find(id);
    if (found == logs_.end()) return std::nullopt;
    const Log& log = found->second;
    const auto whole = ReplayOf(log, log.durable.size());
    if (whole == nullptr || whole->deleted()) return std::nullopt;
    Loaded loaded{.stream = id, .sequence = log.durable.size(), .snapshot = {}, .tail = {}};
    const size_t taken = Taken(log);
    if (const auto core = ReplayOf(log, taken); core != nullptr) loaded.snapshot = core->Snapshot();
    loaded.tail.assign(log.durable.begin() + static_cast<std::ptrdiff_t>(taken), log.durable.end());
    return loaded;
  }

  const lessor::CoreSettings settings_;
  mutable std::mutex mutex_;
  std::map<lessor::StreamId, Log> logs_;
  std::vector<lessor::StreamId> order_;  ///< Of the first durable change of each.
  uint64_t tokens_ = 0;
  int loads_of_all_ = 0;
  int trims_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace lessor_tests

#endif  // LESSOR_TESTS_BROKER_LOG_STORE_H_
