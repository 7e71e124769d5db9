// lessor/core/rules.h: the decisions of the contract, one named predicate each.
#ifndef LESSOR_CORE_RULES_H_
#define LESSOR_CORE_RULES_H_

#include <algorithm>
#include <cstdint>

#include "lessor/change.h"
#include "lessor/policy.h"
#include "lessor/record.h"
#include "lessor/time.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// The rules as the specs have them, and the core's only template parameter. The product uses no
/// other; the test kit derives deliberately wrong ones from it.
///
/// Every function is a pure function of its arguments.
struct StandardRules {
  /// S17: a lease is active while now < leased_until.
  static bool IsActive(Instant now, Instant leased_until) { return now < leased_until; }
  /// S16: a lease lasts `lease` from now.
  static Instant LeaseEnd(Instant now, Millis lease) { return now + lease; }
  /// S13, S22: a refreshed lease lasts `lease` from now and never becomes shorter.
  static Instant Renewed(Instant leased_until, Instant now, Millis lease) {
    return std::max(leased_until, now + lease);
  }
  /// S14: no further lease beyond the limit.
  static bool AtLeaseLimit(uint64_t active_leases, int64_t limit) {
    return static_cast<int64_t>(active_leases) >= limit;
  }
  /// S20, S21: an expired batch of which nothing has been redelivered can still be settled.
  static bool LateSettleCounts(const StreamPolicy& policy) {
    return policy.late_ack == StreamPolicy::LateAck::kUntilRedelivered;
  }
  /// S22: only the holder of an active lease extends it.
  static bool MayExtend(bool active, bool holder) { return active && holder; }
  /// S15: what may share a batch.
  static bool MayShareBatch(const StreamPolicy& policy, bool same_group) {
    return same_group || policy.redelivery == StreamPolicy::Redelivery::kRefill;
  }
  /// S5: a record is in the stream while timestamp + retention > now.
  static bool IsRetained(Instant timestamp, Millis retention, Instant now) {
    return timestamp + retention > now;
  }
  /// S2: timestamps never decrease.
  static Instant Timestamp(Instant now, Instant newest) { return std::max(now, newest); }
  /// S9: where a subscription starts.
  static Offset StartOffset(StartAt start_at, Offset begin, Offset end) {
    return start_at == StartAt::kEarliest ? begin : end;
  }
};

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_CORE_RULES_H_
