// A change as bytes: lessor/change.h.
#include "lessor/change.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "catch.h"
#include "lessor/error.h"
#include "lessor/ids.h"
#include "lessor/record.h"
#include "lessor/time.h"

namespace lessor::inline LESSOR_ABI {
namespace {

using namespace std::string_literals;  // NOLINT(google-build-using-namespace)

constexpr Offset kMaxOffset = std::numeric_limits<Offset>::max();
constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();
constexpr int64_t kMinInt = std::numeric_limits<int64_t>::min();

// Equality, field by field, that knows nothing of the encoding.

bool Same(const Record& a, const Record& b) {
  return a.content == b.content &&
         std::equal(a.headers.begin(), a.headers.end(), b.headers.begin(), b.headers.end(),
                    [](const Header& x, const Header& y) {
                      return x.name == y.name && x.value == y.value;
                    });
}
bool Same(const change::StreamCreated& a, const change::StreamCreated& b) {
  return a.name == b.name && a.retention == b.retention && a.http == b.http &&
         a.worker_binding == b.worker_binding;
}
bool Same(const change::StreamUpdated& a, const change::StreamUpdated& b) {
  return a.retention == b.retention && a.http == b.http && a.worker_binding == b.worker_binding;
}
bool Same(const change::StreamDeleted&, const change::StreamDeleted&) { return true; }
bool Same(const change::Appended& a, const change::Appended& b) {
  return a.first == b.first && a.timestamp == b.timestamp &&
         std::equal(a.records.begin(), a.records.end(), b.records.begin(), b.records.end(),
                    [](const Record& x, const Record& y) { return Same(x, y); });
}
bool Same(const change::Subscribed& a, const change::Subscribed& b) {
  return a.subscription == b.subscription && a.name == b.name && a.start_at == b.start_at &&
         a.cursor == b.cursor;
}
bool Same(const change::Unsubscribed& a, const change::Unsubscribed& b) {
  return a.subscription == b.subscription;
}
bool Same(const change::Granted& a, const change::Granted& b) {
  return a.subscription == b.subscription && a.batch == b.batch && a.worker == b.worker &&
         a.leased_until == b.leased_until &&
         std::equal(a.ranges.begin(), a.ranges.end(), b.ranges.begin(), b.ranges.end());
}
bool Same(const change::Renewed& a, const change::Renewed& b) {
  return a.subscription == b.subscription && a.batch == b.batch && a.leased_until == b.leased_until;
}
bool Same(const change::Acked& a, const change::Acked& b) {
  return a.subscription == b.subscription && a.batch == b.batch;
}
bool Same(const change::Released& a, const change::Released& b) {
  return a.subscription == b.subscription && a.batch == b.batch;
}
bool Same(const Change& a, const Change& b) {
  return a.now == b.now && std::visit(
                               [](const auto& x, const auto& y) {
                                 if constexpr (std::is_same_v<decltype(x), decltype(y)>) {
                                   return Same(x, y);
                                 } else {
                                   return false;
                                 }
                               },
                               a.what, b.what);
}

// Decodes a copy of `bytes` in memory of just their size, so that a sanitizer sees every read
// beyond them, and gives the change to `look`, if there is one. Nothing else than kInternal may
// refuse it.
bool Decodes(std::string_view bytes, const std::function<void(const DecodedChange&)>& look = {}) {
  const std::vector<char> copy(bytes.begin(), bytes.end());
  const auto decoded = DecodedChange::Decode({copy.data(), copy.size()});
  if (!decoded.ok()) {
    if (ReasonOf(decoded.status()) != Reason::kInternal) FAIL(decoded.status().ToString());
    return false;
  }
  if (look) look(*decoded);
  return true;
}

// Whether `bytes` are refused or are what EncodeChange makes of the change that they decode to.
bool RefusedOrCanonical(std::string_view bytes) {
  bool canonical = true;
  Decodes(bytes, [&](const DecodedChange& change) { canonical = EncodeChange(*change) == bytes; });
  return canonical;
}

// "0a ff" as two bytes; spaces separate fields only.
std::string FromHex(std::string_view hex) {
  std::string bytes;
  std::optional<int> high;
  for (const char c : hex) {
    if (c == ' ') continue;
    const int digit = c <= '9' ? c - '0' : c - 'a' + 10;
    if (high) bytes.push_back(static_cast<char>(*high << 4 | digit));
    high = high ? std::nullopt : std::optional(digit);
  }
  return bytes;
}

std::string ToHex(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex += "0123456789abcdef"[byte >> 4U];
    hex += "0123456789abcdef"[byte & 15U];
  }
  return hex;
}

constexpr SubscriptionId kSubscription = {0x0011223344556677, 0x8899aabbccddeeff};
constexpr BatchId kBatch = {1, 0xff00000000000000};

// One change of each kind, with bytes written by hand.
struct Golden {
  Change change;
  std::string_view hex;
};
const std::vector<Golden>& Goldens() {
  static const std::vector<Header> kHeaders = {{.name = "n", .value = "v1"},
                                               {.name = "m", .value = ""}};
  static const std::vector<Record> kRecords = {
      {.content = "hi", .headers = kHeaders}, {}, {.content = "x", .headers = {}}};
  static const std::vector<OffsetRange> kRanges = {{.first = 3, .end = 4},
                                                   {.first = 300, .end = 500}};
  static const std::vector<Golden> kGoldens = {
      {{.now = {0},
        .what =
            change::StreamCreated{
                .name = "orders", .retention = {3'600'000}, .http = true, .worker_binding = false}},
       "01 00 00 06 6f7264657273 80dddb01 01 00"},
      {{.now = {-1},
        .what = change::StreamUpdated{.retention = {127}, .http = false, .worker_binding = true}},
       "01 01 01 7f 00 01"},
      {{.now = {300}, .what = change::StreamDeleted{}}, "01 02 d804"},
      {{.now = {1'700'000'000'000},
        .what = change::Appended{.first = 128, .timestamp = {64}, .records = kRecords}},
       "01 03 80a0abfef962 8001 8001 03 02 "
       "02 6869 02 01 6e 02 7631 01 6d 00 "
       "00 00 "
       "01 78 00"},
      {{.now = {1},
        .what = change::Subscribed{.subscription = kSubscription,
                                   .name = "s",
                                   .start_at = StartAt::kLatest,
                                   .cursor = 16'384}},
       "01 04 02 00112233445566778899aabbccddeeff 01 73 01 808001"},
      {{.now = {2}, .what = change::Unsubscribed{.subscription = kSubscription}},
       "01 05 04 00112233445566778899aabbccddeeff"},
      {{.now = {3},
        .what = change::Granted{.subscription = kSubscription,
                                .batch = kBatch,
                                .worker = "w-1",
                                .leased_until = {-300},
                                .ranges = kRanges}},
       "01 06 06 00112233445566778899aabbccddeeff 0000000000000001ff00000000000000 "
       "03 772d31 d704 02 03 01 ac02 c801"},
      {{.now = {4},
        .what =
            change::Renewed{.subscription = kSubscription, .batch = kBatch, .leased_until = {5}}},
       "01 07 08 00112233445566778899aabbccddeeff 0000000000000001ff00000000000000 0a"},
      {{.now = {5}, .what = change::Acked{.subscription = kSubscription, .batch = kBatch}},
       "01 08 0a 00112233445566778899aabbccddeeff 0000000000000001ff00000000000000"},
      {{.now = {6}, .what = change::Released{.subscription = kSubscription, .batch = kBatch}},
       "01 09 0c 00112233445566778899aabbccddeeff 0000000000000001ff00000000000000"},
  };
  return kGoldens;
}

// Changes of every kind at the edges of what they can hold.
const std::vector<Change>& Edges() {
  static const std::string kNul = "a\0b"s;
  static const std::string kEveryByte = [] {
    std::string text;
    for (int i = 0; i < 256; ++i) text.push_back(static_cast<char>(i));
    return text;
  }();
  static const std::string kLongestOneByteSize(127, 'p');
  static const std::vector<Header> kManyHeaders(200, {.name = "k", .value = ""});
  static const std::vector<Header> kHeaders = {
      {.name = kNul, .value = kEveryByte}, {}, {.name = kLongestOneByteSize, .value = "\x80"}};
  static const std::vector<Record> kRecords = {{},
                                               {.content = kEveryByte, .headers = {}},
                                               {.content = {}, .headers = kHeaders},
                                               {.content = kNul, .headers = kManyHeaders},
                                               {}};
  static const std::vector<Record> kEmptyRecords(300);
  static const std::vector<OffsetRange> kRanges = {{.first = 0, .end = 1},
                                                   {.first = kMaxOffset - 1, .end = kMaxOffset},
                                                   {.first = 0, .end = kMaxOffset},
                                                   {.first = 5, .end = 132}};
  static const std::vector<OffsetRange> kManyRanges(150, {.first = 7, .end = 9});
  constexpr Millis kLongest = Instant::Max() - Instant::Min();
  constexpr SubscriptionId kAllOnes = {~uint64_t{0}, ~uint64_t{0}};
  static const std::vector<Change> kEdges = {
      {.now = Instant::Min(),
       .what =
           change::StreamCreated{
               .name = "", .retention = {0}, .http = false, .worker_binding = false}},
      {.now = Instant::Max(),
       .what =
           change::StreamCreated{
               .name = kEveryByte, .retention = kLongest, .http = true, .worker_binding = true}},
      {.now = Instant::Min(),
       .what = change::StreamUpdated{.retention = kLongest, .http = true, .worker_binding = false}},
      {.now = Instant::Max(),
       .what = change::StreamUpdated{.retention = {0}, .http = false, .worker_binding = false}},
      {.now = Instant::Min(), .what = change::StreamDeleted{}},
      {.now = Instant::Max(), .what = change::StreamDeleted{}},
      {.now = {-64}, .what = change::Appended{.first = 0, .timestamp = {63}, .records = {}}},
      {.now = Instant::Max(),
       .what =
           change::Appended{.first = kMaxOffset, .timestamp = Instant::Min(), .records = kRecords}},
      {.now = Instant::Min(),
       .what =
           change::Appended{.first = 127, .timestamp = Instant::Max(), .records = kEmptyRecords}},
      {.now = {-65},
       .what =
           change::Subscribed{
               .subscription = {}, .name = "", .start_at = StartAt::kEarliest, .cursor = 0}},
      {.now = Instant::Max(),
       .what = change::Subscribed{.subscription = kAllOnes,
                                  .name = kLongestOneByteSize,
                                  .start_at = StartAt::kLatest,
                                  .cursor = kMaxOffset}},
      {.now = {64}, .what = change::Unsubscribed{.subscription = kAllOnes}},
      {.now = {0},
       .what =
           change::Granted{
               .subscription = {}, .batch = {}, .worker = "", .leased_until = {0}, .ranges = {}}},
      {.now = Instant::Min(),
       .what = change::Granted{.subscription = kAllOnes,
                               .batch = kBatch,
                               .worker = kNul,
                               .leased_until = Instant::Max(),
                               .ranges = kRanges}},
      {.now = Instant::Max(),
       .what = change::Granted{.subscription = kSubscription,
                               .batch = kBatch,
                               .worker = kEveryByte,
                               .leased_until = Instant::Min(),
                               .ranges = kManyRanges}},
      {.now = Instant::Min(),
       .what =
           change::Renewed{.subscription = kAllOnes, .batch = {}, .leased_until = Instant::Min()}},
      {.now = Instant::Max(),
       .what =
           change::Renewed{.subscription = {}, .batch = kBatch, .leased_until = Instant::Max()}},
      {.now = Instant::Max(), .what = change::Acked{.subscription = kAllOnes, .batch = kBatch}},
      {.now = Instant::Min(), .what = change::Released{.subscription = {}, .batch = {}}},
  };
  return kEdges;
}

std::vector<std::string> AllEncodings() {
  std::vector<std::string> encodings;
  for (const Golden& golden : Goldens()) encodings.push_back(EncodeChange(golden.change));
  for (const Change& edge : Edges()) encodings.push_back(EncodeChange(edge));
  return encodings;
}

TEST_CASE("a change of every kind survives encoding and decoding", "[change][S27]") {
  std::vector<bool> seen(std::variant_size_v<Change::What>);
  const auto check = [&](const Change& change) {
    CAPTURE(change.what.index(), change.now.ms);
    seen[change.what.index()] = true;
    CHECK(Decodes(EncodeChange(change),
                  [&](const DecodedChange& decoded) { CHECK(Same(*decoded, change)); }));
  };
  for (const Golden& golden : Goldens()) check(golden.change);
  CHECK(std::count(seen.begin(), seen.end(), false) == 0);
  std::fill(seen.begin(), seen.end(), false);
  for (const Change& edge : Edges()) check(edge);
  CHECK(std::count(seen.begin(), seen.end(), false) == 0);
}

TEST_CASE("the bytes of a change never change", "[change][S27]") {
  REQUIRE(Goldens().size() == std::variant_size_v<Change::What>);
  for (size_t kind = 0; kind < Goldens().size(); ++kind) {
    const auto& [change, hex] = Goldens()[kind];
    CAPTURE(kind);
    CHECK(change.what.index() == kind);
    CHECK(ToHex(EncodeChange(change)) == ToHex(FromHex(hex)));
  }
}

TEST_CASE("the texts of a decoded change are those of the bytes, not copies", "[change]") {
  const std::string bytes = EncodeChange(Goldens()[3].change);
  const auto decoded = DecodedChange::Decode(bytes);
  REQUIRE(decoded.ok());
  const auto& appended = std::get<change::Appended>((*decoded)->what);
  const auto borrowed = [&](std::string_view text) {
    const std::less_equal<const char*> not_after;
    return not_after(bytes.data(), text.data()) &&
           not_after(text.data() + text.size(), bytes.data() + bytes.size());
  };
  REQUIRE(appended.records.size() == 3);
  CHECK(borrowed(appended.records[0].content));
  for (const Header& header : appended.records[0].headers) {
    CHECK(borrowed(header.name));
    CHECK(borrowed(header.value));
  }
}

TEST_CASE("a decoded change is the same after it was moved", "[change]") {
  for (const Change& change : Edges()) {
    CAPTURE(change.what.index());
    const std::string bytes = EncodeChange(change);
    auto first = std::make_unique<absl::StatusOr<DecodedChange>>(DecodedChange::Decode(bytes));
    REQUIRE(first->ok());
    auto second = std::make_unique<DecodedChange>(*std::move(*first));
    first.reset();
    CHECK(Same(**second, change));

    auto third = DecodedChange::Decode(EncodeChange(Goldens()[6].change)).value();
    third = std::move(*second);
    second.reset();
    CHECK(Same(*third, change));

    std::vector<DecodedChange> growing;
    growing.push_back(std::move(third));
    for (int i = 0; i < 8; ++i) growing.push_back(DecodedChange::Decode(bytes).value());
    for (const DecodedChange& decoded : growing) CHECK(Same(*decoded, change));
  }
}

TEST_CASE("a change that is cut short is refused", "[change][S27]") {
  for (const std::string& bytes : AllEncodings()) {
    size_t refused = 0;
    for (size_t size = 0; size < bytes.size(); ++size) {
      if (!Decodes(std::string_view(bytes).substr(0, size))) ++refused;
    }
    CAPTURE(ToHex(bytes));
    CHECK(refused == bytes.size());
  }
  CHECK_FALSE(Decodes({}));
}

TEST_CASE("a change with bytes after it is refused", "[change][S27]") {
  for (const std::string& bytes : AllEncodings()) {
    CAPTURE(ToHex(bytes));
    CHECK_FALSE(Decodes(bytes + '\0'));
    CHECK_FALSE(Decodes(bytes + '\1'));
    CHECK_FALSE(Decodes(bytes + bytes));
  }
}

TEST_CASE("a flipped bit is refused or makes another change, whose bytes these are",
          "[change][S27]") {
  size_t refused = 0;
  size_t accepted = 0;
  for (std::string bytes : AllEncodings()) {
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      const std::string before = bytes;
      char& byte = bytes[bit / 8];
      byte = static_cast<char>(static_cast<unsigned char>(byte) ^ 1U << bit % 8);
      bool canonical = true;
      const bool decoded = Decodes(
          bytes, [&](const DecodedChange& change) { canonical = EncodeChange(*change) == bytes; });
      ++(decoded ? accepted : refused);
      if (!canonical) FAIL("bit " << bit << " of " << ToHex(before));
      bytes = before;
    }
  }
  CHECK(refused > 1'000);
  CHECK(accepted > 1'000);
}

TEST_CASE("any bytes are refused or are those of the change that they decode to", "[change][S27]") {
  uint64_t state = 0x9e3779b97f4a7c15;
  const auto random = [&](size_t end) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    return static_cast<size_t>(state % end);
  };
  const std::vector<std::string> encodings = AllEncodings();
  size_t wrong = 0;
  for (int i = 0; i < 30'000; ++i) {
    std::string bytes = encodings[random(encodings.size())];
    // Most of what is decided, is decided near the start.
    const auto place = [&] {
      return random(random(2) == 0 ? bytes.size() : size_t{1} + bytes.size() / 8);
    };
    for (size_t edits = 1 + random(3); edits > 0 && !bytes.empty(); --edits) {
      const char byte = static_cast<char>(random(3) == 0 ? random(256) : random(4));
      switch (random(4)) {
        case 0:
          bytes[place()] = byte;
          break;
        case 1:
          bytes.insert(place(), 1, byte);
          break;
        case 2:
          bytes.erase(place(), 1);
          break;
        default: {
          const std::string& other = encodings[random(encodings.size())];
          bytes.replace(place(), 1 + random(20), other, random(other.size()), 1 + random(20));
          break;
        }
      }
    }
    if (!RefusedOrCanonical(bytes)) {
      ++wrong;
      UNSCOPED_INFO(ToHex(bytes));
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a version or a kind that is not known is refused", "[change][S27]") {
  REQUIRE(Decodes(FromHex("01 02 00")));
  for (unsigned byte = 0; byte < 256; ++byte) {
    CAPTURE(byte);
    const char c = static_cast<char>(byte);
    if (byte != 1) CHECK_FALSE(Decodes(c + "\x02\x00"s));
    if (byte >= std::variant_size_v<Change::What>) {
      CHECK_FALSE(Decodes("\x01"s + c + '\0'));
      std::string padded(66, '\0');
      padded[0] = '\x01';
      padded[1] = c;
      CHECK_FALSE(Decodes(padded));
    }
  }
}

TEST_CASE("a flag or a start that has no meaning is refused", "[change][S27]") {
  const std::string updated = FromHex("01 01 00 00 00 00");
  const std::string subscribed =
      FromHex("01 04 00 00000000000000000000000000000000 00") + FromHex("00 00");
  REQUIRE(Decodes(updated));
  REQUIRE(Decodes(subscribed));
  for (unsigned byte = 0; byte < 256; ++byte) {
    CAPTURE(byte);
    for (const size_t place : {size_t{4}, size_t{5}}) {
      std::string bytes = updated;
      bytes[place] = static_cast<char>(byte);
      CHECK(Decodes(bytes) == (byte < 2));
    }
    std::string bytes = subscribed;
    bytes[20] = static_cast<char>(byte);
    CHECK(Decodes(bytes) == (byte < 2));
  }
}

TEST_CASE("an integer that is longer than it need be, or too large, is refused", "[change][S27]") {
  // A subscription whose cursor is the last field.
  const std::string before = FromHex("01 04 00 00000000000000000000000000000000 00 00");
  for (const std::string_view cursor :
       {"00", "7f", "8001", "ff7f", "808001", "ffffffffffffffffff01", "80808080808080808001"}) {
    CAPTURE(cursor);
    CHECK(Decodes(before + FromHex(cursor)));
  }
  for (const std::string_view cursor :
       {"8000", "ff00", "808000", "81808000", "80808080808080808000", "ffffffffffffffffff02",
        "ffffffffffffffffff7f", "ffffffffffffffffff8100", "ffffffffffffffffffff01",
        "8080808080808080808001", "80808080808080808080808000", "80", "ff"}) {
    CAPTURE(cursor);
    CHECK_FALSE(Decodes(before + FromHex(cursor)));
  }
}

TEST_CASE("an instant beyond what an Instant holds is refused", "[change][S27]") {
  for (const Instant bad : {Instant{Instant::Min().ms - 1}, Instant{Instant::Max().ms + 1},
                            Instant{kMinInt}, Instant{kMaxInt}}) {
    CAPTURE(bad.ms);
    CHECK_FALSE(Decodes(EncodeChange({.now = bad, .what = change::StreamDeleted{}})));
    CHECK_FALSE(Decodes(EncodeChange(
        {.now = {0}, .what = change::Appended{.first = 0, .timestamp = bad, .records = {}}})));
    CHECK_FALSE(Decodes(EncodeChange({.now = {0},
                                      .what = change::Granted{.subscription = kSubscription,
                                                              .batch = kBatch,
                                                              .worker = "w",
                                                              .leased_until = bad,
                                                              .ranges = {}}})));
    CHECK_FALSE(Decodes(
        EncodeChange({.now = {0},
                      .what = change::Renewed{
                          .subscription = kSubscription, .batch = kBatch, .leased_until = bad}})));
  }
}

TEST_CASE("a retention that could carry an instant out of range is refused", "[change][S27]") {
  const int64_t longest = (Instant::Max() - Instant::Min()).count;
  for (const int64_t bad : {int64_t{-1}, longest + 1, kMinInt, kMaxInt}) {
    CAPTURE(bad);
    CHECK_FALSE(Decodes(EncodeChange(
        {.now = {0},
         .what = change::StreamCreated{
             .name = "s", .retention = {bad}, .http = true, .worker_binding = true}})));
    CHECK_FALSE(
        Decodes(EncodeChange({.now = {0},
                              .what = change::StreamUpdated{
                                  .retention = {bad}, .http = true, .worker_binding = true}})));
  }
}

TEST_CASE("a range that does not end after its start is refused", "[change][S27]") {
  const OffsetRange good = {.first = 4, .end = 6};
  for (const OffsetRange bad :
       {OffsetRange{.first = 0, .end = 0}, OffsetRange{.first = 5, .end = 5},
        OffsetRange{.first = 6, .end = 5}, OffsetRange{.first = kMaxOffset, .end = kMaxOffset},
        OffsetRange{.first = kMaxOffset, .end = 0}}) {
    for (const std::vector<OffsetRange>& ranges :
         {std::vector<OffsetRange>{bad}, {good, bad}, {bad, good}}) {
      CAPTURE(bad.first, bad.end, ranges.size());
      CHECK_FALSE(Decodes(EncodeChange({.now = {0},
                                        .what = change::Granted{.subscription = kSubscription,
                                                                .batch = kBatch,
                                                                .worker = "w",
                                                                .leased_until = {1},
                                                                .ranges = ranges}})));
    }
  }
}

TEST_CASE("a count or a size beyond the bytes is refused before memory is taken for it",
          "[change][S27]") {
  const std::string created = FromHex("01 00 00");
  const std::string appended = FromHex("01 03 00 00 00");
  const std::string granted =
      FromHex("01 06 00 00112233445566778899aabbccddeeff 00112233445566778899aabbccddeeff 00 00");
  REQUIRE(Decodes(created + FromHex("00 00 00 00")));
  REQUIRE(Decodes(appended + FromHex("01 01 00 01 00 00")));
  REQUIRE(Decodes(granted + FromHex("01 00 01")));

  const std::string few(64, '\0');
  const std::vector<std::string> counts = {
      FromHex("21"),                    // 33: one more than 64 bytes can hold of two bytes each.
      FromHex("41"),                    // 65: one more than there are bytes.
      FromHex("808001"),                // 2^14
      FromHex("ffffffff07"),            // 2^31 - 1
      FromHex("8080808010"),            // 2^32
      FromHex("80808080808020"),        // 2^47
      FromHex("8080808080808010"),      // 2^53
      FromHex("80808080808080808001"),  // 2^63
      FromHex("ffffffffffffffffff01"),  // 2^64 - 1
  };
  for (const std::string& count : counts) {
    CAPTURE(ToHex(count));
    for (const std::string& rest : {std::string(), few}) {
      const std::string more = count + rest;
      CHECK_FALSE(Decodes(granted + more));
      for (const std::string_view before : {
               "",               // The number of records.
               "00", "10",       // Of headers, after none or 16 records.
               "01 01",          // The size of a record's content.
               "01 01 00",       // A record's number of headers.
               "01 01 00 01",    // The size of a header's name.
               "01 01 00 01 00"  // Of its value.
           }) {
        CAPTURE(before);
        std::string bytes = appended;
        bytes += FromHex(before);
        bytes += more;
        CHECK_FALSE(Decodes(bytes));
      }
      CHECK_FALSE(Decodes(created + more));
    }
  }
}

TEST_CASE("headers that are more or fewer than was announced are refused", "[change][S27]") {
  const std::string appended = FromHex("01 03 00 00 00");
  CHECK(Decodes(appended + FromHex("02 01 00 00 00 01 0000")));
  CHECK(Decodes(appended + FromHex("02 02 00 01 0000 00 01 0000")));
  CHECK_FALSE(Decodes(appended + FromHex("02 00 00 00 00 01 0000")));
  CHECK_FALSE(Decodes(appended + FromHex("02 01 00 01 0000 00 01 0000")));
  CHECK_FALSE(Decodes(appended + FromHex("02 02 00 00 00 01 0000")));
  CHECK_FALSE(Decodes(appended + FromHex("00 01 0000")));
  CHECK_FALSE(Decodes(appended + FromHex("01 01 00 00")));
}

}  // namespace
}  // namespace lessor::inline LESSOR_ABI
