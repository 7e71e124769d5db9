// A consume that waits: what ends it, when, and with what.
#include <cstddef>
#include <stop_token>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "catch.h"
#include "lessor/broker.h"
#include "lessor/clock.h"
#include "lessor/error.h"
#include "lessor/limits.h"
#include "lessor/stream.h"
#include "lessor/testing/simulated_clock.h"
#include "waiting/fixture.h"

namespace lessor_tests {
namespace {

using lessor::Reason;

TEST_CASE("a waiting consume is woken by a produce", "[waiting]") {
  World world;
  const size_t call = world.Block("w");
  world.Produce();
  CHECK(IsRecord(world.calls.AnswerOf(call), 0));
  CHECK(world.clock.returns() == 1);
}

TEST_CASE("a consume that finds records does not wait", "[waiting]") {
  World world;
  world.Produce();
  CHECK(IsRecord(world.calls.AnswerOf(world.Launch("w")), 0));
  CHECK(world.clock.calls() == 0);
}

TEST_CASE("a waiting consume is woken by a nack", "[waiting][S21]") {
  World world;
  world.Produce();
  const lessor::Batch leased = world.Lease("other");
  const size_t call = world.Block("w");
  REQUIRE(world.subscription.Nack(leased, "other").ok());
  CHECK(IsRecord(world.calls.AnswerOf(call), 0));
  CHECK(world.calls.AnswerOf(call)->id() != leased.id());
  CHECK(world.clock.returns() == 1);
}

TEST_CASE("a waiting consume is woken by an expiry that no other call sees", "[waiting][S23]") {
  World world;
  world.Produce();
  const lessor::Batch leased = world.Lease("dead");
  const size_t call = world.Block("w");
  while (world.clock.blocked() < 1) std::this_thread::yield();
  CHECK(world.clock.next_wake_up() == leased.leased_until());
  world.clock.AdvanceTo(leased.leased_until() - absl::Milliseconds(1));
  CHECK(world.clock.next_wake_up() == leased.leased_until());
  world.clock.AdvanceTo(leased.leased_until());
  CHECK(IsRecord(world.calls.AnswerOf(call), 0));
  CHECK(world.calls.AnswerOf(call)->leased_until() == leased.leased_until() + kLease);
  CHECK(world.clock.returns() == 1);
}

TEST_CASE("an expiry that another call sees wakes a waiting consume", "[waiting][S23]") {
  // A clock that does not wake anyone when it moves: only the Broker does.
  class DeafClock final : public CountingClock {
   public:
    absl::Time Now() override { return CountingClock::Now() + offset; }
    absl::Duration offset;
  };
  BasicWorld<DeafClock> world;
  world.Produce();
  world.Lease("dead");
  const size_t call = world.Block("w");
  world.clock.offset = kLease;
  REQUIRE(world.subscription.GetPosition().ok());
  CHECK(IsRecord(world.calls.AnswerOf(call), 0));
}

TEST_CASE("a refreshed lease keeps a waiting consume waiting until it ends", "[waiting][S13]") {
  World world;
  world.Produce();
  const lessor::Batch leased = world.Lease("slow");
  const size_t call = world.Block("w");
  world.clock.Advance(absl::Seconds(10));
  const auto extended = world.subscription.Extend(leased, "slow");
  REQUIRE(extended.ok());
  world.clock.AdvanceTo(leased.leased_until());
  world.clock.AwaitCalls(2);  // It looked in vain, and waits for the new end.
  while (world.clock.next_wake_up() != *extended) std::this_thread::yield();
  CHECK(world.calls.ended() == 0);
  world.clock.AdvanceTo(*extended);
  CHECK(IsRecord(world.calls.AnswerOf(call), 0));
  CHECK(world.clock.returns() == 2);
}

TEST_CASE("deleting the subscription ends a waiting consume", "[waiting][S10]") {
  World world;
  const size_t first = world.Block("w");
  const size_t second = world.Block("x");
  REQUIRE(world.subscription.Delete().ok());
  CHECK(ReasonOf(world.calls.AnswerOf(first)) == Reason::kNoSuchSubscription);
  CHECK(ReasonOf(world.calls.AnswerOf(second)) == Reason::kNoSuchSubscription);
  CHECK(world.broker->GetStats().waiters == 0);
}

TEST_CASE("deleting another subscription leaves a waiting consume alone", "[waiting][S10]") {
  World world;
  const auto other = world.stream.Subscribe({.name = "other"});
  REQUIRE(other.ok());
  const size_t call = world.Block("w");
  REQUIRE(other->Delete().ok());
  world.Produce();
  CHECK(IsRecord(world.calls.AnswerOf(call), 0));
  CHECK(world.clock.returns() == 1);
}

TEST_CASE("deleting the stream ends a waiting consume", "[waiting][S10]") {
  World world;
  const size_t first = world.Block("w");
  const size_t second = world.Block("x");
  REQUIRE(world.stream.Delete().ok());
  CHECK(ReasonOf(world.calls.AnswerOf(first)) == Reason::kNoSuchStream);
  CHECK(ReasonOf(world.calls.AnswerOf(second)) == Reason::kNoSuchStream);
}

TEST_CASE("a stream of the same name does not serve those who waited on the former one",
          "[waiting][S10]") {
  World world;
  const size_t call = world.Block("w");
  REQUIRE(world.stream.Delete().ok());
  const auto again = world.broker->CreateStream({.name = "orders"});
  REQUIRE(again.ok());
  REQUIRE(again->Subscribe({.name = "ingestion"}).ok());
  REQUIRE(again->Produce({{.content = "record"}}).ok());
  CHECK(ReasonOf(world.calls.AnswerOf(call)) == Reason::kNoSuchStream);
}

TEST_CASE("a stop token ends a waiting consume", "[waiting]") {
  World world;
  std::stop_source stop;
  const size_t call = world.Block("w", absl::InfiniteFuture(), 1, stop.get_token());
  stop.request_stop();
  CHECK(ReasonOf(world.calls.AnswerOf(call)) == Reason::kCancelled);
  CHECK(world.calls.AnswerOf(call).status().code() == absl::StatusCode::kCancelled);
  CHECK(world.broker->GetStats().waiters == 0);
  // Nothing was leased, and nothing is lost.
  world.Produce();
  CHECK(world.broker->GetStats().active_leases == 0);
  CHECK(IsRecord(world.Take("x"), 0));
}

TEST_CASE("a stop requested before the call cancels it at once", "[waiting]") {
  World world;
  std::stop_source stop;
  stop.request_stop();
  const auto answer = world.subscription.Consume(
      {.worker = "w", .wait_until = absl::InfiniteFuture(), .stop = stop.get_token()});
  CHECK(ReasonOf(answer) == Reason::kCancelled);
  CHECK(world.clock.calls() == 0);
  world.Produce();
  CHECK(ReasonOf(world.subscription.Consume(
            {.worker = "w", .wait_until = absl::InfiniteFuture(), .stop = stop.get_token()})) ==
        Reason::kCancelled);
  CHECK(world.broker->GetStats().leases == 0);
}

TEST_CASE("bad arguments are refused before any waiting", "[waiting][S12]") {
  World world;
  std::stop_source stop;
  stop.request_stop();
  CHECK(ReasonOf(world.subscription.Consume(
            {.worker = "", .wait_until = absl::InfiniteFuture(), .stop = stop.get_token()})) ==
        Reason::kInvalidArgument);
  CHECK(ReasonOf(world.subscription.Consume(
            {.worker = "w", .max_records = 0, .wait_until = absl::InfiniteFuture()})) ==
        Reason::kInvalidArgument);
  CHECK(world.clock.calls() == 0);
}

TEST_CASE("a waiting consume on what does not exist is refused at once", "[waiting][S10]") {
  World world;
  const lessor::Subscription nowhere(*world.broker, {world.stream.id(), {1, 2}});
  CHECK(ReasonOf(nowhere.Consume({.worker = "w", .wait_until = absl::InfiniteFuture()})) ==
        Reason::kNoSuchSubscription);
  const lessor::Subscription never(*world.broker, {{3, 4}, world.subscription.id()});
  CHECK(ReasonOf(never.Consume({.worker = "w", .wait_until = absl::InfiniteFuture()})) ==
        Reason::kNoSuchStream);
  CHECK(world.clock.calls() == 0);
}

TEST_CASE("a waiting consume ends exactly at its deadline with the empty batch", "[waiting]") {
  World world;
  const absl::Time deadline = world.start + absl::Seconds(5);
  const size_t call = world.Block("w", deadline);
  while (world.clock.blocked() < 1) std::this_thread::yield();
  CHECK(world.clock.next_wake_up() == deadline);
  world.clock.AdvanceTo(deadline - absl::Milliseconds(1));
  CHECK(world.clock.next_wake_up() == deadline);
  CHECK(world.calls.ended() == 0);
  // A wake-up that brings nothing does not end it before its time.
  world.Produce();
  CHECK(IsRecord(world.calls.AnswerOf(call), 0));

  const size_t second = world.Block("x", deadline);
  world.clock.AdvanceTo(deadline);
  CHECK(IsEmptyBatch(world.calls.AnswerOf(second)));
  CHECK(world.clock.returns() == 2);
  CHECK(world.broker->GetStats().waiters == 0);
}

TEST_CASE("a call made at the deadline does not wait, and one made 1 ms before does", "[waiting]") {
  World world;
  const absl::Time deadline = world.start + absl::Seconds(5);
  world.clock.AdvanceTo(deadline);
  CHECK(IsEmptyBatch(world.subscription.Consume({.worker = "w", .wait_until = deadline})));
  CHECK(world.clock.calls() == 0);
  const size_t call = world.Block("w", deadline + absl::Milliseconds(1));
  world.clock.Advance(absl::Milliseconds(1));
  CHECK(IsEmptyBatch(world.calls.AnswerOf(call)));
}

TEST_CASE("a deadline between two milliseconds is rounded up", "[waiting]") {
  World world;
  const absl::Time deadline = world.start + absl::Microseconds(100);
  const size_t call = world.Block("w", deadline);
  while (world.clock.blocked() < 1) std::this_thread::yield();
  CHECK(world.clock.next_wake_up() == world.start + absl::Milliseconds(1));
  world.clock.Advance(absl::Milliseconds(1));
  CHECK(IsEmptyBatch(world.calls.AnswerOf(call)));
  CHECK(world.clock.returns() == 1);
}

TEST_CASE("a deadline that has passed makes the call answer at once", "[waiting]") {
  World world;
  for (const absl::Time deadline :
       {absl::InfinitePast(), world.start - absl::Seconds(1), world.start}) {
    CHECK(IsEmptyBatch(world.subscription.Consume({.worker = "w", .wait_until = deadline})));
  }
  world.Produce();
  // What is there is given all the same.
  CHECK(IsRecord(world.subscription.Consume(
                     {.worker = "w", .max_records = 1, .wait_until = absl::InfinitePast()}),
                 0));
  CHECK(world.clock.calls() == 0);
}

TEST_CASE("a wait without end sleeps without a deadline", "[waiting]") {
  World world;
  const size_t call = world.Block("w");
  while (world.clock.blocked() < 1) std::this_thread::yield();
  CHECK(world.clock.next_wake_up() == absl::InfiniteFuture());
  CHECK(world.broker->NextDeadline() == absl::InfiniteFuture());
  world.clock.Advance(absl::Hours(24 * 365));
  world.Produce();
  CHECK(IsRecord(world.calls.AnswerOf(call), 0));
  CHECK(world.clock.returns() == 1);
}

TEST_CASE("a clock that steps back while a consume waits moves no deadline", "[waiting][S26]") {
  World world;
  const absl::Time deadline = world.start + absl::Seconds(5);
  const size_t call = world.Block("w", deadline);
  while (world.clock.blocked() < 1) std::this_thread::yield();
  world.clock.Advance(absl::Seconds(2));
  world.clock.Advance(-absl::Hours(1));
  CHECK(world.clock.next_wake_up() == deadline);
  CHECK(world.calls.ended() == 0);
  world.clock.AdvanceTo(deadline);
  CHECK(IsEmptyBatch(world.calls.AnswerOf(call)));
  CHECK(world.clock.returns() == 1);
}

TEST_CASE("a deadline that the Broker has seen pass is over, wherever the clock is now",
          "[waiting][S26]") {
  World world;
  world.clock.Advance(absl::Seconds(10));
  REQUIRE(world.subscription.GetPosition().ok());
  world.clock.Advance(-absl::Seconds(10));
  CHECK(IsEmptyBatch(
      world.subscription.Consume({.worker = "w", .wait_until = world.start + absl::Seconds(9)})));
  CHECK(world.clock.calls() == 0);
}

TEST_CASE("a waiting consume ends once another call has seen its deadline pass", "[waiting][S26]") {
  // The clock shows the later time only to the second caller, then goes back.
  class ExcursionClock final : public CountingClock {
   public:
    absl::Time Now() override { return CountingClock::Now() + offset; }
    absl::Duration offset;
  };
  BasicWorld<ExcursionClock> world;
  const size_t call = world.Block("w", world.start + absl::Seconds(5));
  world.clock.offset = absl::Seconds(6);
  REQUIRE(world.subscription.GetPosition().ok());
  CHECK(IsEmptyBatch(world.calls.AnswerOf(call)));
}

TEST_CASE("at the lease limit the form that does not wait is refused", "[waiting][S14]") {
  World world({.lease = kLease, .max_active_leases = 2});
  world.Produce(3);
  world.Lease("a");
  world.Lease("b");
  const auto refused = world.Take("c");
  CHECK(ReasonOf(refused) == Reason::kLeaseLimit);
  CHECK(lessor::WireCodeOf(refused.status()) == 10216);
}

TEST_CASE("at the lease limit a consume waits until a lease ends", "[waiting][S14]") {
  World world({.lease = kLease, .max_active_leases = 2});
  world.Produce(3);
  const lessor::Batch a = world.Lease("a");
  world.Lease("b");

  SECTION("by an ack") {
    const size_t call = world.Block("c");
    REQUIRE(world.subscription.Ack(a, "a").ok());
    CHECK(IsRecord(world.calls.AnswerOf(call), 2));
    CHECK(world.clock.returns() == 1);
  }
  SECTION("by a nack") {
    const size_t call = world.Block("c");
    REQUIRE(world.subscription.Nack(a, "a").ok());
    CHECK(IsRecord(world.calls.AnswerOf(call), 0));
    CHECK(world.clock.returns() == 1);
  }
  SECTION("by expiry") {
    const size_t call = world.Block("c");
    world.clock.AdvanceTo(a.leased_until());
    CHECK(IsRecord(world.calls.AnswerOf(call), 0));
    CHECK(world.clock.returns() == 1);
  }
  SECTION("or until its own deadline, with the empty batch") {
    const size_t call = world.Block("c", world.start + absl::Seconds(1));
    world.clock.Advance(absl::Seconds(1));
    CHECK(IsEmptyBatch(world.calls.AnswerOf(call)));
  }
  SECTION("and a produce does not wake it") {
    const size_t call = world.Block("c");
    world.Produce();
    REQUIRE(world.subscription.Ack(a, "a").ok());
    CHECK(IsRecord(world.calls.AnswerOf(call), 2));
    CHECK(world.clock.returns() == 1);
  }
}

TEST_CASE("an ack at the lease limit with nothing left re-arms the waiter", "[waiting][S14]") {
  World world({.lease = kLease, .max_active_leases = 1});
  world.Produce();
  const lessor::Batch a = world.Lease("a");
  const size_t call = world.Block("b");
  REQUIRE(world.subscription.Ack(a, "a").ok());
  world.Produce();
  CHECK(IsRecord(world.calls.AnswerOf(call), 1));
}

TEST_CASE("a worker that holds a lease is served at once, past those who wait", "[waiting][S13]") {
  World world;
  world.Produce();
  const lessor::Batch held = world.Lease("holder");
  world.Block("x");
  world.clock.Advance(absl::Seconds(1));
  const auto again =
      world.subscription.Consume({.worker = "holder", .wait_until = absl::InfiniteFuture()});
  REQUIRE(again.ok());
  CHECK(again->id() == held.id());
  CHECK(again->leased_until() == held.leased_until() + absl::Seconds(1));
  CHECK(world.calls.ended() == 0);
}

TEST_CASE("two threads that wait with one worker id get one batch", "[waiting][S13]") {
  World world;
  SECTION("from the queue") {
    const size_t first = world.Block("w");
    const size_t other = world.Block("x");
    const size_t second = world.Block("w");
    world.Produce();
    REQUIRE(IsRecord(world.calls.AnswerOf(first), 0));
    REQUIRE(IsRecord(world.calls.AnswerOf(second), 0));
    CHECK(world.calls.AnswerOf(first)->id() == world.calls.AnswerOf(second)->id());
    CHECK(world.calls.ended() == 2);
    world.Produce();
    CHECK(IsRecord(world.calls.AnswerOf(other), 1));
  }
  SECTION("when a call that does not wait was given it") {
    world.Produce();
    const lessor::Batch held = world.Lease("other");
    const size_t call = world.Block("w");
    // Take the second record with the waiter's own worker id before the waiter is back.
    world.Produce();
    const auto taken = world.Take("w");
    REQUIRE(taken.ok());
    REQUIRE(IsRecord(world.calls.AnswerOf(call), 1));
    CHECK(world.calls.AnswerOf(call)->id() == taken->id());
    CHECK(held.id() != taken->id());
  }
}

TEST_CASE("NextDeadline includes the deadlines of those who wait", "[waiting][S23]") {
  World world;
  CHECK(world.broker->NextDeadline() == absl::InfiniteFuture());
  world.Block("a", world.start + absl::Seconds(20));
  CHECK(world.broker->NextDeadline() == world.start + absl::Seconds(20));
  const size_t second = world.Block("b", world.start + absl::Seconds(10));
  world.Block("c");
  CHECK(world.broker->NextDeadline() == world.start + absl::Seconds(10));
  world.clock.Advance(absl::Seconds(10));
  CHECK(IsEmptyBatch(world.calls.AnswerOf(second)));
  CHECK(world.broker->NextDeadline() == world.start + absl::Seconds(20));
  world.clock.Advance(absl::Seconds(5));
  world.Produce();
  CHECK(IsRecord(world.calls.AnswerOf(0), 0));
  CHECK(world.broker->NextDeadline() == world.start + absl::Seconds(15) + kLease);
}

TEST_CASE("a subscription's waiters are counted", "[waiting]") {
  World world;
  CHECK(world.broker->GetStats().waiters == 0);
  world.Block("a");
  world.Block("b");
  CHECK(world.broker->GetStats().waiters == 2);
  world.Produce(2);
  world.calls.AnswerOf(0);
  world.calls.AnswerOf(1);
  CHECK(world.broker->GetStats().waiters == 0);
}

TEST_CASE("a waiter keeps a notification that came before it waits", "[waiting][clock]") {
  const Watchdog watchdog;
  lessor_testing::SimulatedClock clock;
  lessor::Waiter waiter;
  waiter.Notify();
  clock.Wait(waiter, absl::InfiniteFuture());
  clock.Wait(waiter, clock.Now());
  waiter.Notify();
  lessor::SystemClock().Wait(waiter, absl::InfiniteFuture());
  lessor::SystemClock().Wait(waiter, absl::InfinitePast());
  CHECK(clock.blocked() == 0);
}

TEST_CASE("on the system clock a wait ends at its deadline and not before", "[waiting][clock]") {
  const Watchdog watchdog;
  lessor::Broker broker;
  const auto stream = broker.CreateStream({.name = "orders"});
  REQUIRE(stream.ok());
  const auto subscription = stream->Subscribe({.name = "ingestion"});
  REQUIRE(subscription.ok());
  const absl::Time deadline = lessor::SystemClock().Now() + absl::Milliseconds(20);
  CHECK(IsEmptyBatch(subscription->Consume({.worker = "w", .wait_until = deadline})));
  CHECK(lessor::SystemClock().Now() >= deadline);
}

}  // namespace
}  // namespace lessor_tests
