// A stream's records, against a plain list of them: lessor/core/log.h.
#include "lessor/core/log.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "catch.h"
#include "lessor/batch.h"
#include "lessor/core/rules.h"
#include "lessor/record.h"
#include "lessor/segment.h"
#include "lessor/segment_pool.h"
#include "lessor/store.h"
#include "lessor/time.h"

namespace lessor::inline LESSOR_ABI {
namespace {

constexpr Millis kRetention{1000};

void Append(Log& log, size_t records, size_t size, int64_t ms) {
  const std::string content(size, 'x');
  const std::vector<Record> all(records, {.content = content});
  log.Append(all, {ms});
}

/// The segments of a log as another store would give them back.
SegmentRef Rebuild(const Log& log, const SegmentIndex& index, SegmentPool& pool) {
  PieceList pieces;
  REQUIRE(log.AddPieces({index.base, index.base + index.runs.back().end}, pieces));
  SegmentRef segment = pool.New(index.base, index.runs.front().timestamp, size_t{4} << 20);
  for (size_t p = 0; p < pieces.size(); ++p) {
    for (uint32_t i = pieces[p].first; i < pieces[p].last; ++i) {
      const RecordView view(pieces[p].segment.get(), i);
      const Record record{.content = view.content()};
      REQUIRE(segment->Append({&record, 1}, pieces[p].segment->Timestamp(i)) == 1);
    }
  }
  return segment;
}

TEST_CASE("records leave exactly at timestamp + retention, run by run", "[log][S5]") {
  Log log(SegmentPool::Create());
  Append(log, 2, 10, 0);
  Append(log, 1, 10, 1);
  Append(log, 3, 10, 1);
  CHECK(log.footprint() == 6 * 18);
  CHECK(log.oldest() == Instant{0});
  CHECK(log.newest() == Instant{1});
  CHECK_FALSE(log.ApplyRetention<StandardRules>({999}, kRetention));
  CHECK(log.ApplyRetention<StandardRules>({1000}, kRetention));
  CHECK(log.begin() == 2);
  CHECK(log.oldest() == Instant{1});
  CHECK(log.footprint() == 4 * 18);
  CHECK_FALSE(log.ApplyRetention<StandardRules>({1000}, kRetention));
  CHECK(log.ApplyRetention<StandardRules>({1001}, kRetention));
  CHECK(log.begin() == 6);
  CHECK(log.end() == 6);
  CHECK(log.footprint() == 0);
  CHECK(log.newest() == Instant{1});
  Append(log, 1, 10, 1001);
  CHECK(log.begin() == 6);
  CHECK(log.oldest() == Instant{1001});
  CHECK(log.footprint() == 18);
}

TEST_CASE("a batch takes what fits of records and bytes, and always its first", "[log][S15]") {
  Log log(SegmentPool::Create());
  Append(log, 3, 10, 0);
  const auto fit = [&](OffsetRange range, uint64_t records, int64_t bytes, bool empty) {
    const Log::Fit result = log.FitInto(range, records, bytes, empty);
    CHECK_FALSE(result.need.has_value());
    return std::pair(result.end, result.full);
  };
  CHECK(fit({0, 3}, 100, 30, true) == std::pair(Offset{3}, false));
  CHECK(fit({0, 3}, 100, 29, true) == std::pair(Offset{2}, true));
  CHECK(fit({0, 3}, 3, 30, true) == std::pair(Offset{3}, true));
  CHECK(fit({0, 3}, 2, 100, true) == std::pair(Offset{2}, true));
  CHECK(fit({0, 3}, 100, 5, true) == std::pair(Offset{1}, true));
  CHECK(fit({0, 3}, 100, 5, false) == std::pair(Offset{0}, true));
  CHECK(fit({1, 2}, 100, 10, false) == std::pair(Offset{2}, false));
}

TEST_CASE("a log that was loaded names the segments that it lacks, and takes only those", "[log]") {
  const auto pool = SegmentPool::Create();
  Log log(pool);
  for (int i = 0; i < 10; ++i) Append(log, 1, 65'000, i);  // Four a segment.
  StreamSnapshot snapshot;
  snapshot.end = 10;
  snapshot.last_timestamp = {9};
  snapshot.segments = log.Index(0);
  REQUIRE(snapshot.segments.size() == 3);
  snapshot.begin = 1;
  Log loaded(pool, snapshot);
  CHECK(loaded.begin() == 1);
  CHECK(loaded.end() == 10);
  CHECK(loaded.footprint() == 9 * 65'008);
  CHECK(loaded.oldest() == Instant{1});
  CHECK(loaded.Missing({1, 10}) == Offset{0});
  CHECK(loaded.Missing({4, 5}) == Offset{4});
  uint64_t records = 10;
  int64_t bytes = 10'000'000;
  CHECK(loaded.FitInto({1, 10}, records, bytes, true).need == Offset{0});
  PieceList pieces;
  CHECK_FALSE(loaded.AddPieces({1, 2}, pieces));

  const SegmentRef first = Rebuild(log, snapshot.segments[0], *pool);
  const SegmentRef second = Rebuild(log, snapshot.segments[1], *pool);
  CHECK_FALSE(loaded.Install(0, SegmentRef()));
  CHECK_FALSE(loaded.Install(0, second));
  CHECK_FALSE(loaded.Install(0, pool->New(0, {0})));  // Too short.
  CHECK(loaded.Install(3, second));                   // No segment's base: nothing happens.
  CHECK(loaded.Missing({1, 2}) == Offset{0});
  CHECK(loaded.Install(0, first));
  CHECK(loaded.Install(0, second));  // It has its bytes already.
  CHECK(loaded.Missing({1, 10}) == Offset{4});
  records = 2;
  CHECK(loaded.FitInto({1, 10}, records, bytes, true).end == 3);
  CHECK(loaded.AddPieces({1, 3}, pieces));
  CHECK(pieces.size() == 1);
  // Appending goes on in a segment of its own.
  Append(loaded, 1, 5, 20);
  CHECK(loaded.end() == 11);
  CHECK_FALSE(loaded.Missing({10, 11}).has_value());
  CHECK(loaded.Index(0).size() == 4);
}

TEST_CASE("any mix of appends, retention and dropping is as a plain list has it", "[log]") {
  struct Plain {
    int64_t ms;
    size_t size;
  };
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    const auto pool = SegmentPool::Create(0);
    Log log(pool);
    std::vector<Plain> all;
    size_t begin = 0;
    int64_t now = 0;
    std::vector<Batch> kept;
    for (int step = 0; step < 200; ++step) {
      now += static_cast<int64_t>(random() % 300);
      if (random() % 3 != 0) {
        const size_t records = 1 + random() % 20;
        const size_t size = random() % 10 == 0 ? random() % 300'000 : random() % 3'000;
        Append(log, records, size, now);
        all.insert(all.end(), records, {now, size});
      }
      const bool moved = log.ApplyRetention<StandardRules>({now}, kRetention);
      const size_t before = begin;
      while (begin < all.size() && all[begin].ms + kRetention.count <= now) ++begin;
      if (random() % 2 == 0) log.DropBelow(begin);
      int64_t footprint = 0;
      for (size_t i = begin; i < all.size(); ++i) {
        footprint += static_cast<int64_t>(all[i].size) + 8;
      }
      bool same = moved == (begin != before) && log.begin() == begin && log.end() == all.size() &&
                  log.footprint() == footprint;
      if (begin < all.size()) {
        same &= log.oldest() == Instant{all[begin].ms};
        // A batch from somewhere, with limits that may end it.
        const size_t first = begin + random() % (all.size() - begin);
        uint64_t records = 1 + random() % 100;
        int64_t bytes = static_cast<int64_t>(random() % 400'000);
        size_t end = first;
        size_t taken = 0;
        for (; end < all.size() && end - first < records; ++end) {
          if (end > first && taken + all[end].size > static_cast<size_t>(bytes)) break;
          taken += all[end].size;
        }
        const Log::Fit fit = log.FitInto({first, all.size()}, records, bytes, true);
        same &= fit.end == end && !fit.need && fit.full == (end < all.size() || records == 0);
        PieceList pieces;
        same &= log.AddPieces({first, end}, pieces);
        const Batch batch({1, 1}, {0}, pieces);
        size_t i = first;
        for (const RecordView record : batch) {
          same &= record.offset() == i && record.content().size() == all[i].size &&
                  record.timestamp() == ToTime({all[i].ms});
          ++i;
        }
        same &= i == end;
      }
      if (!same) FAIL("round " << round << ", step " << step);
    }
  }
  SUCCEED();
}

TEST_CASE("segments that have left give their memory back", "[log]") {
  const auto pool = SegmentPool::Create(0);
  Log log(pool);
  for (int i = 0; i < 100; ++i) Append(log, 1, 100'000, i);
  CHECK(pool->bytes_allocated() > 10'000'000);
  REQUIRE(log.ApplyRetention<StandardRules>({1098}, kRetention));
  // Leases from 50 on pin what they need themselves: the log keeps no bytes, but knows of them.
  log.DropBelow(50);
  CHECK(log.begin() == 99);
  CHECK(log.first_kept() <= 50);
  CHECK(log.first_kept() > 40);
  CHECK(pool->bytes_allocated() < 1'000'000);
  log.DropBelow(99);
  CHECK(log.first_kept() > 90);
  CHECK(log.Index(99).size() == 1);
}

}  // namespace
}  // namespace lessor::inline LESSOR_ABI
