// The rules of spec/streams.md through the public API, each at both sides of its boundaries.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "broker/fixture.h"
#include "catch.h"
#include "lessor/lessor.h"
#include "lessor/testing/sequential_ids.h"
#include "lessor/testing/simulated_clock.h"

namespace lessor_tests {
namespace {

using lessor::Broker;
using lessor::Reason;
using lessor::StartAt;
using lessor::StreamPolicy;
using Answer = lessor::Explanation::Answer;

constexpr int64_t kLeaseMs = 300'000;
constexpr int64_t kHourMs = 3'600'000;

/// Runs calls that must be refused, and checks that each changed nothing that can be seen.
struct Refusals {
  explicit Refusals(Broker& of) : broker(of), before(Describe(of)) {}
  template <class AnyAnswer>
  void operator()(std::string_view why, const AnyAnswer& answer) {
    CHECK(Why(answer) == why);
    CHECK(Describe(broker) == before);
  }
  Broker& broker;
  std::string before;
};

std::string Repeat(std::string_view text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

// --- Streams and records ---

TEST_CASE("a stream has a fresh id, its name as spelt and a week of retention", "[stream][S1]") {
  lessor_testing::SimulatedClock clock;
  Broker broker({.clock = &clock});
  const auto stream = broker.CreateStream({.name = "Orders_2"});
  REQUIRE(Why(stream) == "ok");
  const auto info = *stream->Info();
  CHECK(info.id == stream->id());
  CHECK(info.id.ToString().size() == 32);
  CHECK(info.name == "Orders_2");
  CHECK(info.retention == absl::Seconds(604'800));
  CHECK(info.http);
  CHECK(info.worker_binding);
  CHECK(info.created_at == clock.Now());
  CHECK(info.modified_at == clock.Now());
  CHECK(broker.OpenStream("ORDERS_2")->id() == stream->id());
  CHECK(Why(broker.OpenStream("orders-2")) == "no_such_stream");
  CHECK(Why(broker.OpenStream("")) == "no_such_stream");
  CHECK(broker.CreateStream({.name = "a"})->id() != stream->id());
}

TEST_CASE("a stream's name is 1 to 128 letters, digits and underscores", "[stream][S1]") {
  Broker broker;
  const std::string longest(128, 'n');
  CHECK(Why(broker.CreateStream({.name = "x"})) == "ok");
  CHECK(Why(broker.CreateStream({.name = longest})) == "ok");
  Refusals refused(broker);
  refused("invalid_argument", broker.CreateStream({.name = ""}));
  refused("invalid_argument", broker.CreateStream({.name = longest + "n"}));
  for (const std::string_view bad : {"a-b", "a b", " a", "a.", "\xC3\xA4", "a/b", "\xff"}) {
    CAPTURE(bad);
    refused("invalid_argument", broker.CreateStream({.name = std::string(bad)}));
  }
  refused("invalid_argument", broker.CreateStream({.name = std::string("a\0b", 3)}));
  refused("invalid_argument", broker.CreateStream({.name = std::string(10'000'000, 'a')}));
}

TEST_CASE("a name that is taken is refused whatever its case, until its stream is deleted",
          "[stream][S1][S10]") {
  World world;
  Refusals refused(world.broker);
  refused("name_taken", world.broker.CreateStream({.name = "orders"}));
  refused("name_taken", world.broker.CreateStream({.name = "ORDERS"}));
  REQUIRE(Why(world.stream.Delete()) == "ok");
  const auto again = world.broker.CreateStream({.name = "oRders"});
  REQUIRE(Why(again) == "ok");
  CHECK(again->id() != world.stream.id());
  CHECK(again->ListSubscriptions()->empty());
  CHECK(again->Produce({{.content = "x"}})->first == 0);
}

TEST_CASE("a retention is 3,600 to 2,592,000 seconds, rounded up to a millisecond",
          "[stream][S1]") {
  Broker broker;
  const absl::Duration nano = absl::Nanoseconds(1);
  const absl::Duration least = absl::Seconds(3'600);
  const absl::Duration most = absl::Seconds(2'592'000);
  const auto stream = *broker.CreateStream({.name = "s", .retention = least});
  CHECK(stream.Info()->retention == least);
  CHECK(Why(broker.CreateStream({.name = "t", .retention = most})) == "ok");
  CHECK(stream.Update({.retention = most})->retention == most);
  CHECK(stream.Update({.retention = least + nano})->retention == least + Ms(1));
  CHECK(stream.Update({.retention = most - nano})->retention == most);
  Refusals refused(broker);
  for (const absl::Duration bad : {least - nano, most + nano, absl::ZeroDuration(), -least,
                                   absl::InfiniteDuration(), -absl::InfiniteDuration()}) {
    CAPTURE(absl::FormatDuration(bad));
    refused("invalid_argument", broker.CreateStream({.name = "u", .retention = bad}));
    refused("invalid_argument", stream.Update({.retention = bad}));
  }
}

TEST_CASE("an update changes what it names, and a stream keeps an input", "[stream][S1]") {
  World world;
  world.GoTo(5);
  auto info = *world.stream.Update({.http = false});
  CHECK_FALSE(info.http);
  CHECK(info.worker_binding);
  CHECK(info.retention == absl::Seconds(604'800));
  CHECK(info.created_at == world.T(0));
  CHECK(info.modified_at == world.T(5));
  CHECK(world.stream.Info()->modified_at == world.T(5));
  world.GoTo(6);
  Refusals refused(world.broker);
  refused("invalid_argument", world.stream.Update({}));
  refused("invalid_argument", world.stream.Update({.worker_binding = false}));
  refused("invalid_argument", world.stream.Update({.http = false, .worker_binding = false}));
  refused("invalid_argument",
          world.broker.CreateStream({.name = "n", .http = false, .worker_binding = false}));
  info = *world.stream.Update({.http = true, .worker_binding = false});
  CHECK(info.http);
  CHECK_FALSE(info.worker_binding);
  CHECK(world.stream.Produce({{.content = "in process, always"}}).ok());
}

TEST_CASE("an account holds 20 streams and no more", "[stream][S1]") {
  Broker broker;
  std::vector<lessor::Stream> streams;
  for (int i = 0; i < 20; ++i) {
    const auto stream = broker.CreateStream({.name = "s" + std::to_string(i)});
    REQUIRE(Why(stream) == "ok");
    streams.push_back(*stream);
  }
  Refusals refused(broker);
  const auto answer = broker.CreateStream({.name = "s20"});
  refused("stream_limit", answer);
  CHECK(lessor::WireCodeOf(answer.status()) == 10204);
  refused("name_taken", broker.CreateStream({.name = "S3"}));
  REQUIRE(Why(streams[7].Delete()) == "ok");
  CHECK(Why(broker.CreateStream({.name = "s20"})) == "ok");
  CHECK(broker.ListStreams()->size() == 20);
  CHECK(broker.ListStreams()->front().name == "s0");
  CHECK(broker.ListStreams()->back().name == "s20");
}

TEST_CASE("a record is stamped with the time of its produce, and stamps never decrease",
          "[stream][S2]") {
  World world;
  world.GoTo(10);
  CHECK(world.stream.Produce({{.content = "a"}})->timestamp == world.T(10));
  world.GoTo(3);
  CHECK(world.stream.Produce({{.content = "b"}})->timestamp == world.T(10));
  world.GoTo(11);
  CHECK(world.stream.Produce({{.content = "c"}})->timestamp == world.T(11));
  const auto batch = world.Lease("w", 3);
  CHECK(batch[0].timestamp() == world.T(10));
  CHECK(batch[1].timestamp() == world.T(10));
  CHECK(batch[2].timestamp() == world.T(11));
}

TEST_CASE("an instant is rounded down to a millisecond", "[stream][S2]") {
  World world;
  world.clock.AdvanceTo(world.T(7) + absl::Nanoseconds(999'999));
  CHECK(world.stream.Produce({{.content = "a"}})->timestamp == world.T(7));
}

TEST_CASE("a produce appends all of its records, in order and without gaps", "[stream][S3]") {
  World world;
  const auto first = world.stream.Produce({{.content = "a"}, {.content = ""}, {.content = "c"}});
  CHECK(first->first == 0);
  CHECK(first->count == 3);
  CHECK(world.stream.Produce({{.content = "d"}})->first == 3);
  const auto batch = world.Lease("w", 10);
  CHECK(Offsets(batch) == "0 1 2 3");
  CHECK(Contents(batch) == "a  c d");
  Refusals refused(world.broker);
  refused("invalid_argument", world.stream.Produce({}));
  refused("invalid_argument", world.stream.Produce(std::span<const lessor::Record>()));
}

TEST_CASE("a record may have any bytes, and headers keep theirs", "[stream][S2]") {
  World world;
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  const std::string nul("a\0b", 3);
  REQUIRE(Why(world.stream.Produce(
              {{.content = bytes, .headers = {{"Kind", "x"}, {"kind", ""}, {nul, nul}}},
               {.content = {}, .headers = {{"\xC3\xA4", "\xF0\x9F\x98\x80"}}}})) == "ok");
  const auto batch = world.Lease("w", 2);
  CHECK(batch[0].content() == bytes);
  REQUIRE(batch[0].headers().size() == 3);
  CHECK(batch[0].headers().Find("Kind") == "x");
  CHECK(batch[0].headers().Find("kind") == "");
  CHECK(batch[0].headers().Find(nul) == nul);
  CHECK_FALSE(batch[0].headers().Find("KIND").has_value());
  CHECK(batch[0].size() == 256 + 5 + 4 + 6);
  CHECK(batch[1].content().empty());
  CHECK(batch[1].headers().Find("\xC3\xA4") == "\xF0\x9F\x98\x80");
}

TEST_CASE("each limit of a record is exact", "[stream][S4]") {
  World world;
  const auto produce = [&](std::string_view content, const std::vector<lessor::Header>& headers) {
    return world.stream.Produce({{.content = content, .headers = headers}});
  };
  const std::string megabyte(1'000'000, 'x');

  SECTION("1,000,000 bytes of content") {
    CHECK(Why(produce(megabyte, {})) == "ok");
    Refusals refused(world.broker);
    refused("record_too_large", produce(megabyte + "x", {}));
  }
  SECTION("1,000,000 bytes of content, names and values") {
    const std::string_view content(megabyte.data(), megabyte.size() - 7);
    CHECK(Why(produce(content, {{"name", "val"}})) == "ok");
    Refusals refused(world.broker);
    refused("record_too_large", produce(content, {{"name", "valu"}}));
    refused("record_too_large", produce(content, {{"names", "val"}}));
  }
  SECTION("32 headers") {
    std::vector<std::string> names;
    for (int i = 0; i < 33; ++i) names.push_back("h" + std::to_string(i));
    std::vector<lessor::Header> headers;
    for (int i = 0; i < 32; ++i) headers.push_back({names[static_cast<size_t>(i)], "v"});
    CHECK(Why(produce("", headers)) == "ok");
    headers.push_back({names[32], "v"});
    Refusals refused(world.broker);
    refused("invalid_argument", produce("", headers));
  }
  SECTION("256 bytes of name") {
    const std::string name = Repeat("\xC3\xA4", 128);
    CHECK(Why(produce("", {{name, ""}})) == "ok");
    Refusals refused(world.broker);
    refused("invalid_argument", produce("", {{name + "x", ""}}));
    refused("invalid_argument", produce("", {{"", "value"}}));
  }
  SECTION("8,192 bytes of value") {
    const std::string value(8'192, 'v');
    CHECK(Why(produce("", {{"n", value}})) == "ok");
    Refusals refused(world.broker);
    refused("invalid_argument", produce("", {{"n", value + "v"}}));
  }
  SECTION("65,536 bytes of names and values") {
    const std::string value(8'190, 'v');
    std::vector<std::string> names;
    for (int i = 10; i < 19; ++i) names.push_back(std::to_string(i));
    std::vector<lessor::Header> headers;
    for (size_t i = 0; i < 8; ++i) headers.push_back({names[i], value});
    CHECK(Why(produce("", headers)) == "ok");
    const std::string longer = value + "v";
    headers[7].value = longer;
    Refusals refused(world.broker);
    refused("invalid_argument", produce("", headers));
  }
  SECTION("names once each, and UTF-8") {
    CHECK(Why(produce("\xff\xfe", {{"a", "1"}, {"A", "1"}})) == "ok");
    Refusals refused(world.broker);
    refused("invalid_argument", produce("", {{"a", "1"}, {"b", "2"}, {"a", "1"}}));
    for (const std::string_view bad :
         {"\xff", "\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80", "ok\xE2\x82"}) {
      refused("invalid_argument", produce("", {{bad, "v"}}));
      refused("invalid_argument", produce("", {{"n", bad}}));
    }
  }
}

TEST_CASE("one produce has 5,000,000 bytes at most", "[stream][S4]") {
  World world;
  const std::string megabyte(1'000'000, 'x');
  std::vector<lessor::Record> records(5, {.content = megabyte});
  CHECK(world.stream.Produce(records)->count == 5);
  CHECK(Why(world.stream.Produce(std::vector<lessor::Record>(6, {.content = ""}))) == "ok");
  Refusals refused(world.broker);
  records.push_back({.content = "x"});
  refused("produce_too_large", world.stream.Produce(records));
  records.back() = {.content = "", .headers = {}};
  CHECK(Why(world.stream.Produce(records)) == "ok");
}

TEST_CASE("a produce that breaks several limits reports headers, then records, then the sum",
          "[stream][S4]") {
  World world;
  const std::string over(1'000'001, 'x');
  std::vector<lessor::Header> twice = {{"n", ""}, {"n", ""}};
  std::vector<lessor::Record> records(5, {.content = over});
  Refusals refused(world.broker);
  refused("record_too_large", world.stream.Produce(records));
  records.push_back({.content = "", .headers = twice});
  refused("invalid_argument", world.stream.Produce(records));
  const std::string megabyte(1'000'000, 'x');
  for (lessor::Record& record : records) record = {.content = megabyte};
  refused("produce_too_large", world.stream.Produce(records));
  records[5] = {.content = over};
  refused("record_too_large", world.stream.Produce(records));
}

TEST_CASE("a record leaves exactly when its retention is over", "[stream][S5]") {
  World world;
  REQUIRE(world.stream.Update({.retention = Ms(kHourMs)}).ok());
  world.Produce(2);
  world.GoTo(1);
  world.Produce(1);
  CHECK(world.broker.NextRetention() == world.T(kHourMs));
  world.GoTo(kHourMs - 1);
  CHECK(world.At().available == 3);
  CHECK(world.broker.GetStats().records == 3);
  world.GoTo(kHourMs);
  CHECK(world.At().available == 1);
  CHECK(world.broker.GetStats().records == 1);
  CHECK(world.broker.NextRetention() == world.T(kHourMs + 1));
  world.GoTo(kHourMs + 1);
  CHECK(IsEmpty(world.Take("w")));
  CHECK(world.At().skipped == 3);
  CHECK(world.At().committed == 3);
  CHECK(world.broker.NextRetention() == absl::InfiniteFuture());
}

TEST_CASE("a shorter retention works at once, and a longer one brings nothing back",
          "[stream][S5]") {
  World world;
  world.Produce(1);
  world.GoTo(kHourMs);
  world.Produce(1);
  CHECK(world.stream.Update({.retention = Ms(kHourMs)}).ok());
  CHECK(world.At().available == 1);
  CHECK(world.At().skipped == 1);
  CHECK(world.stream.Update({.retention = absl::Seconds(2'592'000)}).ok());
  CHECK(world.At().available == 1);
  CHECK(Offsets(world.Take("w", 9)) == "1");
  const auto later = *world.stream.Subscribe({.name = "later"});
  CHECK(Offsets(later.Consume({.worker = "w"})) == "1");
}

TEST_CASE("a lease pins its records for its holder, and nobody counts them as skipped",
          "[stream][S5][S25]") {
  World world;
  REQUIRE(world.stream.Update({.retention = Ms(kHourMs)}).ok());
  world.Produce(4);
  world.GoTo(kHourMs - 1000);
  const auto batch = world.Lease("w1", 2);
  world.GoTo(kHourMs);
  auto at = world.At();
  CHECK(at.leased == 2);
  CHECK(at.skipped == 2);  // 2 and 3, which nobody held.
  CHECK(at.committed == 0);
  CHECK(at.available == 0);
  CHECK(world.broker.GetStats().records == 0);
  const auto again = world.Take("w1");
  CHECK(Offsets(again) == "0 1");
  CHECK(again->id() == batch.id());
  CHECK(Contents(*again) == "x x");

  SECTION("acked, they are processed") {
    CHECK(Why(world.sub.Ack(batch, "w1")) == "ok");
    CHECK(world.At().skipped == 2);
  }
  SECTION("nacked, they are skipped") {
    CHECK(Why(world.sub.Nack(batch, "w1")) == "ok");
    CHECK(world.At().skipped == 4);
    CHECK(IsEmpty(world.Take("w2")));
  }
  SECTION("expired, they are skipped, and stay so after a late ack") {
    world.GoTo(kHourMs + kLeaseMs);
    CHECK(world.At().skipped == 4);
    CHECK(Why(world.sub.Ack(batch, "w1")) == "ok");
    CHECK(world.At().skipped == 4);
  }
  CHECK(world.At().leased == 0);
  CHECK(world.At().committed == 4);
}

TEST_CASE("consuming removes nothing, and the same record twice is two records", "[stream][S6]") {
  World world;
  world.Produce(1);
  world.Produce(1);
  REQUIRE(Why(world.sub.Ack(world.Lease("w", 9), "w")) == "ok");
  CHECK(world.broker.GetStats().records == 2);
  const auto other = *world.stream.Subscribe({.name = "other"});
  CHECK(Contents(*other.Consume({.worker = "w"})) == "x x");
}

// --- Subscriptions ---

TEST_CASE("a subscription's name is 1 to 128 letters, digits, underscores and hyphens",
          "[subscription][S7]") {
  World world;
  const std::string longest(128, 'n');
  CHECK(Why(world.stream.Subscribe({.name = "-"})) == "ok");
  CHECK(Why(world.stream.Subscribe({.name = longest})) == "ok");
  Refusals refused(world.broker);
  for (const std::string& bad : {std::string(), longest + "n", std::string("a b"),
                                 std::string("a\0", 2), std::string("\xC3\xA4")}) {
    refused("invalid_argument", world.stream.Subscribe({.name = bad}));
  }
  world.GoTo(9);
  const auto info =
      *world.stream.Subscribe({.name = "Mine_1", .start_at = StartAt::kLatest})->Info();
  CHECK(info.name == "Mine_1");
  CHECK(info.start_at == StartAt::kLatest);
  CHECK(info.id.ToString().size() == 32);
  CHECK(info.created_at == world.T(9));
  CHECK(info.modified_at == world.T(9));
}

TEST_CASE("the same name and settings give the same subscription, other settings are refused",
          "[subscription][S8]") {
  World world;
  const std::string before = world.State();
  CHECK(world.stream.Subscribe({.name = "INGESTION"})->id() == world.sub.id());
  Refusals refused(world.broker);
  refused("name_taken",
          world.stream.Subscribe({.name = "ingestion", .start_at = StartAt::kLatest}));
  CHECK(world.State() == before);
  CHECK(world.sub.Info()->name == "ingestion");
}

TEST_CASE("a stream has 100 subscriptions at most, and at the limit still finds the ones it has",
          "[subscription][S8]") {
  World world;
  for (int i = 1; i < 100; ++i) {
    REQUIRE(Why(world.stream.Subscribe({.name = "s" + std::to_string(i)})) == "ok");
  }
  Refusals refused(world.broker);
  refused("subscription_limit", world.stream.Subscribe({.name = "s100"}));
  refused("name_taken", world.stream.Subscribe({.name = "S5", .start_at = StartAt::kLatest}));
  CHECK(world.stream.Subscribe({.name = "S5"})->id() == world.stream.OpenSubscription("s5")->id());
  CHECK(lessor::FactsOf(Reason::kSubscriptionLimit).wire_code == 10219);
  REQUIRE(Why(world.sub.Delete()) == "ok");
  CHECK(Why(world.stream.Subscribe({.name = "s100"})) == "ok");
}

TEST_CASE("earliest starts at the oldest retained record, latest after the newest",
          "[subscription][S9]") {
  World world;
  REQUIRE(world.stream.Update({.retention = Ms(kHourMs)}).ok());
  world.Produce(1);
  world.GoTo(1);
  world.Produce(2);
  world.GoTo(kHourMs);
  const auto earliest = *world.stream.Subscribe({.name = "earliest"});
  const auto latest = *world.stream.Subscribe({.name = "latest", .start_at = StartAt::kLatest});
  CHECK(earliest.GetPosition()->committed == 1);
  CHECK(earliest.GetPosition()->skipped == 0);
  CHECK(latest.GetPosition()->committed == 3);
  CHECK(latest.GetPosition()->lag() == 0);
  CHECK(IsEmpty(latest.Consume({.worker = "w"})));
  world.Produce(1);
  CHECK(Offsets(latest.Consume({.worker = "w"})) == "3");
  CHECK(Offsets(earliest.Consume({.worker = "w"})) == "1 2 3");
}

TEST_CASE("subscriptions are listed oldest first and found by name", "[subscription][S10]") {
  World world;
  REQUIRE(world.stream.Subscribe({.name = "b"}).ok());
  REQUIRE(world.stream.Subscribe({.name = "a"}).ok());
  const auto all = *world.stream.ListSubscriptions();
  REQUIRE(all.size() == 3);
  CHECK(all[0].name == "ingestion");
  CHECK(all[1].name == "b");
  CHECK(all[2].name == "a");
  CHECK(world.broker.ListSubscriptions(world.stream.id(), "A")->size() == 1);
  CHECK(world.broker.ListSubscriptions(world.stream.id(), "c")->empty());
  CHECK(world.broker.ListSubscriptions(world.stream.id(), "")->empty());
  CHECK(Why(world.stream.OpenSubscription("c")) == "no_such_subscription");
  CHECK(world.stream.OpenSubscription("B")->id() == all[1].id);
}

/// Every call on a subscription, by name.
std::map<std::string, absl::Status> CallAll(const lessor::Subscription& sub,
                                            lessor::BatchId batch) {
  return {{"consume", sub.Consume({.worker = "w"}).status()},
          {"blocking consume",
           sub.Consume({.worker = "w", .wait_until = absl::InfiniteFuture()}).status()},
          {"ack", sub.Ack(batch, "w")},
          {"nack", sub.Nack(batch, "w")},
          {"extend", sub.Extend(batch, "w").status()},
          {"position", sub.GetPosition().status()},
          {"explain", sub.Explain().status()},
          {"info", sub.Info().status()},
          {"delete", sub.Delete()}};
}

TEST_CASE("every call on a deleted subscription is refused, and others are not disturbed",
          "[subscription][S10]") {
  World world;
  world.Produce(2);
  const auto other = *world.stream.Subscribe({.name = "other"});
  const auto batch = world.Lease("w");
  const auto kept = *other.Consume({.worker = "w"});
  REQUIRE(Why(world.sub.Delete()) == "ok");
  Refusals refused(world.broker);
  for (const auto& [call, status] : CallAll(world.sub, batch.id())) {
    CAPTURE(call);
    refused("no_such_subscription", status);
  }
  CHECK(world.stream.ListLeases()->size() == 1);
  CHECK(other.Consume({.worker = "w"})->id() == kept.id());
  // Recreated, it is another one, which starts anew.
  const auto again = *world.stream.Subscribe({.name = "ingestion"});
  CHECK(again.id() != world.sub.id());
  CHECK(Offsets(again.Consume({.worker = "w2"})) == "0 1");
  CHECK(Why(world.sub.Ack(batch, "w")) == "no_such_subscription");
  CHECK(Contents(batch) == "x");
}

TEST_CASE("every call on a deleted stream is refused, and the stream is looked up first",
          "[stream][S10]") {
  World world;
  world.Produce(1);
  const auto batch = world.Lease("w");
  const lessor::Subscription unknown(world.broker, {world.stream.id(), {1, 1}});
  REQUIRE(Why(world.stream.Delete()) == "ok");
  Refusals refused(world.broker);
  for (const auto& sub : {world.sub, unknown}) {
    for (const auto& [call, status] : CallAll(sub, batch.id())) {
      CAPTURE(call);
      refused("no_such_stream", status);
    }
  }
  refused("no_such_stream", world.stream.Info());
  refused("no_such_stream", world.stream.Update({.http = true}));
  refused("no_such_stream", world.stream.Delete());
  refused("no_such_stream", world.stream.Produce({{.content = "x"}}));
  refused("no_such_stream", world.stream.Subscribe({.name = "n"}));
  refused("no_such_stream", world.stream.ListSubscriptions());
  refused("no_such_stream", world.stream.OpenSubscription("ingestion"));
  refused("no_such_stream", world.stream.ListLeases());
  CHECK(world.broker.ListStreams()->empty());
  CHECK(world.broker.GetStats().records == 0);
  CHECK(world.broker.GetStats().active_leases == 0);
  CHECK(world.broker.NextDeadline() == absl::InfiniteFuture());
}

TEST_CASE("ids that are all zero, or another's, name nothing", "[stream][S10]") {
  World world;
  world.Produce(1);
  const auto batch = world.Lease("w");
  const lessor::Subscription no_stream(world.broker, {{}, world.sub.id()});
  const lessor::Subscription no_sub(world.broker, {world.stream.id(), {}});
  Refusals refused(world.broker);
  for (const auto& [call, status] : CallAll(no_stream, batch.id())) {
    refused("no_such_stream", status);
  }
  for (const auto& [call, status] : CallAll(no_sub, batch.id())) {
    refused("no_such_subscription", status);
  }
  refused("ok", world.sub.Ack(lessor::BatchId(), "w"));
  refused("ok", world.sub.Nack(lessor::BatchId(), "w"));
  refused("lease_not_held", world.sub.Extend(lessor::BatchId(), "w"));
  refused("ok", world.sub.Ack(lessor::BatchId{1, 2}, "w"));
}

TEST_CASE("every subscription receives every record, at its own pace", "[subscription][S11]") {
  World world;
  const auto other = *world.stream.Subscribe({.name = "other"});
  std::string seen;
  std::string seen_by_other;
  for (int i = 0; i < 5; ++i) {
    world.Produce(2);
    const auto batch = world.Lease("w", 1);
    seen += Offsets(batch) + " ";
    REQUIRE(Why(world.sub.Ack(batch, "w")) == "ok");
  }
  for (;;) {
    const auto batch = *other.Consume({.worker = "w", .max_records = 3});
    if (batch.empty()) break;
    seen_by_other += Offsets(batch) + " ";
    REQUIRE(Why(other.Ack(batch, "w")) == "ok");
  }
  CHECK(seen == "0 1 2 3 4 ");
  CHECK(seen_by_other == "0 1 2 3 4 5 6 7 8 9 ");
  CHECK(world.At().available == 5);
}

// --- Leasing a batch ---

TEST_CASE("a worker id is 1 to 256 characters of UTF-8, for every call", "[lease][S12]") {
  World world;
  world.Produce(3);
  const auto batch = world.Lease("w");
  world.GoTo(1000);
  const std::string smiley = "\xF0\x9F\x98\x80";
  const std::string bad[] = {std::string(),
                             std::string(257, 'w'),
                             Repeat(smiley, 257),
                             Repeat("\xC3\xA4", 257),
                             std::string(1'025, 'w'),
                             std::string(100'000'000, 'w'),
                             "\xff",
                             "w\x80",
                             "\xC0\xAF",
                             "\xED\xBF\xBF",
                             "\xF5\x80\x80\x80",
                             smiley.substr(0, 3),
                             std::string(255, 'w') + "\xC3"};
  Refusals refused(world.broker);
  for (const std::string& worker : bad) {
    CAPTURE(worker.size());
    refused("invalid_argument", world.Take(worker));
    refused("invalid_argument", world.sub.Ack(batch, worker));
    refused("invalid_argument", world.sub.Nack(batch, worker));
    refused("invalid_argument", world.sub.Extend(batch, worker));
    refused("invalid_argument",
            world.sub.Consume({.worker = worker, .wait_until = absl::InfiniteFuture()}));
  }
  for (const std::string& worker : {Repeat(smiley, 256), std::string(256, 'w')}) {
    CHECK(Why(world.sub.Ack(world.Lease(worker), worker)) == "ok");
  }
  const std::string nul(1, '\0');  // A character as any other.
  REQUIRE(world.stream.Produce({{.content = "y"}}).ok());
  CHECK(world.Lease(nul).size() == 1);
  CHECK(world.stream.ListLeases()->back().worker == nul);
}

TEST_CASE("max_records is 1 to 10,000, and a refused consume refreshes nothing", "[lease][S12]") {
  World world;
  const std::vector<lessor::Record> many(10'000, {.content = ""});
  REQUIRE(world.stream.Produce(many).ok());
  REQUIRE(world.stream.Produce(many).ok());
  const auto batch = world.Lease("w", 1);
  world.GoTo(1000);
  Refusals refused(world.broker);
  for (const int64_t bad :
       {int64_t{0}, int64_t{-1}, int64_t{10'001}, std::numeric_limits<int64_t>::max(),
        std::numeric_limits<int64_t>::min()}) {
    refused("invalid_argument", world.Take("w", bad));
    refused("invalid_argument", world.Take("w2", bad));
  }
  CHECK(world.stream.ListLeases()->front().leased_until == world.T(kLeaseMs));
  CHECK(world.Lease("w2", 10'000).size() == 10'000);
  CHECK(world.Lease("w3", 1).size() == 1);
}

TEST_CASE("arguments are judged before anything is looked up", "[lease][S12][S10]") {
  World world;
  const lessor::Stream nowhere(world.broker, {9, 9});
  const lessor::Subscription nothing(world.broker, {nowhere.id(), {9, 9}});
  Refusals refused(world.broker);
  refused("invalid_argument", nothing.Consume({.worker = ""}));
  refused("invalid_argument", nothing.Consume({.worker = "w", .max_records = 0}));
  refused("invalid_argument", nothing.Ack(lessor::BatchId(), ""));
  refused("invalid_argument", nothing.Nack(lessor::BatchId(), ""));
  refused("invalid_argument", nothing.Extend(lessor::BatchId(), ""));
  refused("invalid_argument", nowhere.Produce({}));
  refused("invalid_argument", nowhere.Subscribe({.name = ""}));
  refused("invalid_argument", nowhere.Update({}));
  refused("invalid_argument", nowhere.Update({.retention = absl::ZeroDuration()}));
  refused("no_such_stream", nothing.Consume({.worker = "w"}));
}

TEST_CASE("the holder is given its batch again and its lease is refreshed, never shortened",
          "[lease][S13]") {
  World world;
  world.Produce(5);
  const auto batch = world.Lease("w", 3);
  CHECK(batch.leased_until() == world.T(kLeaseMs));
  world.GoTo(1000);
  const auto again = world.Lease("w", 1);
  CHECK(again.id() == batch.id());
  CHECK(Offsets(again) == "0 1 2");
  CHECK(again.leased_until() == world.T(kLeaseMs + 1000));
  world.GoTo(500);  // The clock steps back.
  CHECK(world.Lease("w", 9).leased_until() == world.T(kLeaseMs + 1000));
  world.GoTo(kLeaseMs + 999);
  CHECK(world.Lease("w").id() == batch.id());
  world.GoTo(2 * kLeaseMs + 999);
  const auto fresh = world.Lease("w", 9);
  CHECK(fresh.id() != batch.id());
  CHECK(Offsets(fresh) == "0 1 2 3 4");
}

TEST_CASE("the 129th lease is refused, even if nothing could be delivered", "[lease][S14]") {
  World world;
  world.Produce(130);
  std::vector<lessor::Batch> batches;
  for (int i = 0; i < 128; ++i) batches.push_back(world.Lease("w" + std::to_string(i)));
  Refusals refused(world.broker);
  refused("lease_limit", world.Take("w128"));
  CHECK(world.At().available == 2);
  CHECK(world.Lease("w5").id() == batches[5].id());
  REQUIRE(Why(world.sub.Ack(batches[5], "w5")) == "ok");
  CHECK(Offsets(world.Lease("w128", 9)) == "128 129");
  CHECK(world.At().available == 0);
  CHECK(Why(world.Take("w129")) == "lease_limit");
  // Another subscription has leases of its own.
  CHECK(world.stream.Subscribe({.name = "other"})->Consume({.worker = "w"})->size() == 100);
  world.GoTo(kLeaseMs);
  CHECK(world.Lease("w129").size() == 1);
}

TEST_CASE("lease_limit_first = false gives the empty batch where nothing is available",
          "[lease][S14][policy]") {
  World world({.max_active_leases = 1}, {.lease_limit_first = false});
  world.Produce(1);
  const auto batch = world.Lease("w1");
  CHECK(IsEmpty(world.Take("w2")));
  CHECK(world.sub.Explain()->answer == Answer::kAllLeased);
  world.Produce(1);
  CHECK(Why(world.Take("w2")) == "lease_limit");
  CHECK(world.sub.Explain()->answer == Answer::kLeaseLimit);
}

TEST_CASE("a batch is of the lowest available offsets, redelivered and new ones together",
          "[lease][S15]") {
  World world;
  world.Produce(6);
  const auto a = world.Lease("a", 2);
  const auto b = world.Lease("b", 2);
  REQUIRE(Why(world.sub.Nack(a, "a")) == "ok");
  CHECK(Offsets(world.Lease("c", 3)) == "0 1 4");
  REQUIRE(Why(world.sub.Nack(b, "b")) == "ok");
  CHECK(Offsets(world.Lease("d", 9)) == "2 3 5");
}

TEST_CASE("a batch has 10,000,000 bytes at most, but always a record", "[lease][S15]") {
  World world;
  const std::string megabyte(1'000'000, 'x');
  for (int i = 0; i < 10; ++i) REQUIRE(world.stream.Produce({{.content = megabyte}}).ok());
  REQUIRE(world.stream.Produce({{.content = ""}, {.content = "x"}, {.content = ""}}).ok());
  // 10,000,000 exactly: what has no bytes still fits, what has one ends the batch.
  CHECK(Offsets(world.Lease("w1", 100)) == "0 1 2 3 4 5 6 7 8 9 10");
  CHECK(Offsets(world.Lease("w2", 100)) == "11 12");
}

TEST_CASE("headers count in a batch, and nothing is passed over", "[lease][S15]") {
  World world({.max_batch_bytes = 10});
  REQUIRE(world.stream
              .Produce({{.content = "12345", .headers = {{"n", "v"}}},
                        {.content = "123", .headers = {{"n", ""}}},
                        {.content = ""},
                        {.content = "1"}})
              .ok());
  CHECK(Offsets(world.Lease("w1", 9)) == "0");
  CHECK(Offsets(world.Lease("w2", 9)) == "1 2 3");
  REQUIRE(world.stream.Produce({{.content = "more than ten bytes"}, {.content = ""}}).ok());
  CHECK(Offsets(world.Lease("w3", 9)) == "4");
  CHECK(Offsets(world.Lease("w4", 9)) == "5");
}

TEST_CASE("the empty batch has no id and changes nothing", "[lease][S15]") {
  World world;
  const std::string before = world.State();
  const auto batch = world.Take("w");
  CHECK(IsEmpty(batch));
  CHECK(batch->begin() == batch->end());
  CHECK(world.State() == before);
  CHECK(Why(world.sub.Ack(*batch, "w")) == "ok");
  CHECK(world.State() == before);
}

TEST_CASE("a batch id is fresh, and a lease lasts 300,000 ms", "[lease][S16]") {
  World world;
  world.Produce(3);
  std::set<std::string> ids;
  for (int i = 0; i < 50; ++i) {
    const auto batch = world.Lease("w");
    ids.insert(batch.id().ToString());
    CHECK(batch.leased_until() == world.T(i + kLeaseMs));
    REQUIRE(Why(world.sub.Nack(batch, "w")) == "ok");
    world.GoTo(i + 1);
  }
  CHECK(ids.size() == 50);
  CHECK(ids.begin()->size() == 32);
}

TEST_CASE("a lease is active before leased_until and has expired at it", "[lease][S17][S23]") {
  World world;
  world.Produce(1);
  const auto batch = world.Lease("w1");
  world.GoTo(kLeaseMs - 1);
  CHECK(IsEmpty(world.Take("w2")));
  CHECK(world.stream.ListLeases()->size() == 1);
  world.clock.AdvanceTo(world.T(kLeaseMs) - absl::Nanoseconds(1));
  CHECK(IsEmpty(world.Take("w2")));
  world.GoTo(kLeaseMs);
  CHECK(world.stream.ListLeases()->empty());
  const auto again = world.Lease("w2");
  CHECK(again.id() != batch.id());
  CHECK(Offsets(again) == "0");
}

TEST_CASE("no record is in two active leases, and a worker holds one", "[lease][S18]") {
  World world;
  world.Produce(10);
  std::set<lessor::Offset> leased;
  for (int i = 0; i < 5; ++i) {
    const std::string worker = "w" + std::to_string(i);
    const auto batch = world.Lease(worker, 2);
    for (const auto record : batch) CHECK(leased.insert(record.offset()).second);
    CHECK(world.Lease(worker, 2).id() == batch.id());
  }
  CHECK(world.stream.ListLeases()->size() == 5);
  CHECK(world.At().leased == 10);
}

TEST_CASE("the longest batch that is allowed is always given", "[lease][S19]") {
  World world;
  // Across segments, and with records of many instants.
  const std::string content(1000, 'x');
  for (int i = 0; i < 1'000; ++i) {
    world.GoTo(i);
    REQUIRE(world.stream.Produce({{.content = content}}).ok());
  }
  const auto batch = world.Lease("w", 1'000);
  CHECK(batch.size() == 1'000);
  CHECK(batch.back().offset() == 999);
}

// --- Ending or extending a lease ---

TEST_CASE("an ack counts while the lease is active, from whichever worker", "[lease][S20]") {
  World world;
  world.Produce(2);
  const auto batch = world.Lease("w1", 2);
  CHECK(Why(world.sub.Ack(batch, "somebody else")) == "ok");
  CHECK(world.At().committed == 2);
  CHECK(world.At().active_leases == 0);
  Refusals refused(world.broker);
  refused("ok", world.sub.Ack(batch, "w1"));
  refused("ok", world.sub.Nack(batch, "w1"));
  refused("lease_not_held", world.sub.Extend(batch, "w1"));
  CHECK(world.broker.GetStats().acks == 1);
}

TEST_CASE("an expired batch can be acked or nacked until one of its records is redelivered",
          "[lease][S20][S21]") {
  World world;
  world.Produce(3);
  const auto batch = world.Lease("w1", 3);
  world.GoTo(kLeaseMs);
  SECTION("acked") {
    CHECK(Why(world.sub.Ack(batch, "w1")) == "ok");
    CHECK(world.At().committed == 3);
    CHECK(IsEmpty(world.Take("w2")));
  }
  SECTION("nacked, after which its ack is too late") {
    CHECK(Why(world.sub.Nack(batch, "w1")) == "ok");
    Refusals refused(world.broker);
    refused("ok", world.sub.Ack(batch, "w1"));
    CHECK(Offsets(world.Lease("w2", 9)) == "0 1 2");
  }
  SECTION("redelivered in part") {
    const auto again = world.Lease("w2", 1);
    Refusals refused(world.broker);
    refused("ok", world.sub.Ack(batch, "w1"));
    refused("ok", world.sub.Nack(batch, "w1"));
    REQUIRE(Why(world.sub.Nack(again, "w2")) == "ok");
    Refusals later(world.broker);
    later("ok", world.sub.Ack(batch, "w1"));
    CHECK(world.At().available == 3);
  }
}

TEST_CASE("late_ack = never makes an expired batch dead at once", "[lease][S20][S21][policy]") {
  World world({}, {.late_ack = StreamPolicy::LateAck::kNever});
  world.Produce(2);
  const auto batch = world.Lease("w1", 2);
  world.GoTo(kLeaseMs - 1);
  const auto other = *world.stream.Subscribe({.name = "other"});
  const auto in_time = *other.Consume({.worker = "w"});
  world.GoTo(kLeaseMs);
  Refusals refused(world.broker);
  refused("ok", world.sub.Ack(batch, "w1"));
  refused("ok", world.sub.Nack(batch, "w1"));
  CHECK(world.broker.GetStats().acks == 0);
  CHECK(world.broker.GetStats().nacks == 0);
  CHECK(Why(other.Ack(in_time, "w")) == "ok");
  CHECK(other.GetPosition()->committed == 2);
  CHECK(Offsets(world.Lease("w2", 9)) == "0 1");
}

TEST_CASE("a nack makes the records available at once, under a new id", "[lease][S21]") {
  World world;
  world.Produce(2);
  const auto batch = world.Lease("w1", 2);
  CHECK(Why(world.sub.Nack(batch, "somebody else")) == "ok");
  CHECK(world.At().available == 2);
  CHECK(world.At().committed == 0);
  const auto again = world.Lease("w1", 2);
  CHECK(again.id() != batch.id());
  Refusals refused(world.broker);
  refused("ok", world.sub.Ack(batch, "w1"));
  refused("ok", world.sub.Nack(batch, "w1"));
  refused("lease_not_held", world.sub.Extend(batch, "w1"));
}

TEST_CASE("a batch of another subscription is unknown", "[lease][S20][S21][S22]") {
  World world;
  world.Produce(1);
  const auto other = *world.stream.Subscribe({.name = "other"});
  const auto batch = world.Lease("w");
  Refusals refused(world.broker);
  refused("ok", other.Ack(batch, "w"));
  refused("ok", other.Nack(batch, "w"));
  refused("lease_not_held", other.Extend(batch, "w"));
}

TEST_CASE("only the holder of an active lease extends it, and never shortens it", "[lease][S22]") {
  World world;
  world.Produce(1);
  const auto batch = world.Lease("w");
  world.GoTo(1000);
  Refusals refused(world.broker);
  refused("lease_not_held", world.sub.Extend(batch, "W"));
  refused("lease_not_held", world.sub.Extend(lessor::BatchId{5, 5}, "w"));
  CHECK(*world.sub.Extend(batch, "w") == world.T(kLeaseMs + 1000));
  CHECK(world.stream.ListLeases()->front().leased_until == world.T(kLeaseMs + 1000));
  world.GoTo(0);
  CHECK(*world.sub.Extend(batch, "w") == world.T(kLeaseMs + 1000));
  world.GoTo(kLeaseMs + 999);
  CHECK(*world.sub.Extend(batch, "w") == world.T(2 * kLeaseMs + 999));
  world.GoTo(2 * kLeaseMs + 999);
  CHECK(Why(world.sub.Extend(batch, "w")) == "lease_not_held");
  CHECK(world.At().available == 1);
}

TEST_CASE("expiry makes records available to anyone, the former holder included", "[lease][S23]") {
  World world;
  world.Produce(2);
  const auto batch = world.Lease("w", 2);
  CHECK(world.broker.NextDeadline() == world.T(kLeaseMs));
  world.GoTo(kLeaseMs);
  CHECK(world.broker.NextDeadline() == absl::InfiniteFuture());
  const auto own = world.Lease("w", 1);
  CHECK(own.id() != batch.id());
  CHECK(Offsets(own) == "0");
  CHECK(Offsets(world.Lease("w2", 1)) == "1");
  CHECK(world.broker.GetStats().expiries == 1);
}

TEST_CASE("the position moves over gaps only when they are acked, in any order", "[lease][S24]") {
  World world;
  world.Produce(6);
  const auto a = world.Lease("a", 2);
  const auto b = world.Lease("b", 2);
  const auto c = world.Lease("c", 2);
  REQUIRE(Why(world.sub.Ack(c, "c")) == "ok");
  CHECK(world.At().committed == 0);
  CHECK(world.At().lag() == 6);
  REQUIRE(Why(world.sub.Nack(a, "a")) == "ok");
  REQUIRE(Why(world.sub.Ack(b, "b")) == "ok");
  CHECK(world.At().committed == 0);
  CHECK(world.At().available == 2);
  REQUIRE(Why(world.sub.Ack(world.Lease("d", 1), "d")) == "ok");
  CHECK(world.At().committed == 1);
  REQUIRE(Why(world.sub.Ack(world.Lease("d", 9), "d")) == "ok");
  CHECK(world.At().committed == 6);
}

TEST_CASE("a subscription behind retention goes on at the oldest record, and counts",
          "[subscription][S25]") {
  World world;
  REQUIRE(world.stream.Update({.retention = Ms(kHourMs)}).ok());
  world.Produce(3);
  REQUIRE(Why(world.sub.Ack(world.Lease("w", 1), "w")) == "ok");
  world.GoTo(kHourMs - 1);
  world.Produce(1);
  CHECK(world.At().skipped == 0);
  world.GoTo(kHourMs);
  CHECK(world.At().skipped == 2);
  CHECK(world.At().committed == 3);
  CHECK(Offsets(world.Lease("w", 9)) == "3");
  CHECK(world.sub.Explain()->sentence.find("2") != std::string::npos);
}

TEST_CASE("a nacked range is skipped in part when retention passes through it",
          "[subscription][S25]") {
  World world;
  REQUIRE(world.stream.Update({.retention = Ms(kHourMs)}).ok());
  world.Produce(2);
  world.GoTo(10);
  world.Produce(2);
  const auto batch = world.Lease("w", 4);
  REQUIRE(Why(world.sub.Nack(batch, "w")) == "ok");
  world.GoTo(kHourMs);
  CHECK(world.At().skipped == 2);
  CHECK(Offsets(world.Lease("w", 9)) == "2 3");
  // The same while it is expired, and can still be acked.
  world.GoTo(kHourMs + 5);
  CHECK(world.At().skipped == 2);
}

// --- Time ---

TEST_CASE("time never goes back, and every call on the Broker sees it", "[time][S26]") {
  World world;
  world.Produce(1);
  const auto batch = world.Lease("w1");
  const auto other = *world.broker.CreateStream({.name = "other"});
  // Each sees the end of the lease, is refused or only looks, and the clock steps back.
  const lessor::Stream nowhere(world.broker, {9, 9});
  const lessor::Subscription nothing(world.broker, {nowhere.id(), {9, 9}});
  const std::map<std::string, std::function<void()>> calls = {
      {"a consume without a worker", [&] { (void)world.sub.Consume({.worker = ""}); }},
      {"max_records of 0", [&] { (void)world.sub.Consume({.worker = "w", .max_records = 0}); }},
      {"a refused ack", [&] { (void)world.sub.Ack(batch, ""); }},
      {"a refused nack", [&] { (void)world.sub.Nack(batch, ""); }},
      {"a refused extend", [&] { (void)world.sub.Extend(batch, ""); }},
      {"an empty produce", [&] { (void)world.stream.Produce({}); }},
      {"a refused creation", [&] { (void)world.broker.CreateStream({.name = ""}); }},
      {"a taken name", [&] { (void)world.broker.CreateStream({.name = "Orders"}); }},
      {"a refused update", [&] { (void)world.stream.Update({}); }},
      {"a refused subscribe", [&] { (void)world.stream.Subscribe({.name = ""}); }},
      {"no such stream", [&] { (void)nowhere.Info(); }},
      {"no such stream's consume", [&] { (void)nothing.Consume({.worker = "w"}); }},
      {"a look at another stream", [&] { (void)other.Info(); }},
      {"a produce to another stream", [&] { (void)other.Produce({{.content = "x"}}); }},
      {"a list of leases", [&] { (void)other.ListLeases(); }},
      {"a list of streams", [&] { (void)world.broker.ListStreams(); }},
      {"a position", [&] { (void)world.sub.GetPosition(); }},
      {"an explanation", [&] { (void)world.sub.Explain(); }},
      {"stats", [&] { (void)world.broker.GetStats(); }},
      {"the next deadline", [&] { (void)world.broker.NextDeadline(); }},
      {"the next retention", [&] { (void)world.broker.NextRetention(); }},
      {"a delete of nothing", [&] { (void)nothing.Delete(); }},
  };
  int64_t now = 0;
  for (const auto& [name, call] : calls) {
    CAPTURE(name);
    const auto held = world.Lease("w1");
    const absl::Time until = held.leased_until();
    now = absl::ToInt64Milliseconds(until - world.T(0));
    world.GoTo(now);
    call();
    world.GoTo(now - 1000);
    CHECK(Why(world.sub.Extend(held, "w1")) == "lease_not_held");
    CHECK(world.At().active_leases == 0);
    CHECK(world.stream.Produce({{.content = "y"}})->timestamp == until);
  }
}

TEST_CASE("clocks at the ends of time are survived", "[time][S26]") {
  const absl::Time ends[] = {absl::InfinitePast(), absl::InfiniteFuture(), absl::UnixEpoch(),
                             absl::FromUnixSeconds(std::numeric_limits<int64_t>::max()),
                             absl::FromUnixSeconds(std::numeric_limits<int64_t>::min())};
  for (const absl::Time first : ends) {
    for (const absl::Time then : ends) {
      World world;
      world.clock.AdvanceTo(first);
      world.Produce(3);
      const auto batch = world.Lease("w", 2);
      CHECK(Offsets(batch) == "0 1");
      (void)world.State();
      world.clock.AdvanceTo(then);
      (void)world.State();
      world.Produce(1);
      (void)world.sub.Extend(batch, "w");
      CHECK(Why(world.sub.Nack(batch, "w")) == "ok");
      CHECK(world.sub.Consume({.worker = "w2", .wait_until = absl::InfinitePast()}).ok());
      CHECK(world.sub.Explain()->sentence.size() > 3);
      CHECK(Why(world.stream.Delete()) == "ok");
    }
  }
}

// --- Position, explanation, statistics ---

TEST_CASE("an explanation says for each state why a consume gives what it gives",
          "[subscription][S30]") {
  World world({.max_active_leases = 2});
  const auto explain = [&] {
    const auto explanation = world.sub.Explain();
    REQUIRE(Why(explanation) == "ok");
    CHECK_FALSE(explanation->sentence.empty());
    const auto position = world.At();
    CHECK(explanation->position.committed == position.committed);
    CHECK(explanation->position.available == position.available);
    CHECK(explanation->position.leased == position.leased);
    CHECK(explanation->position.end == position.end);
    return *explanation;
  };
  CHECK(explain().answer == Answer::kNothingProduced);
  CHECK(explain().next_lease_end == absl::InfiniteFuture());
  world.Produce(2);
  CHECK(explain().answer == Answer::kRecords);
  const auto a = world.Lease("a");
  CHECK(explain().answer == Answer::kRecords);
  CHECK(explain().next_lease_end == world.T(kLeaseMs));
  world.GoTo(1000);
  const auto b = world.Lease("b");
  CHECK(explain().answer == Answer::kLeaseLimit);
  CHECK(explain().position.active_leases == 2);
  CHECK(explain().next_lease_end == world.T(kLeaseMs));
  REQUIRE(Why(world.sub.Ack(a, "a")) == "ok");
  CHECK(explain().answer == Answer::kAllLeased);
  CHECK(explain().next_lease_end == world.T(kLeaseMs + 1000));
  REQUIRE(Why(world.sub.Ack(b, "b")) == "ok");
  CHECK(explain().answer == Answer::kCaughtUp);
  CHECK(explain().position.lag() == 0);
  const auto latest = *world.stream.Subscribe({.name = "latest", .start_at = StartAt::kLatest});
  CHECK(latest.Explain()->answer == Answer::kNothingProduced);
}

TEST_CASE("the available records are counted even at the lease limit", "[subscription][S30]") {
  World world({.max_active_leases = 1});
  world.Produce(5);
  const auto a = world.Lease("a", 2);
  CHECK(world.At().available == 3);
  CHECK(world.At().leased == 2);
  CHECK(Why(world.Take("b")) == "lease_limit");
}

TEST_CASE("leases are listed by subscription, oldest first, in the order of granting",
          "[stream][S30]") {
  World world;
  world.Produce(6);
  const auto other = *world.stream.Subscribe({.name = "other"});
  const auto late = *other.Consume({.worker = "z", .max_records = 3});
  const auto b = world.Lease("b", 2);
  const auto a = world.Lease("a", 1);
  world.GoTo(100);
  REQUIRE(world.sub.Extend(b, "b").ok());
  const auto leases = *world.stream.ListLeases();
  REQUIRE(leases.size() == 3);
  CHECK(leases[0].worker == "b");
  CHECK(leases[0].subscription == world.sub.id());
  CHECK(leases[0].batch == b.id());
  CHECK(leases[0].leased_until == world.T(kLeaseMs + 100));
  CHECK(leases[0].first == 0);
  CHECK(leases[0].records == 2);
  CHECK(leases[1].worker == "a");
  CHECK(leases[1].first == 2);
  CHECK(leases[2].worker == "z");
  CHECK(leases[2].subscription == other.id());
  CHECK(leases[2].batch == late.id());
  CHECK(world.broker.NextDeadline() == world.T(kLeaseMs));
}

TEST_CASE("the statistics count what happened and what is held", "[broker]") {
  World world;
  world.Produce(4);                    // 4 records of 1 + 8 bytes.
  const auto a = world.Lease("a", 2);  // 0 1
  const auto b = world.Lease("b", 1);  // 2
  (void)world.Lease("a");              // Refreshed.
  REQUIRE(world.sub.Extend(a, "a").ok());
  REQUIRE(Why(world.sub.Ack(a, "a")) == "ok");
  REQUIRE(Why(world.sub.Ack(a, "a")) == "ok");  // Does not count.
  REQUIRE(Why(world.sub.Nack(b, "b")) == "ok");
  const auto c = world.Lease("c", 9);  // 2, again, and 3
  CHECK(Offsets(c) == "2 3");
  lessor::Stats stats = world.broker.GetStats();
  CHECK(stats.streams == 1);
  CHECK(stats.subscriptions == 1);
  CHECK(stats.records == 4);
  CHECK(stats.bytes == 36);
  CHECK(stats.bytes_allocated >= stats.bytes);
  CHECK(stats.active_leases == 1);
  CHECK(stats.waiters == 0);
  CHECK(stats.produced == 4);
  CHECK(stats.delivered == 5);
  CHECK(stats.redelivered == 1);
  CHECK(stats.leases == 3);
  CHECK(stats.refreshes == 1);
  CHECK(stats.extends == 1);
  CHECK(stats.acks == 1);
  CHECK(stats.nacks == 1);
  CHECK(stats.expiries == 0);
  CHECK(stats.reloads == 0);
  world.GoTo(kLeaseMs);
  CHECK(world.broker.GetStats().expiries == 1);
  REQUIRE(Why(world.stream.Delete()) == "ok");
  stats = world.broker.GetStats();
  CHECK(stats.streams == 0);
  CHECK(stats.subscriptions == 0);
  CHECK(stats.records == 0);
  CHECK(stats.bytes == 0);
  CHECK(stats.produced == 4);
  CHECK(stats.leases == 3);
  CHECK(stats.expiries == 1);
}

TEST_CASE("the next retention is that of the oldest record of any stream", "[broker][S5]") {
  World world;
  const auto other = *world.broker.CreateStream({.name = "other", .retention = Ms(kHourMs)});
  CHECK(world.broker.NextRetention() == absl::InfiniteFuture());
  world.Produce(1);
  CHECK(world.broker.NextRetention() == world.T(0) + absl::Seconds(604'800));
  world.GoTo(50);
  REQUIRE(other.Produce({{.content = "x"}}).ok());
  CHECK(world.broker.NextRetention() == world.T(kHourMs + 50));
  CHECK(world.broker.NextDeadline() == absl::InfiniteFuture());
}

TEST_CASE("redelivery = whole_batch mixes a released batch with nothing", "[lease][S15][policy]") {
  World world({}, {.redelivery = StreamPolicy::Redelivery::kWholeBatch});
  world.Produce(8);
  const auto a = world.Lease("a", 2);
  const auto b = world.Lease("b", 2);
  const auto c = world.Lease("c", 2);
  REQUIRE(Why(world.sub.Nack(a, "a")) == "ok");
  REQUIRE(Why(world.sub.Nack(c, "c")) == "ok");
  world.GoTo(kLeaseMs);  // b expires.
  CHECK(world.At().available == 8);
  CHECK(Offsets(world.Lease("d", 9)) == "0 1");
  const auto part = world.Lease("e", 1);  // Only part of b's is wanted.
  CHECK(Offsets(part) == "2");
  CHECK(Offsets(world.Lease("f", 9)) == "3");
  CHECK(Offsets(world.Lease("g", 9)) == "4 5");
  CHECK(Offsets(world.Lease("h", 9)) == "6 7");
}

// --- Concurrency ---

TEST_CASE("concurrent calls behave as if done one at a time", "[broker][S28][S18]") {
  World world;
  std::vector<std::thread> threads;
  std::vector<std::vector<lessor::Offset>> acked(4);
  std::vector<std::vector<lessor::Offset>> produced(4);
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::string worker = "w" + std::to_string(t);
      for (int i = 0; i < 100; ++i) {
        const auto appended = world.stream.Produce({{.content = worker}, {.content = worker}});
        if (appended.ok()) produced[t].push_back(appended->first);
        const auto batch = world.sub.Consume({.worker = worker, .max_records = 3});
        if (!batch.ok() || batch->empty()) continue;
        if (i % 4 == 3) {
          (void)world.sub.Nack(*batch, worker);
        } else if (world.sub.Ack(*batch, worker).ok()) {
          for (const auto record : *batch) acked[t].push_back(record.offset());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<lessor::Offset> firsts;
  std::set<lessor::Offset> all;
  for (size_t t = 0; t < 4; ++t) {
    CHECK(produced[t].size() == 100);
    for (const lessor::Offset first : produced[t]) CHECK(firsts.insert(first).second);
    for (const lessor::Offset offset : acked[t]) CHECK(all.insert(offset).second);
  }
  const auto at = world.At();
  CHECK(at.end == 800);
  CHECK(all.size() + at.available + at.leased == 800);
}

}  // namespace
}  // namespace lessor_tests
