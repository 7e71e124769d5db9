// Waiting instead of polling: a consume that blocks until there is something to do, or until it is
// told to stop.
#include <cstdio>
#include <stop_token>
#include <string>
#include <thread>

#include "lessor/lessor.h"

int main() {
  lessor::Broker broker;
  auto orders = broker.CreateStream({.name = "orders"});
  auto ingestion = orders->Subscribe({.name = "ingestion"});

  std::string served;
  absl::Status ended;
  std::stop_source closing;
  std::thread worker([&] {
    for (;;) {
      // Sleeps until a record is there. A time in place of InfiniteFuture() is a deadline: at it,
      // the answer is the empty batch.
      auto batch = ingestion->Consume({.worker = "worker-1",
                                       .wait_until = absl::InfiniteFuture(),
                                       .stop = closing.get_token()});
      if (!batch.ok()) {
        ended = batch.status();
        return;
      }
      bool last = false;
      for (lessor::RecordView record : *batch) {
        served += std::string(record.content()) + "\n";
        last = last || record.content() == "the bill";
      }
      ingestion->Ack(*batch, "worker-1").IgnoreError();
      if (last) closing.request_stop();  // Any thread may do this; the next consume is cancelled.
    }
  });

  orders->Produce({{.content = "one espresso"}}).IgnoreError();
  orders->Produce({{.content = "the bill"}}).IgnoreError();
  worker.join();

  std::fputs(served.c_str(), stdout);
  const bool right =
      served == "one espresso\nthe bill\n" && lessor::ReasonOf(ended) == lessor::Reason::kCancelled;
  return right ? 0 : 1;
}
