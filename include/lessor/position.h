// lessor/position.h: where a subscription stands, who holds what, and why.
#ifndef LESSOR_POSITION_H_
#define LESSOR_POSITION_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "lessor/ids.h"
#include "lessor/record.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// Where a subscription stands. Spec: S30.
struct Position {
  /// The lowest offset that is neither processed nor removed by retention. Spec: S24.
  Offset committed = 0;
  /// One after the newest record of the stream.
  Offset end = 0;
  /// Records that a consume could be given now, whatever the lease limit says.
  uint64_t available = 0;
  /// Records in active leases.
  uint64_t leased = 0;
  uint64_t active_leases = 0;
  /// Records that retention removed before they were processed. Never decreases. Spec: S25.
  uint64_t skipped = 0;

  /// Records from committed to end.
  uint64_t lag() const { return end - committed; }
};

/// One active lease: who holds what until when.
struct LeaseInfo {
  SubscriptionId subscription;
  BatchId batch;
  std::string worker;
  absl::Time leased_until;
  Offset first = 0;  ///< The lowest offset in it.
  uint64_t records = 0;
};

/// Why a consume by a worker that holds no lease would give what it gives. Spec: S30.
struct Explanation {
  enum class Answer {
    kRecords,          ///< Records are available.
    kNothingProduced,  ///< The stream has never had a record after the subscription's start.
    kCaughtUp,         ///< Everything retained is processed.
    kAllLeased,        ///< All that is left is leased; the first lease ends at next_lease_end.
    kLeaseLimit,       ///< All leases are in use; the first one ends at next_lease_end.
  };
  Answer answer = Answer::kNothingProduced;
  Position position;
  /// When the first active lease ends unless it is refreshed; absl::InfiniteFuture() if none.
  absl::Time next_lease_end = absl::InfiniteFuture();
  /// The same in one readable sentence. Not for parsing.
  std::string sentence;
};

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_POSITION_H_
