// lessor/clock.h: the one source of time, and the one way to wait.
//
// A Broker reads its clock once a call and blocks only in Clock::Wait. With a simulated clock
// (lessor/testing/simulated_clock.h) a test therefore drives blocked threads too.
#ifndef LESSOR_CLOCK_H_
#define LESSOR_CLOCK_H_

#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"
#include "lessor/export.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// What one blocked thread is woken through. A notification is kept until a Wait has consumed it,
/// so that none is lost between "decided to wait" and "waits".
///
/// Threads: Notify() from any thread; one thread waits.
/// Lifetime: must outlive every Notify() that may reach it.
class Waiter {
 public:
  Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  /// Ends the current or the next wait.
  void Notify() {
    // Under the mutex, so that the waiting thread cannot return and destroy this in between.
    const std::lock_guard lock(mutex_);
    notified_ = true;
    condition_.notify_one();
  }

  /// For implementations of Clock: blocks until notified, consuming the notification.
  void Block() {
    std::unique_lock lock(mutex_);
    condition_.wait(lock, [this] { return notified_; });
    notified_ = false;
  }

  /// For implementations of Clock: as Block(), but gives up at `until` of a standard clock.
  template <class TimePoint>
  void BlockUntil(TimePoint until) {
    std::unique_lock lock(mutex_);
    condition_.wait_until(lock, until, [this] { return notified_; });
    notified_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool notified_ = false;
};

/// A clock to inject.
///
/// Threads: both functions are called from any thread, at once from several, under no lock of
///   lessor's.
/// Lifetime: outlives the Broker that it was given to.
class LESSOR_EXPORT Clock {
 public:
  virtual ~Clock() = default;

  /// The time. It may step in either direction: the Broker never goes backwards (S26), and a step
  /// forward is time that passed.
  virtual absl::Time Now() = 0;

  /// Blocks until `waiter` is notified or Now() >= `until`. May return early; the caller looks
  /// again.
  virtual void Wait(Waiter& waiter, absl::Time until) = 0;
};

/// The clock that ships: a monotonic clock that counts suspend, anchored once to wall time. Setting
/// the wall clock of a running process moves no lease. One for the process.
///
/// Time: where the system has no such clock, time spent suspended is not counted. A thread that is
///   blocked across a suspend may return later than `until` by the time suspended; leases are
///   exact.
/// Threads: safe.
/// Spec: S26.
LESSOR_EXPORT Clock& SystemClock();

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_CLOCK_H_
