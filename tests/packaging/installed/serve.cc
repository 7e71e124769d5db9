#include "serve.h"

#include <string>

#include "lessor/broker_impl.h"
#include "lessor/core/rules.h"
#include "lessor/lessor.h"

std::string Serve(const std::string& content) {
  lessor::Broker broker;
  auto stream = broker.CreateStream({.name = "orders"});
  auto subscription = stream->Subscribe({.name = "ingestion"});
  stream->Produce({{.content = content}}).IgnoreError();
  auto batch = subscription->Consume({.worker = "worker-1"});
  if (!batch.ok() || batch->size() != 1) return "";
  if (!subscription->Ack(*batch, "worker-1").ok()) return "";
  if (subscription->GetPosition()->lag() != 0) return "";
  return std::string(batch->front().content());
}
