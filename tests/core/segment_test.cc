// The memory that records live in: lessor/segment.h, lessor/segment_pool.h, views of
// lessor/batch.h.
#include "lessor/segment.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "catch.h"
#include "lessor/batch.h"
#include "lessor/record.h"
#include "lessor/segment_pool.h"
#include "lessor/time.h"

namespace lessor::inline LESSOR_ABI {
namespace {

constexpr size_t kCapacity = Segment::kStandardCapacity;

size_t Append(Segment& segment, std::string_view content, int64_t ms = 0, HeaderList headers = {}) {
  const Record record{.content = content, .headers = headers};
  return segment.Append({&record, 1}, {ms});
}

TEST_CASE("a segment is full when records and index meet, to the byte", "[segment]") {
  const auto pool = SegmentPool::Create();
  for (const size_t short_of : {size_t{0}, size_t{1}}) {
    const SegmentRef segment = pool->New(0, {0});
    REQUIRE(segment->capacity() == kCapacity);
    const std::string half(kCapacity / 2 - 8, 'a');
    const std::string rest(kCapacity / 2 - 8 - short_of, 'b');
    CHECK(Append(*segment, half) == 1);
    CHECK(Append(*segment, rest + std::string(short_of + 1, 'x')) == 0);
    CHECK(Append(*segment, rest) == 1);
    CHECK(Append(*segment, "") == 0);
    CHECK(segment->count() == 2);
    CHECK(RecordView(segment.get(), 0).content() == half);
    CHECK(RecordView(segment.get(), 1).content() == rest);
  }
}

TEST_CASE("of a run of records those in front that fit are appended", "[segment]") {
  const auto pool = SegmentPool::Create();
  const SegmentRef segment = pool->New(7, {0});
  const std::string content(1000 - 8, 'x');
  const std::vector<Record> records(1000, {.content = content});
  CHECK(segment->Append(records, {0}) == kCapacity / 1000);
  CHECK(segment->Append(records, {0}) == 0);
  CHECK(segment->SizeOfRange(0, segment->count()) == segment->count() * content.size());
  CHECK(segment->FootprintOfRange(3, 5) == 2000);
  CHECK(segment->FootprintOfRange(5, 5) == 0);
  CHECK(RecordView(segment.get(), 2).offset() == 9);
}

TEST_CASE("a headed record fits exactly where its footprint does", "[segment]") {
  const auto pool = SegmentPool::Create();
  const std::vector<Header> headers = {{"name", "value"}, {"n", ""}};
  const size_t footprint = Segment::Footprint({.content = "content", .headers = headers});
  CHECK(footprint == 7 + 10 + 8 + 8 + 16);
  for (const size_t short_of : {size_t{0}, size_t{1}}) {
    const SegmentRef segment = pool->New(0, {0});
    REQUIRE(Append(*segment, std::string(kCapacity - footprint - 8 + short_of, 'x')) == 1);
    CHECK(Append(*segment, "content", 0, headers) == 1 - short_of);
    if (short_of != 0) continue;
    const RecordView view(segment.get(), 1);
    CHECK(view.content() == "content");
    CHECK(view.headers().Find("name") == "value");
    CHECK(view.headers().Find("n") == "");
    CHECK(view.size() == 17);
    CHECK(segment->SizeOfRange(1, 2) == 17);
    CHECK(segment->FootprintOfRange(1, 2) == footprint);
  }
}

TEST_CASE("a segment takes timestamps from its base on, for 49 days", "[segment][S2]") {
  const auto pool = SegmentPool::Create();
  const SegmentRef segment = pool->New(0, {1000});
  CHECK(Append(*segment, "", 999) == 0);
  CHECK(Append(*segment, "a", 1000) == 1);
  CHECK(Append(*segment, "b", 1000 + int64_t{UINT32_MAX}) == 1);
  CHECK(Append(*segment, "", 1001 + int64_t{UINT32_MAX}) == 0);
  CHECK(segment->Timestamp(0) == Instant{1000});
  CHECK(segment->Timestamp(1) == Instant{1000 + int64_t{UINT32_MAX}});
  const SegmentRef first = pool->New(0, Instant::Min());
  CHECK(Append(*first, "", Instant::Min().ms) == 1);
  CHECK(Append(*first, "", Instant::Max().ms) == 0);
}

TEST_CASE("a record that is larger than a standard segment has one of its size", "[segment]") {
  const auto pool = SegmentPool::Create();
  const std::string large(3 * kCapacity, 'x');
  const SegmentRef segment = pool->New(0, {0}, Segment::Footprint({.content = large}));
  CHECK(Append(*segment, large) == 1);
  CHECK(Append(*segment, "") == 0);
  CHECK(RecordView(segment.get(), 0).content() == large);
}

TEST_CASE("freed blocks of the standard size are kept, as many as said, and used again",
          "[segment_pool]") {
  const auto pool = SegmentPool::Create(2);
  CHECK(pool->bytes_allocated() == 0);
  {
    std::vector<SegmentRef> segments;
    for (int i = 0; i < 4; ++i) segments.push_back(pool->New(0, {0}));
    segments.push_back(pool->New(0, {0}, 2 * kCapacity));
    CHECK(pool->bytes_allocated() == 6 * kCapacity);
  }
  CHECK(pool->bytes_allocated() == 2 * kCapacity);
  const SegmentRef again = pool->New(5, {9});
  CHECK(pool->bytes_allocated() == 2 * kCapacity);
  CHECK(again->count() == 0);
  CHECK(again->base() == 5);
  CHECK(Append(*again, "x", 9) == 1);
}

TEST_CASE("a segment may outlive its pool's owner, and be freed on another thread",
          "[segment_pool]") {
  auto pool = SegmentPool::Create();
  SegmentRef segment = pool->New(0, {0});
  REQUIRE(Append(*segment, "kept") == 1);
  pool.reset();
  SegmentRef copy = segment;
  std::thread([moved = std::move(segment)]() mutable { moved = SegmentRef(); }).join();
  CHECK_FALSE(static_cast<bool>(segment));  // NOLINT(bugprone-use-after-move)
  CHECK(RecordView(copy.get(), 0).content() == "kept");
  const SegmentRef& same = copy;
  copy = same;
  CHECK(static_cast<bool>(copy));
}

TEST_CASE("a batch goes through its pieces in order, however many", "[batch]") {
  const auto pool = SegmentPool::Create();
  PieceList pieces;
  std::vector<SegmentRef> segments;
  for (Offset s = 0; s < 5; ++s) {
    segments.push_back(pool->New(s * 10, {0}));
    for (int i = 0; i < 10; ++i) REQUIRE(Append(*segments.back(), std::to_string(i)) == 1);
    pieces.push_back({segments.back(), 3, 5});
  }
  Batch batch({1, 2}, {5}, pieces);
  segments.clear();
  const auto check = [](const Batch& of) {
    REQUIRE(of.size() == 10);
    size_t i = 0;
    for (const RecordView record : of) {
      const Offset expected = i / 2 * 10 + 3 + i % 2;
      CHECK(record.offset() == expected);
      CHECK(of[i].offset() == expected);
      ++i;
    }
    CHECK(i == 10);
    CHECK(of.front().content() == "3");
    CHECK(of.back().offset() == 44);
  };
  check(batch);
  const Batch copy = batch;
  Batch moved = std::move(batch);
  CHECK(batch.empty());  // NOLINT(bugprone-use-after-move)
  CHECK(batch.begin() == batch.end());
  check(copy);
  check(moved);
  moved = Batch();
  CHECK(moved.empty());
  CHECK_FALSE(static_cast<bool>(moved.id()));
  moved = copy;
  check(moved);
  auto it = copy.begin();
  CHECK((*it++).offset() == 3);
  CHECK((*it).offset() == 4);
}

}  // namespace
}  // namespace lessor::inline LESSOR_ABI
