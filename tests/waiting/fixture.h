// What the waiting tests share: a clock that counts waits, calls on threads of their own, and a
// watchdog. Nothing here sleeps: a test goes on when the clock has counted what it waits for.
#ifndef LESSOR_TESTS_WAITING_FIXTURE_H_
#define LESSOR_TESTS_WAITING_FIXTURE_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

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

namespace lessor_tests {

/// Ends the process if a test hangs: it never makes one pass or fail otherwise.
class Watchdog {
 public:
  explicit Watchdog(std::chrono::seconds limit = std::chrono::seconds(200))
      : thread_([this, limit](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          if (condition_.wait_for(lock, stop, limit, [] { return false; })) return;
          if (stop.stop_requested()) return;
          std::fputs("a test hangs: a thread that had to be woken was not\n", stderr);
          std::abort();
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any condition_;
  std::jthread thread_;
};

/// A simulated clock that counts. A call of Wait counts before it blocks: nothing that happens from
/// then on is lost, because a Waiter keeps its notification.
class CountingClock : public lessor::Clock {
 public:
  absl::Time Now() override { return simulated_.Now(); }

  void Wait(lessor::Waiter& waiter, absl::Time until) override {
    {
      const std::lock_guard lock(mutex_);
      ++calls_;
      condition_.notify_all();
    }
    if (!ReturnsEarly()) simulated_.Wait(waiter, until);
    const std::lock_guard lock(mutex_);
    ++returns_;
    condition_.notify_all();
  }

  void Advance(absl::Duration by) { simulated_.Advance(by); }
  void AdvanceTo(absl::Time to) { simulated_.AdvanceTo(to); }
  /// What the blocked threads wait for. A thread may have counted as waiting and not be in it yet.
  absl::Time next_wake_up() const { return simulated_.next_wake_up(); }
  int blocked() const { return simulated_.blocked(); }

  int calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  int returns() const {
    const std::lock_guard lock(mutex_);
    return returns_;
  }
  /// Returns once Wait has been called `calls` times in all.
  void AwaitCalls(int calls) {
    std::unique_lock lock(mutex_);
    condition_.wait(lock, [&] { return calls_ >= calls; });
  }
  /// Returns once `inside` threads are in Wait.
  void AwaitInside(int inside) {
    std::unique_lock lock(mutex_);
    condition_.wait(lock, [&] { return calls_ - returns_ == inside; });
  }

 protected:
  virtual bool ReturnsEarly() { return false; }

 private:
  lessor_testing::SimulatedClock simulated_;
  mutable std::mutex mutex_;
  std::condition_variable condition_;
  int calls_ = 0;
  int returns_ = 0;
};

/// Consumes on threads of their own, in the order in which they end.
class Calls {
 public:
  using Answer = absl::StatusOr<lessor::Batch>;

  Calls() = default;
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  ~Calls() { JoinAll(); }

  /// Starts a call and gives its number, counted from 0.
  size_t Start(std::function<Answer()> call) {
    const size_t number = calls_.size();
    Call& started = calls_.emplace_back();
    started.thread = std::thread([this, number, &started, call = std::move(call)] {
      Answer answer = call();
      const std::lock_guard lock(mutex_);
      started.answer.emplace(std::move(answer));
      ended_.push_back(number);
      condition_.notify_all();
    });
    return number;
  }

  /// The number of the next call that ends, in the order of ending. If none ever does: kNone.
  static constexpr size_t kNone = SIZE_MAX;
  size_t Next() {
    std::unique_lock lock(mutex_);
    if (!condition_.wait_for(lock, kPatience, [&] { return ended_.size() > taken_; })) return kNone;
    return ended_[taken_++];
  }
  /// The answer of a call, once it ends. If it never does: an error without a Reason.
  const Answer& AnswerOf(size_t number) {
    static const Answer& never = *new Answer(absl::DeadlineExceededError("the call never ended"));
    std::unique_lock lock(mutex_);
    const auto ended = [&] { return calls_[number].answer.has_value(); };
    return condition_.wait_for(lock, kPatience, ended) ? *calls_[number].answer : never;
  }
  size_t ended() const {
    const std::lock_guard lock(mutex_);
    return ended_.size();
  }
  void JoinAll() {
    for (Call& call : calls_) {
      if (call.thread.joinable()) call.thread.join();
    }
  }

 private:
  static constexpr std::chrono::seconds kPatience{60};

  struct Call {
    std::thread thread;
    std::optional<Answer> answer;
  };

  mutable std::mutex mutex_;
  std::condition_variable condition_;
  std::deque<Call> calls_;  // Grows on the test's thread only; elements stay where they are.
  std::vector<size_t> ended_;
  size_t taken_ = 0;
};

inline constexpr absl::Duration kLease = absl::Seconds(30);

/// A Broker with one stream and one subscription, and blocked calls in it.
template <class AnyClock>
struct BasicWorld {
  explicit BasicWorld(lessor::Limits limits = {.lease = kLease})
      : broker(std::make_unique<lessor::Broker>(
            lessor::BrokerOptions{.clock = &clock, .limits = limits})),
        stream(*broker->CreateStream({.name = "orders"})),
        subscription(*stream.Subscribe({.name = "ingestion"})),
        start(clock.Now()) {}
  ~BasicWorld() {
    if (broker != nullptr) broker->Shutdown();
    calls.JoinAll();
  }
  BasicWorld(const BasicWorld&) = delete;
  BasicWorld& operator=(const BasicWorld&) = delete;

  /// Starts a blocking consume and returns its number, not waiting for anything.
  size_t Launch(std::string worker, absl::Time wait_until = absl::InfiniteFuture(),
                int64_t max_records = 1, std::stop_token stop = {}) {
    return calls.Start([this, worker = std::move(worker), wait_until, max_records, stop] {
      return subscription.Consume(
          {.worker = worker, .max_records = max_records, .wait_until = wait_until, .stop = stop});
    });
  }
  /// The same, and returns once it is blocked.
  size_t Block(std::string worker, absl::Time wait_until = absl::InfiniteFuture(),
               int64_t max_records = 1, std::stop_token stop = {}) {
    const int calls_before = clock.calls();
    const size_t number = Launch(std::move(worker), wait_until, max_records, std::move(stop));
    clock.AwaitCalls(calls_before + 1);
    return number;
  }
  absl::StatusOr<lessor::Batch> Take(std::string_view worker, int64_t max_records = 1) {
    return subscription.Consume({.worker = worker, .max_records = max_records});
  }
  /// A batch that has to be there.
  lessor::Batch Lease(std::string_view worker, int64_t max_records = 1) {
    const auto batch = Take(worker, max_records);
    REQUIRE(batch.ok());
    REQUIRE_FALSE(batch->empty());
    return *batch;
  }
  void Produce(int records = 1) {
    for (int i = 0; i < records; ++i) REQUIRE(stream.Produce({{.content = "record"}}).ok());
  }

  Watchdog watchdog;
  AnyClock clock;
  std::unique_ptr<lessor::Broker> broker;
  lessor::Stream stream;
  lessor::Subscription subscription;
  absl::Time start;
  Calls calls;
};
using World = BasicWorld<CountingClock>;

inline lessor::Reason ReasonOf(const absl::StatusOr<lessor::Batch>& answer) {
  return lessor::ReasonOf(answer.status());
}

inline bool IsEmptyBatch(const absl::StatusOr<lessor::Batch>& answer) {
  return answer.ok() && answer->empty() && !answer->id();
}

/// Is it the batch of exactly this record?
inline bool IsRecord(const absl::StatusOr<lessor::Batch>& answer, lessor::Offset offset) {
  return answer.ok() && answer->size() == 1 && answer->front().offset() == offset;
}

}  // namespace lessor_tests

#endif  // LESSOR_TESTS_WAITING_FIXTURE_H_
