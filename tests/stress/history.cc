#include "stress/history.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lessor/error.h"
#include "lessor/ids.h"
#include "lessor/record.h"

namespace lessor_tests {
namespace {

using lessor::BatchId;
using lessor::Offset;
using lessor::Reason;
using lessor::StreamId;
using lessor::SubscriptionId;

constexpr Stamp kNever = std::numeric_limits<Stamp>::max();
constexpr int64_t kNoTime = std::numeric_limits<int64_t>::min();

/// A lease as its answers show it.
struct BatchFacts {
  BatchId id;
  std::string worker;
  std::vector<Offset> offsets;
  std::vector<const Event*> answers;  ///< Consumes that gave it, and extends that succeeded.
  std::vector<const Event*> acks;
  std::vector<const Event*> nacks;
  Stamp granted_from = kNever;  ///< It was granted after this
  Stamp granted_by = kNever;    ///< and before this,
  int64_t granted_ms = 0;       ///< at this instant of the Broker.
  Stamp acked_by = kNever;      ///< When an ack had certainly counted.

  bool Contains(Offset offset) const {
    return std::binary_search(offsets.begin(), offsets.end(), offset);
  }
  /// Its lease lasted at least until then, by what was answered before `stamp`.
  int64_t ProvenUntil(Stamp stamp, int64_t lease_ms) const {
    int64_t until = granted_ms + lease_ms;
    for (const Event* answer : answers) {
      if (answer->answered < stamp) until = std::max(until, answer->leased_until_ms);
    }
    return until;
  }
  /// Its lease lasted at most until then, by what began before `stamp`.
  int64_t PossiblyUntil(Stamp stamp, const Event* except = nullptr) const {
    int64_t until = kNoTime;
    for (const Event* answer : answers) {
      if (answer->invoked < stamp && answer != except) {
        until = std::max(until, answer->leased_until_ms);
      }
    }
    return until;
  }
  static bool Began(const std::vector<const Event*>& events, Stamp before) {
    return std::any_of(events.begin(), events.end(),
                       [&](const Event* event) { return event->invoked < before; });
  }
  static bool Ended(const std::vector<const Event*>& events, Stamp before) {
    return std::any_of(events.begin(), events.end(),
                       [&](const Event* event) { return event->answered < before; });
  }
  bool SettleBegan(Stamp before) const { return Began(acks, before) || Began(nacks, before); }
  bool SettleEnded(Stamp before) const { return Ended(acks, before) || Ended(nacks, before); }
};

struct RecordFacts {
  const Event* produced = nullptr;
  uint64_t token = 0;
  int64_t timestamp_ms = 0;
};

/// From when to when something named existed.
struct Life {
  std::string name;
  std::vector<const Event*> made;  ///< More than one answer for a subscription, maybe.
  const Event* ended = nullptr;

  Stamp MadeFrom() const {
    Stamp from = kNever;
    for (const Event* event : made) from = std::min(from, event->invoked);
    return from;
  }
  Stamp MadeBy() const {
    Stamp by = kNever;
    for (const Event* event : made) by = std::min(by, event->answered);
    return by;
  }
  bool GoneBefore(Stamp stamp) const { return ended != nullptr && ended->answered < stamp; }
  bool MayBeGoneBy(Stamp stamp) const { return ended != nullptr && ended->invoked < stamp; }
};

struct SubscriptionFacts {
  StreamId stream;
  Life life;
  Offset start_from = 0;  ///< It starts at or after this
  Offset start_to = 0;    ///< and at or before this.
  std::map<BatchId, BatchFacts> batches;
  std::vector<std::vector<const BatchFacts*>> of_record;
  std::vector<const Event*> consumes;
  std::vector<const Event*> extends;
  std::vector<const Event*> positions;
};

struct StreamFacts {
  Life life;
  std::vector<const Event*> produces;  ///< That succeeded.
  std::vector<RecordFacts> records;

  /// Records that were there for certain before `stamp`.
  Offset EndFrom(Stamp stamp) const {
    Offset end = 0;
    for (const Event* produce : produces) {
      if (produce->answered < stamp) end = std::max(end, produce->offsets.back() + 1);
    }
    return end;
  }
  /// Records that may have been there by `stamp`.
  Offset EndTo(Stamp stamp) const {
    Offset end = 0;
    for (const Event* produce : produces) {
      if (produce->invoked < stamp) end = std::max(end, produce->offsets.back() + 1);
    }
    return end;
  }
};

class Checker {
 public:
  Checker(const History& history, Coverage& coverage) : history_(history), coverage_(coverage) {}

  std::vector<std::string> Run() {
    Index();
    for (auto& [id, stream] : streams_) CheckProduces(stream);
    CheckExistence();
    if (!violations_.empty()) return violations_;  // What follows relies on the above.
    for (auto& [id, subscription] : subscriptions_) {
      CheckBatches(subscription);
      if (!violations_.empty()) continue;
      DecideAcks(subscription);
      CheckPairs(subscription);
      CheckWorkers(subscription);
      CheckExtends(subscription);
      for (const Event* consume : subscription.consumes) CheckConsume(subscription, *consume);
      CheckLeaseLimit(subscription);
      CheckPositions(subscription);
    }
    CheckStats();
    return violations_;
  }

 private:
  void Report(const std::string& what, const Event& event) {
    violations_.push_back(what + " [call " + std::to_string(event.invoked) + "-" +
                          std::to_string(event.answered) + "]");
  }
  void Report(const std::string& what, const BatchFacts& a, const BatchFacts& b) {
    const auto say = [](const BatchFacts& batch) {
      return batch.id.ToString() + " (calls " + std::to_string(batch.granted_from) + "-" +
             std::to_string(batch.granted_by) + ")";
    };
    violations_.push_back(what + ": batches " + say(a) + " and " + say(b));
  }

  // --- Time ---

  /// The Broker's time during the call is at least this: every call that ended before had shown it
  /// what it read.
  int64_t Lower(const Event& event) const {
    const auto after = std::partition_point(
        seen_.begin(), seen_.end(), [&](const auto& seen) { return seen.first < event.invoked; });
    const int64_t others = after == seen_.begin() ? kNoTime : std::prev(after)->second;
    return std::max(others, event.seen_ms);
  }
  /// And at most this: nothing later had been read by anyone.
  int64_t Upper(const Event& event) const {
    const auto after = std::partition_point(
        read_.begin(), read_.end(), [&](const auto& read) { return read.first < event.answered; });
    return after == read_.begin() ? kNoTime : std::prev(after)->second;
  }

  // --- Sorting the events ---

  void Index() {
    for (const Reading& reading : history_.readings) read_.emplace_back(reading.at, reading.ms);
    for (const Event& event : history_.events) seen_.emplace_back(event.answered, event.seen_ms);
    for (auto* times : {&read_, &seen_}) {
      std::sort(times->begin(), times->end());
      int64_t most = kNoTime;
      for (auto& [stamp, ms] : *times) most = ms = std::max(most, ms);
    }
    for (const Event& event : history_.events) {
      const bool ok = event.reason == Reason::kNone;
      switch (event.op) {
        case Op::kCreateStream:
          if (ok) {
            Life& life = streams_[event.stream].life;
            life.name = event.name;
            life.made.push_back(&event);
          }
          break;
        case Op::kDeleteStream:
          if (ok) End(streams_[event.stream].life, event);
          break;
        case Op::kSubscribe:
          if (ok) {
            SubscriptionFacts& subscription = subscriptions_[event.subscription];
            subscription.stream = event.stream;
            subscription.life.name = event.name;
            subscription.life.made.push_back(&event);
          }
          break;
        case Op::kUnsubscribe:
          if (ok) End(subscriptions_[event.subscription].life, event);
          break;
        case Op::kProduce:
          if (ok) streams_[event.stream].produces.push_back(&event);
          break;
        case Op::kConsume:
          subscriptions_[event.subscription].consumes.push_back(&event);
          if (ok && !event.offsets.empty()) {
            BatchFacts& batch = subscriptions_[event.subscription].batches[event.batch];
            batch.id = event.batch;
            batch.answers.push_back(&event);
            if (!batch_owner_.emplace(event.batch, event.subscription).second &&
                batch_owner_[event.batch] != event.subscription) {
              Report("S16: a batch id was given by two subscriptions", event);
            }
          }
          break;
        case Op::kExtend:
          subscriptions_[event.subscription].extends.push_back(&event);
          break;
        case Op::kPosition:
          if (ok) subscriptions_[event.subscription].positions.push_back(&event);
          break;
        default:
          break;
      }
    }
    // Once it is known which batches there are. Others' batches are none of a subscription's.
    for (const Event& event : history_.events) {
      if (event.reason != Reason::kNone) continue;
      const auto owner = subscriptions_.find(event.subscription);
      if (owner == subscriptions_.end()) continue;
      const auto batch = owner->second.batches.find(event.batch);
      if (batch == owner->second.batches.end()) continue;
      if (event.op == Op::kAck) batch->second.acks.push_back(&event);
      if (event.op == Op::kNack) batch->second.nacks.push_back(&event);
      if (event.op == Op::kExtend) batch->second.answers.push_back(&event);
    }
  }

  void End(Life& life, const Event& event) {
    if (life.ended != nullptr) Report("S10: something was deleted twice", event);
    life.ended = &event;
  }

  // --- Existence and names ---

  void CheckExistence() {
    for (const Event& event : history_.events) {
      if (event.op == Op::kCreateStream || event.op == Op::kStats) continue;
      if (event.reason == Reason::kCancelled || event.reason == Reason::kInvalidArgument) continue;
      const Life& stream = streams_[event.stream].life;
      if (event.reason == Reason::kNoSuchStream) {
        if (!stream.made.empty() && !stream.MayBeGoneBy(event.answered)) {
          Report("S10: a stream that exists is said not to", event);
        }
        continue;
      }
      if (stream.made.empty() || stream.MadeFrom() > event.answered) {
        Report("S10: a call on a stream that was never made succeeded", event);
      } else if (&event != stream.ended && stream.GoneBefore(event.invoked)) {
        Report("S10: a stream lived on after its deletion", event);
      }
      if (event.op == Op::kDeleteStream || event.op == Op::kProduce) continue;
      if (event.op == Op::kSubscribe) {
        if (event.reason == Reason::kNone &&
            subscriptions_[event.subscription].life.GoneBefore(event.invoked)) {
          Report("S10: a deleted subscription came back", event);
        }
        continue;
      }
      const Life& subscription = subscriptions_[event.subscription].life;
      if (event.reason == Reason::kNoSuchSubscription) {
        if (!subscription.made.empty() && !subscription.MayBeGoneBy(event.answered)) {
          Report("S10: a subscription that exists is said not to", event);
        }
      } else if (&event != subscription.ended && subscription.GoneBefore(event.invoked)) {
        Report("S10: a subscription lived on after its deletion", event);
      }
    }
    for (auto a = streams_.begin(); a != streams_.end(); ++a) {
      for (auto b = std::next(a); b != streams_.end(); ++b)
        CheckNames(a->second.life, b->second.life);
    }
    for (auto a = subscriptions_.begin(); a != subscriptions_.end(); ++a) {
      for (auto b = std::next(a); b != subscriptions_.end(); ++b) {
        if (a->second.stream == b->second.stream) CheckNames(a->second.life, b->second.life);
      }
    }
  }

  void CheckNames(const Life& a, const Life& b) {
    if (a.name != b.name || a.made.empty() || b.made.empty()) return;
    const Stamp both = std::max(a.MadeBy(), b.MadeBy());
    if (!a.MayBeGoneBy(both) && !b.MayBeGoneBy(both)) {
      Report("S1, S7: two things have one name at once", *b.made.front());
    }
  }

  // --- Produce ---

  void CheckProduces(StreamFacts& stream) {
    auto& produces = stream.produces;
    for (const Event* produce : produces) {
      if (produce->offsets.empty()) {
        Report("S3: a produce placed no record", *produce);
        return;
      }
    }
    std::sort(produces.begin(), produces.end(), [](const Event* a, const Event* b) {
      return a->offsets.front() < b->offsets.front();
    });
    Stamp latest_beginning = 0;
    int64_t last_timestamp = kNoTime;
    for (const Event* produce : produces) {
      for (size_t i = 0; i < produce->offsets.size(); ++i) {
        if (produce->offsets[i] != stream.records.size()) {
          Report("S3: produced offsets have a gap, or are given twice", *produce);
          return;
        }
        stream.records.push_back({produce, produce->tokens[i], produce->timestamps_ms[i]});
        if (produce->timestamps_ms[i] < last_timestamp) {
          Report("S2: timestamps decrease", *produce);
        }
        last_timestamp = produce->timestamps_ms[i];
      }
      if (produce->answered < latest_beginning) {
        Report("S28: a produce came after one that began after its end", *produce);
      }
      latest_beginning = std::max(latest_beginning, produce->invoked);
      if (last_timestamp < Lower(*produce) || last_timestamp > Upper(*produce)) {
        Report("S2: a timestamp is none that the call could have seen", *produce);
      }
    }
  }

  // --- Batches ---

  void CheckBatches(SubscriptionFacts& subscription) {
    const StreamFacts& stream = streams_[subscription.stream];
    const auto& made = subscription.life.made;
    if (!made.empty() && made.front()->latest) {
      subscription.start_from = stream.EndFrom(subscription.life.MadeFrom());
      subscription.start_to = stream.EndTo(subscription.life.MadeBy());
    }
    subscription.of_record.resize(stream.records.size());
    for (auto& [id, batch] : subscription.batches) {
      CheckAnswers(batch, subscription, stream);
      if (!violations_.empty()) return;
      for (const Offset offset : batch.offsets) subscription.of_record[offset].push_back(&batch);
    }
  }

  void CheckAnswers(BatchFacts& batch, const SubscriptionFacts& subscription,
                    const StreamFacts& stream) {
    const Event& first = *batch.answers.front();  // A consume: extends come after them.
    batch.worker = first.worker;
    batch.offsets = first.offsets;
    int64_t earliest_end = std::numeric_limits<int64_t>::max();
    bool fits = false;
    for (const Event* answer : batch.answers) {
      if (answer->leased_until_ms < Lower(*answer) + history_.lease_ms ||
          answer->leased_until_ms > Upper(*answer) + history_.lease_ms) {
        Report("S13, S16, S22: a lease ends when it cannot", *answer);
      }
      if (answer->op == Op::kExtend) continue;
      if (answer->worker != batch.worker) {
        Report("S13: two workers were given one batch", *answer);
      }
      if (answer->offsets != batch.offsets) {
        Report("S13: a batch changed its records", *answer);
        return;
      }
      fits |= static_cast<int64_t>(answer->offsets.size()) <= answer->max_records;
      earliest_end = std::min(earliest_end, answer->leased_until_ms);
      CheckRecords(*answer, subscription, stream);
    }
    if (!fits) Report("S15: a batch has more records than anyone asked for", first);
    // The grant is the answer with the earliest end, since no later one shortens the lease.
    batch.granted_ms = earliest_end - history_.lease_ms;
    for (const Event* answer : batch.answers) {
      if (answer->leased_until_ms == earliest_end && answer->op == Op::kConsume) {
        batch.granted_from = std::min(batch.granted_from, answer->invoked);
      }
      batch.granted_by = std::min(batch.granted_by, answer->answered);
      if (batch.SettleEnded(answer->invoked)) {
        Report("S20, S21: a batch that was settled is leased again", *answer);
      }
      for (const Event* before : batch.answers) {
        if (before->answered < answer->invoked &&
            before->leased_until_ms > answer->leased_until_ms) {
          Report("S13, S22: a lease was shortened", *answer);
        }
      }
    }
    if (batch.granted_from > batch.granted_by) {
      Report("S13: a lease was refreshed before it was given", first);
    }
  }

  void CheckRecords(const Event& answer, const SubscriptionFacts& subscription,
                    const StreamFacts& stream) {
    for (size_t i = 0; i < answer.offsets.size(); ++i) {
      const Offset offset = answer.offsets[i];
      if (i > 0 && answer.offsets[i - 1] >= offset) {
        Report("S15: a batch is out of order", answer);
      }
      if (offset >= stream.records.size()) {
        Report("S28: a record that was never produced was given", answer);
        violations_.back() += " offset " + std::to_string(offset);
        continue;
      }
      const RecordFacts& record = stream.records[offset];
      if (record.produced->invoked > answer.answered) {
        Report("S28: a record was given before it was produced", answer);
      }
      if (record.token != answer.tokens[i] || record.timestamp_ms != answer.timestamps_ms[i]) {
        Report("S2: a record is not what was produced", answer);
      }
      if (offset < subscription.start_from) {
        Report("S9: a record from before the subscription's start was given", answer);
      }
    }
  }

  /// Was `a` certainly granted before `b`?
  static bool Before(const BatchFacts& a, const BatchFacts& b) {
    return a.granted_by < b.granted_from || a.granted_ms < b.granted_ms;
  }

  /// Finds the acks that must have counted: the lease was active all through the call, or nothing
  /// of the batch can have been leased again before. Spec: S20.
  void DecideAcks(SubscriptionFacts& subscription) {
    for (auto& [id, batch] : subscription.batches) {
      for (const Event* ack : batch.acks) {
        if (ack->invoked < batch.granted_by) continue;
        if (BatchFacts::Began(batch.nacks, ack->answered)) continue;
        const bool active = Upper(*ack) < batch.ProvenUntil(ack->invoked, history_.lease_ms);
        bool redelivered = false;
        for (const Offset offset : batch.offsets) {
          for (const BatchFacts* other : subscription.of_record[offset]) {
            if (other == &batch || Before(*other, batch)) continue;
            redelivered |= other->granted_from < ack->answered;
          }
        }
        if (!active && redelivered) continue;
        ++coverage_.acks;
        if (!active) ++coverage_.late_acks;
        batch.acked_by = std::min(batch.acked_by, ack->answered);
      }
    }
  }

  /// May `a` have been granted before `b`, which has a record in common with it? It then ended by
  /// nack or expiry in between, and no ack of it counted.
  bool MayPrecede(const BatchFacts& a, const BatchFacts& b) const {
    if (Before(b, a) || a.acked_by != kNever) return false;
    return BatchFacts::Began(a.nacks, b.granted_by) ||
           b.granted_ms >= a.ProvenUntil(b.granted_from, history_.lease_ms);
  }

  void CheckPairs(SubscriptionFacts& subscription) {
    std::set<std::pair<const BatchFacts*, const BatchFacts*>> checked;
    for (const auto& batches : subscription.of_record) {
      for (size_t i = 0; i < batches.size(); ++i) {
        for (size_t j = i + 1; j < batches.size(); ++j) {
          const BatchFacts& a = *batches[i];
          const BatchFacts& b = *batches[j];
          if (!checked.emplace(&a, &b).second) continue;
          ++coverage_.pairs;
          if (MayPrecede(a, b) || MayPrecede(b, a)) continue;
          const bool acked = a.acked_by != kNever || b.acked_by != kNever;
          Report(acked ? "S20: a record that was acked was delivered again"
                       : "S18: a record was in two active leases",
                 a, b);
        }
      }
    }
  }

  /// A worker holds at most one active lease. Spec: S18.
  void CheckWorkers(SubscriptionFacts& subscription) {
    std::map<std::string, std::vector<const BatchFacts*>> by_worker;
    for (const auto& [id, batch] : subscription.batches) by_worker[batch.worker].push_back(&batch);
    const auto may_precede = [&](const BatchFacts& a, const BatchFacts& b) {
      return !Before(b, a) && (a.SettleBegan(b.granted_by) ||
                               b.granted_ms >= a.ProvenUntil(b.granted_from, history_.lease_ms));
    };
    for (const auto& [worker, batches] : by_worker) {
      for (size_t i = 0; i < batches.size(); ++i) {
        for (size_t j = i + 1; j < batches.size(); ++j) {
          if (may_precede(*batches[i], *batches[j])) continue;
          if (may_precede(*batches[j], *batches[i])) continue;
          Report("S18: a worker held two leases", *batches[i], *batches[j]);
        }
      }
    }
  }

  void CheckExtends(SubscriptionFacts& subscription) {
    for (const Event* extend : subscription.extends) {
      const auto found = subscription.batches.find(extend->batch);
      const bool ok = extend->reason == Reason::kNone;
      if (found == subscription.batches.end()) {
        if (ok) Report("S22: a batch that was never given was extended", *extend);
        continue;
      }
      const BatchFacts& batch = found->second;
      const bool holder = extend->worker == batch.worker;
      if (ok) {
        ++coverage_.extends;
        if (!holder) Report("S22: another than the holder extended a lease", *extend);
        if (batch.PossiblyUntil(extend->answered, extend) <= Lower(*extend)) {
          Report("S22: a lease that had expired was extended", *extend);
        }
      } else if (extend->reason == Reason::kLeaseNotHeld && holder &&
                 batch.granted_by < extend->invoked) {
        ++coverage_.extends;
        if (!batch.SettleBegan(extend->answered) &&
            Upper(*extend) < batch.ProvenUntil(extend->invoked, history_.lease_ms)) {
          Report("S22: the holder of an active lease could not extend it", *extend);
        }
      }
    }
  }

  // --- Consumes ---

  /// Was the lease certainly active all through the call, as far as nobody settled it?
  bool Active(const BatchFacts& batch, const Event& event) const {
    return batch.granted_by < event.invoked && !batch.SettleBegan(event.answered) &&
           Upper(event) < batch.ProvenUntil(event.invoked, history_.lease_ms);
  }
  /// May the lease have been active at some time during the call?
  bool MayBeActive(const BatchFacts& batch, const Event& event) const {
    return batch.granted_from < event.answered && !batch.SettleEnded(event.invoked) &&
           batch.PossiblyUntil(event.answered) > Lower(event);
  }

  /// Was the record certainly available all through the call?
  bool Available(const SubscriptionFacts& subscription, Offset offset, const Event& event,
                 const BatchFacts* except) const {
    for (const BatchFacts* batch : subscription.of_record[offset]) {
      if (batch == except || batch->granted_from > event.answered) continue;
      if (BatchFacts::Began(batch->acks, event.answered)) return false;
      if (BatchFacts::Ended(batch->nacks, event.invoked)) continue;
      if (batch->PossiblyUntil(event.answered) > Lower(event)) return false;
    }
    return true;
  }

  void CheckConsume(const SubscriptionFacts& subscription, const Event& consume) {
    if (consume.reason == Reason::kNoSuchStream || consume.reason == Reason::kNoSuchSubscription) {
      return;
    }
    if (consume.reason == Reason::kCancelled) {
      if (!consume.stopped) Report("a consume was cancelled by nobody", consume);
      return;
    }
    const StreamFacts& stream = streams_[subscription.stream];
    for (const auto& [id, batch] : subscription.batches) {
      if (batch.worker != consume.worker || !Active(batch, consume)) continue;
      ++coverage_.refreshes;
      if (consume.reason != Reason::kNone || consume.batch != id) {
        Report("S13: a worker with an active lease was not given its batch", consume);
      }
      return;
    }
    const Offset end = stream.EndFrom(consume.invoked);
    if (consume.reason == Reason::kLeaseLimit) {
      ++coverage_.denials;
      if (consume.waits) Report("S14: a consume that waits was refused", consume);
      uint64_t leases = 0;
      for (const auto& [id, batch] : subscription.batches) {
        if (MayBeActive(batch, consume)) ++leases;
      }
      if (leases < history_.max_active_leases) {
        Report("S14: a consume was refused below the lease limit", consume);
      }
      return;
    }
    if (consume.reason != Reason::kNone) {
      Report("a consume was refused for no reason", consume);
      return;
    }
    if (consume.offsets.empty()) {
      ++coverage_.denials;
      if (consume.waits) {
        // At the end of its time it may stand behind others for whom there is something.
        if (Upper(consume) < consume.wait_until_ms) {
          Report("a consume gave up before its deadline", consume);
        }
        return;
      }
      for (Offset offset = subscription.start_to; offset < end; ++offset) {
        if (!Available(subscription, offset, consume, nullptr)) continue;
        Report("S11, S15: a consume gave nothing though a record was available", consume);
        return;
      }
      return;
    }
    const BatchFacts& batch = subscription.batches.find(consume.batch)->second;
    const bool granted = batch.answers.size() == 1;  // Else it is not known which one was.
    if (!granted) return;
    ++coverage_.grants;
    const bool full = static_cast<int64_t>(batch.offsets.size()) >= consume.max_records;
    const Offset last = full ? std::min(end, batch.offsets.back()) : end;
    for (Offset offset = subscription.start_to; offset < last; ++offset) {
      if (batch.Contains(offset) || !Available(subscription, offset, consume, &batch)) continue;
      Report("S15: a consume passed over an available record", consume);
      return;
    }
  }

  /// No lease is given while as many as allowed are certainly active. Spec: S14.
  void CheckLeaseLimit(const SubscriptionFacts& subscription) {
    for (const auto& [id, given] : subscription.batches) {
      uint64_t leases = 0;
      for (const auto& [other_id, batch] : subscription.batches) {
        const bool active =
            batch.granted_by < given.granted_from && !batch.SettleBegan(given.granted_by) &&
            given.granted_ms < batch.ProvenUntil(given.granted_from, history_.lease_ms);
        if (active) ++leases;
      }
      if (leases >= history_.max_active_leases) {
        Report("S14: a lease was given beyond the limit", given, given);
      }
    }
  }

  // --- Positions ---

  void CheckPositions(SubscriptionFacts& subscription) {
    const StreamFacts& stream = streams_[subscription.stream];
    const size_t count = stream.records.size();
    // When each record may first, and must at last, have been processed.
    std::vector<Stamp> may(count, kNever);
    std::vector<Stamp> must(count, kNever);
    for (const auto& [id, batch] : subscription.batches) {
      for (const Offset offset : batch.offsets) {
        for (const Event* ack : batch.acks) may[offset] = std::min(may[offset], ack->invoked);
        must[offset] = std::min(must[offset], batch.acked_by);
      }
    }
    auto& positions = subscription.positions;
    std::sort(positions.begin(), positions.end(),
              [](const Event* a, const Event* b) { return a->invoked < b->invoked; });
    std::vector<const Event*> by_end = positions;
    std::sort(by_end.begin(), by_end.end(),
              [](const Event* a, const Event* b) { return a->answered < b->answered; });
    size_t ended = 0;
    lessor::Position most;
    for (const Event* event : positions) {
      ++coverage_.positions;
      const lessor::Position& position = event->position;
      while (ended < by_end.size() && by_end[ended]->answered < event->invoked) {
        const lessor::Position& before = by_end[ended++]->position;
        most.committed = std::max(most.committed, before.committed);
        most.end = std::max(most.end, before.end);
        most.skipped = std::max(most.skipped, before.skipped);
      }
      if (position.committed < most.committed) Report("S24: the position went back", *event);
      if (position.end < most.end) Report("S28: the end went back", *event);
      if (position.skipped < most.skipped) Report("S25: skipped records decrease", *event);
      if (position.end < stream.EndFrom(event->invoked) ||
          position.end > stream.EndTo(event->answered)) {
        Report("S28: the end is none that the stream can have had", *event);
        continue;
      }
      if (position.committed > position.end || position.committed < subscription.start_from) {
        Report("S24: the position is outside of the stream", *event);
        continue;
      }
      for (Offset offset = subscription.start_to; offset < position.committed; ++offset) {
        if (may[offset] > event->answered) {
          Report("S24: the position passed a record that nobody had acked", *event);
          break;
        }
      }
      // From the earliest start: it may have started there, and have a record there to wait for.
      Offset acked = subscription.start_from;
      while (acked < count && must[acked] < event->invoked) ++acked;
      if (position.committed < acked) {
        Report("S24: the position stays behind records that were acked", *event);
      }
      CheckCounts(subscription, stream, *event);
    }
  }

  void CheckCounts(const SubscriptionFacts& subscription, const StreamFacts& stream,
                   const Event& event) {
    const lessor::Position& position = event.position;
    uint64_t sure = 0;
    uint64_t sure_records = 0;
    uint64_t possible = 0;
    uint64_t possible_records = 0;
    for (const auto& [id, batch] : subscription.batches) {
      if (Active(batch, event)) {
        ++sure;
        sure_records += batch.offsets.size();
      }
      if (MayBeActive(batch, event)) {
        ++possible;
        possible_records += batch.offsets.size();
      }
    }
    if (position.active_leases < sure || position.active_leases > possible ||
        position.leased < sure_records || position.leased > possible_records) {
      Report("S30: the leases are miscounted", event);
    }
    uint64_t available = 0;
    const Offset end = stream.EndFrom(event.invoked);
    for (Offset offset = subscription.start_to; offset < end; ++offset) {
      if (Available(subscription, offset, event, nullptr)) ++available;
    }
    if (position.available < available ||
        position.available + position.leased > position.end - position.committed) {
      Report("S30: the available records are miscounted", event);
    }
  }

  // --- Stats ---

  void CheckStats() {
    std::vector<const Event*> stats;
    for (const Event& event : history_.events) {
      if (event.op == Op::kStats) stats.push_back(&event);
    }
    for (const Event* event : stats) {
      uint64_t least = 0;
      uint64_t most = 0;
      for (const auto& [id, stream] : streams_) {
        for (const Event* produce : stream.produces) {
          if (produce->answered < event->invoked) least += produce->offsets.size();
          if (produce->invoked < event->answered) most += produce->offsets.size();
        }
      }
      if (event->counters.front() < least || event->counters.front() > most) {
        Report("Stats: produced records are miscounted", *event);
      }
      for (const Event* before : stats) {
        if (before->answered >= event->invoked) continue;
        for (size_t i = 0; i < event->counters.size(); ++i) {
          if (event->counters[i] >= before->counters[i]) continue;
          Report("Stats: counter " + std::to_string(i) + " decreased", *event);
          return;
        }
      }
    }
  }

  const History& history_;
  Coverage& coverage_;
  std::vector<std::string> violations_;
  std::vector<std::pair<Stamp, int64_t>> seen_;  ///< By the end of the call; the most so far.
  std::vector<std::pair<Stamp, int64_t>> read_;  ///< By the reading; the most so far.
  std::map<StreamId, StreamFacts> streams_;
  std::map<SubscriptionId, SubscriptionFacts> subscriptions_;
  std::map<BatchId, SubscriptionId> batch_owner_;
};

}  // namespace

std::vector<std::string> CheckHistory(const History& history, Coverage* coverage) {
  Coverage unused;
  return Checker(history, coverage != nullptr ? *coverage : unused).Run();
}

}  // namespace lessor_tests
