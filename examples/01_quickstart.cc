// The example of README.md, checking itself.
#include <cstdio>
#include <string>

#include "lessor/lessor.h"

int main() {
  lessor::Broker broker;  // In memory, on the system clock.
  auto orders = broker.CreateStream({.name = "orders"});
  auto ingestion = orders->Subscribe({.name = "ingestion"});

  // A producer appends. Nothing that is consumed is removed: each subscription reads everything.
  orders
      ->Produce({{.content = "one espresso", .headers = {{"table", "7"}}},
                 {.content = "two croissants", .headers = {{"table", "9"}}}})
      .IgnoreError();

  // A worker leases a batch. For five minutes it is nobody else's.
  auto batch = ingestion->Consume({.worker = "worker-1", .max_records = 100});
  std::string served;
  for (lessor::RecordView record : *batch) {
    served += record.content();
    served += " for table " + std::string(*record.headers().Find("table")) + "\n";
  }

  // Done: the records never come again. Without the ack another worker would get them.
  absl::Status acked = ingestion->Ack(*batch, "worker-1");

  std::fputs(served.c_str(), stdout);
  const bool right = acked.ok() && ingestion->GetPosition()->lag() == 0 &&
                     served == "one espresso for table 7\ntwo croissants for table 9\n";
  return right ? 0 : 1;
}
