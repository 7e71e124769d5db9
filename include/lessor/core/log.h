// lessor/core/log.h: a stream's records: segments in a row, trimmed by retention from the front.
#ifndef LESSOR_CORE_LOG_H_
#define LESSOR_CORE_LOG_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lessor/batch.h"
#include "lessor/change.h"
#include "lessor/record.h"
#include "lessor/segment.h"
#include "lessor/segment_pool.h"
#include "lessor/store.h"
#include "lessor/time.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// The records [begin, end) of a stream. A segment that was loaded from a store may be known by its
/// index only, until its bytes are installed.
///
/// Cost: appending is one copy of the bytes; finding an offset is a binary search over segments;
///   retention costs a constant a segment that leaves.
class Log {
 public:
  explicit Log(std::shared_ptr<SegmentPool> pool) : pool_(std::move(pool)) {}

  /// A log as a snapshot has it, with no segment's bytes.
  Log(std::shared_ptr<SegmentPool> pool, const StreamSnapshot& snapshot)
      : pool_(std::move(pool)),
        begin_(snapshot.begin),
        end_(snapshot.end),
        newest_(snapshot.last_timestamp) {
    for (const SegmentIndex& index : snapshot.segments) {
      entries_.push_back({index.base, index.runs.back().end, false, SegmentRef(), index.runs});
    }
    if (begin_ == end_) return;
    const size_t first = Find(begin_);
    begin_run_ = RunOf(entries_[first], begin_);
    for (size_t i = first; i < entries_.size(); ++i) {
      footprint_ += entries_[i].runs.back().footprint;
    }
    if (begin_run_ > 0) footprint_ -= entries_[first].runs[begin_run_ - 1].footprint;
  }

  Offset begin() const { return begin_; }
  Offset end() const { return end_; }
  /// The timestamp of the newest record ever appended; Instant::Min() before the first.
  Instant newest() const { return newest_; }
  /// The timestamp of the oldest retained record. Precondition: begin() < end().
  Instant oldest() const { return entries_[Find(begin_)].runs[begin_run_].timestamp; }
  /// What the retained records take; see Limits::max_bytes_held.
  int64_t footprint() const { return footprint_; }

  void Append(std::span<const Record> records, Instant timestamp) {
    while (!records.empty()) {
      if (head_ == entries_.size() || !entries_.back().growing) {
        StartSegment(records.front(), timestamp);
      }
      Entry& tail = entries_.back();
      const size_t appended = tail.segment->Append(records, timestamp);
      if (appended == 0) {
        tail.growing = false;
        tail.runs.shrink_to_fit();
        continue;
      }
      const uint32_t first = tail.count;
      tail.count += static_cast<uint32_t>(appended);
      const size_t added = tail.segment->FootprintOfRange(first, tail.count);
      const auto before = tail.runs.empty() ? 0 : tail.runs.back().footprint;
      if (tail.runs.empty() || tail.runs.back().timestamp != timestamp) {
        tail.runs.push_back({.timestamp = timestamp});
      }
      tail.runs.back().end = tail.count;
      tail.runs.back().footprint = before + static_cast<uint32_t>(added);
      if (begin_ == end_) begin_run_ = tail.runs.size() - 1;
      end_ += appended;
      footprint_ += static_cast<int64_t>(added);
      records = records.subspan(appended);
    }
    newest_ = timestamp;
  }

  /// Moves begin() past the records that are not retained at `now`. True if it moved.
  template <class Rules>
  bool ApplyRetention(Instant now, Millis retention) {
    const Offset before = begin_;
    for (size_t i = begin_ < end_ ? Find(begin_) : entries_.size(); i < entries_.size(); ++i) {
      const std::vector<Run>& runs = entries_[i].runs;
      const uint32_t gone = begin_run_ == 0 ? 0 : runs[begin_run_ - 1].footprint;
      size_t run = begin_run_;
      if (!Rules::IsRetained(runs.back().timestamp, retention, now)) {
        run = runs.size();
      } else {
        while (!Rules::IsRetained(runs[run].timestamp, retention, now)) ++run;
      }
      if (run == begin_run_) break;
      begin_ = entries_[i].base + runs[run - 1].end;
      footprint_ -= int64_t{runs[run - 1].footprint} - gone;
      begin_run_ = run;
      if (run < runs.size()) break;
      begin_run_ = 0;
    }
    return begin_ != before;
  }

  /// True if the first segment lies wholly before begin().
  bool HasGone() const { return head_ < entries_.size() && entries_[head_].end() <= begin_; }

  /// Lets go of the bytes of segments that lie wholly before begin() and `bytes_floor`, and forgets
  /// those that lie before `floor` too. In between, leases hold the bytes that they need; what is
  /// known of the segments goes into snapshots, so that the leases can be served after a restart.
  void DropBelow(Offset floor, Offset bytes_floor = UINT64_MAX) {
    for (; gone_ < entries_.size() && entries_[gone_].end() <= std::min(begin_, bytes_floor);
         ++gone_) {
      entries_[gone_].segment = SegmentRef();
      entries_[gone_].growing = false;
    }
    while (head_ < gone_ && entries_[head_].end() <= floor) entries_[head_++] = Entry();
    if (head_ * 2 < entries_.size()) return;
    // Half of the entries are empty: moving the others costs less than they took to fill.
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(head_));
    hint_ -= std::min(hint_, head_);
    gone_ -= head_;
    head_ = 0;
  }
  /// The first offset that a segment is kept for; end() if none is.
  Offset first_kept() const { return head_ == entries_.size() ? end_ : entries_[head_].base; }

  /// How much of [first, end) fits a batch with room for `records` and `bytes`.
  struct Fit {
    Offset end = 0;                   ///< [first, end) fits.
    bool full = false;                ///< The next record does not.
    std::optional<Offset> need = {};  ///< The base of a segment whose bytes are missing.
  };
  /// `records` and `bytes` are what is left of the batch's limits, and are reduced. The first
  /// record of a batch (`empty`) always fits. Spec: S15.
  Fit FitInto(OffsetRange range, uint64_t& records, int64_t& bytes, bool empty) const {
    Offset at = range.first;
    for (size_t i = Find(at); at < range.end && records > 0; ++i) {
      const Entry& entry = entries_[i];
      if (!entry.segment) return {.end = at, .need = entry.base};
      const auto first = static_cast<uint32_t>(at - entry.base);
      const auto wanted =
          static_cast<uint32_t>(std::min<uint64_t>(std::min(range.end, entry.end()) - at, records));
      const auto size = static_cast<int64_t>(entry.segment->SizeOfRange(first, first + wanted));
      if (size <= bytes) {
        bytes -= size;
        records -= wanted;
        at += wanted;
        empty = false;
        continue;
      }
      for (uint32_t index = first; index < first + wanted; ++index) {
        const auto record = static_cast<int64_t>(entry.segment->RecordSize(index));
        if (record > bytes && !empty) return {.end = at, .full = true};
        bytes -= record;
        --records;
        ++at;
        empty = false;
      }
    }
    return {.end = at, .full = records == 0};
  }

  /// The base of the first segment of `range` whose bytes are missing.
  std::optional<Offset> Missing(OffsetRange range) const {
    for (size_t i = Find(range.first); i < entries_.size() && entries_[i].base < range.end; ++i) {
      if (!entries_[i].segment) return entries_[i].base;
    }
    return std::nullopt;
  }

  /// Adds the pieces of `range` to `pieces`. False if some bytes of it are not in memory.
  bool AddPieces(OffsetRange range, PieceList& pieces) const {
    Offset at = range.first;
    for (size_t i = Find(at); at < range.end; ++i) {
      if (i == entries_.size() || !entries_[i].segment) return false;
      const Entry& entry = entries_[i];
      const Offset end = std::min(range.end, entry.end());
      pieces.push_back({entry.segment, static_cast<uint32_t>(at - entry.base),
                        static_cast<uint32_t>(end - entry.base)});
      at = end;
    }
    return true;
  }

  /// Gives a segment the bytes it lacked. False if `segment` is not the one asked for.
  bool Install(Offset base, SegmentRef segment) {
    const size_t i = Find(base);
    if (i == entries_.size() || entries_[i].base != base) return true;  // Gone meanwhile.
    Entry& entry = entries_[i];
    if (entry.segment) return true;
    if (!segment || segment->base() != base || segment->count() < entry.count) return false;
    entry.segment = std::move(segment);
    return true;
  }

  /// What is known of the segments that do not lie wholly before `floor`.
  std::vector<SegmentIndex> Index(Offset floor) const {
    std::vector<SegmentIndex> all;
    for (size_t at = head_; at < entries_.size(); ++at) {
      const Entry& entry = entries_[at];
      if (entry.end() > floor) all.push_back({entry.base, entry.runs});
    }
    return all;
  }

 private:
  using Run = SegmentIndex::Run;

  struct Entry {
    Offset base = 0;
    uint32_t count = 0;
    bool growing = false;  ///< Made by Append, which may go on in it.
    SegmentRef segment;
    std::vector<Run> runs;

    Offset end() const { return base + count; }
  };

  /// The entry that holds `offset`; entries_.size() if none does.
  size_t Find(Offset offset) const {
    // Most searches are for the oldest or the newest records, or go on where the last one ended.
    if (head_ == entries_.size()) return head_;
    for (const size_t likely : {entries_.size() - 1, head_, std::max(hint_, head_)}) {
      if (likely < entries_.size() && entries_[likely].base <= offset &&
          offset < entries_[likely].end()) {
        return hint_ = likely;
      }
    }
    const auto first = entries_.begin() + static_cast<std::ptrdiff_t>(head_);
    const auto after =
        std::upper_bound(first, entries_.end(), offset,
                         [](Offset value, const Entry& entry) { return value < entry.base; });
    if (after == first || std::prev(after)->end() <= offset) return entries_.size();
    return hint_ = static_cast<size_t>(std::prev(after) - entries_.begin());
  }

  void StartSegment(const Record& first, Instant timestamp) {
    entries_.push_back({end_, 0, true, pool_->New(end_, timestamp, Segment::Footprint(first)), {}});
  }

  /// The run that `offset` is in. Precondition: it is in the entry.
  static size_t RunOf(const Entry& entry, Offset offset) {
    const auto found = std::upper_bound(
        entry.runs.begin(), entry.runs.end(), static_cast<uint32_t>(offset - entry.base),
        [](uint32_t index, const Run& run) { return index < run.end; });
    return static_cast<size_t>(found - entry.runs.begin());
  }

  std::shared_ptr<SegmentPool> pool_;
  std::vector<Entry> entries_;  ///< From head_ on; those before are empty.
  size_t head_ = 0;
  size_t gone_ = 0;          ///< Entries before it have left, and have no bytes.
  mutable size_t hint_ = 0;  ///< Where the last search ended.
  Offset begin_ = 0;
  size_t begin_run_ = 0;  ///< The run of begin_, unless the log is empty.
  Offset end_ = 0;
  Instant newest_ = Instant::Min();
  int64_t footprint_ = 0;
};

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_CORE_LOG_H_
