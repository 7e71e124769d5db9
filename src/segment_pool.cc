#include "lessor/segment_pool.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "lessor/segment.h"

namespace lessor::inline LESSOR_ABI {

struct SegmentPool::State {
  mutable std::mutex mutex;
  size_t most_spare = 0;
  size_t bytes_allocated = 0;
  std::vector<void*> spare;  // Blocks of the standard capacity.
};

SegmentPool::SegmentPool(size_t spare_blocks) : state_(std::make_unique<State>()) {
  state_->most_spare = spare_blocks;
  state_->spare.reserve(spare_blocks);
}

SegmentPool::~SegmentPool() {
  for (void* block : state_->spare) ::operator delete(block);
}

std::shared_ptr<SegmentPool> SegmentPool::Create(size_t spare_blocks) {
  return std::shared_ptr<SegmentPool>(new SegmentPool(spare_blocks));
}

SegmentRef SegmentPool::New(Offset base, Instant base_time, size_t footprint) {
  const size_t capacity = std::max(Segment::kStandardCapacity, footprint);
  void* block = nullptr;
  {
    const std::lock_guard lock(state_->mutex);
    if (capacity == Segment::kStandardCapacity && !state_->spare.empty()) {
      block = state_->spare.back();
      state_->spare.pop_back();
    } else {
      state_->bytes_allocated += capacity;
    }
  }
  if (block == nullptr) block = ::operator new(sizeof(Segment) + capacity);
  return SegmentRef(
      new (block) Segment(shared_from_this(), static_cast<uint32_t>(capacity), base, base_time));
}

void SegmentPool::Free(void* block, size_t capacity) {
  {
    const std::lock_guard lock(state_->mutex);
    if (capacity == Segment::kStandardCapacity && state_->spare.size() < state_->most_spare) {
      state_->spare.push_back(block);
      return;
    }
    state_->bytes_allocated -= capacity;
  }
  ::operator delete(block);
}

size_t SegmentPool::bytes_allocated() const {
  const std::lock_guard lock(state_->mutex);
  return state_->bytes_allocated;
}

void Segment::Destroy() {
  const std::shared_ptr<SegmentPool> pool = std::move(pool_);
  const size_t capacity = capacity_;
  this->~Segment();
  pool->Free(this, capacity);
}

}  // namespace lessor::inline LESSOR_ABI
