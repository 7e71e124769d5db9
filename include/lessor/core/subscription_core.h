// lessor/core/subscription_core.h: one subscription: what it has been given, and what it may give.
//
// Every offset below `next` is in exactly one of three states: in an active lease, released (to be
// delivered again), or done (processed or skipped). Done is what is in neither of the other two, so
// it takes no memory, and the committed position is simply the lowest offset that is not done.
#ifndef LESSOR_CORE_SUBSCRIPTION_CORE_H_
#define LESSOR_CORE_SUBSCRIPTION_CORE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "lessor/batch.h"
#include "lessor/change.h"
#include "lessor/core/lease_table.h"
#include "lessor/core/log.h"
#include "lessor/ids.h"
#include "lessor/limits.h"
#include "lessor/policy.h"
#include "lessor/position.h"
#include "lessor/record.h"
#include "lessor/store.h"
#include "lessor/time.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// Counts of what happened; see Stats.
struct StreamCounters {
  uint64_t produced = 0;
  uint64_t delivered = 0;
  uint64_t redelivered = 0;
  uint64_t leases = 0;
  uint64_t refreshes = 0;
  uint64_t extends = 0;
  uint64_t acks = 0;
  uint64_t nacks = 0;
  uint64_t expiries = 0;
};

/// What a consume may give now.
struct ConsumePlan {
  enum class Kind {
    kNothing,      ///< The empty batch.
    kRefresh,      ///< The worker's batch, refreshed.
    kGrant,        ///< A new batch of `ranges`.
    kLeaseLimit,   ///< Refused.
    kNeedSegment,  ///< Undecided until the bytes of segment `need` are installed.
  };
  Kind kind = Kind::kNothing;
  BatchId batch;                    ///< Of kRefresh.
  Instant leased_until;             ///< Of kRefresh and kGrant.
  Offset need = 0;                  ///< Of kNeedSegment.
  std::vector<OffsetRange> ranges;  ///< Of kGrant, in log order, neighbours joined.
};

/// The state of one subscription. Its callers advance it before they look: ExpireLeases() ends
/// leases that are due, then SkipBefore() skips records that retention removed.
///
/// Spec: S11-S25, S30.
template <class Rules>
class SubscriptionCore {
 public:
  struct Lease {
    BatchId batch;
    std::string worker;
    uint64_t group = 0;
    uint64_t records = 0;  ///< Active: in the lease. Expired: of them, still released under it.
    std::vector<OffsetRange> ranges;
    PieceList pieces;  ///< While active, once the bytes were in memory.
  };
  using Slot = LeaseSlot<Lease>;

  SubscriptionCore(const change::Subscribed& subscribed, Instant created_at)
      : id_(subscribed.subscription),
        name_(subscribed.name),
        start_at_(subscribed.start_at),
        created_at_(created_at),
        start_(subscribed.cursor),
        next_(subscribed.cursor) {}

  /// Takes up a snapshot's state, without pieces. `ok` is false if it contradicts itself.
  SubscriptionCore(const SubscriptionSnapshot& snapshot, Instant now, bool& ok)
      : id_(snapshot.id),
        name_(snapshot.name),
        start_at_(snapshot.start_at),
        created_at_(snapshot.created_at),
        start_(snapshot.start),
        next_(snapshot.next),
        skipped_(snapshot.skipped),
        next_group_(snapshot.next_group) {
    ok = true;
    for (const SubscriptionSnapshot::Lease& lease : snapshot.leases) {
      if (by_batch_.contains(lease.batch) || lease.ranges.empty()) ok = false;
      for (const OffsetRange& range : lease.ranges) {
        if (range.first >= range.end || range.end > next_) ok = false;
      }
      if (!ok) return;
      const bool active = Rules::IsActive(now, lease.leased_until);
      const uint32_t index =
          active ? leases_.Grant(lease.leased_until) : leases_.GrantExpired(lease.leased_until);
      Lease& taken = leases_[index].what;
      taken.batch = lease.batch;
      taken.worker = lease.worker;
      taken.group = lease.group;
      taken.ranges = lease.ranges;
      taken.records = 0;
      by_batch_.emplace(lease.batch, index);
      for (const OffsetRange& range : lease.ranges) {
        taken.records += range.size();
        if (!active) Release(range, lease.group, index);
      }
      if (active) {
        leased_ += taken.records;
        by_worker_.emplace(taken.worker, index);
      }
    }
    for (const SubscriptionSnapshot::Released& released : snapshot.released) {
      if (released.range.first >= released.range.end || released.range.end > next_) ok = false;
      if (!ok) return;
      Release(released.range, released.group, kNoSlot);
    }
  }

  SubscriptionId id() const { return id_; }
  const std::string& name() const { return name_; }
  StartAt start_at() const { return start_at_; }
  Instant created_at() const { return created_at_; }
  Offset start() const { return start_; }

  uint64_t active_leases() const { return leases_.active(); }
  std::optional<Instant> NextLeaseEnd() const { return leases_.NextEnd(); }
  /// Records that a consume could be given, once advanced. Spec: S30.
  uint64_t Available(const Log& log) const { return released_count_ + (log.end() - next_); }

  /// Ends the leases that are due at `now`. Spec: S17, S23.
  void ExpireLeases(Instant now, const StreamPolicy& policy, StreamCounters& counters) {
    leases_.ExpireDue(now, [&](uint32_t index) {
      ++counters.expiries;
      Expire(index, policy);
    });
  }

  /// Skips what retention removed: released and never delivered records before `begin`. Spec: S25.
  void SkipBefore(Offset begin) {
    if (next_ < begin) {
      skipped_ += begin - next_;
      next_ = begin;
    }
    if (!released_.empty() && released_.begin()->first < begin) SkipReleasedBefore(begin);
  }

  Position GetPosition(const Log& log) const {
    Position position;
    position.committed = next_;
    if (!released_.empty()) {
      position.committed = std::min(position.committed, released_.begin()->first);
    }
    position.committed = std::min(position.committed, LowestLeased());
    position.end = log.end();
    position.available = Available(log);
    position.leased = leased_;
    position.active_leases = active_leases();
    position.skipped = skipped_;
    return position;
  }

  /// The lowest offset in an active lease; the largest offset if there is none.
  Offset LowestLeased() const {
    Offset lowest = UINT64_MAX;
    leases_.ForEachActive([&](uint32_t index) {
      lowest = std::min(lowest, leases_[index].what.ranges.front().first);
    });
    return lowest;
  }

  /// The slot of a batch that is active, or expired with nothing redelivered; null otherwise.
  const Slot* Find(BatchId batch) const {
    const uint32_t index = IndexOf(batch);
    return index == kNoSlot ? nullptr : &leases_[index];
  }
  bool HoldsLease(std::string_view worker) const {
    return leases_.active() > 0 && by_worker_.contains(worker);
  }

  /// Active leases in the order of granting.
  std::vector<const Slot*> ActiveLeases() const {
    std::vector<const Slot*> active;
    leases_.ForEachActive([&](uint32_t index) { active.push_back(&leases_[index]); });
    std::sort(active.begin(), active.end(),
              [](const Slot* a, const Slot* b) { return a->what.group < b->what.group; });
    return active;
  }

  /// Decides a consume into `plan`, whose `ranges` serve as scratch. Spec: S13-S16.
  void PlanConsume(std::string_view worker, int64_t max_records, Instant now, Millis lease,
                   const Limits& limits, const StreamPolicy& policy, const Log& log,
                   ConsumePlan& plan) const {
    plan.ranges.clear();
    if (const auto held = leases_.active() == 0 ? by_worker_.end() : by_worker_.find(worker);
        held != by_worker_.end()) {
      const Slot& slot = leases_[held->second];
      if (slot.what.pieces.empty()) {
        for (const OffsetRange& range : slot.what.ranges) {
          if (const std::optional<Offset> missing = log.Missing(range)) {
            plan.kind = ConsumePlan::Kind::kNeedSegment;
            plan.need = *missing;
            return;
          }
        }
      }
      plan.kind = ConsumePlan::Kind::kRefresh;
      plan.batch = slot.what.batch;
      plan.leased_until = Rules::Renewed(slot.leased_until, now, lease);
      return;
    }
    if (Rules::AtLeaseLimit(active_leases(), limits.max_active_leases)) {
      const bool refuse = policy.lease_limit_first || Available(log) > 0;
      plan.kind = refuse ? ConsumePlan::Kind::kLeaseLimit : ConsumePlan::Kind::kNothing;
      return;
    }
    plan.kind = ConsumePlan::Kind::kNothing;
    auto records = static_cast<uint64_t>(max_records);
    int64_t bytes = limits.max_batch_bytes;
    bool full = false;
    const auto add = [&](OffsetRange range) {
      const Log::Fit fit = log.FitInto(range, records, bytes, plan.ranges.empty());
      if (fit.need) {
        plan.kind = ConsumePlan::Kind::kNeedSegment;
        plan.need = *fit.need;
        full = true;
        return;
      }
      if (fit.end > range.first) {
        plan.kind = ConsumePlan::Kind::kGrant;
        if (!plan.ranges.empty() && plan.ranges.back().end == range.first) {
          plan.ranges.back().end = fit.end;
        } else {
          plan.ranges.push_back({range.first, fit.end});
        }
      }
      full = fit.full;
    };
    std::optional<uint64_t> group;
    for (auto it = released_.begin(); it != released_.end() && !full; ++it) {
      if (group && !Rules::MayShareBatch(policy, *group == it->second.group)) continue;
      group = it->second.group;
      add({it->first, it->second.end});
    }
    if (!full && next_ < log.end() && (!group || Rules::MayShareBatch(policy, false))) {
      add({next_, log.end()});
    }
    plan.leased_until = Rules::LeaseEnd(now, lease);
  }

  // Applying changes. Each is false, and changes nothing, if it does not fit the state: a live
  // decision always does, a damaged store's replay may not.

  bool Apply(const change::Granted& granted, const Log& log, StreamCounters& counters) {
    if (granted.ranges.empty() || granted.worker.empty() || !granted.batch) return false;
    uint64_t records = 0;
    Offset before = 0;
    for (const OffsetRange& range : granted.ranges) {
      if (range.first >= range.end || range.first < before || range.end > log.end()) return false;
      if (!IsAvailable(range)) return false;
      before = range.end;
      records += range.size();
    }
    const uint32_t index = leases_.Grant(granted.leased_until);
    Lease& lease = leases_[index].what;
    lease.worker = granted.worker;
    const bool first_lease = by_worker_.emplace(lease.worker, index).second;
    if (!first_lease || !by_batch_.emplace(granted.batch, index).second) {
      if (first_lease) by_worker_.erase(lease.worker);
      leases_.End(index);
      leases_.Free(index);
      return false;
    }
    hint_ = index;
    lease.batch = granted.batch;
    lease.group = next_group_++;
    lease.records = records;
    lease.ranges.assign(granted.ranges.begin(), granted.ranges.end());
    leased_ += records;
    const uint64_t fresh_from = next_;
    for (const OffsetRange& range : granted.ranges) {
      TakeReleased({range.first, std::min(range.end, fresh_from)});
      next_ = std::max(next_, range.end);
    }
    Materialize(lease, log);
    ++counters.leases;
    counters.delivered += records;
    counters.redelivered += records - (next_ - fresh_from);
    return true;
  }

  bool Apply(const change::Renewed& renewed, const Log& log) {
    const uint32_t index = IndexOf(renewed.batch);
    if (index == kNoSlot || !leases_[index].active()) return false;
    leases_.Renew(index, renewed.leased_until);
    Materialize(leases_[index].what, log);
    return true;
  }

  /// Acks and nacks of a batch that Find() does not know change nothing, and are never stored.
  bool Apply(const change::Acked& acked) {
    return Settle(acked.batch, [](uint32_t) {});
  }

  bool Apply(const change::Released& released, const Log& log) {
    const bool known = Settle(released.batch, [&](uint32_t index) {
      const Lease& lease = leases_[index].what;
      for (const OffsetRange& range : lease.ranges) Release(range, lease.group, kNoSlot);
    });
    SkipBefore(log.begin());
    return known;
  }

  /// The lowest offset in an active lease whose bytes were not all in memory yet; the largest
  /// offset if there is none.
  Offset LowestUnmaterialized() const {
    Offset lowest = UINT64_MAX;
    leases_.ForEachActive([&](uint32_t index) {
      const Lease& lease = leases_[index].what;
      if (lease.pieces.empty()) lowest = std::min(lowest, lease.ranges.front().first);
    });
    return lowest;
  }

  SubscriptionSnapshot Snapshot() const {
    SubscriptionSnapshot snapshot{.id = id_,
                                  .name = name_,
                                  .start_at = start_at_,
                                  .created_at = created_at_,
                                  .start = start_,
                                  .next = next_,
                                  .skipped = skipped_,
                                  .next_group = next_group_,
                                  .leases = {},
                                  .released = {}};
    std::map<uint32_t, std::vector<OffsetRange>> expired;
    for (const auto& [first, released] : released_) {
      const OffsetRange range{first, released.end};
      if (released.slot == kNoSlot) {
        snapshot.released.push_back({range, released.group});
      } else {
        expired[released.slot].push_back(range);
      }
    }
    const auto add = [&](uint32_t index, std::vector<OffsetRange> ranges) {
      const Slot& slot = leases_[index];
      snapshot.leases.push_back({slot.what.batch, slot.what.worker, slot.leased_until,
                                 slot.what.group, std::move(ranges)});
    };
    leases_.ForEachActive([&](uint32_t index) { add(index, leases_[index].what.ranges); });
    for (auto& [index, ranges] : expired) add(index, std::move(ranges));
    std::sort(snapshot.leases.begin(), snapshot.leases.end(),
              [](const auto& a, const auto& b) { return a.group < b.group; });
    return snapshot;
  }

 private:
  static constexpr uint32_t kNoSlot = UINT32_MAX;

  /// Records to deliver again.
  struct Released {
    Offset end = 0;
    uint64_t group = 0;
    uint32_t slot = kNoSlot;  ///< The expired lease that can still be settled for them.
  };

  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const {
      return absl::Hash<absl::string_view>{}(absl::string_view(text.data(), text.size()));
    }
  };

  /// The slot of a batch that Find() knows. Most calls name the batch of the call before.
  uint32_t IndexOf(BatchId batch) const {
    if (hint_ != kNoSlot && batch && leases_[hint_].what.batch == batch) return hint_;
    const auto found = by_batch_.find(batch);
    return found == by_batch_.end() ? kNoSlot : hint_ = found->second;
  }

  void Release(OffsetRange range, uint64_t group, uint32_t slot) {
    released_.emplace(range.first, Released{range.end, group, slot});
    released_count_ += range.size();
  }

  bool IsAvailable(OffsetRange range) const {
    Offset at = range.first;
    while (at < range.end && at < next_) {
      auto it = released_.upper_bound(at);
      if (it == released_.begin() || (--it)->second.end <= at) return false;
      at = it->second.end;
    }
    return true;
  }

  void Expire(uint32_t index, const StreamPolicy& policy) {
    Lease& lease = leases_[index].what;
    by_worker_.erase(lease.worker);
    leased_ -= lease.records;
    lease.pieces.clear();
    const bool settles = Rules::LateSettleCounts(policy);
    for (const OffsetRange& range : lease.ranges) {
      Release(range, lease.group, settles ? index : kNoSlot);
    }
    if (!settles) Forget(index);
  }

  void SkipReleasedBefore(Offset begin) {
    while (!released_.empty() && released_.begin()->first < begin) {
      const auto front = released_.begin();
      const OffsetRange range{front->first, std::min(front->second.end, begin)};
      const Released rest = front->second;
      skipped_ += range.size();
      released_count_ -= range.size();
      released_.erase(front);
      if (range.end < rest.end) released_.emplace(range.end, rest);
      if (rest.slot != kNoSlot && (leases_[rest.slot].what.records -= range.size()) == 0) {
        Forget(rest.slot);
      }
    }
  }

  /// Takes `range` out of the released records, for a new lease: every expired lease that it
  /// touches can no longer be settled.
  void TakeReleased(OffsetRange range) {
    Offset at = range.first;
    while (at < range.end) {
      const auto it = std::prev(released_.upper_bound(at));
      if (it->second.slot != kNoSlot) Abandon(it->second.slot);
      const Offset first = it->first;
      const Released taken = it->second;
      released_.erase(it);
      if (first < at) released_.emplace(first, Released{at, taken.group, kNoSlot});
      if (range.end < taken.end) {
        released_.emplace(range.end, Released{taken.end, taken.group, kNoSlot});
      }
      const Offset end = std::min(taken.end, range.end);
      released_count_ -= end - at;
      at = end;
    }
  }

  /// Calls visit(iterator) for each released range under the expired lease `index`; `visit` may
  /// erase it.
  template <class Visit>
  void ForEachReleasedOf(uint32_t index, Visit visit) {
    for (const OffsetRange& range : leases_[index].what.ranges) {
      auto it = released_.lower_bound(range.first);
      while (it != released_.end() && it->first < range.end) {
        const auto current = it++;
        if (current->second.slot == index) visit(current);
      }
    }
  }

  /// An expired lease can no longer be settled; its records stay released.
  void Abandon(uint32_t index) {
    ForEachReleasedOf(index, [](auto it) { it->second.slot = kNoSlot; });
    Forget(index);
  }

  /// Ends a batch that can be settled, active or expired, and frees it after then(slot index).
  /// Before `then`, its ranges are cut down to what it still stands for.
  template <class Then>
  bool Settle(BatchId batch, Then then) {
    const uint32_t index = IndexOf(batch);
    if (index == kNoSlot) return false;
    Lease& lease = leases_[index].what;
    if (leases_[index].active()) {
      leases_.End(index);
      by_worker_.erase(lease.worker);
      leased_ -= lease.records;
    } else {
      std::vector<OffsetRange> left;
      ForEachReleasedOf(index, [&](auto it) {
        left.push_back({it->first, it->second.end});
        released_count_ -= left.back().size();
        released_.erase(it);
      });
      lease.ranges = std::move(left);
    }
    then(index);
    Forget(index);
    return true;
  }

  /// Frees an inactive lease's slot.
  void Forget(uint32_t index) {
    Lease& lease = leases_[index].what;
    by_batch_.erase(lease.batch);
    lease.batch = BatchId();
    lease.pieces.clear();
    leases_.Free(index);
  }

  static void Materialize(Lease& lease, const Log& log) {
    if (!lease.pieces.empty()) return;
    for (const OffsetRange& range : lease.ranges) {
      if (log.AddPieces(range, lease.pieces)) continue;
      lease.pieces.clear();
      return;
    }
  }

  SubscriptionId id_;
  std::string name_;
  StartAt start_at_;
  Instant created_at_;
  Offset start_ = 0;
  Offset next_ = 0;  ///< The lowest offset never delivered.
  uint64_t skipped_ = 0;
  uint64_t next_group_ = 0;
  uint64_t leased_ = 0;          ///< Records in active leases.
  uint64_t released_count_ = 0;  ///< Records in released_.
  LeaseTable<Rules, Lease> leases_;
  absl::flat_hash_map<BatchId, uint32_t> by_batch_;
  /// Active leases; the keys are the leases' own texts.
  absl::flat_hash_map<std::string_view, uint32_t, TextHash, std::equal_to<>> by_worker_;
  std::map<Offset, Released> released_;
  mutable uint32_t hint_ = kNoSlot;  ///< Where the last search for a batch ended.
};

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_CORE_SUBSCRIPTION_CORE_H_
