// The clock of the benchmarks: the monotonic clock plus an offset that the benchmark advances, so
// that retention works at full speed while the price of reading a real clock stays in.
#ifndef LESSOR_BENCH_OFFSET_CLOCK_H_
#define LESSOR_BENCH_OFFSET_CLOCK_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "absl/time/time.h"
#include "lessor/clock.h"

namespace lessor_bench {

class OffsetClock final : public lessor::Clock {
 public:
  absl::Time Now() override {
    return absl::FromUnixNanos(std::chrono::steady_clock::now().time_since_epoch().count() +
                               offset_.load(std::memory_order_relaxed));
  }
  void Wait(lessor::Waiter& waiter, absl::Time until) override {
    waiter.BlockUntil(std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(until - Now()));
  }
  void Advance(absl::Duration by) {
    offset_.fetch_add(absl::ToInt64Nanoseconds(by), std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t> offset_ = 0;
};

}  // namespace lessor_bench

#endif  // LESSOR_BENCH_OFFSET_CLOCK_H_
