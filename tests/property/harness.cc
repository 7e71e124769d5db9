#include "property/harness.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "fmt/format.h"
#include "lessor/batch.h"
#include "lessor/broker.h"
#include "lessor/change.h"
#include "lessor/core/rules.h"
#include "lessor/core/stream_core.h"
#include "lessor/error.h"
#include "lessor/ids.h"
#include "lessor/record.h"
#include "lessor/segment.h"
#include "lessor/segment_pool.h"
#include "lessor/service.h"
#include "lessor/store.h"
#include "lessor/testing/sequential_ids.h"
#include "lessor/testing/simulated_clock.h"
#include "lessor/time.h"
#include "property/generator.h"
#include "property/model.h"
#include "property/program.h"
#include "random.h"

namespace lessor_tests {
namespace {

using lessor::BatchId;
using lessor::Reason;
using lessor::StreamId;
using lessor::SubscriptionId;
using lessor::SubscriptionKey;

int64_t Ms(absl::Time time) {
  return time == absl::InfiniteFuture() ? INT64_MAX : absl::ToUnixMillis(time);
}

lessor::CoreSettings CoreSettingsOf(const Setup& setup) {
  return {setup.limits, setup.policy, lessor::CeilToMillis(setup.limits.lease),
          lessor::SegmentPool::Create(4)};
}

using StandardCore = lessor::StreamCore<lessor::StandardRules>;

// Keeps every change ever submitted. Loads them, or a snapshot of the state after some of them and
// the rest.
class RecordingStore final : public lessor::Store {
 public:
  RecordingStore(const Setup& setup, bool snapshots)
      : settings_(CoreSettingsOf(setup)), snapshots_(snapshots) {}

  absl::StatusOr<std::vector<Loaded>> Load() override {
    std::vector<Loaded> all;
    for (const StreamId stream : created_) {
      if (!deleted_.contains(stream)) all.push_back(LoadedOf(stream));
    }
    return all;
  }
  absl::StatusOr<std::optional<Loaded>> Load(StreamId stream) override {
    if (!changes_.contains(stream) || deleted_.contains(stream)) return std::nullopt;
    return LoadedOf(stream);
  }
  Ticket Submit(StreamId stream, const lessor::Change& change, uint64_t expected) override {
    std::vector<std::string>& changes = changes_[stream];
    if (changes.size() != expected) sequence_is_wrong_ = true;
    if (changes.empty()) created_.push_back(stream);
    if (std::holds_alternative<lessor::change::StreamDeleted>(change.what)) deleted_[stream] = true;
    changes.push_back(lessor::EncodeChange(change));
    return {.stream = stream, .sequence = changes.size()};
  }
  absl::Status Wait(const Ticket&) override { return absl::OkStatus(); }
  // Fills the segment anew, from the changes.
  absl::StatusOr<lessor::SegmentRef> Read(StreamId stream, lessor::Offset base,
                                          lessor::SegmentPool& pool) override {
    lessor::Offset end = base;
    for (const lessor::SegmentIndex& index : segments_[stream]) {
      if (index.base == base) end = base + index.runs.back().end;
    }
    lessor::SegmentRef segment;
    for (const std::string& bytes : changes_[stream]) {
      const auto change = lessor::DecodedChange::Decode(bytes);
      if (!change.ok()) return change.status();
      const auto* appended = std::get_if<lessor::change::Appended>(&(*change)->what);
      if (appended == nullptr) continue;
      lessor::Offset offset = appended->first;
      for (const lessor::Record& record : appended->records) {
        if (offset == base) {
          segment = pool.New(base, appended->timestamp, lessor::Segment::Footprint(record));
        }
        if (offset >= base && offset < end) segment->Append({&record, 1}, appended->timestamp);
        ++offset;
      }
    }
    if (segment && segment->count() == end - base) return segment;
    return lessor::MakeError(Reason::kReadFailed, "no such segment was ever in a snapshot");
  }
  absl::StatusOr<bool> Trim(StreamId, lessor::Offset, size_t) override { return false; }

  const std::vector<std::string>& changes(StreamId stream) { return changes_[stream]; }
  bool sequence_is_wrong() const { return sequence_is_wrong_; }

 private:
  Loaded LoadedOf(StreamId stream) {
    const std::vector<std::string>& changes = changes_[stream];
    Loaded loaded{.stream = stream, .sequence = changes.size(), .snapshot = {}, .tail = changes};
    const uint64_t mixed = Mix(changes.size());
    if (!snapshots_ || mixed % 4 == 0) return loaded;
    // Mostly a recent one.
    const uint64_t back = (mixed >> 2U) % (mixed % 4 == 1 ? changes.size() : 8);
    const auto cut =
        static_cast<std::ptrdiff_t>(changes.size() - std::min(back, changes.size() - 1));
    loaded.tail.resize(static_cast<size_t>(cut));
    const auto core = StandardCore::Restore(settings_, loaded);
    if (core == nullptr) return loaded;  // And so the replay fails in the broker too.
    loaded.snapshot = core->Snapshot();
    loaded.tail.assign(changes.begin() + cut, changes.end());
    segments_[stream] = loaded.snapshot->segments;
    return loaded;
  }

  const lessor::CoreSettings settings_;
  const bool snapshots_;

  std::vector<StreamId> created_;
  std::map<StreamId, bool> deleted_;
  std::map<StreamId, std::vector<std::string>> changes_;
  std::map<StreamId, std::vector<lessor::SegmentIndex>> segments_;  ///< Of the last snapshot.
  bool sequence_is_wrong_ = false;
};

// The records of a produce and what they borrow.
class Payload {
 public:
  explicit Payload(const Operation& operation) {
    contents_.reserve(operation.records.size());
    headers_.reserve(operation.records.size());
    for (const RecordSpec& spec : operation.records) {
      contents_.push_back(ContentOf(operation.label, contents_.size(), spec.size));
      headers_.emplace_back();
      for (const auto& [name, value] : spec.headers) headers_.back().push_back({name, value});
      records_.push_back({.content = contents_.back(), .headers = headers_.back()});
    }
  }
  const std::vector<lessor::Record>& records() const { return records_; }

 private:
  std::vector<std::string> contents_;
  std::vector<std::vector<lessor::Header>> headers_;
  std::vector<lessor::Record> records_;
};

// One broker, and the ids that it gave to what operations made.
class Side {
 public:
  // With a store it restarts, if told so from snapshots too; without, it only sees the time then.
  Side(const Setup& setup, const OpenBroker& open, bool with_store, bool snapshots)
      : setup_(setup), open_(open), with_store_(with_store), store_(setup, snapshots) {
    Reopen();
  }

  // `clock` is what the model's clock shows at this operation.
  std::string Run(const Operation& operation, int64_t clock) {
    clock_.AdvanceTo(absl::FromUnixMillis(clock));
    reason = Reason::kNone;
    const StreamId stream = Find(streams_, operation.stream);
    const SubscriptionKey key{stream, Find(subscriptions_, operation.subscription)};
    const BatchId batch = Find(batches_, operation.batch);
    lessor::Service& service = broker_->service();
    switch (operation.what) {
      case Do::kCreateStream: {
        lessor::StreamSettings settings{.name = operation.name};
        if (operation.ms) settings.retention = absl::Milliseconds(*operation.ms);
        settings.http = operation.http.value_or(true);
        settings.worker_binding = operation.worker_binding.value_or(true);
        const auto info = service.DoCreateStream(settings);
        if (!info.ok()) return Refused(info.status());
        streams_[operation.label] = info->id;
        names_of_streams_[info->id] = operation.label;
        return Show(*info);
      }
      case Do::kUpdateStream: {
        lessor::StreamUpdate update;
        if (operation.ms) update.retention = absl::Milliseconds(*operation.ms);
        update.http = operation.http;
        update.worker_binding = operation.worker_binding;
        const auto info = service.UpdateStream(stream, update);
        return info.ok() ? Show(*info) : Refused(info.status());
      }
      case Do::kDeleteStream:
        return Refused(service.DeleteStream(stream));
      case Do::kProduce: {
        const Payload payload(operation);
        const auto appended = service.Produce(stream, payload.records());
        if (!appended.ok()) return Refused(appended.status());
        return ShowAppended(appended->first, appended->count, Ms(appended->timestamp));
      }
      case Do::kSubscribe: {
        const auto info =
            service.Subscribe(stream, {.name = operation.name, .start_at = operation.start_at});
        if (!info.ok()) return Refused(info.status());
        subscriptions_[operation.label] = info->id;
        names_of_subscriptions_.emplace(info->id, operation.label);
        return Show(*info);
      }
      case Do::kUnsubscribe:
        return Refused(service.DeleteSubscription(key));
      case Do::kFind: {
        const auto found = service.ListSubscriptions(stream, operation.name);
        if (!found.ok()) return Refused(found.status());
        std::string shown = "found";
        for (const lessor::SubscriptionInfo& info : *found) shown += " " + Show(info);
        return shown;
      }
      case Do::kConsume: {
        lessor::ConsumeRequest request{.worker = operation.worker,
                                       .max_records = operation.max_records};
        if (operation.wait) request.wait_until = absl::InfinitePast();
        const auto consumed = service.Consume(key, request);
        if (!consumed.ok()) return Refused(consumed.status());
        return Show(operation.label, *consumed);
      }
      case Do::kAck:
        return Refused(service.Ack(key, batch, operation.worker));
      case Do::kNack:
        return Refused(service.Nack(key, batch, operation.worker));
      case Do::kExtend: {
        const auto until = service.Extend(key, batch, operation.worker);
        return until.ok() ? ShowBatch(0, Ms(*until)) : Refused(until.status());
      }
      case Do::kRestart:
        if (with_store_) Reopen();
        break;
      case Do::kClock:
        break;
    }
    // Shows the time to the broker and nothing to any stream.
    return Refused(broker_->service().GetStream(StreamId{.high = 1, .low = 1}).status());
  }

  // All that can be seen.
  std::string Look() {
    lessor::Service& service = broker_->service();
    const auto streams = service.ListStreams();
    if (!streams.ok()) return Refused(streams.status());
    std::string all;
    for (const lessor::StreamInfo& stream : *streams) {
      all += Show(stream) + "\n";
      const auto subscriptions = service.ListSubscriptions(stream.id, std::nullopt);
      if (!subscriptions.ok()) return Refused(subscriptions.status());
      for (const lessor::SubscriptionInfo& info : *subscriptions) {
        const SubscriptionKey key{stream.id, info.id};
        const auto position = service.GetPosition(key);
        const auto explanation = service.Explain(key);
        if (!position.ok()) return Refused(position.status());
        if (!explanation.ok()) return Refused(explanation.status());
        const std::string shown = ShowPosition(*position);
        const std::string again = ShowPosition(explanation->position);
        all += "  " + Show(info) + shown + ShowExplanation(*explanation) +
               (shown == again ? "\n" : " but explained as " + again + "\n");
      }
      const auto leases = service.ListLeases(stream.id);
      if (!leases.ok()) return Refused(leases.status());
      for (const lessor::LeaseInfo& lease : *leases) {
        all += ShowLease(Name(names_of_subscriptions_, lease.subscription),
                         Name(names_of_batches_, lease.batch), lease.worker, Ms(lease.leased_until),
                         lease.first, lease.records);
      }
    }
    const lessor::Stats stats = broker_->GetStats();
    return all + ShowStats(stats, !restarted_) +
           ShowNext(Ms(broker_->NextDeadline()), Ms(broker_->NextRetention()));
  }

  // Reads at an instant that no operation has: it must not change what later ones see.
  void ReadAt(int64_t clock, uint64_t which) {
    clock_.AdvanceTo(absl::FromUnixMillis(clock));
    if (which % 3 == 0) {
      (void)Look();
    } else if (which % 3 == 1) {
      for (const auto& [label, stream] : streams_) {
        (void)broker_->service().GetStream(stream);
        if (which % 2 == 0) (void)broker_->service().ListLeases(stream);
      }
    } else {
      for (const auto& [label, stream] : streams_) {
        for (const auto& [id, name] : names_of_subscriptions_) {
          (void)broker_->service().GetPosition({stream, id});
        }
      }
    }
  }

  // Of the last operation.
  Reason reason = Reason::kNone;
  std::optional<BatchId> fresh_batch;

  StreamId stream(Label label) const { return Find(streams_, label); }
  SubscriptionId subscription(Label label) const { return Find(subscriptions_, label); }
  BatchId batch(Label label) const { return Find(batches_, label); }
  RecordingStore& store() { return store_; }

 private:
  template <class Id>
  static Id Find(const std::map<Label, Id>& ids, Label label) {
    const auto found = ids.find(label);
    return found != ids.end() ? found->second : Id{.high = 1, .low = 1};
  }
  template <class Id>
  static Label Name(const std::map<Id, Label>& names, Id id) {
    const auto found = names.find(id);
    return found != names.end() ? found->second : -1;
  }

  void Reopen() {
    restarted_ = broker_ != nullptr;
    broker_ = nullptr;
    broker_ = open_({.clock = &clock_,
                     .ids = &ids_,
                     .store = with_store_ ? &store_ : nullptr,
                     .limits = setup_.limits,
                     .policy = setup_.policy});
    if (broker_ != nullptr) return;
    refused_to_open = true;
    broker_ = open_({.clock = &clock_, .ids = &ids_});
  }

  std::string Refused(const absl::Status& status) {
    reason = lessor::ReasonOf(status);
    if (!status.ok() && reason == Reason::kNone) return "a status without a reason";
    return ShowReason(reason);
  }

  std::string Show(const lessor::StreamInfo& info) const {
    return ShowStream(Name(names_of_streams_, info.id), info.name,
                      absl::ToInt64Milliseconds(info.retention), info.http, info.worker_binding,
                      Ms(info.created_at), Ms(info.modified_at));
  }
  std::string Show(const lessor::SubscriptionInfo& info) const {
    return ShowSubscription(Name(names_of_subscriptions_, info.id), info.name, info.start_at,
                            Ms(info.created_at)) +
           (info.modified_at == info.created_at ? "" : " and modified");
  }
  std::string Show(Label label, const lessor::Batch& batch) {
    fresh_batch.reset();
    if (batch.empty()) return batch.id() ? "an empty batch with an id" : ShowBatch(0, 0);
    batches_[label] = batch.id();
    if (names_of_batches_.emplace(batch.id(), label).second) fresh_batch = batch.id();
    std::string shown = ShowBatch(names_of_batches_[batch.id()], Ms(batch.leased_until()));
    size_t count = 0;
    for (const lessor::RecordView record : batch) {
      std::vector<std::pair<std::string, std::string>> headers;
      size_t size = record.content().size();
      for (const lessor::Header header : record.headers()) {
        headers.emplace_back(header.name, header.value);
        size += header.name.size() + header.value.size();
      }
      shown += ShowRecord(record.offset(), Ms(record.timestamp()), record.content(), headers);
      if (size != record.size()) shown += " of another size";
      ++count;
    }
    if (count != batch.size()) shown += " of another count";
    return shown;
  }

 public:
  bool refused_to_open = false;

 private:
  const Setup& setup_;
  const OpenBroker& open_;
  const bool with_store_;
  bool restarted_ = false;
  lessor_testing::SimulatedClock clock_{absl::FromUnixMillis(kStartMs)};
  lessor_testing::SequentialIds ids_;
  RecordingStore store_;
  std::map<Label, StreamId> streams_;
  std::map<Label, SubscriptionId> subscriptions_;
  std::map<Label, BatchId> batches_;
  std::map<StreamId, Label> names_of_streams_;
  std::map<SubscriptionId, Label> names_of_subscriptions_;
  std::map<BatchId, Label> names_of_batches_;
  std::unique_ptr<AnyBroker> broker_;
};

std::string ShowRuns(const std::vector<lessor::SegmentIndex>& segments) {
  std::string shown;
  for (const lessor::SegmentIndex& segment : segments) {
    shown += fmt::format(" {}:", segment.base);
    for (const lessor::SegmentIndex::Run& run : segment.runs) {
      shown += fmt::format(" {}({})@{}", run.end, run.footprint, run.timestamp.ms - kStartMs);
    }
  }
  return shown;
}

std::string Show(const lessor::StreamSnapshot& snapshot) {
  std::string shown = fmt::format(
      "now={} deleted={} name={} retention={} http={} worker_binding={} created={} "
      "modified={} begin={} end={} last={}\n  segments{}\n",
      snapshot.now.ms - kStartMs, snapshot.deleted, snapshot.name, snapshot.retention.count,
      snapshot.http, snapshot.worker_binding, snapshot.created_at.ms - kStartMs,
      snapshot.modified_at.ms - kStartMs, snapshot.begin, snapshot.end,
      snapshot.last_timestamp.ms - kStartMs, ShowRuns(snapshot.segments));
  for (const lessor::SubscriptionSnapshot& subscription : snapshot.subscriptions) {
    shown += fmt::format("  {} start={} next={} skipped={} next_group={}\n", subscription.name,
                         subscription.start, subscription.next, subscription.skipped,
                         subscription.next_group);
    for (const auto& lease : subscription.leases) {
      shown += fmt::format("    lease {} {} until {} group={}:", lease.batch.ToString(),
                           lease.worker, lease.leased_until.ms - kStartMs, lease.group);
      for (const lessor::OffsetRange& range : lease.ranges) {
        shown += fmt::format(" {}-{}", range.first, range.end);
      }
      shown += "\n";
    }
    for (const auto& released : subscription.released) {
      shown += fmt::format("    released {}-{} group={}\n", released.range.first,
                           released.range.end, released.group);
    }
  }
  return shown;
}

// The bare core of each stream, driven by hand: it decides what the broker decides.
class CoreSide {
 public:
  using Core = StandardCore;

  explicit CoreSide(const Setup& setup) : settings_(CoreSettingsOf(setup)) {}

  // Runs what `broker` has just answered. An error if they differ.
  std::string Run(const Operation& operation, int64_t now_ms, Side& broker) {
    const lessor::Instant now{now_ms};
    if (operation.what == Do::kCreateStream) {
      if (broker.reason != Reason::kNone) return "";
      Stream& stream = streams_[operation.label];
      stream.core = std::make_unique<Core>(settings_);
      stream.core->Advance(now);
      Commit(stream, lessor::change::StreamCreated{
                         .name = operation.name,
                         .retention = {operation.ms.value_or(604'800'000)},
                         .http = operation.http.value_or(true),
                         .worker_binding = operation.worker_binding.value_or(true)});
      return Compare(operation.label, broker);
    }
    const auto found = streams_.find(operation.stream);
    if (found == streams_.end()) return "";
    switch (broker.reason) {
      case Reason::kInvalidArgument:
      case Reason::kRecordTooLarge:
      case Reason::kProduceTooLarge:
      case Reason::kFull:
        return "";
      default:
        break;
    }
    Stream& stream = found->second;
    Core& core = *stream.core;
    core.Advance(now);
    const SubscriptionId subscription = broker.subscription(operation.subscription);
    Reason refusal = Reason::kNone;
    const auto commit = [&](const auto& decision) {
      refusal = decision.refusal;
      if (decision.change) Commit(stream, *decision.change);
    };
    switch (operation.what) {
      case Do::kUpdateStream:
        commit(core.DecideUpdate(
            operation.ms ? std::optional(lessor::Millis{*operation.ms}) : std::nullopt,
            operation.http, operation.worker_binding));
        break;
      case Do::kDeleteStream:
        commit(core.DecideDelete());
        break;
      case Do::kProduce: {
        const Payload payload(operation);
        commit(core.DecideProduce(payload.records()));
        break;
      }
      case Do::kSubscribe: {
        const bool made = broker.reason == Reason::kNone;
        commit(core.DecideSubscribe(
            operation.name, operation.start_at,
            made && core.FindByName(operation.name) == nullptr
                ? broker.subscription(operation.label)
                : SubscriptionId{.high = 2, .low = static_cast<uint64_t>(operation.label)}));
        break;
      }
      case Do::kUnsubscribe:
        commit(core.DecideUnsubscribe(subscription));
        break;
      case Do::kConsume: {
        const BatchId fresh = broker.fresh_batch.value_or(
            BatchId{.high = 2, .low = static_cast<uint64_t>(operation.label)});
        const auto decision =
            core.DecideConsume(subscription, operation.worker, operation.max_records, fresh);
        if (decision.need) return "the core misses bytes that it was never without";
        refusal = decision.refusal;
        if (operation.wait && refusal == Reason::kLeaseLimit) refusal = Reason::kNone;
        if (decision.renewed) Commit(stream, *decision.renewed);
        if (decision.granted) Commit(stream, *decision.granted);
        break;
      }
      case Do::kAck:
        commit(core.DecideAck(subscription, broker.batch(operation.batch)));
        break;
      case Do::kNack:
        commit(core.DecideNack(subscription, broker.batch(operation.batch)));
        break;
      case Do::kExtend:
        commit(core.DecideExtend(subscription, broker.batch(operation.batch), operation.worker));
        break;
      case Do::kCreateStream:
      case Do::kFind:
      case Do::kClock:
      case Do::kRestart:
        refusal = broker.reason;
        break;
    }
    if (refusal != broker.reason) {
      return fmt::format("the core says {}, the broker {}", ShowReason(refusal),
                         ShowReason(broker.reason));
    }
    return Compare(operation.stream, broker);
  }

  // Compares every core with what replaying its changes, all of them or those since the last
  // check, makes.
  std::string CheckReplay() {
    for (auto& [label, stream] : streams_) {
      const lessor::StreamSnapshot live = stream.core->Snapshot();
      lessor::Store::Loaded loaded{
          .stream = {}, .sequence = 0, .snapshot = {}, .tail = stream.tail};
      for (const bool from_snapshot : {false, true}) {
        if (from_snapshot) {
          if (!stream.checked) break;
          loaded.snapshot = stream.checked;
          loaded.tail.erase(loaded.tail.begin(), loaded.tail.begin() + static_cast<std::ptrdiff_t>(
                                                                           stream.checked_changes));
        }
        const std::unique_ptr<Core> core = Core::Restore(settings_, loaded);
        if (core == nullptr) return fmt::format("stream #{} cannot be restored", label);
        core->Advance(live.now);
        lessor::StreamSnapshot replayed = core->Snapshot();
        lessor::StreamSnapshot expected = live;
        if (from_snapshot) {
          // After a snapshot records go on in a new segment.
          replayed.segments.clear();
          expected.segments.clear();
        }
        if (!(replayed == expected)) {
          return fmt::format("stream #{}, replayed{}, differs\nlive: {}replayed: {}", label,
                             from_snapshot ? " from a snapshot" : "", Show(expected),
                             Show(replayed));
        }
        if (core->log().footprint() != stream.core->log().footprint()) {
          return fmt::format("stream #{}, replayed, has another footprint", label);
        }
      }
      stream.checked = live;
      stream.checked_changes = stream.tail.size();
    }
    return "";
  }

 private:
  struct Stream {
    std::unique_ptr<Core> core;
    std::vector<std::string> tail;
    std::optional<lessor::StreamSnapshot> checked;
    size_t checked_changes = 0;
    bool unfit = false;
  };

  template <class What>
  static void Commit(Stream& stream, const What& what) {
    stream.tail.push_back(lessor::EncodeChange({stream.core->now(), what}));
    if (!stream.core->ApplyNow(what)) stream.unfit = true;
  }

  std::string Compare(Label label, Side& broker) {
    const Stream& stream = streams_[label];
    if (stream.unfit) return "a change of the core's own does not fit it";
    if (broker.store().sequence_is_wrong()) return "a change was submitted out of sequence";
    const std::vector<std::string>& submitted = broker.store().changes(broker.stream(label));
    if (submitted.size() != stream.tail.size()) {
      return fmt::format("the broker has submitted {} changes, the core decided {}",
                         submitted.size(), stream.tail.size());
    }
    if (submitted.back() != stream.tail.back()) return "the broker submitted another change";
    return "";
  }

  const lessor::CoreSettings settings_;
  std::map<Label, Stream> streams_;
};

// The lines that differ.
std::string Difference(const std::string& expected, const std::string& actual) {
  std::istringstream left(expected);
  std::istringstream right(actual);
  std::string shown;
  for (;;) {
    std::string a;
    std::string b;
    const bool more_left = static_cast<bool>(std::getline(left, a));
    const bool more_right = static_cast<bool>(std::getline(right, b));
    if (!more_left && !more_right) return shown;
    if (a != b) shown += fmt::format("  model:  {}\n  broker: {}\n", a, b);
  }
}

// The model and all that is compared with it.
class Run {
 public:
  Run(const Checks& checks, const Setup& setup)
      : setup_(setup),
        checks_(checks),
        model_(setup_),
        watched_(setup_, checks_.open, true, checks_.core),
        left_alone_(setup_, checks_.open, false, false),
        core_(setup_) {}

  const Model& model() const { return model_; }

  // What differs after the operation; empty if nothing does.
  std::string Step(const Operation& operation) {
    const int64_t before = model_.clock;
    const std::string expected = model_.Run(operation);
    const uint64_t mixed = Mix(static_cast<uint64_t>(operation.label) ^ setup_.seed << 16U);
    // Between this operation and the one before, others look on: once, and not at the other one.
    if (operation.what == Do::kClock && model_.clock > before) {
      for (int64_t part = 1; part <= static_cast<int64_t>(mixed % 3); ++part) {
        watched_.ReadAt(before + (model_.clock - before) / 3 * part,
                        mixed >> (8 * static_cast<uint64_t>(part)));
      }
    }
    std::string actual = watched_.Run(operation, model_.clock);
    if (watched_.refused_to_open) return "the broker does not open\n";
    if (actual != expected) return Difference(expected, actual);
    actual = left_alone_.Run(operation, model_.clock);
    if (actual != expected) {
      return "the broker that nobody looks at:\n" + Difference(expected, actual);
    }
    if (checks_.core) {
      const std::string error = core_.Run(operation, model_.now, watched_);
      if (!error.empty()) return error + "\n";
    }
    const std::string seen = model_.Look(true);
    actual = watched_.Look();
    if (actual != seen) return "afterwards:\n" + Difference(seen, actual);
    return mixed % 10 == 0 ? Check() : "";
  }

  // What is compared now and then, and at the end.
  std::string Check() {
    const std::string seen = model_.Look(false);
    const std::string actual = left_alone_.Look();
    if (actual != seen) {
      return "afterwards, the broker that nobody looked at:\n" + Difference(seen, actual);
    }
    return checks_.core ? core_.CheckReplay() : "";
  }

 private:
  const Setup setup_;
  const Checks& checks_;
  Model model_;
  Side watched_;
  Side left_alone_;
  CoreSide core_;
};

// Delta debugging: leaves out what is not needed, in ever smaller pieces.
Failure Shrink(const Checks& checks, Failure failure) {
  int tries = 1'500;
  const auto try_without = [&](const Program& program) {
    if (tries-- <= 0) return false;
    std::optional<Failure> smaller = RunProgram(checks, failure.setup, program);
    if (!smaller) return false;
    failure = *std::move(smaller);
    return true;
  };
  for (bool progress = true; progress && tries > 0;) {
    progress = false;
    for (size_t piece = std::max<size_t>(failure.program.size() / 2, 1);; piece /= 2) {
      for (size_t at = failure.program.size(); at > 0 && tries > 0;) {
        at = std::min(at, failure.program.size());
        const size_t first = at > piece ? at - piece : 0;
        Program program = failure.program;
        program.erase(program.begin() + static_cast<std::ptrdiff_t>(first),
                      program.begin() + static_cast<std::ptrdiff_t>(at));
        if (try_without(program)) progress = true;
        at = first;
      }
      if (piece <= 1) break;
    }
    // The same for the records of each produce.
    for (size_t i = 0; i < failure.program.size(); ++i) {
      for (size_t at = failure.program[i].records.size(); at-- > 0 && tries > 0;) {
        if (i >= failure.program.size() || failure.program[i].records.size() <= 1) break;
        Program program = failure.program;
        auto& records = program[i].records;
        if (at >= records.size()) continue;
        records.erase(records.begin() + static_cast<std::ptrdiff_t>(at));
        if (try_without(program)) progress = true;
      }
    }
  }
  return failure;
}

}  // namespace

std::optional<Failure> RunProgram(const Checks& checks, const Setup& setup,
                                  const Program& program) {
  Run run(checks, setup);
  std::string what;
  for (size_t i = 0; i <= program.size(); ++i) {
    what = i < program.size() ? run.Step(program[i]) : run.Check();
    if (what.empty()) continue;
    const size_t count = std::min(i + 1, program.size());
    return Failure{setup,
                   {program.begin(), program.begin() + static_cast<std::ptrdiff_t>(count)},
                   std::move(what)};
  }
  return std::nullopt;
}

std::optional<Failure> RunRandomProgram(const Checks& checks, uint64_t seed) {
  const Setup setup = RandomSetup(seed);
  Generator generator(setup, seed);
  Program program;
  std::string what;
  {
    Run run(checks, setup);
    while (what.empty() && program.size() < generator.length()) {
      program.push_back(generator.Next(run.model(), static_cast<Label>(program.size()) + 1));
      what = run.Step(program.back());
    }
    if (what.empty()) what = run.Check();
  }
  if (what.empty()) return std::nullopt;
  return Shrink(checks, {setup, std::move(program), std::move(what)});
}

std::string Show(const Failure& failure) {
  return fmt::format(
      "{}  #N is what operation N made; instants are ms after the start\n{}"
      "the last operation differs:\n{}"
      "LESSOR_SEED={} LESSOR_ROUNDS=1 ./dev test -R property_test\n",
      Show(failure.setup), Show(failure.program), failure.what, failure.setup.seed);
}

}  // namespace lessor_tests
