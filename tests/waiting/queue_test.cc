// Who among the waiters is woken, and how often.
#include <cstddef>
#include <mutex>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "catch.h"
#include "lessor/broker.h"
#include "lessor/error.h"
#include "lessor/stream.h"
#include "waiting/fixture.h"

namespace lessor_tests {
namespace {

using lessor::Reason;

TEST_CASE("waiters are served in the order in which they came", "[waiting][fifo]") {
  World world;
  constexpr size_t kWaiters = 10;
  for (size_t i = 0; i < kWaiters; ++i) world.Block("w" + std::to_string(i));
  for (size_t i = 0; i < kWaiters; ++i) {
    world.Produce();
    CHECK(world.calls.Next() == i);
    CHECK(IsRecord(world.calls.AnswerOf(i), i));
  }
}

TEST_CASE("a worker that comes later does not overtake those who wait", "[waiting][fifo]") {
  World world;
  world.Produce();
  const lessor::Batch leased = world.Lease("holder");
  const size_t first = world.Block("first");
  const size_t second = world.Block("second");
  REQUIRE(world.subscription.Nack(leased, "holder").ok());
  // The former holder queues up behind the two, whether or not they are back already.
  const size_t third = world.Launch("holder");
  REQUIRE(IsRecord(world.calls.AnswerOf(first), 0));
  CHECK(world.calls.Next() == first);
  world.clock.AwaitInside(2);
  world.Produce();
  CHECK(world.calls.Next() == second);
  CHECK(IsRecord(world.calls.AnswerOf(second), 1));
  world.Produce();
  CHECK(world.calls.Next() == third);
}

TEST_CASE("waiters of different subscriptions do not hold each other up", "[waiting][fifo][S11]") {
  World world;
  const auto other = world.stream.Subscribe({.name = "other"});
  REQUIRE(other.ok());
  const size_t a = world.Block("a");
  const size_t b = world.calls.Start(
      [&] { return other->Consume({.worker = "b", .wait_until = absl::InfiniteFuture()}); });
  world.clock.AwaitInside(2);
  world.Produce();
  CHECK(IsRecord(world.calls.AnswerOf(a), 0));
  CHECK(IsRecord(world.calls.AnswerOf(b), 0));
  CHECK(world.clock.returns() == 2);
}

TEST_CASE("one record wakes one of 128 waiters, and the next in line once to set its time",
          "[waiting][herd]") {
  constexpr size_t kWaiters = 128;
  World world;
  for (size_t i = 0; i < kWaiters; ++i) world.Block("w" + std::to_string(i));
  REQUIRE(world.clock.calls() == kWaiters);
  REQUIRE(world.clock.returns() == 0);

  world.Produce();
  CHECK(world.calls.Next() == 0);
  // The new first in line sleeps until the lease that began ends: it is woken to learn of it.
  world.clock.AwaitCalls(kWaiters + 1);
  CHECK(world.clock.returns() == 2);
  CHECK(world.calls.ended() == 1);

  // So it goes on. A wake-up too many anywhere would show in the sum once all are back.
  for (size_t i = 1; i < kWaiters; ++i) {
    world.Produce();
    CHECK(world.calls.Next() == i);
    if (i + 1 < kWaiters) world.clock.AwaitCalls(static_cast<int>(kWaiters + i + 1));
  }
  world.calls.JoinAll();
  CHECK(world.clock.returns() == 2 * kWaiters - 1);
}

TEST_CASE("one lease end wakes one of 128 waiters", "[waiting][herd]") {
  constexpr size_t kWaiters = 128;
  World world;
  world.Produce();
  const lessor::Batch leased = world.Lease("dead");
  for (size_t i = 0; i < kWaiters; ++i) world.Block("w" + std::to_string(i));
  while (world.clock.blocked() < static_cast<int>(kWaiters)) std::this_thread::yield();
  world.clock.AdvanceTo(leased.leased_until());
  CHECK(world.calls.Next() == 0);
  CHECK(IsRecord(world.calls.AnswerOf(0), 0));
  world.clock.AwaitCalls(kWaiters + 1);
  CHECK(world.clock.returns() == 2);
  CHECK(world.calls.ended() == 1);
}

TEST_CASE("batches that become deliverable at once reach as many waiters", "[waiting][herd]") {
  World world;
  SECTION("by one produce") {
    for (size_t i = 0; i < 5; ++i) world.Block("w" + std::to_string(i));
    REQUIRE(world.stream.Produce({{.content = "0"}, {.content = "1"}, {.content = "2"}}).ok());
    for (size_t i = 0; i < 3; ++i) CHECK(IsRecord(world.calls.AnswerOf(i), i));
    world.clock.AwaitCalls(6);
    CHECK(world.clock.returns() == 4);
    CHECK(world.calls.ended() == 3);
  }
  SECTION("by one lease end") {
    REQUIRE(world.stream.Produce({{.content = "0"}, {.content = "1"}, {.content = "2"}}).ok());
    const lessor::Batch leased = world.Lease("dead", 3);
    for (size_t i = 0; i < 5; ++i) world.Block("w" + std::to_string(i));
    world.clock.AdvanceTo(leased.leased_until());
    for (size_t i = 0; i < 3; ++i) CHECK(IsRecord(world.calls.AnswerOf(i), i));
    world.clock.AwaitInside(2);
    CHECK(world.calls.ended() == 3);
  }
  SECTION("and a waiter that asks for more gets all that is there") {
    world.Block("a", absl::InfiniteFuture(), 2);
    world.Block("b", absl::InfiniteFuture(), 100);
    REQUIRE(world.stream.Produce({{.content = "0"}, {.content = "1"}, {.content = "2"}}).ok());
    CHECK(world.calls.AnswerOf(0)->size() == 2);
    CHECK(IsRecord(world.calls.AnswerOf(1), 2));
  }
}

// A clock whose threads stay in Wait, however often they are woken, while the gate is closed.
class GatedClock final : public CountingClock {
 public:
  void Wait(lessor::Waiter& waiter, absl::Time until) override {
    CountingClock::Wait(waiter, until);
    const std::lock_guard lock(gate);
  }
  std::mutex gate;
};

TEST_CASE("a woken waiter whose record another took keeps its place", "[waiting][fifo]") {
  BasicWorld<GatedClock> world;
  const size_t first = world.Block("first");
  const size_t second = world.Block("second");
  {
    const std::lock_guard closed(world.clock.gate);
    world.Produce();  // Wakes the first, which cannot come back yet.
    CHECK(IsRecord(world.Take("thief"), 0));
  }
  world.clock.AwaitCalls(3);  // It looked in vain.
  CHECK(world.calls.ended() == 0);
  world.Produce();
  CHECK(world.calls.Next() == first);
  CHECK(IsRecord(world.calls.AnswerOf(first), 1));
  world.Produce();
  CHECK(world.calls.Next() == second);
  CHECK(IsRecord(world.calls.AnswerOf(second), 2));
}

TEST_CASE("a woken waiter that is cancelled passes its wake-up on", "[waiting][fifo]") {
  BasicWorld<GatedClock> world;
  std::stop_source stop;
  const size_t first = world.Block("first", absl::InfiniteFuture(), 1, stop.get_token());
  const size_t second = world.Block("second");
  {
    const std::lock_guard closed(world.clock.gate);
    world.Produce();  // Wakes the first, which is then cancelled before it can come back.
    stop.request_stop();
  }
  CHECK(ReasonOf(world.calls.AnswerOf(first)) == Reason::kCancelled);
  CHECK(IsRecord(world.calls.AnswerOf(second), 0));
}

TEST_CASE("a woken waiter whose deadline passes meanwhile is still served", "[waiting][fifo]") {
  BasicWorld<GatedClock> world;
  const size_t first = world.Block("first", world.start + absl::Seconds(5));
  const size_t second = world.Block("second");
  {
    const std::lock_guard closed(world.clock.gate);
    world.Produce();
    world.clock.Advance(absl::Seconds(5));
  }
  CHECK(IsRecord(world.calls.AnswerOf(first), 0));
  world.Produce();
  CHECK(IsRecord(world.calls.AnswerOf(second), 1));
}

TEST_CASE("when the first in line gives up, the next one minds the lease ends", "[waiting][fifo]") {
  World world;
  world.Produce();
  const lessor::Batch leased = world.Lease("dead");
  std::stop_source stop;
  size_t first = 0;
  SECTION("by its stop token") {
    first = world.Block("first", absl::InfiniteFuture(), 1, stop.get_token());
    world.Block("second");
    stop.request_stop();
    CHECK(ReasonOf(world.calls.AnswerOf(first)) == Reason::kCancelled);
  }
  SECTION("by its deadline") {
    first = world.Block("first", world.start + absl::Seconds(1));
    world.Block("second");
    world.clock.Advance(absl::Seconds(1));
    CHECK(IsEmptyBatch(world.calls.AnswerOf(first)));
  }
  world.clock.AdvanceTo(leased.leased_until());
  CHECK(IsRecord(world.calls.AnswerOf(first + 1), 0));
}

TEST_CASE("cancelling one in the middle of the line leaves the others in order",
          "[waiting][fifo]") {
  World world;
  std::stop_source stop;
  world.Block("a");
  world.Block("b", absl::InfiniteFuture(), 1, stop.get_token());
  world.Block("c");
  stop.request_stop();
  CHECK(world.calls.Next() == 1);
  world.Produce();
  CHECK(world.calls.Next() == 0);
  world.Produce();
  CHECK(world.calls.Next() == 2);
}

TEST_CASE("a Wait that returns at once now and then changes nothing", "[waiting][clock]") {
  class ImpatientClock final : public CountingClock {
   private:
    bool ReturnsEarly() override {
      const std::lock_guard lock(mutex_);
      return random_() % 2 == 0;
    }
    std::mutex mutex_;
    std::minstd_rand random_{1};
  };

  SECTION("for the order of service") {
    BasicWorld<ImpatientClock> world;
    for (size_t i = 0; i < 20; ++i) {
      world.Block("w" + std::to_string(i));
      // The others' waits are counted too: only all inside at once tells that this one is.
      world.clock.AwaitInside(static_cast<int>(i + 1));
    }
    for (size_t i = 0; i < 20; ++i) {
      world.Produce();
      CHECK(world.calls.Next() == i);
      CHECK(IsRecord(world.calls.AnswerOf(i), i));
    }
  }
  SECTION("for deadlines") {
    for (int i = 0; i < 50; ++i) {
      BasicWorld<ImpatientClock> world;
      const size_t call = world.Block("w", world.start + absl::Seconds(5));
      world.clock.Advance(absl::Seconds(5) - absl::Milliseconds(1));
      CHECK(world.calls.ended() == 0);
      world.clock.Advance(absl::Milliseconds(1));
      CHECK(IsEmptyBatch(world.calls.AnswerOf(call)));
    }
  }
  SECTION("for lease ends") {
    for (int i = 0; i < 50; ++i) {
      BasicWorld<ImpatientClock> world;
      world.Produce();
      const lessor::Batch leased = world.Lease("dead");
      const size_t call = world.Block("w");
      world.clock.AdvanceTo(leased.leased_until());
      CHECK(IsRecord(world.calls.AnswerOf(call), 0));
    }
  }
  SECTION("for Shutdown") {
    for (int i = 0; i < 50; ++i) {
      BasicWorld<ImpatientClock> world;
      const size_t call = world.Block("w");
      world.broker->Shutdown();
      CHECK(ReasonOf(world.calls.AnswerOf(call)) == Reason::kCancelled);
    }
  }
}

}  // namespace
}  // namespace lessor_tests
