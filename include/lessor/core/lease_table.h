// lessor/core/lease_table.h: the lease kernel: grant, renew, expire, end.
#ifndef LESSOR_CORE_LEASE_TABLE_H_
#define LESSOR_CORE_LEASE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lessor/time.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// What the table keeps in each of its leases. `What` is what is leased, and to whom.
template <class What>
struct LeaseSlot {
  static constexpr uint32_t kNotActive = UINT32_MAX;

  What what;
  Instant leased_until;
  uint32_t heap_index = kNotActive;

  bool active() const { return heap_index != kNotActive; }
};

/// Leases in numbered slots, the active ones in a heap of their ends.
///
/// A slot is taken by Grant(), is active until ExpireDue() or End(), and lives on, inactive, until
/// Free(). Slots do not move, and a freed slot's memory serves the next grant.
///
/// Cost: Grant, Renew, End: O(log active), and O(1) for ends that come last, as with one lease
/// length
///   they do; ExpireDue: O(1) when nothing is due. No lease is ever scanned for.
template <class Rules, class What>
class LeaseTable {
 public:
  using Slot = LeaseSlot<What>;

  Slot& operator[](uint32_t index) { return slot(index); }
  const Slot& operator[](uint32_t index) const {
    return slabs_[index / kSlabSlots][index % kSlabSlots];
  }

  size_t active() const { return heap_.size(); }

  /// A slot for a lease that is active until `leased_until`. Its `what` is what Free() left.
  uint32_t Grant(Instant leased_until) {
    const uint32_t index = Take();
    slot(index).leased_until = leased_until;
    slot(index).heap_index = static_cast<uint32_t>(heap_.size());
    heap_.push_back({leased_until, next_grant_++, index});
    SiftUp(heap_.size() - 1);
    return index;
  }

  /// A slot for a lease that has expired already.
  uint32_t GrantExpired(Instant leased_until) {
    const uint32_t index = Take();
    slot(index).leased_until = leased_until;
    return index;
  }

  /// Moves the end of an active lease.
  void Renew(uint32_t index, Instant leased_until) {
    Slot& renewed = slot(index);
    renewed.leased_until = leased_until;
    heap_[renewed.heap_index].leased_until = leased_until;
    Sift(renewed.heap_index);
  }

  /// Ends an active lease before its time.
  void End(uint32_t index) {
    Slot& ended = slot(index);
    const size_t hole = ended.heap_index;
    ended.heap_index = Slot::kNotActive;
    const Entry moved = heap_.back();
    heap_.pop_back();
    if (hole == heap_.size()) return;
    Put(hole, moved);
    Sift(hole);
  }

  /// Gives an inactive slot back.
  void Free(uint32_t index) { free_.push_back(index); }

  /// Ends every active lease that is no longer active at `now`, in the order of their ends, then of
  /// granting, calling expired(slot index) after each.
  template <class Expired>
  void ExpireDue(Instant now, Expired expired) {
    while (!heap_.empty() && !Rules::IsActive(now, heap_.front().leased_until)) {
      const uint32_t index = heap_.front().slot;
      End(index);
      expired(index);
    }
  }

  /// The end of the active lease that ends first.
  std::optional<Instant> NextEnd() const {
    if (heap_.empty()) return std::nullopt;
    return heap_.front().leased_until;
  }

  /// Calls visit(slot index) for each active lease, in no order that may be shown.
  template <class Visit>
  void ForEachActive(Visit visit) const {
    for (const Entry& entry : heap_) visit(entry.slot);
  }

 private:
  struct Entry {
    Instant leased_until;
    uint64_t grant;
    uint32_t slot;

    bool Before(const Entry& other) const {
      return leased_until != other.leased_until ? leased_until < other.leased_until
                                                : grant < other.grant;
    }
  };
  static constexpr size_t kArity = 4;
  static constexpr size_t kSlabSlots = 16;

  Slot& slot(uint32_t index) { return slabs_[index / kSlabSlots][index % kSlabSlots]; }

  uint32_t Take() {
    if (free_.empty()) {
      if (taken_ == slabs_.size() * kSlabSlots) {
        slabs_.push_back(std::make_unique<Slot[]>(kSlabSlots));
      }
      return static_cast<uint32_t>(taken_++);
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }

  void Put(size_t at, const Entry& entry) {
    heap_[at] = entry;
    slot(entry.slot).heap_index = static_cast<uint32_t>(at);
  }

  void Sift(size_t at) {
    if (SiftUp(at) == at) SiftDown(at);
  }

  size_t SiftUp(size_t at) {
    const Entry entry = heap_[at];
    while (at > 0) {
      const size_t parent = (at - 1) / kArity;
      if (!entry.Before(heap_[parent])) break;
      Put(at, heap_[parent]);
      at = parent;
    }
    Put(at, entry);
    return at;
  }

  void SiftDown(size_t at) {
    const Entry entry = heap_[at];
    for (;;) {
      const size_t first = at * kArity + 1;
      if (first >= heap_.size()) break;
      const size_t end = first + kArity < heap_.size() ? first + kArity : heap_.size();
      size_t least = first;
      for (size_t child = first + 1; child < end; ++child) {
        if (heap_[child].Before(heap_[least])) least = child;
      }
      if (!heap_[least].Before(entry)) break;
      Put(at, heap_[least]);
      at = least;
    }
    Put(at, entry);
  }

  std::vector<std::unique_ptr<Slot[]>> slabs_;
  size_t taken_ = 0;  ///< Slots ever used; those in free_ are not in use now.
  std::vector<uint32_t> free_;
  std::vector<Entry> heap_;
  uint64_t next_grant_ = 0;
};

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_CORE_LEASE_TABLE_H_
