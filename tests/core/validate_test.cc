// What arguments may be: lessor/core/validate.h, and the rounding of lessor/time.h.
#include "lessor/core/validate.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "catch.h"
#include "lessor/error.h"
#include "lessor/ids.h"
#include "lessor/limits.h"
#include "lessor/record.h"
#include "lessor/segment.h"
#include "lessor/time.h"

namespace lessor::inline LESSOR_ABI {
namespace {

/// Counts a character at a time, as RFC 3629's table has it.
int64_t NaiveCount(std::string_view text) {
  int64_t count = 0;
  for (size_t i = 0; i < text.size(); ++count) {
    const auto at = [&](size_t k) {
      return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0U;
    };
    const auto in = [&](size_t k, unsigned low, unsigned high) {
      return at(k) >= low && at(k) <= high;
    };
    if (at(0) <= 0x7F) {
      i += 1;
    } else if (in(0, 0xC2, 0xDF) && in(1, 0x80, 0xBF)) {
      i += 2;
    } else if (((at(0) == 0xE0 && in(1, 0xA0, 0xBF)) || (in(0, 0xE1, 0xEC) && in(1, 0x80, 0xBF)) ||
                (at(0) == 0xED && in(1, 0x80, 0x9F)) || (in(0, 0xEE, 0xEF) && in(1, 0x80, 0xBF))) &&
               in(2, 0x80, 0xBF)) {
      i += 3;
    } else if (((at(0) == 0xF0 && in(1, 0x90, 0xBF)) || (in(0, 0xF1, 0xF3) && in(1, 0x80, 0xBF)) ||
                (at(0) == 0xF4 && in(1, 0x80, 0x8F))) &&
               in(2, 0x80, 0xBF) && in(3, 0x80, 0xBF)) {
      i += 4;
    } else {
      return -1;
    }
  }
  return count;
}

TEST_CASE("UTF-8 is exactly what RFC 3629 says", "[validate][S12]") {
  // Every lead and second byte, with tails of every kind, at several places of an eight.
  const std::string_view tails[] = {"",         "\x80",     "\x80\x80", "\xBF\xBF",
                                    "\x80\x7F", "\x80\xC0", "a"};
  int64_t wrong = 0;
  for (int lead = 0; lead < 256; ++lead) {
    for (int second = 0; second < 256; ++second) {
      for (const std::string_view tail : tails) {
        for (const size_t before : {size_t{0}, size_t{5}, size_t{7}, size_t{8}}) {
          std::string text(before, 'x');
          text.push_back(static_cast<char>(lead));
          text.push_back(static_cast<char>(second));
          text += tail;
          const std::vector<char> exact(text.begin(), text.end());  // For a sanitizer.
          if (CountUtf8({exact.data(), exact.size()}) != NaiveCount(text)) ++wrong;
        }
      }
    }
    const std::string alone(1, static_cast<char>(lead));
    if (CountUtf8(alone) != NaiveCount(alone)) ++wrong;
  }
  CHECK(wrong == 0);
  CHECK(CountUtf8("") == 0);
  CHECK(CountUtf8("\xF4\x8F\xBF\xBF") == 1);
  CHECK(CountUtf8("\xF4\x90\x80\x80") == -1);
}

TEST_CASE("names fold A to Z, and nothing else", "[validate][S1]") {
  CHECK(FoldCase("AZaz09_-\xC3\x84@[`{") == "azaz09_-\xC3\x84@[`{");
  int accepted = 0;
  for (int c = 0; c < 256; ++c) {
    const std::string name(1, static_cast<char>(c));
    const bool plain =
        (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
    if (CheckStreamName(name).ok() == plain &&
        CheckSubscriptionName(name).ok() == (plain || c == '-')) {
      ++accepted;
    }
  }
  CHECK(accepted == 256);
}

TEST_CASE("what a produce takes is what its segment counts", "[validate][S31]") {
  const std::vector<Header> headers = {{"name", "value"}, {"n", ""}};
  const std::vector<Record> records = {{.content = ""},
                                       {.content = "content"},
                                       {.content = "", .headers = headers},
                                       {.content = "content", .headers = headers}};
  int64_t footprint = 0;
  REQUIRE(CheckProduce(records, Limits(), footprint).ok());
  size_t expected = 0;
  for (const Record& record : records) expected += Segment::Footprint(record);
  CHECK(footprint == static_cast<int64_t>(expected));
  CHECK(footprint == 8 + 15 + (10 + 8 + 8 + 16) + (17 + 8 + 8 + 16));
}

TEST_CASE("durations are rounded up and instants down", "[time]") {
  const absl::Duration nano = absl::Nanoseconds(1);
  CHECK(CeilToMillis(absl::ZeroDuration()).count == 0);
  CHECK(CeilToMillis(nano).count == 1);
  CHECK(CeilToMillis(absl::Milliseconds(5)).count == 5);
  CHECK(CeilToMillis(absl::Milliseconds(5) + nano).count == 6);
  CHECK(CeilToMillis(absl::InfiniteDuration()).count == std::numeric_limits<int64_t>::max());
  for (const int64_t ms : {int64_t{-1}, int64_t{0}, int64_t{1'790'164'800'000}}) {
    const absl::Time exact = absl::FromUnixMillis(ms);
    CHECK(FloorToInstant(exact).ms == ms);
    CHECK(FloorToInstant(exact + nano).ms == ms);
    CHECK(FloorToInstant(exact - nano).ms == ms - 1);
    CHECK(CeilToInstant(exact).ms == ms);
    CHECK(CeilToInstant(exact + nano).ms == ms + 1);
    CHECK(CeilToInstant(exact - nano).ms == ms);
    CHECK(ToTime({ms}) == exact);
  }
  CHECK(FloorToInstant(absl::InfiniteFuture()) == Instant::Max());
  CHECK(FloorToInstant(absl::InfinitePast()) == Instant::Min());
  CHECK(CeilToInstant(absl::InfiniteFuture()) == Instant::Max());
  CHECK(CeilToInstant(absl::InfinitePast()) == Instant::Min());
  CHECK(CeilToInstant(ToTime(Instant::Max()) - nano) == Instant::Max());
}

TEST_CASE("an id is 32 lowercase hexadecimal digits", "[ids][S1]") {
  const StreamId id{0x0123456789abcdef, 0xfedcba9876543210};
  CHECK(id.ToString() == "0123456789abcdeffedcba9876543210");
  CHECK(StreamId::Parse(id.ToString()) == id);
  CHECK(StreamId().ToString() == std::string(32, '0'));
  CHECK(StreamId::Parse(std::string(32, '0')) == StreamId());
  CHECK_FALSE(static_cast<bool>(StreamId()));
  CHECK(static_cast<bool>(StreamId{0, 1}));
  CHECK(static_cast<bool>(StreamId{1, 0}));
  for (const std::string_view bad :
       {std::string_view(), std::string_view("0123456789abcdef0123456789abcde"),
        std::string_view("0123456789abcdef0123456789abcdef0"),
        std::string_view("0123456789abcdef0123456789abcdeF"),
        std::string_view("0123456789abcdef0123456789abcdeg"),
        std::string_view(" 123456789abcdef0123456789abcdef"),
        std::string_view("0123456789abcdef0123456789abcde\0", 32)}) {
    CHECK_FALSE(StreamId::Parse(bad).has_value());
  }
}

}  // namespace
}  // namespace lessor::inline LESSOR_ABI
