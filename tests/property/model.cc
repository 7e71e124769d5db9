#include "property/model.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "fmt/format.h"
#include "lessor/broker.h"
#include "lessor/error.h"
#include "lessor/position.h"
#include "property/program.h"

namespace lessor_tests {
namespace {

using lessor::Reason;
using Status = Model::Batch::Status;
using State = Model::State;

bool IsAvailable(State state) { return state == State::kFresh || state == State::kReleased; }

// S1, S7.
bool IsName(std::string_view name, std::string_view others) {
  if (name.empty() || name.size() > 128) return false;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    if (!letter && !digit && others.find(c) == std::string_view::npos) return false;
  }
  return true;
}

bool SameName(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto lower = [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    };
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

// The programs' only text that is not UTF-8 is the byte ff.
bool IsUtf8(std::string_view text) { return text.find('\xff') == std::string_view::npos; }

// S12: characters are counted by the bytes that begin one.
bool IsWorker(std::string_view worker) {
  if (!IsUtf8(worker)) return false;
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; };
  const auto characters = std::count_if(worker.begin(), worker.end(), begins);
  return characters >= 1 && characters <= 256;
}

// S1: 3,600-2,592,000 s.
bool IsRetention(int64_t ms) { return ms >= 3'600'000 && ms <= 2'592'000'000; }

// S4: the header limits.
bool HeadersAreGood(const RecordSpec& record, const lessor::Limits& limits) {
  if (static_cast<int64_t>(record.headers.size()) > limits.max_headers) return false;
  std::set<std::string> names;
  int64_t all = 0;
  for (const auto& [name, value] : record.headers) {
    if (name.empty() || !IsUtf8(name) || !IsUtf8(value)) return false;
    if (!names.insert(name).second) return false;
    if (static_cast<int64_t>(name.size()) > limits.max_header_name_bytes) return false;
    if (static_cast<int64_t>(value.size()) > limits.max_header_value_bytes) return false;
    all += static_cast<int64_t>(name.size() + value.size());
  }
  return all <= limits.max_headers_bytes;
}

size_t SizeOf(const RecordSpec& record) {
  size_t size = record.size;
  for (const auto& [name, value] : record.headers) size += name.size() + value.size();
  return size;
}

std::string Show(const Model::Stream& stream) {
  return ShowStream(stream.label, stream.name, stream.retention, stream.http, stream.worker_binding,
                    stream.created, stream.modified);
}

std::string Show(const Model::Subscription& subscription) {
  return ShowSubscription(subscription.label, subscription.name, subscription.start_at,
                          subscription.created);
}

uint64_t ActiveLeases(const Model::Subscription& subscription) {
  uint64_t active = 0;
  for (const Model::Batch& batch : subscription.batches) active += batch.status == Status::kActive;
  return active;
}

// S24, S25, S30.
lessor::Position PositionOf(const Model::Stream& stream, const Model::Subscription& subscription) {
  lessor::Position position;
  position.end = stream.records.size();
  position.committed = position.end;
  for (size_t i = stream.records.size(); i-- > 0;) {
    const State state = subscription.state[i];
    if (IsAvailable(state) || state == State::kLeased) position.committed = i;
    position.available += IsAvailable(state);
    position.leased += state == State::kLeased;
    position.skipped += state == State::kSkipped;
  }
  position.active_leases = ActiveLeases(subscription);
  return position;
}

}  // namespace

Model::Model(const Setup& setup)
    : limits(setup.limits),
      policy(setup.policy),
      lease(absl::ToInt64Milliseconds(setup.limits.lease)) {}

Model::Stream* Model::Find(Label label) {
  for (Stream& stream : streams) {
    if (stream.label == label && !stream.deleted) return &stream;
  }
  return nullptr;
}

Model::Subscription* Model::Find(Label stream_label, Label label) {
  Stream* stream = Find(stream_label);
  if (stream == nullptr) return nullptr;
  for (const auto& [operation, name] : subscription_names) {
    if (operation != label) continue;
    for (Subscription& subscription : stream->subscriptions) {
      if (subscription.label == name && !subscription.deleted) return &subscription;
    }
  }
  return nullptr;
}

Model::Batch* Model::Find(Subscription& subscription, Label label) {
  for (const auto& [operation, name] : batch_names) {
    if (operation != label) continue;
    for (Batch& batch : subscription.batches) {
      if (batch.label == name) return &batch;
    }
  }
  return nullptr;
}

void Model::SeeTime() {
  now = std::max(now, clock);
  for (Stream& stream : streams) {
    if (!stream.deleted) LetTimePass(stream);
  }
}

void Model::LetTimePass(Stream& stream) {
  // S5.
  for (Record& record : stream.records) {
    if (record.timestamp + stream.retention <= now) record.gone = true;
  }
  for (Subscription& subscription : stream.subscriptions) {
    if (subscription.deleted) continue;
    // S17, S23.
    for (Batch& batch : subscription.batches) {
      if (batch.status != Status::kActive || now < batch.until) continue;
      batch.status = policy.late_ack == lessor::StreamPolicy::LateAck::kNever ? Status::kDead
                                                                              : Status::kExpired;
      ++counted.expiries;
      for (const size_t i : batch.records) subscription.state[i] = State::kReleased;
    }
    // S25; and S5: a leased record is neither removed nor skipped.
    for (size_t i = 0; i < stream.records.size(); ++i) {
      State& state = subscription.state[i];
      if (stream.records[i].gone && IsAvailable(state)) state = State::kSkipped;
    }
    // Of an expired batch, nothing is left to settle.
    for (Batch& batch : subscription.batches) {
      if (batch.status != Status::kExpired) continue;
      bool any = false;
      for (const size_t i : batch.records) any |= subscription.state[i] == State::kReleased;
      if (!any) batch.status = Status::kDead;
    }
  }
}

Model::Answer Model::CreateStream(const Operation& operation) {
  const int64_t retention = operation.ms.value_or(604'800'000);
  const bool http = operation.http.value_or(true);
  const bool worker_binding = operation.worker_binding.value_or(true);
  if (!IsName(operation.name, "_") || !IsRetention(retention) || (!http && !worker_binding)) {
    return ShowReason(Reason::kInvalidArgument);
  }
  int64_t count = 0;
  for (const Stream& stream : streams) {
    if (stream.deleted) continue;
    if (SameName(stream.name, operation.name)) return ShowReason(Reason::kNameTaken);
    ++count;
  }
  if (count >= limits.max_streams) return ShowReason(Reason::kStreamLimit);
  Stream stream;
  stream.label = operation.label;
  stream.name = operation.name;
  stream.retention = retention;
  stream.http = http;
  stream.worker_binding = worker_binding;
  stream.created = stream.modified = now;
  streams.push_back(stream);
  return Show(stream);
}

Model::Answer Model::UpdateStream(const Operation& operation) {
  if (!operation.ms && !operation.http && !operation.worker_binding) {
    return ShowReason(Reason::kInvalidArgument);
  }
  if (operation.ms && !IsRetention(*operation.ms)) return ShowReason(Reason::kInvalidArgument);
  Stream* stream = Find(operation.stream);
  if (stream == nullptr) return ShowReason(Reason::kNoSuchStream);
  const bool http = operation.http.value_or(stream->http);
  const bool worker_binding = operation.worker_binding.value_or(stream->worker_binding);
  if (!http && !worker_binding) return ShowReason(Reason::kInvalidArgument);
  stream->http = http;
  stream->worker_binding = worker_binding;
  stream->retention = operation.ms.value_or(stream->retention);
  stream->modified = now;
  LetTimePass(*stream);  // S5: at once.
  return Show(*stream);
}

Model::Answer Model::Produce(const Operation& operation) {
  // S3, S4: headers first, then the record, then the call.
  if (operation.records.empty()) return ShowReason(Reason::kInvalidArgument);
  int64_t all = 0;
  bool too_large = false;
  for (const RecordSpec& record : operation.records) {
    if (!HeadersAreGood(record, limits)) return ShowReason(Reason::kInvalidArgument);
    too_large |= static_cast<int64_t>(SizeOf(record)) > limits.max_record_bytes;
    all += static_cast<int64_t>(SizeOf(record));
  }
  if (too_large) return ShowReason(Reason::kRecordTooLarge);
  if (all > limits.max_produce_bytes) return ShowReason(Reason::kProduceTooLarge);
  Stream* stream = Find(operation.stream);
  if (stream == nullptr) return ShowReason(Reason::kNoSuchStream);
  // S31.
  int64_t held = 0;
  for (const Stream& other : streams) {
    if (other.deleted) continue;
    for (const Record& record : other.records) {
      if (!record.gone) held += static_cast<int64_t>(record.footprint);
    }
  }
  std::vector<Record> added;
  const size_t first = stream->records.size();
  int64_t timestamp = now;  // S2.
  for (const Record& record : stream->records) timestamp = std::max(timestamp, record.timestamp);
  for (const RecordSpec& spec : operation.records) {
    Record record;
    record.timestamp = timestamp;
    record.size = SizeOf(spec);
    record.footprint = record.size + (spec.headers.empty() ? 8 : 16 + 8 * spec.headers.size());
    record.shown = ShowRecord(first + added.size(), timestamp,
                              ContentOf(operation.label, added.size(), spec.size), spec.headers);
    held += static_cast<int64_t>(record.footprint);
    added.push_back(record);
  }
  if (held > limits.max_bytes_held) return ShowReason(Reason::kFull);
  for (const Record& record : added) {
    stream->records.push_back(record);
    for (Subscription& subscription : stream->subscriptions) {
      subscription.state.push_back(State::kFresh);
      subscription.holder.push_back(SIZE_MAX);
    }
  }
  counted.produced += added.size();
  return ShowAppended(first, added.size(), timestamp);
}

Model::Answer Model::Subscribe(const Operation& operation) {
  if (!IsName(operation.name, "_-")) return ShowReason(Reason::kInvalidArgument);
  Stream* stream = Find(operation.stream);
  if (stream == nullptr) return ShowReason(Reason::kNoSuchStream);
  int64_t count = 0;
  for (const Subscription& existing : stream->subscriptions) {
    if (existing.deleted) continue;
    ++count;
    if (!SameName(existing.name, operation.name)) continue;
    // S8.
    if (existing.start_at != operation.start_at) return ShowReason(Reason::kNameTaken);
    subscription_names.emplace_back(operation.label, existing.label);
    return Show(existing);
  }
  if (count >= limits.max_subscriptions) return ShowReason(Reason::kSubscriptionLimit);
  Subscription subscription;
  subscription.label = operation.label;
  subscription.name = operation.name;
  subscription.start_at = operation.start_at;
  subscription.created = now;
  // S9.
  const bool earliest = operation.start_at == lessor::StartAt::kEarliest;
  subscription.start = stream->records.size();
  for (size_t i = stream->records.size(); earliest && i-- > 0;) {
    if (!stream->records[i].gone) subscription.start = i;
  }
  for (size_t i = 0; i < stream->records.size(); ++i) {
    subscription.state.push_back(i < subscription.start ? State::kProcessed : State::kFresh);
    subscription.holder.push_back(SIZE_MAX);
  }
  stream->subscriptions.push_back(subscription);
  subscription_names.emplace_back(operation.label, operation.label);
  return Show(subscription);
}

Model::Answer Model::Consume(const Operation& operation) {
  if (!IsWorker(operation.worker)) return ShowReason(Reason::kInvalidArgument);
  if (operation.max_records < 1 || operation.max_records > limits.max_consume_records) {
    return ShowReason(Reason::kInvalidArgument);
  }
  Stream* stream = Find(operation.stream);
  if (stream == nullptr) return ShowReason(Reason::kNoSuchStream);
  Subscription* subscription = Find(operation.stream, operation.subscription);
  if (subscription == nullptr) return ShowReason(Reason::kNoSuchSubscription);
  const auto show = [&](const Batch& batch) {
    std::string shown = ShowBatch(batch.label, batch.until);
    for (const size_t i : batch.records) shown += stream->records[i].shown;
    return shown;
  };
  // S13.
  for (Batch& batch : subscription->batches) {
    if (batch.status != Status::kActive || batch.worker != operation.worker) continue;
    batch.until = std::max(batch.until, now + lease);
    batch_names.emplace_back(operation.label, batch.label);
    ++counted.refreshes;
    return show(batch);
  }
  // S14.
  const std::string nothing = ShowBatch(0, 0);
  std::vector<size_t> available;
  for (size_t i = 0; i < stream->records.size(); ++i) {
    if (IsAvailable(subscription->state[i])) available.push_back(i);
  }
  if (static_cast<int64_t>(ActiveLeases(*subscription)) >= limits.max_active_leases &&
      (policy.lease_limit_first || !available.empty())) {
    return operation.wait ? nothing : ShowReason(Reason::kLeaseLimit);
  }
  if (available.empty()) return nothing;
  // S15.
  if (policy.redelivery == lessor::StreamPolicy::Redelivery::kWholeBatch) {
    const size_t first = available.front();
    std::erase_if(available, [&](size_t i) {
      return subscription->state[i] != subscription->state[first] ||
             subscription->holder[i] != subscription->holder[first];
    });
  }
  Batch batch;
  int64_t bytes = 0;
  for (const size_t i : available) {
    bytes += static_cast<int64_t>(stream->records[i].size);
    if (static_cast<int64_t>(batch.records.size()) == operation.max_records) break;
    if (!batch.records.empty() && bytes > limits.max_batch_bytes) break;
    batch.records.push_back(i);
  }
  batch.label = operation.label;
  batch.worker = operation.worker;
  batch.until = now + lease;
  for (const size_t i : batch.records) {
    size_t& holder = subscription->holder[i];
    if (holder != SIZE_MAX) {
      subscription->batches[holder].status = Status::kDead;  // S20: redelivered.
      ++counted.redelivered;
    }
    holder = subscription->batches.size();
    subscription->state[i] = State::kLeased;
    ++counted.delivered;
  }
  ++counted.leases;
  subscription->batches.push_back(batch);
  batch_names.emplace_back(operation.label, operation.label);
  return show(batch);
}

Model::Answer Model::Settle(const Operation& operation) {
  if (!IsWorker(operation.worker)) return ShowReason(Reason::kInvalidArgument);
  if (Find(operation.stream) == nullptr) return ShowReason(Reason::kNoSuchStream);
  Subscription* subscription = Find(operation.stream, operation.subscription);
  if (subscription == nullptr) return ShowReason(Reason::kNoSuchSubscription);
  Batch* batch = Find(*subscription, operation.batch);
  if (batch == nullptr || batch->status == Status::kDead) return ShowReason(Reason::kNone);
  // S20, S21.
  const bool ack = operation.what == Do::kAck;
  for (const size_t i : batch->records) {
    State& state = subscription->state[i];
    if (state != State::kSkipped) state = ack ? State::kProcessed : State::kReleased;
  }
  batch->status = Status::kDead;
  ++(ack ? counted.acks : counted.nacks);
  LetTimePass(*Find(operation.stream));  // What retention removed is skipped at once.
  return ShowReason(Reason::kNone);
}

Model::Answer Model::Extend(const Operation& operation) {
  if (!IsWorker(operation.worker)) return ShowReason(Reason::kInvalidArgument);
  if (Find(operation.stream) == nullptr) return ShowReason(Reason::kNoSuchStream);
  Subscription* subscription = Find(operation.stream, operation.subscription);
  if (subscription == nullptr) return ShowReason(Reason::kNoSuchSubscription);
  // S22.
  Batch* batch = Find(*subscription, operation.batch);
  if (batch == nullptr || batch->status != Status::kActive || batch->worker != operation.worker) {
    return ShowReason(Reason::kLeaseNotHeld);
  }
  batch->until = std::max(batch->until, now + lease);
  ++counted.extends;
  return ShowBatch(0, batch->until);
}

Model::Answer Model::AboutStream(const Operation& operation) {
  Stream* stream = Find(operation.stream);
  if (stream == nullptr) return ShowReason(Reason::kNoSuchStream);
  if (operation.what == Do::kDeleteStream) {
    stream->deleted = true;
    return ShowReason(Reason::kNone);
  }
  if (operation.what == Do::kUnsubscribe) {
    Subscription* subscription = Find(operation.stream, operation.subscription);
    if (subscription == nullptr) return ShowReason(Reason::kNoSuchSubscription);
    subscription->deleted = true;
    return ShowReason(Reason::kNone);
  }
  std::string found = "found";
  for (const Subscription& subscription : stream->subscriptions) {
    if (subscription.deleted || !SameName(subscription.name, operation.name)) continue;
    found += " " + Show(subscription);
  }
  return found;
}

std::string Model::Run(const Operation& operation) {
  if (operation.what == Do::kClock) clock = kStartMs + *operation.ms;
  if (operation.what == Do::kRestart) {
    clock = std::max(clock, now);
    before_restart = counted;
    restarted = true;
  }
  SeeTime();
  switch (operation.what) {
    case Do::kCreateStream:
      return CreateStream(operation);
    case Do::kUpdateStream:
      return UpdateStream(operation);
    case Do::kProduce:
      return Produce(operation);
    case Do::kSubscribe:
      return Subscribe(operation);
    case Do::kConsume:
      return Consume(operation);
    case Do::kAck:
    case Do::kNack:
      return Settle(operation);
    case Do::kExtend:
      return Extend(operation);
    case Do::kDeleteStream:
    case Do::kUnsubscribe:
    case Do::kFind:
      return AboutStream(operation);
    case Do::kClock:
    case Do::kRestart:
      return ShowReason(Reason::kNoSuchStream);
  }
  return "";
}

std::string Model::Look(bool since_restart) const {
  std::string all;
  lessor::Stats stats = counted;
  if (since_restart) {
    stats.produced -= before_restart.produced;
    stats.delivered -= before_restart.delivered;
    stats.redelivered -= before_restart.redelivered;
    stats.leases -= before_restart.leases;
    stats.refreshes -= before_restart.refreshes;
    stats.extends -= before_restart.extends;
    stats.acks -= before_restart.acks;
    stats.nacks -= before_restart.nacks;
  }
  int64_t deadline = INT64_MAX;
  int64_t retention = INT64_MAX;
  for (const Stream& stream : streams) {
    if (stream.deleted) continue;
    ++stats.streams;
    for (const Record& record : stream.records) {
      if (record.gone) continue;
      ++stats.records;
      stats.bytes += record.footprint;
      retention = std::min(retention, record.timestamp + stream.retention);
    }
    all += Show(stream) + "\n";
    std::string leases;
    for (const Subscription& subscription : stream.subscriptions) {
      if (subscription.deleted) continue;
      ++stats.subscriptions;
      const lessor::Position position = PositionOf(stream, subscription);
      stats.active_leases += position.active_leases;
      lessor::Explanation explanation;
      explanation.position = position;
      int64_t first_end = INT64_MAX;
      for (const Batch& batch : subscription.batches) {
        if (batch.status != Status::kActive) continue;
        first_end = std::min(first_end, batch.until);
        leases += ShowLease(subscription.label, batch.label, batch.worker, batch.until,
                            batch.records.front(), batch.records.size());
      }
      deadline = std::min(deadline, first_end);
      if (first_end != INT64_MAX) explanation.next_lease_end = absl::FromUnixMillis(first_end);
      using Why = lessor::Explanation::Answer;
      const bool limit = static_cast<int64_t>(position.active_leases) >= limits.max_active_leases;
      explanation.answer = limit && (policy.lease_limit_first || position.available > 0)
                               ? Why::kLeaseLimit
                           : position.available > 0                      ? Why::kRecords
                           : position.leased > 0                         ? Why::kAllLeased
                           : stream.records.size() == subscription.start ? Why::kNothingProduced
                                                                         : Why::kCaughtUp;
      all +=
          "  " + Show(subscription) + ShowPosition(position) + ShowExplanation(explanation) + "\n";
    }
    all += leases;
  }
  return all + ShowStats(stats, !since_restart || !restarted) + ShowNext(deadline, retention);
}

std::string ShowReason(Reason reason) {
  return reason == Reason::kNone ? "ok" : std::string(lessor::FactsOf(reason).name);
}

std::string ShowStream(Label label, std::string_view name, int64_t retention, bool http,
                       bool worker_binding, int64_t created, int64_t modified) {
  return fmt::format(
      "stream #{} \"{}\" retention={} http={} worker_binding={} created={} "
      "modified={}",
      label, name, retention, http, worker_binding, created - kStartMs, modified - kStartMs);
}

std::string ShowSubscription(Label label, std::string_view name, lessor::StartAt start_at,
                             int64_t created) {
  return fmt::format("subscription #{} \"{}\" {} created={}", label, name,
                     start_at == lessor::StartAt::kEarliest ? "earliest" : "latest",
                     created - kStartMs);
}

std::string ShowPosition(const lessor::Position& position) {
  return fmt::format(" committed={} end={} available={} leased={} leases={} skipped={}",
                     position.committed, position.end, position.available, position.leased,
                     position.active_leases, position.skipped);
}

std::string ShowExplanation(const lessor::Explanation& explanation) {
  using Why = lessor::Explanation::Answer;
  std::string_view why;
  switch (explanation.answer) {
    case Why::kRecords:
      why = "records";
      break;
    case Why::kNothingProduced:
      why = "nothing_produced";
      break;
    case Why::kCaughtUp:
      why = "caught_up";
      break;
    case Why::kAllLeased:
      why = "all_leased";
      break;
    case Why::kLeaseLimit:
      why = "lease_limit";
      break;
  }
  const bool never = explanation.next_lease_end == absl::InfiniteFuture();
  const int64_t end = never ? 0 : absl::ToUnixMillis(explanation.next_lease_end) - kStartMs;
  return fmt::format(" why={} next_lease_end={}{}", why, never ? "never" : "", end);
}

std::string ShowLease(Label subscription, Label batch, std::string_view worker, int64_t until,
                      uint64_t first, uint64_t records) {
  return fmt::format("  lease of #{}: batch #{} worker \"{}\" until {} first={} records={}\n",
                     subscription, batch, worker, until - kStartMs, first, records);
}

std::string ShowBatch(Label batch, int64_t until) {
  if (until == 0) return "nothing";
  if (batch == 0) return fmt::format("until {}", until - kStartMs);
  return fmt::format("batch #{} until {}", batch, until - kStartMs);
}

std::string ShowAppended(uint64_t first, uint64_t count, int64_t timestamp) {
  return fmt::format("appended first={} count={} at {}", first, count, timestamp - kStartMs);
}

std::string ShowStats(const lessor::Stats& stats, bool expiries) {
  return fmt::format(
             "stats: streams={} subscriptions={} records={} bytes={} leases={}; produced={} "
             "delivered={} redelivered={} leases={} refreshes={} extends={} acks={} nacks={}",
             stats.streams, stats.subscriptions, stats.records, stats.bytes, stats.active_leases,
             stats.produced, stats.delivered, stats.redelivered, stats.leases, stats.refreshes,
             stats.extends, stats.acks, stats.nacks) +
         (expiries ? fmt::format(" expiries={}\n", stats.expiries) : "\n");
}

std::string ShowNext(int64_t deadline, int64_t retention) {
  const auto show = [](int64_t ms) {
    return ms == INT64_MAX ? std::string("never") : fmt::format("{}", ms - kStartMs);
  };
  return fmt::format("next: deadline={} retention={}\n", show(deadline), show(retention));
}

}  // namespace lessor_tests
