// lessor/testing/sequential_ids.h: ids that are the same in every run.
#ifndef LESSOR_TESTING_SEQUENTIAL_IDS_H_
#define LESSOR_TESTING_SEQUENTIAL_IDS_H_

#include <atomic>
#include <cstdint>

#include "lessor/ids.h"
#include "lessor/version.h"

namespace lessor_testing::inline LESSOR_ABI {

/// Gives (seed, 1), (seed, 2), ...
/// Threads: safe; which thread gets which id is then up to chance.
class SequentialIds final : public lessor::IdSource {
 public:
  explicit SequentialIds(uint64_t seed = 0) : seed_(seed) {}

  lessor::RandomBits Next() override {
    return {seed_, next_.fetch_add(1, std::memory_order_relaxed)};
  }

 private:
  uint64_t seed_;
  std::atomic<uint64_t> next_{1};
};

}  // namespace lessor_testing::inline LESSOR_ABI

#endif  // LESSOR_TESTING_SEQUENTIAL_IDS_H_
