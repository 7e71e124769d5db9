// The library's own Broker beside one of other rules, which this program instantiates.
#include <cstdio>

#include "lessor/broker_impl.h"
#include "lessor/core/rules.h"
#include "lessor/lessor.h"
#include "lessor/testing/simulated_clock.h"

namespace {

/// Leases end a second early.
struct HastyRules : lessor::StandardRules {
  static bool IsActive(lessor::Instant now, lessor::Instant leased_until) {
    return now + lessor::Millis{1'000} < leased_until;
  }
};

/// Whether the lease is over a second before its end.
template <class Rules>
bool EndsEarly() {
  lessor_testing::SimulatedClock clock;
  lessor::BasicBroker<Rules> broker({.clock = &clock});
  auto stream = broker.CreateStream({.name = "orders"});
  auto subscription = stream->Subscribe({.name = "ingestion"});
  stream->Produce({{.content = "tea"}}).IgnoreError();
  const auto batch = subscription->Consume({.worker = "one"});
  clock.Advance(absl::Seconds(299));
  const absl::Status status = subscription->Extend(*batch, "one").status();
  return lessor::ReasonOf(status) == lessor::Reason::kLeaseNotHeld;
}

}  // namespace

int main() {
  const lessor::Service& as_service = *new lessor::Broker;
  const bool same_type = dynamic_cast<const lessor::Broker*>(&as_service) != nullptr;
  delete &as_service;
  const bool right = same_type && !EndsEarly<lessor::StandardRules>() && EndsEarly<HastyRules>();
  std::puts(right ? "right" : "wrong");
  return right ? 0 : 1;
}
