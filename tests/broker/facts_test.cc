// What the public API promises beside the scenario files: policies, explanations, deadlines,
// counts, memory, hostile arguments.
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "catch.h"
#include "lessor/lessor.h"
#include "lessor/testing/sequential_ids.h"
#include "lessor/testing/simulated_clock.h"

namespace lessor_tests {
namespace {

using lessor::Explanation;
using lessor::Reason;
using lessor::ReasonOf;

struct World {
  explicit World(const lessor::Limits& limits = {}, const lessor::StreamPolicy& policy = {})
      : broker({.clock = &clock, .ids = &ids, .limits = limits, .policy = policy}),
        stream(*broker.CreateStream({.name = "orders"})),
        subscription(*stream.Subscribe({.name = "s"})) {}

  void Produce(int records) {
    for (int i = 0; i < records; ++i) REQUIRE(stream.Produce({{.content = "record"}}).ok());
  }
  std::string Take(std::string_view worker, int64_t max_records = 100) {
    const auto batch = subscription.Consume({.worker = worker, .max_records = max_records});
    if (!batch.ok()) return std::string(lessor::FactsOf(ReasonOf(batch.status())).name);
    std::string offsets;
    for (const lessor::RecordView record : *batch) offsets += std::to_string(record.offset()) + " ";
    return offsets;
  }

  lessor_testing::SimulatedClock clock;
  lessor_testing::SequentialIds ids;
  lessor::Broker broker;
  lessor::Stream stream;
  lessor::Subscription subscription;
};

TEST_CASE("with late_ack never an expired batch is dead at once", "[policy][S20][S21]") {
  World world({}, {.late_ack = lessor::StreamPolicy::LateAck::kNever});
  world.Produce(2);
  const auto batch = *world.subscription.Consume({.worker = "w"});
  world.clock.Advance(absl::Seconds(300));
  CHECK(world.subscription.Ack(batch, "w").ok());
  CHECK(world.subscription.GetPosition()->committed == 0);
  CHECK(world.Take("v") == "0 1 ");
}

TEST_CASE("with redelivery whole_batch released records come back as they were grouped",
          "[policy][S15]") {
  World world({}, {.redelivery = lessor::StreamPolicy::Redelivery::kWholeBatch});
  world.Produce(6);
  const auto first = *world.subscription.Consume({.worker = "a", .max_records = 2});
  const auto second = *world.subscription.Consume({.worker = "b", .max_records = 3});
  REQUIRE(world.subscription.Nack(second, "b").ok());
  REQUIRE(world.subscription.Nack(first, "a").ok());
  CHECK(world.Take("c") == "0 1 ");
  CHECK(world.Take("d", 2) == "2 3 ");
  CHECK(world.Take("e") == "4 ");
  CHECK(world.Take("f") == "5 ");
}

TEST_CASE("with lease_limit_first off an empty answer comes before the lease limit",
          "[policy][S14]") {
  for (const bool first : {true, false}) {
    World world({.max_active_leases = 1}, {.lease_limit_first = first});
    world.Produce(1);
    REQUIRE(world.Take("a") == "0 ");
    CHECK(world.Take("b") == (first ? "lease_limit" : ""));
    world.Produce(1);
    CHECK(world.Take("b") == "lease_limit");
  }
}

TEST_CASE("an explanation says why a consume gives what it gives", "[explain][S30]") {
  World world({.max_active_leases = 2});
  const auto explain = [&] {
    const Explanation explanation = *world.subscription.Explain();
    CHECK_FALSE(explanation.sentence.empty());
    return explanation;
  };
  CHECK(explain().answer == Explanation::Answer::kNothingProduced);
  CHECK(explain().next_lease_end == absl::InfiniteFuture());
  world.Produce(2);
  CHECK(explain().answer == Explanation::Answer::kRecords);
  REQUIRE(world.Take("a") == "0 1 ");
  CHECK(explain().answer == Explanation::Answer::kAllLeased);
  CHECK(explain().next_lease_end == world.clock.Now() + absl::Seconds(300));
  CHECK(explain().position.leased == 2);
  world.Produce(2);
  REQUIRE(world.Take("b", 1) == "2 ");
  CHECK(explain().answer == Explanation::Answer::kLeaseLimit);
  world.clock.Advance(absl::Seconds(300));
  const auto all = *world.subscription.Consume({.worker = "c"});
  REQUIRE(world.subscription.Ack(all, "c").ok());
  CHECK(explain().answer == Explanation::Answer::kCaughtUp);
  CHECK(explain().position.lag() == 0);
}

TEST_CASE("the next deadline is the earliest lease end and the next retention the oldest record's",
          "[time][S23][S5]") {
  World world;
  CHECK(world.broker.NextDeadline() == absl::InfiniteFuture());
  CHECK(world.broker.NextRetention() == absl::InfiniteFuture());
  const absl::Time start = world.clock.Now();
  world.Produce(2);
  REQUIRE(world.Take("a", 1) == "0 ");
  world.clock.Advance(absl::Seconds(1));
  REQUIRE(world.Take("b", 1) == "1 ");
  CHECK(world.broker.NextDeadline() == start + absl::Seconds(300));
  CHECK(world.broker.NextRetention() == start + absl::Seconds(604'800));
  world.clock.AdvanceTo(start + absl::Seconds(300));
  CHECK(world.broker.NextDeadline() == start + absl::Seconds(301));
  world.clock.AdvanceTo(start + absl::Seconds(604'800));
  CHECK(world.broker.NextDeadline() == absl::InfiniteFuture());
  CHECK(world.broker.NextRetention() == absl::InfiniteFuture());
}

TEST_CASE("what is held and what has happened is counted", "[stats]") {
  World world;
  world.Produce(3);
  const auto batch = *world.subscription.Consume({.worker = "a", .max_records = 2});
  REQUIRE(world.Take("a") == "0 1 ");
  REQUIRE(world.subscription.Extend(batch, "a").ok());
  const auto leases = *world.stream.ListLeases();
  REQUIRE(leases.size() == 1);
  CHECK(leases[0].worker == "a");
  CHECK(leases[0].batch == batch.id());
  CHECK(leases[0].records == 2);
  CHECK(leases[0].leased_until == world.clock.Now() + absl::Seconds(300));
  lessor::Stats stats = world.broker.GetStats();
  CHECK(stats.streams == 1);
  CHECK(stats.subscriptions == 1);
  CHECK(stats.records == 3);
  CHECK(stats.bytes == 3 * (6 + 8));
  CHECK(stats.active_leases == 1);
  CHECK(stats.leases == 1);
  CHECK(stats.refreshes == 1);
  CHECK(stats.extends == 1);
  CHECK(stats.delivered == 2);
  CHECK(stats.redelivered == 0);
  world.clock.Advance(absl::Seconds(300));
  const auto again = *world.subscription.Consume({.worker = "b"});
  REQUIRE(world.subscription.Ack(again, "b").ok());
  stats = world.broker.GetStats();
  CHECK(stats.expiries == 1);
  CHECK(stats.delivered == 5);
  CHECK(stats.redelivered == 2);
  CHECK(stats.acks == 1);
  CHECK(stats.active_leases == 0);
  REQUIRE(world.stream.Delete().ok());
  stats = world.broker.GetStats();
  CHECK(stats.streams == 0);
  CHECK(stats.bytes == 0);
  CHECK(stats.produced == 3);
}

TEST_CASE("a limit on bytes held is exact and leaves nothing of a refused produce", "[S31]") {
  World world({.max_bytes_held = 100});
  CHECK(world.stream.Produce({{.content = std::string(92, 'x')}}).ok());
  CHECK(ReasonOf(world.stream.Produce({{}}).status()) == Reason::kFull);
  CHECK(lessor::WireCodeOf(world.stream.Produce({{}}).status()) == 10211);
  CHECK(world.broker.GetStats().records == 1);
  CHECK(world.broker.GetStats().bytes == 100);
}

TEST_CASE("what retention removes from one stream makes room in another", "[S31][S5]") {
  World world({.max_bytes_held = 100});
  const auto brief =
      *world.broker.CreateStream({.name = "brief", .retention = absl::Seconds(3600)});
  REQUIRE(brief.Produce({{.content = std::string(92, 'x')}}).ok());
  CHECK(ReasonOf(world.stream.Produce({{}}).status()) == Reason::kFull);
  world.clock.Advance(absl::Seconds(3600));
  CHECK(world.stream.Produce({{}}).ok());
}

TEST_CASE("limits that make no sense are refused when a broker is opened", "[limits]") {
  const auto refused = [](const lessor::Limits& limits) {
    return ReasonOf(lessor::Broker::Open({.limits = limits}).status()) == Reason::kInvalidArgument;
  };
  CHECK(refused({.lease = absl::ZeroDuration()}));
  CHECK(refused({.lease = -absl::Seconds(1)}));
  CHECK(refused({.lease = absl::InfiniteDuration()}));
  CHECK(refused({.max_streams = -1}));
  CHECK(refused({.max_consume_records = 0}));
  CHECK(refused({.max_record_bytes = int64_t{1} << 31}));
  CHECK(refused({.max_headers = 65'537}));
  CHECK_FALSE(refused({.lease = absl::Nanoseconds(1)}));
}

TEST_CASE("a lease of a fraction of a millisecond lasts a whole one", "[time][S16]") {
  World world({.lease = absl::Nanoseconds(1)});
  world.Produce(1);
  const auto batch = *world.subscription.Consume({.worker = "w"});
  CHECK(batch.leased_until() == world.clock.Now() + absl::Milliseconds(1));
}

TEST_CASE("a batch's views outlive its stream and its broker", "[batch]") {
  lessor::Batch batch;
  {
    World world;
    REQUIRE(
        world.stream.Produce({{.content = "kept", .headers = {{"name", "value"}, {"empty", ""}}}})
            .ok());
    batch = *world.subscription.Consume({.worker = "w"});
    REQUIRE(world.stream.Delete().ok());
  }
  REQUIRE(batch.size() == 1);
  CHECK(batch.front().content() == "kept");
  CHECK(batch.front().headers().size() == 2);
  CHECK(batch.front().headers().Find("name") == "value");
  CHECK(batch.front().headers().Find("empty") == "");
  CHECK(batch.front().headers().Find("none") == std::nullopt);
  const lessor::Batch moved = std::move(batch);
  CHECK(moved.back().size() == 4 + 9 + 5);
}

TEST_CASE("a refused call changes nothing, yet its time is seen", "[S12][S26]") {
  World world;
  world.Produce(1);
  const auto batch = *world.subscription.Consume({.worker = "w"});
  const absl::Time until = batch.leased_until();
  world.clock.Advance(absl::Seconds(10));
  for (const std::string& worker :
       {std::string(), std::string(257, 'w'), std::string("\xff"), std::string("\xc0\x80"),
        std::string("\xed\xa0\x80"), std::string("\xf4\x90\x80\x80"), std::string("\xe2\x82")}) {
    CHECK(ReasonOf(world.subscription.Consume({.worker = worker}).status()) ==
          Reason::kInvalidArgument);
    CHECK(ReasonOf(world.subscription.Ack(batch, worker)) == Reason::kInvalidArgument);
    CHECK(ReasonOf(world.subscription.Nack(batch, worker)) == Reason::kInvalidArgument);
    CHECK(ReasonOf(world.subscription.Extend(batch, worker).status()) == Reason::kInvalidArgument);
  }
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t max_records : {int64_t{0}, int64_t{-1}, int64_t{10'001}, kMost, -kMost - 1}) {
    CHECK(world.Take("w", max_records) == "invalid_argument");
  }
  CHECK(ReasonOf(world.stream.Produce(std::vector<lessor::Record>()).status()) ==
        Reason::kInvalidArgument);
  CHECK(ReasonOf(world.stream.Update({}).status()) == Reason::kInvalidArgument);
  CHECK(ReasonOf(world.stream.Update({.retention = absl::InfiniteDuration()}).status()) ==
        Reason::kInvalidArgument);
  CHECK(world.stream.ListLeases()->front().leased_until == until);
  CHECK(world.subscription.GetPosition()->leased == 1);
  // A refused call at the lease's end has seen that time, even if the clock goes back.
  world.clock.AdvanceTo(until);
  CHECK(world.Take("w", 0) == "invalid_argument");
  world.clock.Advance(-absl::Seconds(100));
  CHECK(world.subscription.GetPosition()->active_leases == 0);
}

TEST_CASE("a worker id of any bytes that are UTF-8 works", "[S12]") {
  World world;
  world.Produce(1);
  CHECK(world.Take(std::string_view("a\0b", 3)) == "0 ");
  CHECK(world.Take(std::string_view("a\0c", 3)).empty());
  CHECK(world.Take(std::string_view("a\0b", 3)) == "0 ");
}

TEST_CASE("a clock that shows no time at all does no harm", "[S26]") {
  for (const absl::Time time : {absl::InfinitePast(), absl::InfiniteFuture()}) {
    lessor_testing::SimulatedClock clock(time);
    lessor::Broker broker({.clock = &clock});
    const auto stream = *broker.CreateStream({.name = "s"});
    const auto subscription = *stream.Subscribe({.name = "s"});
    REQUIRE(stream.Produce({{.content = "record"}}).ok());
    const auto batch = subscription.Consume({.worker = "w"});
    REQUIRE(batch.ok());
    CHECK(batch->size() == 1);
    CHECK(subscription.Extend(*batch, "w").ok());
    CHECK(subscription.Ack(*batch, "w").ok());
    CHECK(broker.NextDeadline() == absl::InfiniteFuture());
  }
}

TEST_CASE("an id source that repeats itself is found out, and breaks nothing", "[S16]") {
  class Stuck final : public lessor::IdSource {
   public:
    explicit Stuck(lessor::RandomBits bits) : bits_(bits) {}
    lessor::RandomBits Next() override { return bits_; }

   private:
    lessor::RandomBits bits_;
  };
  Stuck zeros({0, 0});
  lessor::Broker none({.ids = &zeros});
  CHECK(ReasonOf(none.CreateStream({.name = "s"}).status()) == Reason::kInternal);
  Stuck ones({1, 1});
  lessor::Broker one({.ids = &ones});
  const auto stream = *one.CreateStream({.name = "s"});
  CHECK(ReasonOf(one.CreateStream({.name = "t"}).status()) == Reason::kInternal);
  const auto subscription = *stream.Subscribe({.name = "s"});
  CHECK(ReasonOf(stream.Subscribe({.name = "t"}).status()) == Reason::kInternal);
  REQUIRE(stream.Produce({{}, {}}).ok());
  CHECK(subscription.Consume({.worker = "a", .max_records = 1})->size() == 1);
  CHECK(ReasonOf(subscription.Consume({.worker = "b", .max_records = 1}).status()) ==
        Reason::kInternal);
  CHECK(subscription.GetPosition()->available == 1);
}

TEST_CASE("handles of a deleted stream and of nothing are refused", "[S10]") {
  World world;
  REQUIRE(world.stream.Delete().ok());
  CHECK(ReasonOf(world.stream.Delete()) == Reason::kNoSuchStream);
  CHECK(ReasonOf(world.stream.Info().status()) == Reason::kNoSuchStream);
  CHECK(ReasonOf(world.subscription.Explain().status()) == Reason::kNoSuchStream);
  CHECK(ReasonOf(lessor::Stream(world.broker, {}).Produce({{}}).status()) == Reason::kNoSuchStream);
  CHECK(ReasonOf(world.broker.OpenStream("orders").status()) == Reason::kNoSuchStream);
  // Its name is free, and another stream of that name is another one.
  const auto again = *world.broker.CreateStream({.name = "ORDERS"});
  CHECK(again.id() != world.stream.id());
  CHECK(world.broker.OpenStream("orders")->id() == again.id());
  CHECK(ReasonOf(again.OpenSubscription("s").status()) == Reason::kNoSuchSubscription);
}

TEST_CASE("the twenty-first stream is refused, a taken name before that", "[S1]") {
  lessor::Broker broker;
  for (int i = 0; i < 20; ++i) {
    REQUIRE(broker.CreateStream({.name = "s" + std::to_string(i)}).ok());
  }
  const absl::Status status = broker.CreateStream({.name = "one_more"}).status();
  CHECK(ReasonOf(status) == Reason::kStreamLimit);
  CHECK(lessor::WireCodeOf(status) == 10204);
  CHECK(ReasonOf(broker.CreateStream({.name = "S0"}).status()) == Reason::kNameTaken);
  REQUIRE(broker.OpenStream("s3")->Delete().ok());
  CHECK(broker.CreateStream({.name = "one_more"}).ok());
}

TEST_CASE("every reason has a name, a code, and none but its own", "[error]") {
  for (int i = 1; i <= static_cast<int>(Reason::kRaceLost); ++i) {
    const auto reason = static_cast<Reason>(i);
    const absl::Status status = lessor::MakeError(reason, "text");
    CHECK_FALSE(status.ok());
    CHECK(ReasonOf(status) == reason);
    CHECK(status.code() == lessor::FactsOf(reason).code);
    CHECK(lessor::WireCodeOf(status) == lessor::FactsOf(reason).wire_code);
  }
  CHECK(ReasonOf(absl::OkStatus()) == Reason::kNone);
  CHECK(ReasonOf(absl::InternalError("another library's")) == Reason::kNone);
}

TEST_CASE("a record of any legal size comes back whole", "[S2][S4]") {
  World world({.max_batch_bytes = 100'000'000, .max_record_bytes = 3'000'000});
  std::vector<std::string> contents;
  for (const size_t size : {0U, 1U, 7U, 262'135U, 262'136U, 262'137U, 1'000'000U, 3'000'000U, 0U}) {
    contents.emplace_back(size, static_cast<char>('a' + size % 26));
    REQUIRE(world.stream.Produce({{.content = contents.back()}}).ok());
  }
  const auto batch = *world.subscription.Consume({.worker = "w"});
  REQUIRE(batch.size() == contents.size());
  size_t i = 0;
  for (const lessor::RecordView record : batch) {
    CHECK(record.offset() == i);
    CHECK(record.content() == contents[i++]);
  }
  CHECK(batch[4].content() == contents[4]);
}

}  // namespace
}  // namespace lessor_tests
