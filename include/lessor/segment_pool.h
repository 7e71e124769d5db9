// lessor/segment_pool.h: where segments come from, and go.
#ifndef LESSOR_SEGMENT_POOL_H_
#define LESSOR_SEGMENT_POOL_H_

#include <cstddef>
#include <memory>

#include "lessor/export.h"
#include "lessor/record.h"
#include "lessor/segment.h"
#include "lessor/time.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// Makes segments and keeps a few freed blocks of the standard capacity for the next ones, so that
/// a stream in a steady state touches no new memory.
///
/// Threads: safe; a segment may be freed on any thread, after the Broker is gone too.
class LESSOR_EXPORT SegmentPool : public std::enable_shared_from_this<SegmentPool> {
 public:
  /// `spare_blocks`: how many freed blocks are kept at most.
  static std::shared_ptr<SegmentPool> Create(size_t spare_blocks = 64);
  ~SegmentPool();

  SegmentPool(const SegmentPool&) = delete;
  SegmentPool& operator=(const SegmentPool&) = delete;

  /// A fresh segment that holds at least one record of `footprint` bytes.
  /// Precondition: footprint <= Segment::kMaxCapacity / 2.
  SegmentRef New(Offset base, Instant base_time, size_t footprint = 0);

  /// Bytes in segments alive now, spare blocks included.
  size_t bytes_allocated() const;

 private:
  friend class Segment;
  struct State;

  explicit SegmentPool(size_t spare_blocks);
  void Free(void* block, size_t capacity);

  std::unique_ptr<State> state_;
};

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_SEGMENT_POOL_H_
