// lessor/core/explain.h: why a consume would give what it gives.
#ifndef LESSOR_CORE_EXPLAIN_H_
#define LESSOR_CORE_EXPLAIN_H_

#include <optional>
#include <string>

#include "lessor/core/log.h"
#include "lessor/core/subscription_core.h"
#include "lessor/export.h"
#include "lessor/limits.h"
#include "lessor/policy.h"
#include "lessor/position.h"
#include "lessor/time.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// The sentence of `explanation`, whose other fields are set.
LESSOR_EXPORT std::string SentenceOf(const Explanation& explanation, Instant now);

/// What a consume at `now` by a worker without a lease would give, and why. Spec: S30.
template <class Rules>
Explanation ExplainConsume(const SubscriptionCore<Rules>& subscription, const Log& log,
                           const Limits& limits, const StreamPolicy& policy, Instant now) {
  using Answer = Explanation::Answer;
  Explanation explanation;
  explanation.position = subscription.GetPosition(log);
  const Position& position = explanation.position;
  if (const std::optional<Instant> end = subscription.NextLeaseEnd()) {
    explanation.next_lease_end = ToTime(*end);
  }
  const bool at_limit = Rules::AtLeaseLimit(position.active_leases, limits.max_active_leases);
  if (at_limit && (policy.lease_limit_first || position.available > 0)) {
    explanation.answer = Answer::kLeaseLimit;
  } else if (position.available > 0) {
    explanation.answer = Answer::kRecords;
  } else if (position.leased > 0) {
    explanation.answer = Answer::kAllLeased;
  } else if (log.end() == subscription.start()) {
    explanation.answer = Answer::kNothingProduced;
  } else {
    explanation.answer = Answer::kCaughtUp;
  }
  explanation.sentence = SentenceOf(explanation, now);
  return explanation;
}

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_CORE_EXPLAIN_H_
