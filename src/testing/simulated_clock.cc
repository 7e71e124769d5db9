#include "lessor/testing/simulated_clock.h"

#include <algorithm>
#include <iterator>
#include <mutex>

#include "absl/time/time.h"
#include "lessor/clock.h"

namespace lessor_testing::inline LESSOR_ABI {

SimulatedClock::SimulatedClock(absl::Time start) : now_(start) {}

absl::Time SimulatedClock::Now() {
  const std::lock_guard lock(mutex_);
  return now_;
}

void SimulatedClock::Wait(lessor::Waiter& waiter, absl::Time until) {
  std::list<Sleeper>::iterator sleeper;
  {
    const std::lock_guard lock(mutex_);
    if (now_ >= until) return;
    sleeper = sleepers_.insert(sleepers_.end(), {&waiter, until});
  }
  waiter.Block();
  // The waiter may be gone as soon as this returns: no advance may find it any more.
  const std::lock_guard lock(mutex_);
  sleepers_.erase(sleeper);
}

void SimulatedClock::Advance(absl::Duration by) {
  const std::lock_guard lock(mutex_);
  now_ += by;
  for (const Sleeper& sleeper : sleepers_) {
    if (sleeper.until <= now_) sleeper.waiter->Notify();
  }
}

void SimulatedClock::AdvanceTo(absl::Time to) {
  const std::lock_guard lock(mutex_);
  now_ = to;
  for (const Sleeper& sleeper : sleepers_) {
    if (sleeper.until <= now_) sleeper.waiter->Notify();
  }
}

int SimulatedClock::blocked() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(sleepers_.size());
}

absl::Time SimulatedClock::next_wake_up() const {
  const std::lock_guard lock(mutex_);
  absl::Time next = absl::InfiniteFuture();
  for (const Sleeper& sleeper : sleepers_) next = std::min(next, sleeper.until);
  return next;
}

}  // namespace lessor_testing::inline LESSOR_ABI
