// simulation/checker.h: what one subscription must show, kept up to date step by step.
#ifndef LESSOR_TESTS_SIMULATION_CHECKER_H_
#define LESSOR_TESTS_SIMULATION_CHECKER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "fmt/format.h"
#include "lessor/batch.h"
#include "lessor/error.h"
#include "lessor/ids.h"
#include "lessor/position.h"
#include "random.h"

namespace lessor_tests {

/// The rules for one subscription that starts with its stream, each call checked against them.
/// Every function takes what the broker answered and gives what is wrong with it: mostly nothing.
///
/// Needs batch ids that ascend (lessor_testing::SequentialIds). Cost: a call costs what it moves.
class Checker {
 public:
  using BatchKey = uint64_t;  ///< The low half of its id.
  using Wrong = std::string;

  Checker(int64_t lease, int64_t limit, int64_t retention)
      : lease_(lease), limit_(limit), retention_(retention) {}

  static uint64_t WordOf(uint64_t offset) { return Mix(offset); }

  int64_t now() const { return now_; }
  uint64_t end() const { return end_; }
  uint64_t processed() const { return processed_; }
  uint64_t skipped() const { return skipped_; }
  uint64_t redelivered() const { return redelivered_; }
  uint64_t late_acks() const { return late_acks_; }
  uint64_t expired() const { return expired_; }
  uint64_t pinned() const { return pinned_; }

  /// Time goes to `clock`, or stays (S26): leases end (S17, S23), records leave (S5, S25).
  void SeeTime(int64_t clock) {
    now_ = std::max(now_, clock);
    while (!ends_.empty() && ends_.begin()->first <= now_) Expire(ends_.begin()->second);
    while (begin_ < end_ && At(begin_).timestamp + retention_ <= now_) {
      if (At(begin_).state == State::kFresh) {
        Skip(begin_);
      } else if (At(begin_).state == State::kReleased) {
        Unrelease(begin_);
      }
      pinned_ += At(begin_).state == State::kLeased;
      ++begin_;
    }
    next_ = std::max(next_, begin_);
    Settle();
  }

  void SetRetention(int64_t retention) {
    retention_ = retention;
    SeeTime(now_);
  }

  /// S2, S3.
  Wrong Produced(uint64_t first, uint64_t count, int64_t timestamp,
                 const std::vector<size_t>& sizes) {
    if (first != end_ || count != sizes.size()) {
      return fmt::format("S3: {} records appended at {} instead of {} at {}", count, first,
                         sizes.size(), end_);
    }
    if (timestamp < newest_) return "S2: a timestamp is before the one before it";
    if (timestamp != std::max(now_, newest_)) return "S2: a timestamp is not the time";
    newest_ = timestamp;
    for (const size_t size : sizes) {
      records_.push_back({timestamp, size, State::kFresh, 0});
      ++end_;
    }
    return "";
  }

  /// S13-S18.
  Wrong Consumed(std::string_view worker, int64_t max_records,
                 const absl::StatusOr<lessor::Batch>& batch) {
    const auto held = by_worker_.find(worker);
    if (held != by_worker_.end()) {
      if (!batch.ok()) return "S13: refused to the holder of a lease";
      if (batch->id().low != held->second) return "S13: the holder is given another batch";
      return Renewed(held->second, Ms(batch->leased_until())) + SameRecords(held->second, *batch);
    }
    const bool limit = static_cast<int64_t>(by_worker_.size()) >= limit_;
    if (!batch.ok()) {
      if (lessor::ReasonOf(batch.status()) != lessor::Reason::kLeaseLimit) return "S15: refused";
      return limit ? "" : "S14: refused below the limit";
    }
    if (limit) return "S14: a lease beyond the limit";
    if (batch->empty()) return Available() == 0 ? "" : "S11: nothing, though records are available";
    return Granted(std::string(worker), static_cast<uint64_t>(max_records), *batch);
  }

  /// S20, S21.
  void Settled(BatchKey key, bool ack) {
    const auto found = leases_.find(key);
    if (found == leases_.end()) return;
    Lease& lease = found->second;
    late_acks_ += ack && !lease.active;
    if (lease.active) EndLease(key, lease);
    for (const uint64_t offset : lease.records) {
      if (offset < base_) continue;  // Skipped, and forgotten.
      Record& record = At(offset);
      if (record.state == State::kSkipped) continue;
      if (record.state == State::kReleased) released_.erase(offset);
      if (ack) {
        record.state = State::kProcessed;
        ++processed_;
      } else if (offset < begin_) {
        Skip(offset);
      } else {
        record.state = State::kReleased;
        record.batch = 0;
        released_.insert(offset);
      }
    }
    leases_.erase(found);
    Settle();
  }

  /// S22.
  Wrong Extended(BatchKey key, std::string_view worker, const absl::StatusOr<absl::Time>& until) {
    const auto found = leases_.find(key);
    const bool holds =
        found != leases_.end() && found->second.active && found->second.worker == worker;
    if (!until.ok()) {
      if (holds) return "S22: refused to the holder of an active lease";
      return lessor::ReasonOf(until.status()) == lessor::Reason::kLeaseNotHeld
                 ? ""
                 : "S22: refused for another reason";
    }
    if (!holds) return "S22: a lease that the worker does not hold is extended";
    return Renewed(key, Ms(*until));
  }

  /// S24, S25, S30.
  Wrong Check(const lessor::Position& position) {
    if (position.committed < shown_.committed) return "S24: the position went back";
    if (position.skipped < shown_.skipped) return "S25: the number skipped decreased";
    if (position.end < shown_.end) return "S6: the stream became shorter";
    shown_ = position;
    if (position.committed == committed_ && position.end == end_ &&
        position.available == Available() && position.leased == leased_ &&
        position.active_leases == by_worker_.size() && position.skipped == skipped_) {
      return "";
    }
    return fmt::format(
        "S30: the position is committed={} end={} available={} leased={} leases={} skipped={}; it "
        "should be committed={} end={} available={} leased={} leases={} skipped={}",
        position.committed, position.end, position.available, position.leased,
        position.active_leases, position.skipped, committed_, end_, Available(), leased_,
        by_worker_.size(), skipped_);
  }

  /// S23, S5.
  Wrong CheckNext(absl::Time deadline, absl::Time retention) const {
    const auto ms = [](absl::Time time) {
      return time == absl::InfiniteFuture() ? INT64_MAX : Ms(time);
    };
    if (ms(deadline) != (ends_.empty() ? INT64_MAX : ends_.begin()->first)) {
      return "S23: the next deadline is another one";
    }
    if (ms(retention) != (begin_ == end_ ? INT64_MAX : At(begin_).timestamp + retention_)) {
      return "S5: the next record leaves at another time";
    }
    return "";
  }

  Wrong CheckLeases(const std::vector<lessor::LeaseInfo>& shown) const {
    if (shown.size() != by_worker_.size()) return "S18: another number of leases is listed";
    for (const lessor::LeaseInfo& info : shown) {
      const auto held = by_worker_.find(info.worker);
      if (held == by_worker_.end() || held->second != info.batch.low) {
        return "S18: a lease is listed that its worker does not hold";
      }
      const Lease& lease = leases_.at(held->second);
      if (Ms(info.leased_until) != lease.until || info.records != lease.records.size() ||
          info.first != lease.records.front()) {
        return "S18: a lease is listed as another one";
      }
    }
    return "";
  }

  /// S11: when nothing is to come any more.
  Wrong CheckEnd() const {
    if (processed_ + skipped_ != end_ || committed_ != end_) {
      return fmt::format("S11: of {} records {} were processed and {} skipped", end_, processed_,
                         skipped_);
    }
    return "";
  }

 private:
  enum class State : uint8_t { kFresh, kLeased, kReleased, kProcessed, kSkipped };

  struct Record {
    int64_t timestamp = 0;
    size_t size = 0;
    State state = State::kFresh;
    BatchKey batch = 0;  ///< The lease that it is in, or the expired one that can be settled.
  };

  struct Lease {
    std::string worker;
    int64_t until = 0;
    bool active = true;
    std::vector<uint64_t> records;
    size_t left = 0;  ///< Expired: records that are released under it.
  };

  static int64_t Ms(absl::Time time) { return absl::ToUnixMillis(time); }

  Record& At(uint64_t offset) { return records_[offset - base_]; }
  const Record& At(uint64_t offset) const { return records_[offset - base_]; }
  uint64_t Available() const { return released_.size() + (end_ - next_); }

  void EndLease(BatchKey key, Lease& lease) {
    ends_.erase({lease.until, key});
    by_worker_.erase(by_worker_.find(lease.worker));
    leased_ -= lease.records.size();
    lease.active = false;
  }

  void Expire(BatchKey key) {
    Lease& lease = leases_.at(key);
    EndLease(key, lease);
    ++expired_;
    for (const uint64_t offset : lease.records) {
      if (offset < begin_) {
        Skip(offset);
        continue;
      }
      At(offset).state = State::kReleased;
      released_.insert(offset);
      ++lease.left;
    }
    if (lease.left == 0) leases_.erase(key);
  }

  void Skip(uint64_t offset) {
    At(offset).state = State::kSkipped;
    ++skipped_;
  }

  // A released record leaves by retention.
  void Unrelease(uint64_t offset) {
    released_.erase(offset);
    Skip(offset);
    const auto lease = leases_.find(At(offset).batch);
    if (lease != leases_.end() && --lease->second.left == 0) leases_.erase(lease);
  }

  // Moves the committed position, and forgets what nothing refers to any more.
  void Settle() {
    while (committed_ < end_ && At(committed_).state >= State::kProcessed) ++committed_;
    while (base_ < std::min(committed_, begin_)) {
      records_.pop_front();
      ++base_;
    }
  }

  Wrong Renewed(BatchKey key, int64_t until) {
    Lease& lease = leases_.at(key);
    if (until < lease.until) return "S13, S22: a lease became shorter";
    if (until != std::max(lease.until, now_ + lease_))
      return "S13, S22: a lease is of another length";
    ends_.erase({lease.until, key});
    lease.until = until;
    ends_.emplace(until, key);
    return "";
  }

  Wrong SameRecords(BatchKey key, const lessor::Batch& batch) const {
    const std::vector<uint64_t>& records = leases_.at(key).records;
    size_t i = 0;
    for (const lessor::RecordView record : batch) {
      if (i == records.size() || record.offset() != records[i]) return "S13: other records";
      if (Wrong wrong = SameContent(record); !wrong.empty()) return wrong;
      ++i;
    }
    return i == records.size() ? "" : "S13: fewer records";
  }

  Wrong SameContent(lessor::RecordView record) const {
    const Record& known = At(record.offset());
    const std::string_view content = record.content();
    const uint64_t expected = WordOf(record.offset());
    uint64_t word = 0;
    if (content.size() >= sizeof word) std::memcpy(&word, content.data(), sizeof word);
    if (content.size() != known.size || word != expected) return "S2: a record has other content";
    if (Ms(record.timestamp()) != known.timestamp) return "S2: a record has another timestamp";
    return "";
  }

  Wrong Granted(std::string worker, uint64_t max_records, const lessor::Batch& batch) {
    const BatchKey key = batch.id().low;
    if (key <= last_key_) return "S16: a batch id is not fresh";
    last_key_ = key;
    if (Ms(batch.leased_until()) != now_ + lease_) return "S16: a lease is of another length";
    const uint64_t available = Available();
    Lease lease;
    lease.worker = std::move(worker);
    lease.until = now_ + lease_;
    for (const lessor::RecordView view : batch) {
      const uint64_t offset = view.offset();
      if (offset >= base_ && offset < end_ && At(offset).state == State::kLeased) {
        return fmt::format("S18: record {} is in two active leases", offset);
      }
      // S15: the lowest that is there.
      if (offset != (released_.empty() ? next_ : *released_.begin()) || offset >= end_) {
        return fmt::format("S15: record {} is delivered before a lower one", offset);
      }
      if (Wrong wrong = SameContent(view); !wrong.empty()) return wrong;
      Record& record = At(offset);
      if (released_.empty()) {
        ++next_;
      } else {
        released_.erase(released_.begin());
        ++redelivered_;
        leases_.erase(record.batch);  // S20: it can no longer be settled.
      }
      record.state = State::kLeased;
      record.batch = key;
      lease.records.push_back(offset);
    }
    if (lease.records.size() != std::min(max_records, available)) {
      return fmt::format("S15, S19: {} records of {} available, {} asked for", lease.records.size(),
                         available, max_records);
    }
    leased_ += lease.records.size();
    ends_.emplace(lease.until, key);
    by_worker_.emplace(lease.worker, key);
    leases_.emplace(key, std::move(lease));
    return "";
  }

  const int64_t lease_;
  const int64_t limit_;
  int64_t retention_;
  int64_t now_ = INT64_MIN;
  int64_t newest_ = INT64_MIN;
  std::deque<Record> records_;  ///< From base_ on.
  uint64_t base_ = 0;
  uint64_t begin_ = 0;      ///< The oldest retained record.
  uint64_t committed_ = 0;  ///< The lowest that is neither processed nor skipped.
  uint64_t next_ = 0;       ///< The lowest never delivered.
  uint64_t end_ = 0;
  uint64_t leased_ = 0, processed_ = 0, skipped_ = 0;
  uint64_t redelivered_ = 0, late_acks_ = 0, expired_ = 0, pinned_ = 0;
  BatchKey last_key_ = 0;
  std::set<uint64_t> released_;
  std::map<BatchKey, Lease> leases_;  ///< Active, or expired and still to be settled.
  std::set<std::pair<int64_t, BatchKey>> ends_;
  std::map<std::string, BatchKey, std::less<>> by_worker_;
  lessor::Position shown_;
};

}  // namespace lessor_tests

#endif  // LESSOR_TESTS_SIMULATION_CHECKER_H_
