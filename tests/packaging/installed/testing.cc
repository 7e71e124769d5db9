// The test kit beside GoogleTest, or beside a namespace of that name.
#include <cstdio>

#ifdef WITH_GMOCK
#include <gmock/gmock.h>
#else
namespace testing {
template <class T>
struct Eq {
  explicit Eq(T value) : expected(value) {}
  T expected;
};
}  // namespace testing
#endif

#include "lessor/lessor.h"
#include "lessor/testing/sequential_ids.h"
#include "lessor/testing/simulated_clock.h"

using testing::Eq;
using namespace lessor;  // NOLINT: must not bring a second `testing`.

int main() {
  lessor_testing::SimulatedClock clock;
  lessor_testing::SequentialIds ids;
  Broker broker({.clock = &clock, .ids = &ids});
  auto stream = broker.CreateStream({.name = "orders"});
  auto subscription = stream->Subscribe({.name = "ingestion"});
  stream->Produce({{.content = "tea"}}).IgnoreError();
  const auto first = subscription->Consume({.worker = "one"});
  clock.Advance(absl::Seconds(300));
  const auto second = subscription->Consume({.worker = "two"});
  const bool again = second.ok() && second->size() == 1 && second->id() != first->id();
#ifdef WITH_GMOCK
  const bool right = testing::Matches(Eq(true))(again);
#else
  const bool right = Eq(true).expected == again;
#endif
  std::puts(right ? "right" : "wrong");
  return right ? 0 : 1;
}
