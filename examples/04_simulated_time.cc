// Time under a test's control: a simulated clock moves leases, and threads that are blocked, too.
#include <cstdio>
#include <thread>

#include "lessor/lessor.h"
#include "lessor/testing/sequential_ids.h"
#include "lessor/testing/simulated_clock.h"

int main() {
  lessor_testing::SimulatedClock clock;
  lessor_testing::SequentialIds ids;  // The same ids in every run.
  lessor::Broker broker({.clock = &clock, .ids = &ids});
  auto orders = broker.CreateStream({.name = "orders"});
  auto ingestion = orders->Subscribe({.name = "ingestion"});
  orders->Produce({{.content = "tea"}}).IgnoreError();
  const absl::Time start = clock.Now();

  // One worker holds the record; another one, on a thread of its own, waits for it for an hour.
  auto held = ingestion->Consume({.worker = "one"});
  absl::StatusOr<lessor::Batch> got;
  absl::Time at;
  std::thread waiting([&] {
    got = ingestion->Consume({.worker = "two", .wait_until = start + absl::Hours(1)});
    at = clock.Now();
  });
  while (clock.blocked() == 0) std::this_thread::yield();

  // The Broker knows when something happens next. A simulation goes there at once.
  const bool knows = broker.NextDeadline() == start + absl::Minutes(5);
  clock.AdvanceTo(broker.NextDeadline());
  waiting.join();

  const bool right = knows && held.ok() && got.ok() && got->size() == 1 &&
                     at == start + absl::Minutes(5) &&
                     got->leased_until() == start + absl::Minutes(10);
  std::puts(right ? "five minutes passed at once" : "wrong");
  return right ? 0 : 1;
}
