#include "property/generator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "lessor/change.h"
#include "lessor/policy.h"
#include "property/model.h"
#include "property/program.h"
#include "random.h"

namespace lessor_tests {
namespace {

constexpr int64_t kHour = 3'600'000;

std::string Repeat(std::string_view text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all.append(text);
  return all;
}

// Names of 128 and 129 letters; worker ids of 256 and 257 characters.
const std::string& LongName() {
  static const std::string name = Repeat("n", 128);
  return name;
}
const std::string& TooLongName() {
  static const std::string name = Repeat("n", 129);
  return name;
}
const std::vector<std::string>& OddWorkers() {
  static const std::vector<std::string> workers = {
      Repeat("", 1),         Repeat("\xff", 1),     Repeat("x", 256),         Repeat("x", 257),
      Repeat("\u00e9", 256), Repeat("\u00e9", 257), Repeat("\U0001f980", 256)};
  return workers;
}

}  // namespace

Setup RandomSetup(uint64_t seed) {
  Random random(Mix(seed) ^ 1U);
  Setup setup;
  setup.seed = seed;
  using Policy = lessor::StreamPolicy;
  if ((seed & 1U) != 0) setup.policy.late_ack = Policy::LateAck::kNever;
  if ((seed & 2U) != 0) setup.policy.redelivery = Policy::Redelivery::kWholeBatch;
  setup.policy.lease_limit_first = (seed & 4U) == 0;
  if (random.OneIn(4)) return setup;
  lessor::Limits& limits = setup.limits;
  const auto lower = [&random](int64_t& limit, std::initializer_list<int64_t> choices) {
    if (random.OneIn(2)) limit = random.Pick(choices);
  };
  // Leases that last longer than the shortest retention, too.
  limits.lease = absl::Milliseconds(random.Pick({300'000, 300'000, 1'000, 1, 7'200'000}));
  lower(limits.max_streams, {1, 2, 3, 3});
  lower(limits.max_subscriptions, {1, 2, 2, 3});
  lower(limits.max_active_leases, {1, 2, 2, 3});
  lower(limits.max_consume_records, {1, 3, 8});
  lower(limits.max_batch_bytes, {1, 50, 100, 100});
  lower(limits.max_record_bytes, {40, 64});
  lower(limits.max_produce_bytes, {100, 200});
  lower(limits.max_headers, {1, 2});
  lower(limits.max_header_name_bytes, {1, 4});
  lower(limits.max_header_value_bytes, {1, 4});
  lower(limits.max_headers_bytes, {8, 10});
  lower(limits.max_bytes_held, {300, 1'000, 4'000});
  if (random.OneIn(12)) {
    int64_t* const any[] = {&limits.max_streams,       &limits.max_subscriptions,
                            &limits.max_active_leases, &limits.max_batch_bytes,
                            &limits.max_record_bytes,  &limits.max_produce_bytes,
                            &limits.max_headers,       &limits.max_bytes_held};
    *random.Pick(any) = 0;
  }
  return setup;
}

Generator::Generator(const Setup& setup, uint64_t seed)
    : random_(seed),
      setup_(setup),
      length_(20 + random_.Below(random_.OneIn(3) ? 600 : 200)),
      big_records_(random_.OneIn(20)),
      restarts_often_(random_.OneIn(4)) {}

void Generator::PickStream(const Model& model, Operation& operation) {
  std::vector<Label> alive;
  for (const Model::Stream& stream : model.streams) {
    if (!stream.deleted) alive.push_back(stream.label);
  }
  if (!alive.empty() && !random_.OneIn(40)) {
    // Mostly the oldest: most of what happens is to happen to one stream.
    operation.stream = random_.OneIn(3) ? random_.Pick(alive) : alive.front();
  } else if (!streams_.empty()) {
    operation.stream = random_.Pick(streams_);
  }
}

void Generator::PickSubscription(const Model& model, Operation& operation) {
  PickStream(model, operation);
  std::vector<Label> alive;
  for (const Model::Stream& stream : model.streams) {
    if (stream.label != operation.stream) continue;
    for (const Model::Subscription& subscription : stream.subscriptions) {
      if (!subscription.deleted) alive.push_back(subscription.label);
    }
  }
  if (!alive.empty() && !random_.OneIn(40)) {
    operation.subscription = random_.OneIn(3) ? random_.Pick(alive) : alive.front();
  } else if (!subscriptions_.empty()) {
    operation.subscription = random_.Pick(subscriptions_);
  }
}

// A batch, with the worker that holds it or another.
void Generator::PickBatch(const Model& model, Operation& operation) {
  PickSubscription(model, operation);
  operation.worker = PickWorker();
  if (consumes_.empty() || random_.OneIn(30)) return;
  operation.batch = random_.Pick(consumes_);
  if (random_.OneIn(12)) return;
  using Status = Model::Batch::Status;
  const Status wanted = random_.Pick(
      {Status::kActive, Status::kActive, Status::kExpired, Status::kExpired, Status::kDead});
  std::vector<const Model::Batch*> batches;
  for (const Model::Stream& stream : model.streams) {
    if (stream.label != operation.stream) continue;
    for (const Model::Subscription& subscription : stream.subscriptions) {
      if (subscription.label != operation.subscription) continue;
      for (const Model::Batch& batch : subscription.batches) {
        if (batch.status == wanted) batches.push_back(&batch);
      }
    }
  }
  if (batches.empty()) return;
  const Model::Batch& batch = *random_.Pick(batches);
  operation.batch = batch.label;
  if (!random_.OneIn(4)) operation.worker = batch.worker;
}

// Steps of every size, and to the very instants at which something changes.
int64_t Generator::PickClock(const Model& model) {
  const int64_t now = std::max(model.now, kStartMs) - kStartMs;
  const int64_t lease = model.lease;
  std::vector<int64_t> instants;
  const uint64_t kind = random_.Below(12);
  for (const Model::Stream& stream : model.streams) {
    if (stream.deleted) continue;
    if (kind < 5) {
      for (const Model::Subscription& subscription : stream.subscriptions) {
        for (const Model::Batch& batch : subscription.batches) {
          const bool active = batch.status == Model::Batch::Status::kActive;
          if (active && !subscription.deleted) instants.push_back(batch.until - kStartMs);
        }
      }
    } else if (kind < 7) {
      for (const Model::Record& record : stream.records) {
        if (!record.gone) instants.push_back(record.timestamp + stream.retention - kStartMs);
      }
    }
  }
  // Mostly the first of them.
  if (!instants.empty()) {
    const int64_t instant = random_.OneIn(3) ? random_.Pick(instants)
                                             : *std::min_element(instants.begin(), instants.end());
    return instant + random_.Between(-1, 1);
  }
  switch (kind) {
    case 0:
    case 1:
    case 2:
      return now + random_.Between(1, lease);
    case 3:
    case 4:
    case 5:
      return now + random_.Between(0, 3);
    case 6:
      return now + random_.Between(0, kHour / 2);
    case 7:
      return now + random_.Between(0, 2 * kHour);
    case 8:
      return now + lease;
    case 9:
      return now - random_.Between(1, lease);
    case 10:
      return now - random_.Between(1, 48 * kHour);
    default:
      return random_.OneIn(4) ? now + random_.Between(1, 100 * 24 * kHour)
                              : now + random_.Between(1, 2 * lease);
  }
}

std::string Generator::PickText(std::initializer_list<std::string_view> texts) {
  return std::string(random_.Pick(texts));
}

std::string Generator::PickWorker() {
  if (random_.OneIn(50)) {
    return random_.Pick(OddWorkers());
  }
  return PickText({"ann", "bob", "cy", "dee", "eve"});
}

size_t Generator::PickSize() {
  if (big_records_ && random_.OneIn(2)) return random_.Below(150'000);
  const int64_t limit =
      random_.Pick({setup_.limits.max_record_bytes, setup_.limits.max_batch_bytes});
  if (random_.OneIn(5) && limit < 1'000) {
    return static_cast<size_t>(std::max<int64_t>(limit + random_.Between(-1, 1), 0));
  }
  return random_.Below(random_.OneIn(3) ? 60 : 20);
}

std::vector<RecordSpec> Generator::PickRecords() {
  std::vector<RecordSpec> records(random_.OneIn(60) ? 0
                                                    : 1 + random_.Below(random_.OneIn(3) ? 12 : 3));
  for (RecordSpec& record : records) {
    record.size = PickSize();
    if (!random_.OneIn(6)) continue;
    const uint64_t headers = 1 + random_.Below(3);
    for (uint64_t i = 0; i < headers; ++i) {
      std::string name = PickText({"a", "type", "A", "\u00e9", "long_name"});
      std::string value(random_.Below(6), 'v');
      if (random_.OneIn(60)) name = PickText({"", "\xff"});
      if (random_.OneIn(60)) value = PickText({"\xff"});
      record.headers.emplace_back(std::move(name), std::move(value));
    }
  }
  return records;
}

Operation Generator::Next(const Model& model, Label label) {
  Operation operation;
  operation.label = label;
  // Something to work with first.
  uint64_t kind = restarts_often_ && random_.OneIn(7) ? 90 : random_.Below(100);
  if (streams_.empty()) kind = 99;
  if (!streams_.empty() && subscriptions_.empty()) kind = 96;
  if (kind < 28) {
    operation.what = Do::kConsume;
    PickSubscription(model, operation);
    operation.worker = PickWorker();
    const int64_t most = setup_.limits.max_consume_records;
    operation.max_records = random_.OneIn(40)
                                ? random_.Pick({int64_t{0}, int64_t{-1}, most, most + 1})
                            : random_.OneIn(4) ? most
                                               : std::min(most, random_.Between(1, 8));
    operation.wait = random_.OneIn(10);
    consumes_.push_back(label);
  } else if (kind < 40) {
    operation.what = Do::kAck;
    PickBatch(model, operation);
  } else if (kind < 47) {
    operation.what = Do::kNack;
    PickBatch(model, operation);
  } else if (kind < 54) {
    operation.what = Do::kExtend;
    PickBatch(model, operation);
  } else if (kind < 72) {
    operation.what = Do::kProduce;
    PickStream(model, operation);
    operation.records = PickRecords();
  } else if (kind < 89) {
    operation.what = Do::kClock;
    operation.ms = PickClock(model);
  } else if (kind < 91) {
    operation.what = Do::kRestart;
  } else if (kind < 93) {
    operation.what = Do::kUpdateStream;
    PickStream(model, operation);
    if (!random_.OneIn(3)) {
      operation.ms = random_.Pick({kHour, kHour, kHour + 1, 2 * kHour, 24 * kHour, 720 * kHour,
                                   kHour - 1, 720 * kHour + 1});
    }
    // Both at once disabled would be refused before or after a look at the stream.
    if (random_.OneIn(3)) {
      (random_.OneIn(2) ? operation.http : operation.worker_binding) = random_.OneIn(2);
    }
  } else if (kind < 94) {
    operation.what = Do::kFind;
    PickStream(model, operation);
    operation.name = PickText({"MAIN", "second", "none"});
  } else if (kind < 95) {
    operation.what = random_.OneIn(3) ? Do::kDeleteStream : Do::kUnsubscribe;
    PickSubscription(model, operation);
  } else if (kind < 98) {
    operation.what = Do::kSubscribe;
    PickStream(model, operation);
    operation.name = PickText({"main", "Main", "second", "third-one", "fourth_1"});
    if (random_.OneIn(10)) {
      operation.name = PickText({"", "no good", LongName(), TooLongName(), "\u00e9"});
    }
    if (random_.OneIn(3)) operation.start_at = lessor::StartAt::kLatest;
    subscriptions_.push_back(label);
  } else {
    operation.what = Do::kCreateStream;
    operation.name = PickText({"orders", "Orders", "events_2", "third", "fourth"});
    if (random_.OneIn(10)) {
      operation.name = PickText({"", "no-good", LongName(), TooLongName(), "\u00e9"});
    }
    if (!random_.OneIn(4)) {
      operation.ms = random_.Pick({kHour, kHour, 2 * kHour, 720 * kHour, kHour - 1});
    }
    if (random_.OneIn(6)) operation.http = random_.OneIn(2);
    if (random_.OneIn(6)) operation.worker_binding = random_.OneIn(2);
    streams_.push_back(label);
  }
  return operation;
}

}  // namespace lessor_tests
