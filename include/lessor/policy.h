// lessor/policy.h: the readings of the contract where the hosted documentation leaves a doubt.
#ifndef LESSOR_POLICY_H_
#define LESSOR_POLICY_H_

#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// How doubtful points of the stream rules are read. The defaults are the spec's choices. A
/// consumer that is right under every combination is right whatever the hosted service does.
struct StreamPolicy {
  /// Does an ack or a nack still count after its lease expired? Spec: S20, S21.
  enum class LateAck {
    kUntilRedelivered,  ///< Until one of the batch's records was leased again.
    kNever,             ///< An expired batch is dead at once.
  };
  /// How do records come again after a nack or an expiry? Spec: S15.
  enum class Redelivery {
    kRefill,      ///< Lowest offset first, mixed with other released and new records.
    kWholeBatch,  ///< Alone: a batch never mixes one released batch's records with any others. It
                  ///< comes in one piece unless max_records or the byte limit is smaller.
  };

  LateAck late_ack = LateAck::kUntilRedelivered;
  Redelivery redelivery = Redelivery::kRefill;
  /// At the lease limit, with nothing to deliver: true refuses (Reason::kLeaseLimit), false gives
  /// the empty batch. Spec: S14.
  bool lease_limit_first = true;
};

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_POLICY_H_
