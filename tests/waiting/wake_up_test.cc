// The host's wake-up callback.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <set>
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

/// How often the callback was called since the last look.
class Counter {
 public:
  explicit Counter(lessor::Broker& broker) {
    broker.SetWakeUp([count = count_] { ++*count; });
  }
  int Take() { return count_->exchange(0); }

 private:
  std::shared_ptr<std::atomic<int>> count_ = std::make_shared<std::atomic<int>>(0);
};

TEST_CASE("the wake-up callback is called when records may have become available",
          "[waiting][wake_up]") {
  World world;
  Counter counter(*world.broker);

  SECTION("after a produce") {
    world.Produce();
    CHECK(counter.Take() > 0);
  }
  SECTION("after a nack") {
    world.Produce();
    const lessor::Batch batch = world.Lease("w");
    counter.Take();
    REQUIRE(world.subscription.Nack(batch, "w").ok());
    CHECK(counter.Take() > 0);
  }
  SECTION("after an ack, which frees a lease") {
    world.Produce();
    const lessor::Batch batch = world.Lease("w");
    counter.Take();
    REQUIRE(world.subscription.Ack(batch, "w").ok());
    CHECK(counter.Take() > 0);
  }
  SECTION("after an expiry, by whichever call sees it") {
    const std::vector<std::function<void()>> reads = {
        [&] { (void)world.subscription.GetPosition(); },
        [&] { (void)world.subscription.Explain(); },
        [&] { (void)world.stream.ListLeases(); },
        [&] { (void)world.broker->GetStats(); },
        [&] { (void)world.broker->NextDeadline(); },
        [&] {
          (void)world.subscription.Extend(lessor::BatchId{1, 1}, "w");
        },
        [&] {
          (void)world.subscription.Ack(lessor::BatchId{1, 1}, "w");
        },
    };
    world.Produce();
    for (const auto& read : reads) {
      world.Lease("w");
      world.clock.Advance(kLease - absl::Milliseconds(1));
      counter.Take();
      read();
      CHECK(counter.Take() == 0);
      world.clock.Advance(absl::Milliseconds(1));
      read();
      CHECK(counter.Take() > 0);
      read();
      CHECK(counter.Take() == 0);
    }
  }
  SECTION("after the deletion of a subscription") {
    REQUIRE(world.subscription.Delete().ok());
    CHECK(counter.Take() > 0);
  }
  SECTION("after the deletion of a stream") {
    REQUIRE(world.stream.Delete().ok());
    CHECK(counter.Take() > 0);
  }
}

TEST_CASE("the wake-up callback is called when NextDeadline moves earlier",
          "[waiting][wake_up][S23]") {
  World world;
  world.Produce(3);
  Counter counter(*world.broker);

  SECTION("because the first lease was given") {
    world.Lease("a");
    CHECK(counter.Take() > 0);
    world.clock.Advance(absl::Seconds(1));
    world.Lease("b");  // Ends later than the first one.
    CHECK(counter.Take() == 0);
  }
  SECTION("because a consume waits until an earlier time") {
    while (!world.Take("a", 100)->empty() && world.Take("b", 100)->empty()) break;
    counter.Take();
    CHECK(world.broker->NextDeadline() == world.start + kLease);
    world.Block("w", world.start + absl::Seconds(10));
    CHECK(world.broker->NextDeadline() == world.start + absl::Seconds(10));
    CHECK(counter.Take() > 0);
  }
}

TEST_CASE("reads and refused calls call nobody", "[waiting][wake_up]") {
  World world;
  world.Produce(2);
  const lessor::Batch batch = world.Lease("w");
  Counter counter(*world.broker);
  CHECK(world.subscription.GetPosition().ok());
  CHECK(world.subscription.Explain().ok());
  CHECK(world.subscription.Info().ok());
  CHECK(world.stream.Info().ok());
  CHECK(world.stream.ListLeases().ok());
  CHECK(world.stream.ListSubscriptions().ok());
  CHECK(world.broker->ListStreams().ok());
  CHECK(world.broker->NextDeadline() == batch.leased_until());
  CHECK(world.broker->NextRetention() < absl::InfiniteFuture());
  CHECK(world.broker->GetStats().records == 2);
  CHECK_FALSE(world.stream.Produce(std::initializer_list<lessor::Record>{}).ok());
  CHECK_FALSE(world.subscription.Extend(batch, "another").ok());
  CHECK(world.subscription.Ack(lessor::BatchId{1, 1}, "w").ok());
  CHECK(world.subscription.Nack(lessor::BatchId{1, 1}, "w").ok());
  CHECK_FALSE(world.broker->CreateStream({.name = "orders"}).ok());
  CHECK(counter.Take() == 0);
}

TEST_CASE("the wake-up callback may call the Broker", "[waiting][wake_up]") {
  World world;
  const auto other = world.broker->CreateStream({.name = "other"});
  REQUIRE(other.ok());
  std::atomic<int> depth = 0;
  std::atomic<int> calls = 0;
  world.broker->SetWakeUp([&] {
    if (depth.fetch_add(1) == 0) {
      ++calls;
      (void)world.broker->NextDeadline();
      (void)world.broker->GetStats();
      (void)world.broker->ListStreams();
      const auto batch = world.Take("callback");
      if (batch.ok() && !batch->empty()) (void)world.subscription.Ack(*batch, "callback");
      (void)other->Produce({{.content = "seen"}});
    }
    --depth;
  });
  world.Produce();
  CHECK(calls == 1);
  CHECK(world.subscription.GetPosition()->committed == 1);
  const size_t call = world.Block("w");
  world.Produce(5);
  REQUIRE(world.subscription.Delete().ok());
  (void)world.calls.AnswerOf(call);
  world.broker->SetWakeUp({});
  CHECK(calls > 1);
  CHECK(world.broker->GetStats().produced == 6U + static_cast<unsigned>(calls));
}

TEST_CASE("a wake-up callback that was replaced is not called any more", "[waiting][wake_up]") {
  World world;
  int former = 0;
  int current = 0;
  world.broker->SetWakeUp([&] { ++former; });
  world.Produce();
  CHECK(former == 1);
  world.broker->SetWakeUp([&] { ++current; });
  world.Produce();
  CHECK(former == 1);
  CHECK(current == 1);
  world.broker->SetWakeUp({});
  world.Produce();
  CHECK(former == 1);
  CHECK(current == 1);
}

TEST_CASE("a wake-up callback that was replaced lives until its last call returns",
          "[waiting][wake_up]") {
  World world;
  std::atomic<bool> inside = false;
  std::atomic<bool> replaced = false;
  const auto owned = std::make_shared<std::atomic<int>>(0);
  world.broker->SetWakeUp([&, owned] {
    inside = true;
    while (!replaced) std::this_thread::yield();
    ++*owned;
  });
  CHECK(owned.use_count() == 2);
  std::thread producer([&] { (void)world.stream.Produce({{.content = "record"}}); });
  while (!inside) std::this_thread::yield();
  world.broker->SetWakeUp({});  // Does not wait for it.
  CHECK(owned.use_count() == 2);
  replaced = true;
  producer.join();
  CHECK(*owned == 1);
  CHECK(owned.use_count() == 1);
}

TEST_CASE("a wake-up callback may replace itself", "[waiting][wake_up]") {
  World world;
  int first = 0;
  int second = 0;
  world.broker->SetWakeUp([&] {
    ++first;
    world.broker->SetWakeUp([&] { ++second; });
  });
  world.Produce(3);
  CHECK(first == 1);
  CHECK(second == 2);
}

TEST_CASE("wake-up callbacks come from several threads at once", "[waiting][wake_up]") {
  World world;
  constexpr int kThreads = 4;
  std::atomic<int> inside = 0;
  // Each waits for all the others: no lock is held, and none is waited for.
  world.broker->SetWakeUp([&] {
    ++inside;
    while (inside < kThreads) std::this_thread::yield();
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] { (void)world.stream.Produce({{.content = "record"}}); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(inside == kThreads);
}

/// A consumer as a host with an event loop writes it: the callback and a timer set to NextDeadline
/// wake it, then it takes what there is. It never waits inside the Broker.
class EventLoop {
 public:
  EventLoop(lessor::Broker& broker, lessor::Clock& clock, lessor::Subscription subscription,
            uint64_t records)
      : broker_(broker), clock_(clock), subscription_(subscription), records_(records) {
    // Owned by the callback too: its last call may still be under way when the loop is gone.
    broker_.SetWakeUp([waiter = waiter_] { waiter->Notify(); });
  }
  ~EventLoop() { broker_.SetWakeUp({}); }
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Runs until it has acked all records.
  void Run() {
    while (subscription_.GetPosition()->committed < records_) {
      for (;;) {
        const auto batch = subscription_.Consume({.worker = "loop", .max_records = 3});
        if (!batch.ok() || batch->empty()) break;
        for (const lessor::RecordView record : *batch) seen_.insert(record.offset());
        (void)subscription_.Ack(*batch, "loop");
      }
      if (subscription_.GetPosition()->committed >= records_) break;
      clock_.Wait(*waiter_, broker_.NextDeadline());
    }
  }
  const std::set<lessor::Offset>& seen() const { return seen_; }

 private:
  lessor::Broker& broker_;
  lessor::Clock& clock_;
  lessor::Subscription subscription_;
  uint64_t records_;
  std::shared_ptr<lessor::Waiter> waiter_ = std::make_shared<lessor::Waiter>();
  std::set<lessor::Offset> seen_;
};

TEST_CASE("an event loop on the callback misses no record while time stands still",
          "[waiting][wake_up][race]") {
  World world({.lease = kLease, .max_active_leases = 4});
  constexpr int kRecords = 2000;
  EventLoop loop(*world.broker, world.clock, world.subscription, kRecords);
  std::vector<std::thread> threads;
  for (int p = 0; p < 2; ++p) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRecords / 2; ++i) (void)world.stream.Produce({{.content = "record"}});
    });
  }
  // Others give back all that they take, the last one too.
  for (int w = 0; w < 2; ++w) {
    threads.emplace_back([&, w] {
      const std::string worker = "other" + std::to_string(w);
      for (int i = 0; i < kRecords / 2; ++i) {
        const auto batch = world.Take(worker, 2);
        if (batch.ok() && !batch->empty()) (void)world.subscription.Nack(*batch, worker);
      }
    });
  }
  loop.Run();
  for (std::thread& thread : threads) thread.join();
  CHECK(loop.seen().size() == kRecords);
}

TEST_CASE("an event loop on the callback and NextDeadline misses no expiry",
          "[waiting][wake_up][race]") {
  World world;
  constexpr int kRecords = 500;
  EventLoop loop(*world.broker, world.clock, world.subscription, kRecords);
  std::atomic<bool> done = false;
  std::thread producer([&] {
    for (int i = 0; i < kRecords; ++i) (void)world.stream.Produce({{.content = "record"}});
  });
  // A worker a batch, none of which is ever acked.
  std::thread dying([&] {
    for (int i = 0; i < kRecords; ++i) (void)world.Take("dead" + std::to_string(i), 2);
  });
  // Time moves only to the instant for which the loop waits: nothing else wakes it from there.
  std::thread time([&] {
    while (!done) {
      const absl::Time next = world.clock.next_wake_up();
      if (next < absl::InfiniteFuture()) world.clock.AdvanceTo(next);
      std::this_thread::yield();
    }
  });
  loop.Run();
  done = true;
  producer.join();
  dying.join();
  time.join();
  CHECK(loop.seen().size() == kRecords);
}

}  // namespace
}  // namespace lessor_tests
