// lessor/testing/simulated_clock.h: time that moves when the test says so.
#ifndef LESSOR_TESTING_SIMULATED_CLOCK_H_
#define LESSOR_TESTING_SIMULATED_CLOCK_H_

#include <list>
#include <mutex>

#include "absl/time/time.h"
#include "lessor/clock.h"
#include "lessor/export.h"
#include "lessor/version.h"

namespace lessor_testing::inline LESSOR_ABI {

/// A clock that never ticks by itself. Advancing it wakes the threads blocked in lessor whose time
/// has come.
///
/// Threads: safe.
/// Lifetime: outlives the Brokers that use it.
/// Example:
///   lessor_testing::SimulatedClock clock;
///   lessor::Broker broker({.clock = &clock});
///   ... consume ...
///   clock.Advance(absl::Seconds(300));  // the lease has expired
class LESSOR_TESTING_EXPORT SimulatedClock final : public lessor::Clock {
 public:
  /// Starts at `start`; the default is an instant in 2026 that no test should depend on.
  explicit SimulatedClock(absl::Time start = absl::FromUnixMillis(1'790'164'800'000));

  absl::Time Now() override;
  void Wait(lessor::Waiter& waiter, absl::Time until) override;

  /// Moves time by `by`, backwards too, and wakes waits that are due.
  void Advance(absl::Duration by);
  /// Moves time to `to`, backwards too, and wakes waits that are due.
  void AdvanceTo(absl::Time to);

  /// Threads blocked in Wait() now, and the earliest time one waits for (InfiniteFuture if none).
  int blocked() const;
  absl::Time next_wake_up() const;

 private:
  struct Sleeper {
    lessor::Waiter* waiter;
    absl::Time until;
  };

  mutable std::mutex mutex_;
  absl::Time now_;
  std::list<Sleeper> sleepers_;
};

}  // namespace lessor_testing::inline LESSOR_ABI

#endif  // LESSOR_TESTING_SIMULATED_CLOCK_H_
