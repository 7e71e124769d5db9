// What the broker tests share: a Broker in simulated time, and short ways to say what they expect.
#ifndef LESSOR_TESTS_BROKER_FIXTURE_H_
#define LESSOR_TESTS_BROKER_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "catch.h"
#include "lessor/broker.h"
#include "lessor/error.h"
#include "lessor/limits.h"
#include "lessor/stream.h"
#include "lessor/testing/sequential_ids.h"
#include "lessor/testing/simulated_clock.h"

namespace lessor_tests {

/// The name of the status's reason, "ok" for success. Says so if the code is not the reason's.
inline std::string Why(const absl::Status& status) {
  if (status.ok()) return "ok";
  const lessor::ReasonFacts& facts = lessor::FactsOf(lessor::ReasonOf(status));
  std::string why(facts.name);
  if (facts.code != status.code()) why += " under another reason's code";
  if (status.message().empty()) why += " without a message";
  return why;
}
template <class Value>
std::string Why(const absl::StatusOr<Value>& answer) {
  return Why(answer.status());
}

inline absl::Duration Ms(int64_t count) { return absl::Milliseconds(count); }

/// The offsets of a batch, as "0 1 2".
inline std::string Offsets(const lessor::Batch& batch) {
  std::string text;
  for (const lessor::RecordView record : batch) {
    if (!text.empty()) text += ' ';
    text += std::to_string(record.offset());
  }
  return text;
}
/// The same of an answer, or why there is none.
inline std::string Offsets(const absl::StatusOr<lessor::Batch>& answer) {
  return answer.ok() ? Offsets(*answer) : Why(answer);
}

/// The contents of a batch, as "a b c".
inline std::string Contents(const lessor::Batch& batch) {
  std::string text;
  for (const lessor::RecordView record : batch) {
    if (!text.empty()) text += ' ';
    text += record.content();
  }
  return text;
}

/// S15's empty batch: no id, no records.
inline bool IsEmpty(const absl::StatusOr<lessor::Batch>& answer) {
  return answer.ok() && answer->empty() && answer->size() == 0 && !answer->id();
}

/// Everything that a Broker shows without being changed, as text. The same text is the same state.
inline std::string Describe(lessor::Broker& broker, bool with_ids = true) {
  std::string text;
  const auto add = [&](std::string_view name, const std::string& value) {
    text.append(" ").append(name).append("=").append(value);
  };
  const auto number = [&](std::string_view name, uint64_t value) {
    add(name, std::to_string(value));
  };
  const auto time = [&](std::string_view name, absl::Time value) {
    add(name,
        value == absl::InfiniteFuture() ? "never" : std::to_string(absl::ToUnixMillis(value)));
  };
  const auto id = [&](const auto& value) {
    if (with_ids) add("id", value.ToString());
  };
  const auto streams = broker.ListStreams();
  if (!streams.ok()) return "streams: " + Why(streams);
  for (const lessor::StreamInfo& info : *streams) {
    text += "stream " + info.name;
    id(info.id);
    number("retention_ms", static_cast<uint64_t>(absl::ToInt64Milliseconds(info.retention)));
    number("http", info.http ? 1 : 0);
    number("worker_binding", info.worker_binding ? 1 : 0);
    time("created", info.created_at);
    time("modified", info.modified_at);
    const lessor::Stream stream(broker, info.id);
    const auto subscriptions = stream.ListSubscriptions();
    if (!subscriptions.ok()) return text + Why(subscriptions);
    for (const lessor::SubscriptionInfo& sub : *subscriptions) {
      text += "\n  subscription " + sub.name;
      id(sub.id);
      number("latest", sub.start_at == lessor::StartAt::kLatest ? 1 : 0);
      time("created", sub.created_at);
      const lessor::Subscription handle(broker, {info.id, sub.id});
      const auto position = handle.GetPosition();
      if (!position.ok()) return text + Why(position);
      number("committed", position->committed);
      number("end", position->end);
      number("available", position->available);
      number("leased", position->leased);
      number("leases", position->active_leases);
      number("skipped", position->skipped);
      const auto explanation = handle.Explain();
      if (!explanation.ok()) return text + Why(explanation);
      number("answer", static_cast<uint64_t>(explanation->answer));
      time("next_lease_end", explanation->next_lease_end);
    }
    const auto leases = stream.ListLeases();
    if (!leases.ok()) return text + Why(leases);
    for (const lessor::LeaseInfo& lease : *leases) {
      text += "\n  lease of " + lease.worker;
      if (with_ids) {
        add("subscription", lease.subscription.ToString());
        add("batch", lease.batch.ToString());
      }
      time("until", lease.leased_until);
      number("first", lease.first);
      number("records", lease.records);
    }
    text += "\n";
  }
  const lessor::Stats stats = broker.GetStats();
  text += "held";
  number("streams", stats.streams);
  number("subscriptions", stats.subscriptions);
  number("records", stats.records);
  number("bytes", stats.bytes);
  number("leases", stats.active_leases);
  time("deadline", broker.NextDeadline());
  time("retention", broker.NextRetention());
  return text + "\n";
}

/// A Broker with one stream and one subscription from its start on.
struct World {
  explicit World(const lessor::Limits& limits = {}, const lessor::StreamPolicy& policy = {})
      : broker({.clock = &clock, .ids = &ids, .limits = limits, .policy = policy}),
        stream(*broker.CreateStream({.name = "orders"})),
        sub(*stream.Subscribe({.name = "ingestion"})),
        start(clock.Now()) {}

  /// Appends `count` records of one letter each.
  void Produce(int count) {
    const std::vector<lessor::Record> records(static_cast<size_t>(count), {.content = "x"});
    REQUIRE(stream.Produce(records).ok());
  }
  absl::StatusOr<lessor::Batch> Take(std::string_view worker, int64_t max_records = 1) const {
    return sub.Consume({.worker = worker, .max_records = max_records});
  }
  /// A batch that has to be there.
  lessor::Batch Lease(std::string_view worker, int64_t max_records = 1) const {
    const auto batch = Take(worker, max_records);
    REQUIRE(Why(batch) == "ok");
    REQUIRE_FALSE(batch->empty());
    return *batch;
  }
  lessor::Position At() const {
    const auto position = sub.GetPosition();
    REQUIRE(Why(position) == "ok");
    return *position;
  }
  /// The instant `ms` milliseconds after the start.
  absl::Time T(int64_t ms) const { return start + Ms(ms); }
  void GoTo(int64_t ms) { clock.AdvanceTo(T(ms)); }
  std::string State() { return Describe(broker); }

  lessor_testing::SimulatedClock clock;
  lessor_testing::SequentialIds ids;
  lessor::Broker broker;
  lessor::Stream stream;
  lessor::Subscription sub;
  absl::Time start;
};

}  // namespace lessor_tests

#endif  // LESSOR_TESTS_BROKER_FIXTURE_H_
