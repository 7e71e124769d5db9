#include "lessor/clock.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace lessor::inline LESSOR_ABI {
namespace {

// Nanoseconds of a clock that no one sets and, where the system has one, that counts suspend.
int64_t MonotonicNanos() {
#ifdef CLOCK_BOOTTIME
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
#else
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
#endif
}

class AnchoredClock final : public Clock {
 public:
  absl::Time Now() override {
    return anchor_ + absl::Nanoseconds(MonotonicNanos() - anchor_nanos_);
  }

  void Wait(Waiter& waiter, absl::Time until) override {
    // A wait may end early: a century is as good as for ever.
    const absl::Duration left = std::min(until - Now(), absl::Hours(24 * 36'500));
    if (left <= absl::ZeroDuration()) return;
    waiter.BlockUntil(std::chrono::steady_clock::now() +
                      absl::ToChronoNanoseconds(absl::Ceil(left, absl::Nanoseconds(1))));
  }

 private:
  const absl::Time anchor_ = absl::Now();
  const int64_t anchor_nanos_ = MonotonicNanos();
};

}  // namespace

Clock& SystemClock() {
  static AnchoredClock& clock = *new AnchoredClock;  // Never destroyed: a Broker may outlive main.
  return clock;
}

}  // namespace lessor::inline LESSOR_ABI
