// lessor/error.h: what a refused call says, as a type.
//
// Every refusal is an absl::Status that carries a lessor::Reason:
//
//   absl::Status status = subscription.Extend(batch.id(), "worker-1").status();
//   if (lessor::ReasonOf(status) == lessor::Reason::kLeaseNotHeld) { ... consume again ... }
//
// Test code and reason, never the text: texts may change in any release. One table (src/error.cc)
// maps a reason to absl's code, to the wire code of the hosted service and to "is the same request
// worth repeating?".
#ifndef LESSOR_ERROR_H_
#define LESSOR_ERROR_H_

#include <string_view>

#include "absl/status/status.h"
#include "lessor/export.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// Why a call was refused, and what the caller should do.
enum class Reason {
  /// No refusal, or a status that is not lessor's.
  kNone = 0,
  /// The stream does not exist or was deleted (wire 10200). Create it, or drop the handle.
  kNoSuchStream,
  /// The name belongs to another stream, or to a subscription with other settings (10201). Choose
  /// another name, or open what is there.
  kNameTaken,
  /// An argument is outside its limits (10204). Mend the call; nothing changed.
  kInvalidArgument,
  /// As many streams exist as Limits::max_streams allows (10204). Delete one or raise the limit.
  kStreamLimit,
  /// The records of one produce exceed Limits::max_produce_bytes (10206). Split them.
  kProduceTooLarge,
  /// One record exceeds Limits::max_record_bytes (10207). It can never be stored.
  kRecordTooLarge,
  /// Temporarily unavailable, nothing was stored (10211). Repeat the call.
  kUnavailable,
  /// Limits::max_bytes_held would be passed; nothing was stored (10211). Repeat it after retention
  /// has freed room.
  kFull,
  /// The store failed in a way that leaves open whether the change was stored (10212). Look first:
  /// repeating may duplicate.
  kOutcomeUnknown,
  /// A defect of lessor or of a store (10213). Report it.
  kInternal,
  /// Records could not be read from the store (10214). Repeat the call.
  kReadFailed,
  /// The subscription does not exist or was deleted (10215).
  kNoSuchSubscription,
  /// Limits::max_active_leases are in use (10216). Repeat after a lease has ended.
  kLeaseLimit,
  /// A consume of this worker is still reading its batch (10217). Repeat: the answer is that batch.
  kStillReading,
  /// The batch is not actively leased by this worker (10218). Drop it and consume again.
  kLeaseNotHeld,
  /// As many subscriptions exist as Limits::max_subscriptions allows (10219).
  kSubscriptionLimit,
  /// A blocking call was ended by its stop token or by Broker::Shutdown. Nothing was leased.
  kCancelled,
  /// Between Store and Broker only: another writer's change came first; the Broker decides again.
  kRaceLost,
};

/// The reason a status carries. kNone for an OK status and for one that lessor did not make.
LESSOR_EXPORT Reason ReasonOf(const absl::Status& status);

/// What the table says about a reason.
struct ReasonFacts {
  std::string_view name;    ///< "lease_not_held": stable, for logs and metrics.
  absl::StatusCode code;    ///< absl's code of every status with this reason.
  int wire_code;            ///< The hosted service's code; 0 where it has none.
  bool retry_same_request;  ///< Whether the same request may succeed later, unchanged.
};
LESSOR_EXPORT const ReasonFacts& FactsOf(Reason reason);

/// ReasonOf() and FactsOf() in one: 0 for OK and for a status without a wire code.
LESSOR_EXPORT int WireCodeOf(const absl::Status& status);

/// A status with the reason's code, carrying the reason. For implementations of Service and Store.
LESSOR_EXPORT absl::Status MakeError(Reason reason, std::string_view message);

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_ERROR_H_
