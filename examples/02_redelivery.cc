// What is not acknowledged comes again: given back by Nack, or left behind by a worker that
// vanished.
#include <cstdio>
#include <string>

#include "lessor/lessor.h"
#include "lessor/testing/simulated_clock.h"

int main() {
  lessor_testing::SimulatedClock clock;  // So that five minutes take no time here.
  lessor::Broker broker({.clock = &clock});
  auto orders = broker.CreateStream({.name = "orders"});
  auto ingestion = orders->Subscribe({.name = "ingestion"});
  orders->Produce({{.content = "tea"}, {.content = "cake"}}).IgnoreError();

  std::string seen;
  const auto see = [&](const char* worker, const lessor::Batch& batch) {
    seen += worker;
    seen += ':';
    for (lessor::RecordView record : batch) seen += " " + std::string(record.content());
    seen += '\n';
  };

  // Ann takes both records and finds that she cannot serve them. They are available at once.
  auto anns = ingestion->Consume({.worker = "ann"});
  see("ann", *anns);
  ingestion->Nack(*anns, "ann").IgnoreError();

  // Bob takes them and is never heard of again. For five minutes nobody else gets them...
  auto bobs = ingestion->Consume({.worker = "bob"});
  see("bob", *bobs);
  see("cid", *ingestion->Consume({.worker = "cid"}));

  // ... and then anybody does, under a new batch id.
  clock.Advance(absl::Seconds(300));
  auto cids = ingestion->Consume({.worker = "cid"});
  see("cid", *cids);

  // Bob was only slow. His ack is too late: it succeeds and changes nothing.
  const bool late = ingestion->Ack(*bobs, "bob").ok() && ingestion->GetPosition()->lag() == 2;
  const bool done = ingestion->Ack(*cids, "cid").ok() && ingestion->GetPosition()->lag() == 0;

  std::fputs(seen.c_str(), stdout);
  const bool right = late && done && seen == "ann: tea cake\nbob: tea cake\ncid:\ncid: tea cake\n";
  return right ? 0 : 1;
}
