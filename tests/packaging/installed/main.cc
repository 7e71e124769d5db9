#include <cstdio>

#include "lessor/broker_impl.h"
#include "lessor/core/rules.h"
#include "lessor/lessor.h"
#include "serve.h"

namespace {

// A clock of the user's own: the interfaces can be implemented from outside.
class FixedClock final : public lessor::Clock {
 public:
  absl::Time Now() override { return absl::FromUnixMillis(1'000); }
  void Wait(lessor::Waiter& /*waiter*/, absl::Time /*until*/) override {}
};

}  // namespace

int main() {
  FixedClock clock;
  lessor::Broker broker({.clock = &clock});
  const absl::Status refused = broker.CreateStream({.name = "no such name!"}).status();
  const bool right = Serve("one espresso") == "one espresso" &&
                     lessor::ReasonOf(refused) == lessor::Reason::kInvalidArgument &&
                     broker.CreateStream({.name = "a"})->Info()->created_at == clock.Now();
  std::puts(right ? "right" : "wrong");
  return right ? 0 : 1;
}
