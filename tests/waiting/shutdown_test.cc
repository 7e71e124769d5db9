// Shutdown and the destructor, with calls blocked inside.
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "catch.h"
#include "lessor/batch.h"
#include "lessor/broker.h"
#include "lessor/clock.h"
#include "lessor/error.h"
#include "lessor/stream.h"
#include "lessor/testing/simulated_clock.h"
#include "waiting/fixture.h"

namespace lessor_tests {
namespace {

using lessor::Reason;

TEST_CASE("Shutdown ends every waiting consume", "[waiting][shutdown]") {
  World world;
  const auto other = world.broker->CreateStream({.name = "other"});
  REQUIRE(other.ok());
  const auto elsewhere = other->Subscribe({.name = "s"});
  REQUIRE(elsewhere.ok());
  for (size_t i = 0; i < 8; ++i) world.Block("w" + std::to_string(i));
  world.calls.Start(
      [&] { return elsewhere->Consume({.worker = "w", .wait_until = absl::InfiniteFuture()}); });
  world.clock.AwaitInside(9);
  world.broker->Shutdown();
  CHECK(world.broker->GetStats().waiters == 0);
  for (size_t i = 0; i < 9; ++i) CHECK(ReasonOf(world.calls.AnswerOf(i)) == Reason::kCancelled);
}

TEST_CASE("after Shutdown waits are cancelled at once, and all else goes on",
          "[waiting][shutdown]") {
  World world;
  world.broker->Shutdown();
  world.broker->Shutdown();
  CHECK(ReasonOf(world.subscription.Consume(
            {.worker = "w", .wait_until = absl::InfiniteFuture()})) == Reason::kCancelled);
  CHECK(world.clock.calls() == 0);
  CHECK(IsEmptyBatch(world.Take("w")));
  world.Produce();
  // What is there needs no waiting.
  const auto batch = world.subscription.Consume(
      {.worker = "w", .max_records = 1, .wait_until = absl::InfiniteFuture()});
  REQUIRE(IsRecord(batch, 0));
  CHECK(world.subscription.Extend(*batch, "w").ok());
  CHECK(world.subscription.Ack(*batch, "w").ok());
  CHECK(world.subscription.GetPosition()->committed == 1);
}

TEST_CASE("the destructor ends every waiting consume, and batches outlive it",
          "[waiting][shutdown]") {
  World world;
  world.Produce();
  const lessor::Batch kept = world.Lease("keeper");
  for (size_t i = 0; i < 8; ++i) world.Block("w" + std::to_string(i));
  world.broker = nullptr;
  world.calls.JoinAll();
  for (size_t i = 0; i < 8; ++i) CHECK(ReasonOf(world.calls.AnswerOf(i)) == Reason::kCancelled);
  CHECK(kept.front().content() == "record");
}

TEST_CASE("Shutdown meets consumes in every stage of waiting", "[waiting][shutdown]") {
  const Watchdog watchdog;
  for (int round = 0; round < 200; ++round) {
    lessor_testing::SimulatedClock clock;
    auto broker = std::make_unique<lessor::Broker>(lessor::BrokerOptions{.clock = &clock});
    auto stream = *broker->CreateStream({.name = "orders"});
    const auto subscription = *stream.Subscribe({.name = "ingestion"});
    constexpr int kThreads = 4;
    std::atomic<int> cancelled = 0;
    std::atomic<int> started = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        const std::string worker = "w" + std::to_string(i);
        ++started;
        for (;;) {
          const auto batch =
              subscription.Consume({.worker = worker, .wait_until = absl::InfiniteFuture()});
          if (ReasonOf(batch) == Reason::kCancelled) break;
          if (batch.ok()) (void)subscription.Ack(*batch, worker);
        }
        ++cancelled;
      });
    }
    for (int i = 0; i < round % 8; ++i) (void)stream.Produce({{.content = "record"}});
    while (started < round % (kThreads + 1)) std::this_thread::yield();
    broker->Shutdown();
    for (std::thread& thread : threads) thread.join();
    REQUIRE(cancelled == kThreads);
  }
}

TEST_CASE("the destructor meets consumes that are about to return", "[waiting][shutdown]") {
  const Watchdog watchdog;
  for (int round = 0; round < 200; ++round) {
    CountingClock clock;
    auto broker = std::make_unique<lessor::Broker>(lessor::BrokerOptions{.clock = &clock});
    auto stream = *broker->CreateStream({.name = "orders"});
    const auto subscription = *stream.Subscribe({.name = "ingestion"});
    std::vector<std::thread> threads;
    std::atomic<int> ended = 0;
    constexpr int kThreads = 3;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        const auto batch = subscription.Consume({.worker = "w" + std::to_string(i),
                                                 .max_records = 1,
                                                 .wait_until = absl::InfiniteFuture()});
        if (batch.ok() || ReasonOf(batch) == Reason::kCancelled) ++ended;
      });
    }
    clock.AwaitCalls(kThreads);
    for (int i = 0; i < round % (kThreads + 1); ++i) (void)stream.Produce({{.content = "record"}});
    broker = nullptr;
    for (std::thread& thread : threads) thread.join();
    REQUIRE(ended == kThreads);
  }
}

}  // namespace
}  // namespace lessor_tests
