// lessor/batch.h: what consume hands out: leased records, as views.
//
//   for (lessor::RecordView record : batch) {
//     Handle(record.content());
//     for (lessor::Header header : record.headers()) ...
//   }
#ifndef LESSOR_BATCH_H_
#define LESSOR_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "lessor/ids.h"
#include "lessor/record.h"
#include "lessor/segment.h"
#include "lessor/time.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// The headers of a stored record, in the order in which they were produced. A range of Header.
/// Lifetime: as the RecordView that it comes from.
class HeadersView {
 public:
  class Iterator {
   public:
    using value_type = Header;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;
    using reference = Header;
    using pointer = void;

    Iterator() = default;
    Header operator*() const {
      const auto [name, value] = Sizes();
      return {{segment_->data() + text_, name}, {segment_->data() + text_ + name, value}};
    }
    Iterator& operator++() {
      const auto [name, value] = Sizes();
      text_ += size_t{name} + value;
      sizes_ += 8;
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.sizes_ == b.sizes_; }

   private:
    friend class HeadersView;
    Iterator(const Segment* segment, size_t sizes, size_t text)
        : segment_(segment), sizes_(sizes), text_(text) {}
    std::pair<uint32_t, uint32_t> Sizes() const {
      return {segment_->LoadU32(sizes_), segment_->LoadU32(sizes_ + 4)};
    }

    const Segment* segment_ = nullptr;
    size_t sizes_ = 0;
    size_t text_ = 0;
  };

  HeadersView() = default;

  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  Iterator begin() const { return {segment_, start_ + 8, start_ + 8 + 8 * size_t{count_}}; }
  Iterator end() const { return {segment_, start_ + 8 + 8 * size_t{count_}, 0}; }

  /// The value of the header with exactly this name, if there is one.
  std::optional<std::string_view> Find(std::string_view name) const {
    for (const Header header : *this) {
      if (header.name == name) return header.value;
    }
    return std::nullopt;
  }

 private:
  friend class RecordView;
  HeadersView(const Segment* segment, uint32_t start)
      : segment_(segment), start_(start), count_(segment->LoadU32(start)) {}

  const Segment* segment_ = nullptr;
  size_t start_ = 0;
  uint32_t count_ = 0;
};

/// A stored record, seen in place. Lifetime: as the Batch that it comes from. Cost: no copy.
class RecordView {
 public:
  RecordView(const Segment* segment, uint32_t index) : segment_(segment), index_(index) {}

  std::string_view content() const {
    const uint32_t start = segment_->Start(index_);
    const uint32_t end = segment_->End(index_);
    const uint32_t skip = segment_->HasHeaders(index_)
                              ? 8 + 8 * segment_->LoadU32(start) + segment_->LoadU32(start + 4)
                              : 0;
    return {segment_->data() + start + skip, end - start - skip};
  }
  HeadersView headers() const {
    return segment_->HasHeaders(index_) ? HeadersView(segment_, segment_->Start(index_))
                                        : HeadersView();
  }
  /// When the stream received it. Timestamps of one stream never decrease. Spec: S2.
  absl::Time timestamp() const { return ToTime(segment_->Timestamp(index_)); }
  /// Its place in the stream. Spec: S3.
  Offset offset() const { return segment_->base() + index_; }
  /// Bytes of content, header names and header values.
  size_t size() const { return segment_->RecordSize(index_); }

 private:
  const Segment* segment_;
  uint32_t index_;
};

/// Consecutive records of one segment: [first, last).
struct Piece {
  SegmentRef segment;
  uint32_t first = 0;
  uint32_t last = 0;
};

/// The pieces of a batch, in log order. Nearly every batch has one or two: those need no
/// allocation.
class PieceList {
 public:
  PieceList() = default;
  PieceList(const PieceList&) = default;
  PieceList& operator=(const PieceList&) = default;
  PieceList(PieceList&& other) noexcept
      : front_{std::move(other.front_[0]), std::move(other.front_[1])},
        more_(std::move(other.more_)),
        count_(std::exchange(other.count_, 0)) {}
  PieceList& operator=(PieceList&& other) noexcept {
    std::swap(front_, other.front_);
    more_.swap(other.more_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~PieceList() = default;

  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  const Piece& operator[](size_t i) const { return i < kInline ? front_[i] : more_[i - kInline]; }
  void push_back(Piece piece) {
    if (count_ < kInline) {
      front_[count_] = std::move(piece);
    } else {
      more_.push_back(std::move(piece));
    }
    ++count_;
  }
  void clear() {
    for (size_t i = 0; i < kInline && i < count_; ++i) front_[i].segment = SegmentRef();
    more_.clear();
    count_ = 0;
  }

 private:
  static constexpr size_t kInline = 2;
  Piece front_[kInline];
  std::vector<Piece> more_;
  size_t count_ = 0;
};

/// A leased batch of records, or nothing (S15's empty batch: no id, no lease, no records).
///
/// Holding a Batch holds its records' memory, not its lease: the lease ends at leased_until(), or
/// with ack, nack or deletion, whatever happens to this object.
///
/// Threads: as a std::vector: const calls may be concurrent.
/// Lifetime: its views stay valid as long as it or a copy of it lives, even if the stream, or the
///   Broker itself, is gone.
/// Cost: a copy costs one atomic increment a piece; no record is copied.
/// Spec: S13, S15, S16.
class Batch {
 public:
  class Iterator {
   public:
    using value_type = RecordView;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;
    using reference = RecordView;
    using pointer = void;

    Iterator() = default;
    RecordView operator*() const { return {segment_, index_}; }
    Iterator& operator++() {
      if (++index_ == last_) Enter(piece_ + 1);
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) {
      return a.piece_ == b.piece_ && a.index_ == b.index_;
    }

   private:
    friend class Batch;
    Iterator(const PieceList* pieces, size_t piece) : pieces_(pieces) { Enter(piece); }
    void Enter(size_t piece) {
      piece_ = piece;
      index_ = last_ = 0;
      if (piece == pieces_->size()) return;
      const Piece& entered = (*pieces_)[piece];
      segment_ = entered.segment.get();
      index_ = entered.first;
      last_ = entered.last;
    }

    const PieceList* pieces_ = nullptr;
    const Segment* segment_ = nullptr;
    size_t piece_ = 0;
    uint32_t index_ = 0;
    uint32_t last_ = 0;
  };

  /// The empty batch.
  Batch() = default;
  /// For implementations of Service.
  Batch(BatchId id, Instant leased_until, PieceList pieces)
      : id_(id), leased_until_(leased_until), pieces_(std::move(pieces)) {}

  bool empty() const { return pieces_.empty(); }
  /// Records in it. Cost: the number of pieces.
  size_t size() const {
    size_t size = 0;
    for (size_t i = 0; i < pieces_.size(); ++i) size += pieces_[i].last - pieces_[i].first;
    return size;
  }
  /// What ack, nack and extend name. All zero in the empty batch.
  BatchId id() const { return id_; }
  /// The lease is active while the Broker's clock is before this. Extend() may have moved it since.
  absl::Time leased_until() const { return ToTime(leased_until_); }

  Iterator begin() const { return {&pieces_, 0}; }
  Iterator end() const { return {&pieces_, pieces_.size()}; }
  /// Precondition: index < size(). Cost: the number of pieces.
  RecordView operator[](size_t index) const {
    size_t piece = 0;
    while (index >= pieces_[piece].last - pieces_[piece].first) {
      index -= pieces_[piece].last - pieces_[piece].first;
      ++piece;
    }
    const Piece& found = pieces_[piece];
    return {found.segment.get(), found.first + static_cast<uint32_t>(index)};
  }
  RecordView front() const { return (*this)[0]; }
  RecordView back() const { return (*this)[size() - 1]; }

 private:
  BatchId id_;
  Instant leased_until_;
  PieceList pieces_;
};

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_BATCH_H_
