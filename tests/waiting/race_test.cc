// No wake-up is lost, whatever the moment at which it comes: many rounds, on real threads. A lost
// one shows as a thread that waits for ever, which the watchdog ends.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <stop_token>
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
#include "lessor/limits.h"
#include "lessor/stream.h"
#include "lessor/testing/simulated_clock.h"
#include "waiting/fixture.h"

namespace lessor_tests {
namespace {

using lessor::Reason;

constexpr absl::Time kForEver = absl::InfiniteFuture();

/// Spins for a number of steps that differs from round to round, to hit all moments.
void Dawdle(int round) {
  std::atomic<int> steps = 0;
  for (int i = 0; i < (round * 37) % 400; ++i) steps.fetch_add(1, std::memory_order_relaxed);
}

struct Bare {
  explicit Bare(lessor::Clock& clock, lessor::Limits limits = {})
      : broker({.clock = &clock, .limits = limits}),
        stream(*broker.CreateStream({.name = "orders"})),
        subscription(*stream.Subscribe({.name = "ingestion"})) {}

  Watchdog watchdog;
  lessor::Broker broker;
  lessor::Stream stream;
  lessor::Subscription subscription;
};

TEST_CASE("no produce is lost on a consume that begins to wait", "[waiting][race]") {
  const bool on_system_clock = GENERATE(true, false);
  lessor_testing::SimulatedClock simulated;
  Bare bare(on_system_clock ? lessor::SystemClock() : simulated);
  constexpr int kRounds = 10'000;
  std::atomic<int> taken = 0;
  std::atomic<bool> right = true;
  std::thread consumer([&] {
    for (int i = 0; i < kRounds; ++i) {
      const auto batch =
          bare.subscription.Consume({.worker = "w", .max_records = 10, .wait_until = kForEver});
      if (!IsRecord(batch, static_cast<lessor::Offset>(i))) right = false;
      if (batch.ok()) (void)bare.subscription.Ack(*batch, "w");
      taken = i + 1;
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    while (taken < i) std::this_thread::yield();
    Dawdle(i);
    if (!bare.stream.Produce({{.content = "record"}}).ok()) right = false;
  }
  consumer.join();
  CHECK(right);
  CHECK(bare.subscription.GetPosition()->committed == kRounds);
}

TEST_CASE("no record is lost among several who wait and several who produce", "[waiting][race]") {
  Bare bare(lessor::SystemClock());
  constexpr int kProducers = 2;
  constexpr int kConsumers = 4;
  constexpr int kRecords = 8'000;
  std::stop_source stop;
  std::atomic<int> taken = 0;
  std::vector<std::thread> threads;
  for (int c = 0; c < kConsumers; ++c) {
    threads.emplace_back([&, c] {
      const std::string worker = "w" + std::to_string(c);
      for (;;) {
        const auto batch = bare.subscription.Consume(
            {.worker = worker, .max_records = 1, .wait_until = kForEver, .stop = stop.get_token()});
        if (!batch.ok()) return;
        (void)bare.subscription.Ack(*batch, worker);
        if (++taken == kRecords) stop.request_stop();
      }
    });
  }
  for (int p = 0; p < kProducers; ++p) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRecords / kProducers; ++i) {
        (void)bare.stream.Produce({{.content = "record"}});
        Dawdle(i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(taken == kRecords);
  CHECK(bare.subscription.GetPosition()->committed == kRecords);
  CHECK(bare.broker.GetStats().waiters == 0);
}

TEST_CASE("no end of a lease is lost on those who wait for one", "[waiting][race][S14]") {
  // One lease, three workers, and all records there from the start: only acks and nacks wake.
  Bare bare(lessor::SystemClock(), {.max_active_leases = 1});
  constexpr int kRecords = 6'000;
  for (int i = 0; i < kRecords; ++i) (void)bare.stream.Produce({{.content = "record"}});
  std::atomic<int> acked = 0;
  std::atomic<int> ready = 0;
  std::stop_source stop;
  std::vector<std::thread> threads;
  for (int c = 0; c < 3; ++c) {
    threads.emplace_back([&, c] {
      const std::string worker = "w" + std::to_string(c);
      ++ready;
      while (ready < 3) std::this_thread::yield();
      for (int i = 0;; ++i) {
        const auto batch = bare.subscription.Consume(
            {.worker = worker, .max_records = 1, .wait_until = kForEver, .stop = stop.get_token()});
        if (!batch.ok()) return;
        if (i % 3 == 0) {
          (void)bare.subscription.Nack(*batch, worker);
          continue;
        }
        (void)bare.subscription.Ack(*batch, worker);
        if (++acked == kRecords) stop.request_stop();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(acked == kRecords);
  CHECK(bare.subscription.GetPosition()->committed == kRecords);
}

TEST_CASE("no expiry is lost on a consume that begins to wait", "[waiting][race][S23]") {
  lessor_testing::SimulatedClock clock;
  Bare bare(clock, {.lease = absl::Milliseconds(10)});
  (void)bare.stream.Produce({{.content = "record"}});
  constexpr int kRounds = 4'000;
  std::atomic<int> taken = 0;
  std::atomic<int> running = 2;
  // Two workers who never ack: each gets the record when the other's lease ends.
  std::vector<std::thread> threads;
  for (int c = 0; c < 2; ++c) {
    threads.emplace_back([&, c] {
      const std::string worker = "w" + std::to_string(c);
      while (taken < kRounds) {
        const auto batch = bare.subscription.Consume(
            {.worker = worker, .wait_until = clock.Now() + absl::Milliseconds(50)});
        if (batch.ok() && !batch->empty()) ++taken;
        while (taken < kRounds && clock.Now() < batch->leased_until()) std::this_thread::yield();
      }
      --running;
    });
  }
  for (int i = 0; running > 0; ++i) {
    Dawdle(i);
    clock.Advance(absl::Milliseconds(1));
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(taken >= kRounds);
}

TEST_CASE("no stop is lost on a consume that begins to wait", "[waiting][race]") {
  Bare bare(lessor::SystemClock());
  for (int round = 0; round < 1'500; ++round) {
    std::stop_source stop;
    std::atomic<bool> started = false;
    Reason reason = Reason::kNone;
    std::thread consumer([&] {
      started = true;
      reason = ReasonOf(bare.subscription.Consume(
          {.worker = "w", .wait_until = kForEver, .stop = stop.get_token()}));
    });
    while (!started) std::this_thread::yield();
    Dawdle(round);
    stop.request_stop();
    consumer.join();
    REQUIRE(reason == Reason::kCancelled);
  }
  CHECK(bare.broker.GetStats().waiters == 0);
}

TEST_CASE("no deletion is lost on a consume that begins to wait", "[waiting][race][S10]") {
  const Watchdog watchdog;
  lessor::Broker broker;
  for (int round = 0; round < 1'500; ++round) {
    const auto stream = *broker.CreateStream({.name = "orders"});
    const auto subscription = *stream.Subscribe({.name = "ingestion"});
    std::atomic<bool> started = false;
    Reason reason = Reason::kNone;
    std::thread consumer([&] {
      started = true;
      reason = ReasonOf(subscription.Consume({.worker = "w", .wait_until = kForEver}));
    });
    while (!started) std::this_thread::yield();
    Dawdle(round);
    const bool whole_stream = round % 2 == 0;
    if (!whole_stream) {
      REQUIRE(subscription.Delete().ok());
      consumer.join();
    }
    REQUIRE(stream.Delete().ok());
    if (whole_stream) consumer.join();
    REQUIRE(reason == (whole_stream ? Reason::kNoSuchStream : Reason::kNoSuchSubscription));
  }
}

TEST_CASE("two threads with one worker id never lose the batch between them",
          "[waiting][race][S13]") {
  Bare bare(lessor::SystemClock());
  constexpr int kRounds = 1'500;
  std::atomic<int> round = -1;
  std::atomic<int> back = 0;
  std::vector<lessor::BatchId> ids[2];
  std::vector<std::thread> threads;
  for (auto& mine : ids) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        while (round < i) std::this_thread::yield();
        const auto batch =
            bare.subscription.Consume({.worker = "w", .max_records = 1, .wait_until = kForEver});
        mine.push_back(batch.ok() ? batch->id() : lessor::BatchId());
        ++back;
      }
    });
  }
  for (int i = 0; i < kRounds; ++i) {
    round = i;
    Dawdle(i);
    (void)bare.stream.Produce({{.content = "record"}});
    while (back < 2 * (i + 1)) std::this_thread::yield();
    (void)bare.subscription.Ack(ids[0].back(), "w");
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(ids[0] == ids[1]);
}

TEST_CASE("counters never decrease while streams come and go", "[waiting][race]") {
  const Watchdog watchdog;
  constexpr size_t kStreams = 50;
  lessor::Broker broker({.limits = {.max_streams = kStreams}});
  std::atomic<bool> done = false;
  std::thread changes([&] {
    std::deque<lessor::Stream> streams;
    for (int round = 0; round < 40'000; ++round) {
      if (streams.size() == kStreams) {
        (void)streams.front().Delete();
        streams.pop_front();
      }
      streams.push_back(*broker.CreateStream({.name = "s" + std::to_string(round)}));
      (void)streams.back().Produce({{.content = "record"}, {.content = "record"}});
    }
    done = true;
  });
  uint64_t before = 0;
  bool decreased = false;
  while (!done) {
    const uint64_t now = broker.GetStats().produced;
    decreased |= now < before;
    before = now;
  }
  changes.join();
  CHECK_FALSE(decreased);
  CHECK(broker.GetStats().produced == 80'000);
}

}  // namespace
}  // namespace lessor_tests
