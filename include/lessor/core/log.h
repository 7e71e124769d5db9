// lessor/core/log.h: a stream's records: segments in a row, trimmed by retention from the front.
#ifndef LESSOR_CORE_LOG_H_
#define LESSOR_CORE_LOG_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
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
      if (index.runs.empty()) continue;
      entries_.push_back({index.base, index.runs.back().end, false, SegmentRef(), index.runs});
    }
    for (size_t i = Find(begin_); i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      footprint_ += Footprint(entry, std::max(begin_, entry.base), entry.end());
    }
    NoteOldest();
  }

  Offset begin() const { return begin_; }
  Offset end() const { return end_; }
  /// The timestamp of the newest record ever appended; Instant::Min() before the first.
  Instant newest() const { return newest_; }
  /// The timestamp of the oldest retained record. Precondition: begin() < end().
  Instant oldest() const { return oldest_; }
  /// What the retained records take; see Limits::max_bytes_held.
  int64_t footprint() const { return footprint_; }

  void Append(std::span<const Record> records, Instant timestamp) {
    if (begin_ == end_) oldest_ = timestamp;
    for (const Record& record : records) {
      const size_t footprint = Segment::Footprint(record);
      if (entries_.empty() || !entries_.back().growing ||
          !entries_.back().segment->Fits(footprint, timestamp)) {
        entries_.push_back({end_, 0, true, pool_->New(end_, timestamp, footprint), {}});
      }
      Entry& tail = entries_.back();
      tail.segment->Append(record, timestamp);
      ++tail.count;
      ++end_;
      footprint_ += static_cast<int64_t>(footprint);
    }
    newest_ = timestamp;
  }

  /// Moves begin() past the records that are not retained at `now`. True if it moved.
  template <class Rules>
  bool ApplyRetention(Instant now, Millis retention) {
    if (begin_ == end_ || Rules::IsRetained(oldest_, retention, now)) return false;
    for (size_t i = Find(begin_); i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      const Offset first = std::max(begin_, entry.base);
      Offset low = first;
      Offset high = entry.end();
      if (Rules::IsRetained(TimestampOf(entry, high - 1), retention, now)) {
        while (low < high) {
          const Offset middle = low + (high - low) / 2;
          if (Rules::IsRetained(TimestampOf(entry, middle), retention, now)) {
            high = middle;
          } else {
            low = middle + 1;
          }
        }
      }
      footprint_ -= Footprint(entry, first, high);
      begin_ = high;
      if (high < entry.end()) break;
    }
    NoteOldest();
    return true;
  }

  /// Forgets segments that lie wholly before begin() and `floor`.
  void DropBelow(Offset floor) {
    floor = std::min(floor, begin_);
    while (!entries_.empty() && entries_.front().end() <= floor) entries_.pop_front();
    hint_ = 0;
  }
  /// The first offset that a segment is kept for; end() if none is.
  Offset first_kept() const { return entries_.empty() ? end_ : entries_.front().base; }

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

  /// Adds the pieces of `range` to `pieces`. Precondition: nothing of it is missing.
  void AddPieces(OffsetRange range, PieceList& pieces) const {
    Offset at = range.first;
    for (size_t i = Find(at); at < range.end; ++i) {
      const Entry& entry = entries_[i];
      const Offset end = std::min(range.end, entry.end());
      pieces.push_back({entry.segment, static_cast<uint32_t>(at - entry.base),
                        static_cast<uint32_t>(end - entry.base)});
      at = end;
    }
  }

  /// True if every record of `range` is in a segment that is kept.
  bool Keeps(OffsetRange range) const {
    return range.first <= range.end && range.first >= first_kept() && range.end <= end_;
  }

  /// Gives a segment the bytes it lacked. False if `segment` is not the one asked for.
  bool Install(Offset base, SegmentRef segment) {
    const size_t i = Find(base);
    if (i == entries_.size() || entries_[i].base != base) return true;  // Gone meanwhile.
    Entry& entry = entries_[i];
    if (entry.segment) return true;
    if (!segment || segment->base() != base || segment->count() < entry.count) return false;
    entry.segment = std::move(segment);
    entry.runs = {};
    return true;
  }

  std::vector<SegmentIndex> Index() const {
    std::vector<SegmentIndex> all;
    for (const Entry& entry : entries_) {
      SegmentIndex index{entry.base, entry.runs};
      for (uint32_t i = 0; entry.segment && i < entry.count; ++i) {
        const Instant timestamp = entry.segment->Timestamp(i);
        if (index.runs.empty() || index.runs.back().timestamp != timestamp) {
          index.runs.push_back({.end = 0, .timestamp = timestamp, .footprint = 0});
        }
        index.runs.back().end = i + 1;
        index.runs.back().footprint = entry.segment->FootprintOfRange(0, i + 1);
      }
      all.push_back(std::move(index));
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
    std::vector<Run> runs;  ///< Only while `segment` is missing.

    Offset end() const { return base + count; }
  };

  /// The entry that holds `offset`; entries_.size() if none does.
  size_t Find(Offset offset) const {
    if (hint_ < entries_.size() && entries_[hint_].base <= offset &&
        offset < entries_[hint_].end()) {
      return hint_;
    }
    const auto after =
        std::upper_bound(entries_.begin(), entries_.end(), offset,
                         [](Offset value, const Entry& entry) { return value < entry.base; });
    if (after == entries_.begin() || std::prev(after)->end() <= offset) return entries_.size();
    return hint_ = static_cast<size_t>(std::prev(after) - entries_.begin());
  }

  static const Run& RunOf(const Entry& entry, Offset offset) {
    return *std::upper_bound(entry.runs.begin(), entry.runs.end(),
                             static_cast<uint32_t>(offset - entry.base),
                             [](uint32_t index, const Run& run) { return index < run.end; });
  }

  static Instant TimestampOf(const Entry& entry, Offset offset) {
    return entry.segment ? entry.segment->Timestamp(static_cast<uint32_t>(offset - entry.base))
                         : RunOf(entry, offset).timestamp;
  }

  /// Of a segment whose bytes are missing, `first` and `end` are ends of runs: all records of a run
  /// leave at once.
  static int64_t Footprint(const Entry& entry, Offset first, Offset end) {
    if (first >= end) return 0;
    if (entry.segment) {
      return static_cast<int64_t>(entry.segment->FootprintOfRange(
          static_cast<uint32_t>(first - entry.base), static_cast<uint32_t>(end - entry.base)));
    }
    const uint64_t before = first == entry.base ? 0 : RunOf(entry, first - 1).footprint;
    return static_cast<int64_t>(RunOf(entry, end - 1).footprint - before);
  }

  void NoteOldest() {
    if (begin_ < end_) oldest_ = TimestampOf(entries_[Find(begin_)], begin_);
  }

  std::shared_ptr<SegmentPool> pool_;
  std::deque<Entry> entries_;
  mutable size_t hint_ = 0;  ///< Where the last search ended.
  Offset begin_ = 0;
  Offset end_ = 0;
  Instant newest_ = Instant::Min();
  Instant oldest_ = Instant::Min();
  int64_t footprint_ = 0;
};

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_CORE_LOG_H_
