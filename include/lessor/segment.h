// lessor/segment.h: the memory that records live in.
//
// A segment is one reference-counted block of memory, by default 256 KiB. Encoded records grow from
// its front, an index entry of eight bytes a record grows from its back, and it is full when they
// meet. Appending never moves what is there, so whoever holds a SegmentRef may read the records
// that existed when it was given out, for as long as it is held, while the owner appends behind
// them.
//
//   | record 0 | record 1 | ... ->                 <- ... | entry 1 | entry 0 |
//
// A record without headers is its content and nothing else. One with headers is
//   u32 count, u32 bytes of all names and values, count x (u32 name size, u32 value size),
//   name 0, value 0, name 1, value 1, ..., content.
// An entry is the end of the record (31 bits), whether it has headers (1 bit), and its timestamp as
// milliseconds after the segment's base (32 bits).
#ifndef LESSOR_SEGMENT_H_
#define LESSOR_SEGMENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "lessor/export.h"
#include "lessor/record.h"
#include "lessor/time.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

class SegmentPool;

/// A block of records; see above.
///
/// Threads: one writer at a time (the log's lock); any number of readers of records that existed
///   when they got their reference through that lock. The reference count is atomic.
class Segment {
 public:
  static constexpr size_t kStandardCapacity = size_t{256} << 10;
  static constexpr size_t kMaxCapacity = size_t{1} << 31;
  /// What a record costs beside its content: the index entry.
  static constexpr size_t kEntryBytes = 8;

  /// Bytes that `record` takes in a segment, its index entry included.
  static size_t Footprint(const Record& record) {
    const size_t headers = record.headers.size();
    return SizeOf(record) + kEntryBytes + (headers == 0 ? 0 : 8 + 8 * headers);
  }

  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// The offset of the first record.
  Offset base() const { return base_; }
  /// The instant that timestamps count from; none is before it.
  Instant base_time() const { return base_time_; }
  /// Records appended so far. Read under the owner's lock only.
  uint32_t count() const { return count_; }
  size_t capacity() const { return capacity_; }

  /// Appends copies of records from the front of `records` while they fit, and says how many. One
  /// whose timestamp is before base_time(), or more than 49 days after it, never fits.
  size_t Append(std::span<const Record> records, Instant timestamp) {
    const int64_t delta = timestamp.ms - base_time_.ms;
    if (delta < 0 || delta > int64_t{UINT32_MAX}) return 0;
    // Locals: writing bytes could, for all the compiler knows, change the members.
    const uint64_t stamp = static_cast<uint64_t>(delta) << 32;
    char* const bytes = this->bytes();
    char* entry_at = EntryAt(count_);
    size_t used = used_;
    size_t appended = 0;
    for (const Record& record : records) {
      const auto room = static_cast<size_t>(entry_at + kEntryBytes - bytes) - used;
      uint64_t headers_bit = 0;
      if (record.headers.empty()) {
        if (record.content.size() + kEntryBytes > room) break;
      } else {
        if (Footprint(record) > room) break;
        used = AppendHeaders(record.headers, used);
        headers_bit = kHeadersBit;
        any_headers_ = true;
      }
      if (!record.content.empty()) {
        std::memcpy(bytes + used, record.content.data(), record.content.size());
        used += record.content.size();
      }
      const uint64_t entry = stamp | headers_bit | used;
      std::memcpy(entry_at, &entry, sizeof entry);
      entry_at -= kEntryBytes;
      ++appended;
    }
    used_ = static_cast<uint32_t>(used);
    count_ += static_cast<uint32_t>(appended);
    return appended;
  }

  /// Where record `index` starts. Precondition, here and below: index < count().
  uint32_t Start(uint32_t index) const { return index == 0 ? 0 : End(index - 1); }
  uint32_t End(uint32_t index) const { return static_cast<uint32_t>(Entry(index)) & ~kHeadersBit; }
  bool HasHeaders(uint32_t index) const { return (Entry(index) & kHeadersBit) != 0; }
  Instant Timestamp(uint32_t index) const {
    return base_time_ + Millis{static_cast<int64_t>(Entry(index) >> 32)};
  }

  /// Content + header names + header values of record `index`, in bytes. Spec: S4.
  size_t RecordSize(uint32_t index) const {
    const uint32_t start = Start(index);
    const size_t encoded = End(index) - start;
    return HasHeaders(index) ? encoded - 8 - 8 * size_t{LoadU32(start)} : encoded;
  }

  /// The sum of RecordSize() over [first, last). O(1) in a segment without headers.
  size_t SizeOfRange(uint32_t first, uint32_t last) const {
    if (first == last) return 0;
    if (!any_headers_) return End(last - 1) - Start(first);
    size_t size = 0;
    for (uint32_t i = first; i < last; ++i) size += RecordSize(i);
    return size;
  }

  /// The sum of the footprints of [first, last).
  size_t FootprintOfRange(uint32_t first, uint32_t last) const {
    if (first == last) return 0;
    return End(last - 1) - Start(first) + kEntryBytes * size_t{last - first};
  }

  const char* data() const { return reinterpret_cast<const char*>(this + 1); }

  uint32_t LoadU32(size_t at) const {
    uint32_t value = 0;
    std::memcpy(&value, data() + at, sizeof value);
    return value;
  }

 private:
  friend class SegmentRef;
  friend class SegmentPool;

  static constexpr uint32_t kHeadersBit = uint32_t{1} << 31;

  Segment(std::shared_ptr<SegmentPool> pool, uint32_t capacity, Offset base, Instant base_time)
      : pool_(std::move(pool)), base_(base), base_time_(base_time), capacity_(capacity) {}
  ~Segment() = default;

  char* bytes() { return reinterpret_cast<char*>(this + 1); }
  char* EntryAt(uint32_t index) { return bytes() + capacity_ - kEntryBytes * (size_t{index} + 1); }
  uint64_t Entry(uint32_t index) const {
    uint64_t entry = 0;
    std::memcpy(&entry, data() + capacity_ - kEntryBytes * (size_t{index} + 1), sizeof entry);
    return entry;
  }

  /// Writes the headers' part of a record at `used`; gives where it ends.
  size_t AppendHeaders(HeaderList headers, size_t used) {
    const auto put_size = [&](size_t value) {
      const auto word = static_cast<uint32_t>(value);
      std::memcpy(bytes() + used, &word, sizeof word);
      used += sizeof word;
    };
    const auto put_text = [&](std::string_view text) {
      if (text.empty()) return;
      std::memcpy(bytes() + used, text.data(), text.size());
      used += text.size();
    };
    size_t total = 0;
    for (const Header& header : headers) total += header.name.size() + header.value.size();
    put_size(headers.size());
    put_size(total);
    for (const Header& header : headers) {
      put_size(header.name.size());
      put_size(header.value.size());
    }
    for (const Header& header : headers) {
      put_text(header.name);
      put_text(header.value);
    }
    return used;
  }

  LESSOR_EXPORT void Destroy();  // Gives the memory back to the pool.

  std::atomic<uint32_t> references_{1};
  bool any_headers_ = false;
  std::shared_ptr<SegmentPool> pool_;
  Offset base_;
  Instant base_time_;
  uint32_t capacity_;
  uint32_t used_ = 0;
  uint32_t count_ = 0;
};

/// A counted reference to a segment.
/// Threads: as a shared_ptr: distinct references may be used at once.
class SegmentRef {
 public:
  SegmentRef() = default;
  /// Takes over the reference that `segment` was made with.
  explicit SegmentRef(Segment* segment) : segment_(segment) {}
  SegmentRef(const SegmentRef& other) : segment_(other.segment_) {
    if (segment_ != nullptr) segment_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  SegmentRef(SegmentRef&& other) noexcept : segment_(std::exchange(other.segment_, nullptr)) {}
  SegmentRef& operator=(const SegmentRef& other) {
    SegmentRef copy(other);
    std::swap(segment_, copy.segment_);
    return *this;
  }
  SegmentRef& operator=(SegmentRef&& other) noexcept {
    std::swap(segment_, other.segment_);
    return *this;
  }
  ~SegmentRef() {
    if (segment_ != nullptr && segment_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      segment_->Destroy();
    }
  }

  explicit operator bool() const { return segment_ != nullptr; }
  Segment* get() const { return segment_; }
  Segment* operator->() const { return segment_; }
  Segment& operator*() const { return *segment_; }

 private:
  Segment* segment_ = nullptr;
};

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_SEGMENT_H_
