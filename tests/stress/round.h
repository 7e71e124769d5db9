// A stress round: many threads on one Broker, and the history of what they did.
#ifndef LESSOR_TESTS_STRESS_ROUND_H_
#define LESSOR_TESTS_STRESS_ROUND_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lessor/broker.h"
#include "lessor/clock.h"
#include "lessor/service.h"
#include "lessor/testing/simulated_clock.h"
#include "stress/history.h"

namespace lessor_tests {

/// Counts the beginnings and ends of calls.
class Stamps {
 public:
  Stamp Next();
  Stamp Last() const;

 private:
  std::atomic<Stamp> last_ = 0;
};

/// A clock that another thread sets forwards and backwards, and that notes what each thread reads.
/// It takes no lock to be read: one would order the calls for the sanitizer, and hide races.
class StressClock final : public lessor::Clock {
 public:
  explicit StressClock(Stamps& stamps);

  absl::Time Now() override;
  void Wait(lessor::Waiter& waiter, absl::Time until) override { simulated_.Wait(waiter, until); }

  /// On one thread at a time.
  void Advance(absl::Duration by);
  int blocked() const { return simulated_.blocked(); }
  absl::Time next_wake_up() const { return simulated_.next_wake_up(); }
  absl::Time Read() const { return absl::FromUnixMillis(now_ms_.load(std::memory_order_relaxed)); }

 private:
  Stamps& stamps_;
  lessor_testing::SimulatedClock simulated_;
  std::atomic<int64_t> now_ms_;
};

/// What is put under stress.
struct Subject {
  std::shared_ptr<lessor::Service> service;
  std::function<lessor::Stats()> stats;
  std::function<absl::Time()> next_deadline;
};

/// A Broker as it is; one of other rules; or one behind a Service that spoils it.
template <class Broker>
Subject MakeSubject(const lessor::BrokerOptions& options) {
  const auto broker = std::make_shared<Broker>(options);
  return {.service = broker,
          .stats = [broker] { return broker->GetStats(); },
          .next_deadline = [broker] { return broker->NextDeadline(); }};
}

using SubjectMaker = std::function<Subject(const lessor::BrokerOptions&)>;

struct RoundResult {
  History history;
  /// What was wrong at the end, when all had been drained, beside what the history contradicts.
  std::vector<std::string> wrong;
};

/// Runs one round. The seed decides what each thread does, not how the threads interleave.
RoundResult RunRound(uint64_t seed, const SubjectMaker& make);

}  // namespace lessor_tests

#endif  // LESSOR_TESTS_STRESS_ROUND_H_
