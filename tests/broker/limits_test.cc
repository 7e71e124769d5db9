// Limits as data: lessor/limits.h, and the limit on bytes held (S31).
#include "lessor/limits.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "broker/fixture.h"
#include "catch.h"
#include "lessor/broker.h"
#include "lessor/error.h"
#include "lessor/stream.h"
#include "lessor/testing/simulated_clock.h"

namespace lessor_tests {
namespace {

using lessor::Broker;
using lessor::Limits;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

TEST_CASE(
    "each field of the limits is checked at both ends, and a Broker refuses what is not in it",
    "[limits]") {
  struct Field {
    std::string_view name;
    int64_t Limits::*value;
    int64_t least;
    int64_t most;
  };
  const Field fields[] = {
      {"max_streams", &Limits::max_streams, 0, kMost},
      {"max_subscriptions", &Limits::max_subscriptions, 0, kMost},
      {"max_active_leases", &Limits::max_active_leases, 0, int64_t{1} << 31},
      {"max_consume_records", &Limits::max_consume_records, 1, kMost},
      {"max_batch_bytes", &Limits::max_batch_bytes, 0, kMost},
      {"max_record_bytes", &Limits::max_record_bytes, 0, (int64_t{1} << 30) - (int64_t{1} << 20)},
      {"max_produce_bytes", &Limits::max_produce_bytes, 0, kMost},
      {"max_headers", &Limits::max_headers, 0, 65'536},
      {"max_header_name_bytes", &Limits::max_header_name_bytes, 0, kMost},
      {"max_header_value_bytes", &Limits::max_header_value_bytes, 0, kMost},
      {"max_headers_bytes", &Limits::max_headers_bytes, 0, kMost},
      {"max_bytes_held", &Limits::max_bytes_held, 0, kMost},
  };
  CHECK(Why(Limits().Check()) == "ok");
  for (const Field& field : fields) {
    CAPTURE(field.name);
    const auto check = [&](int64_t value) {
      Limits limits;
      limits.*field.value = value;
      const absl::Status status = limits.Check();
      CHECK(Why(Broker::Open({.limits = limits}).status()) == Why(status));
      if (!status.ok()) CHECK(status.message().find(field.name.data()) != std::string_view::npos);
      return Why(status);
    };
    CHECK(check(field.least) == "ok");
    CHECK(check(field.most) == "ok");
    CHECK(check(field.least - 1) == "invalid_argument");
    CHECK(check(std::numeric_limits<int64_t>::min()) == "invalid_argument");
    if (field.most < kMost) {
      CHECK(check(field.most + 1) == "invalid_argument");
      CHECK(check(kMost) == "invalid_argument");
    }
  }
  const absl::Duration year = absl::Hours(24 * 365);
  for (const absl::Duration good : {absl::Nanoseconds(1), Ms(1), year}) {
    CHECK(Why(Limits{.lease = good}.Check()) == "ok");
  }
  for (const absl::Duration bad : {absl::ZeroDuration(), -Ms(1), year + absl::Nanoseconds(1),
                                   absl::InfiniteDuration(), -absl::InfiniteDuration()}) {
    CHECK(Why(Limits{.lease = bad}.Check()) == "invalid_argument");
  }
}

TEST_CASE("limits of nothing refuse everything, and crash nothing", "[limits]") {
  SECTION("no streams") {
    Broker broker({.limits = {.max_streams = 0}});
    CHECK(Why(broker.CreateStream({.name = "s"})) == "stream_limit");
  }
  SECTION("no subscriptions") {
    Broker broker({.limits = {.max_subscriptions = 0}});
    CHECK(Why(broker.CreateStream({.name = "s"})->Subscribe({.name = "a"})) ==
          "subscription_limit");
  }
  SECTION("no leases") {
    World world({.max_active_leases = 0});
    CHECK(Why(world.Take("w")) == "lease_limit");
    world.Produce(1);
    CHECK(Why(world.Take("w")) == "lease_limit");
    CHECK(world.sub.Explain()->answer == lessor::Explanation::Answer::kLeaseLimit);
    CHECK_FALSE(world.sub.Explain()->sentence.empty());
    CHECK(world.At().available == 1);
  }
  SECTION("no bytes in a batch: one record at a time") {
    World world({.max_batch_bytes = 0});
    REQUIRE(
        world.stream.Produce({{.content = "a"}, {.content = ""}, {.content = ""}, {.content = "b"}})
            .ok());
    CHECK(Offsets(world.Lease("w1", 9)) == "0");
    CHECK(Offsets(world.Lease("w2", 9)) == "1 2");
    CHECK(Offsets(world.Lease("w3", 9)) == "3");
  }
  SECTION("no bytes, no headers") {
    World world({.max_record_bytes = 0, .max_headers = 0});
    CHECK(Why(world.stream.Produce({{.content = ""}})) == "ok");
    CHECK(Why(world.stream.Produce({{.content = "a"}})) == "record_too_large");
    CHECK(Why(world.stream.Produce({{.headers = {{"n", ""}}}})) == "invalid_argument");
  }
  SECTION("no bytes held") {
    World world({.max_bytes_held = 0});
    CHECK(Why(world.stream.Produce({{.content = ""}})) == "full");
    CHECK(world.At().end == 0);
  }
}

TEST_CASE("limits beyond the hosted service's work", "[limits]") {
  World world({.max_consume_records = kMost,
               .max_batch_bytes = kMost,
               .max_record_bytes = 40'000'000,
               .max_produce_bytes = kMost,
               .max_headers = 1000});
  const std::string large(40'000'000, 'l');
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back("n" + std::to_string(i));
  std::vector<lessor::Header> headers;
  for (const std::string& name : names) headers.push_back({name, "v"});
  REQUIRE(world.stream
              .Produce({{.content = "small"},
                        {.content = large},
                        {.content = "", .headers = headers},
                        {.content = "tail"}})
              .ok());
  const auto batch = world.Lease("w", kMost);
  REQUIRE(batch.size() == 4);
  CHECK(batch[1].content() == large);
  CHECK(batch[2].headers().size() == 1000);
  CHECK(batch[2].headers().Find("n999") == "v");
  CHECK(batch[3].content() == "tail");
}

TEST_CASE("a lease is as long as the limit says, in whole milliseconds, rounded up",
          "[limits][S16]") {
  for (const auto& [lease, ms] : {std::pair{absl::Nanoseconds(1), int64_t{1}},
                                  std::pair{Ms(1) + absl::Nanoseconds(1), int64_t{2}},
                                  std::pair{absl::Hours(24 * 365), int64_t{31'536'000'000}}}) {
    World world({.lease = lease});
    world.Produce(1);
    const auto batch = world.Lease("w");
    CHECK(batch.leased_until() == world.T(ms));
    world.GoTo(ms - 1);
    CHECK(world.At().leased == 1);
    world.GoTo(ms);
    CHECK(world.At().leased == 0);
  }
}

// --- S31 ---

TEST_CASE("what a record takes of the bytes held is exact, headers included", "[limits][S31]") {
  // Content, names and values, 8 bytes, and with headers 8 + 8 a header.
  const int64_t plain = 5 + 8;
  const int64_t headed = 5 + 4 + 2 + 8 + 8 + 2 * 8;
  for (const int64_t short_of : {int64_t{0}, int64_t{1}}) {
    World world({.max_bytes_held = plain + headed - short_of});
    const auto answer = world.stream.Produce(
        {{.content = "plain"}, {.content = "heads", .headers = {{"ab", "c"}, {"cd", "e"}}}});
    if (short_of == 0) {
      CHECK(Why(answer) == "ok");
      CHECK(world.broker.GetStats().bytes == static_cast<uint64_t>(plain + headed));
      CHECK(Why(world.stream.Produce({{}})) == "full");
    } else {
      CHECK(Why(answer) == "full");
      CHECK(world.broker.GetStats().records == 0);
      CHECK(world.broker.GetStats().bytes == 0);
      CHECK(world.At().end == 0);
      CHECK(Why(world.stream.Produce({{.content = "plain"}})) == "ok");
    }
  }
}

TEST_CASE("a refused produce stores nothing, whatever else is refused first", "[limits][S31]") {
  World world({.max_record_bytes = 50, .max_bytes_held = 30});
  REQUIRE(world.stream.Produce({{.content = "0123456789"}}).ok());  // 18.
  const std::string before = world.State();
  const auto full = world.stream.Produce({{.content = ""}, {.content = ""}});
  CHECK(Why(full) == "full");
  CHECK(full.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(lessor::WireCodeOf(full.status()) == 10211);
  CHECK(lessor::FactsOf(lessor::Reason::kFull).retry_same_request);
  CHECK(Why(world.stream.Produce({})) == "invalid_argument");
  CHECK(Why(world.stream.Produce({{.content = std::string(51, 'x')}})) == "record_too_large");
  CHECK(world.State() == before);
  CHECK(Why(world.stream.Produce({{.content = "abcd"}})) == "ok");  // 30.
}

TEST_CASE("consuming frees no room; deleting and retention do, of other streams too",
          "[limits][S31]") {
  World world({.max_bytes_held = 18});
  const auto other =
      *world.broker.CreateStream({.name = "other", .retention = absl::Seconds(3'600)});
  REQUIRE(other.Produce({{.content = "0123456789"}}).ok());
  const auto sub = *other.Subscribe({.name = "s"});
  const auto batch = *sub.Consume({.worker = "w"});
  REQUIRE(Why(sub.Ack(batch, "w")) == "ok");
  CHECK(Why(world.stream.Produce({{}})) == "full");

  SECTION("its retention is over, and nobody has looked") {
    world.GoTo(3'600'000 - 1);
    CHECK(Why(world.stream.Produce({{}})) == "full");
    world.GoTo(3'600'000);
    CHECK(Why(world.stream.Produce({{.content = "0123456789"}})) == "ok");
    CHECK(Why(other.Produce({{}})) == "full");
  }
  SECTION("its retention is shortened") {
    REQUIRE(other.Update({.retention = absl::Seconds(7'200)}).ok());
    world.GoTo(3'600'000);
    CHECK(Why(world.stream.Produce({{}})) == "full");
    REQUIRE(other.Update({.retention = absl::Seconds(3'600)}).ok());
    CHECK(Why(world.stream.Produce({{}})) == "ok");
  }
  SECTION("it is deleted") {
    REQUIRE(Why(other.Delete()) == "ok");
    CHECK(Why(world.stream.Produce({{}})) == "ok");
  }
  SECTION("its records are pinned by a lease, which is not counted") {
    const auto pinned = *other.Subscribe({.name = "t"});
    world.GoTo(3'600'000 - 1);
    const auto held = *pinned.Consume({.worker = "w"});
    world.GoTo(3'600'000);
    CHECK(Why(world.stream.Produce({{.content = "0123456789"}})) == "ok");
    CHECK(Contents(*pinned.Consume({.worker = "w"})) == "0123456789");
    CHECK(world.broker.GetStats().bytes == 18);
  }
  CHECK(world.broker.GetStats().bytes <= 18);
}

TEST_CASE("producers that race for the last room never pass the limit", "[limits][S31][S28]") {
  constexpr int kRoom = 50;
  World world({.max_bytes_held = kRoom * 9});
  std::vector<lessor::Stream> streams = {world.stream};
  streams.push_back(*world.broker.CreateStream({.name = "second"}));
  std::atomic<int> stored = 0;
  std::atomic<int> full = 0;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        const auto answer = streams[t % 2].Produce({{.content = "x"}});
        if (answer.ok()) ++stored;
        if (lessor::ReasonOf(answer.status()) == lessor::Reason::kFull) ++full;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(stored == kRoom);
  CHECK(full == 160 - kRoom);
  CHECK(world.broker.GetStats().bytes == static_cast<uint64_t>(kRoom) * 9);
}

}  // namespace
}  // namespace lessor_tests
