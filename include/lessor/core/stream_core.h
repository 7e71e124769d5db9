// lessor/core/stream_core.h: one stream as a state machine: state + now -> decision, change ->
// state.
//
// An operation is three steps, so that a store can come between the last two:
//   core.Advance(now);                     // time: leases end, records leave
//   Decision decision = core.DecideX(...); // reads only: a refusal, nothing, or one change
//   core.Apply(*decision.change);          // the change happens
// Replaying stored changes through Apply() alone gives an equal core.
#ifndef LESSOR_CORE_STREAM_CORE_H_
#define LESSOR_CORE_STREAM_CORE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lessor/batch.h"
#include "lessor/change.h"
#include "lessor/core/log.h"
#include "lessor/core/subscription_core.h"
#include "lessor/core/validate.h"
#include "lessor/error.h"
#include "lessor/ids.h"
#include "lessor/limits.h"
#include "lessor/policy.h"
#include "lessor/position.h"
#include "lessor/record.h"
#include "lessor/segment_pool.h"
#include "lessor/store.h"
#include "lessor/time.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// What an operation is to do: be refused, change nothing, or make one change.
template <class What>
struct Decision {
  Reason refusal = Reason::kNone;
  std::optional<What> change = std::nullopt;
};

/// What a consume is to do: as Decision, with the change that it is, or wait for the bytes of
/// segment `need`: Install() them and decide again.
struct ConsumeDecision {
  Reason refusal = Reason::kNone;
  std::optional<Offset> need = std::nullopt;
  std::optional<change::Renewed> renewed = std::nullopt;
  std::optional<change::Granted> granted = std::nullopt;
};

/// What stays the same for every stream of one Broker.
struct CoreSettings {
  Limits limits;
  StreamPolicy policy;
  Millis lease;  ///< limits.lease.
  std::shared_ptr<SegmentPool> pool;
};

/// A stream with its subscriptions.
///
/// Time: now() is the latest time it was advanced to, and never goes back (S26).
/// Threads: none of its own; one caller at a time.
/// Spec: S1-S31.
template <class Rules>
class StreamCore {
 public:
  using Sub = SubscriptionCore<Rules>;

  /// A stream before its first change, which is StreamCreated.
  explicit StreamCore(const CoreSettings& settings) : settings_(&settings), log_(settings.pool) {}

  /// What the store has of a stream; nothing if it contradicts itself.
  static std::unique_ptr<StreamCore> Restore(const CoreSettings& settings,
                                             const Store::Loaded& loaded) {
    auto core = std::make_unique<StreamCore>(settings);
    if (loaded.snapshot && !core->Take(*loaded.snapshot)) return nullptr;
    for (const std::string& bytes : loaded.tail) {
      const absl::StatusOr<DecodedChange> change = DecodedChange::Decode(bytes);
      if (!change.ok() || !core->Apply(**change)) return nullptr;
    }
    core->counters_ = {};  // What is replayed was counted when it happened.
    return core->created_ ? std::move(core) : nullptr;
  }

  Instant now() const { return now_; }
  bool deleted() const { return deleted_; }
  const std::string& name() const { return name_; }
  Millis retention() const { return retention_; }
  bool http() const { return http_; }
  bool worker_binding() const { return worker_binding_; }
  Instant created_at() const { return created_at_; }
  Instant modified_at() const { return modified_at_; }
  const Log& log() const { return log_; }
  const StreamCounters& counters() const { return counters_; }
  /// Takes over what a core before this one has counted.
  void set_counters(const StreamCounters& counters) { counters_ = counters; }

  /// Oldest first. Not advanced: use Find() to look into one.
  const std::vector<std::unique_ptr<Sub>>& subscriptions() const { return subscriptions_; }
  /// The subscription, advanced to now(); null if there is none.
  const Sub* Find(SubscriptionId id) { return Advanced(id); }
  /// By name, ignoring case.
  const Sub* FindByName(std::string_view name) {
    const std::string folded = FoldCase(name);
    for (const auto& subscription : subscriptions_) {
      if (FoldCase(subscription->name()) == folded) return Advanced(subscription->id());
    }
    return nullptr;
  }

  /// Sees the time: leases that are due end, records whose retention is over leave. S5, S23, S26.
  void Advance(Instant now) {
    if (now > now_) MoveTo(now);
  }

 private:
  void MoveTo(Instant now) {
    now_ = now;
    if (deleted_) return;
    if (log_.template ApplyRetention<Rules>(now_, retention_)) DropSegments();
    if (!Rules::IsActive(now_, next_lease_end_)) {
      next_lease_end_ = Instant::Max();
      for (const auto& subscription : subscriptions_) {
        subscription->ExpireLeases(now_, settings_->policy, counters_);
        NoteLeaseEnd(*subscription);
      }
    }
  }

 public:
  /// When the first active lease ends.
  std::optional<Instant> NextLeaseEnd() const {
    std::optional<Instant> next;
    for (const auto& subscription : subscriptions_) {
      const std::optional<Instant> end = subscription->NextLeaseEnd();
      if (end && (!next || *end < *next)) next = end;
    }
    return next;
  }
  /// When the oldest record leaves.
  std::optional<Instant> NextRetention() const {
    if (log_.begin() == log_.end()) return std::nullopt;
    return log_.oldest() + retention_;
  }
  /// No record before this is needed: not retained, and in no active lease.
  Offset Floor() const {
    Offset floor = log_.begin();
    for (const auto& subscription : subscriptions_) {
      floor = std::min(floor, subscription->LowestLeased());
    }
    return floor;
  }

  // Decisions. Each is for now(): advance first.

  Decision<change::StreamUpdated> DecideUpdate(std::optional<Millis> retention,
                                               std::optional<bool> http,
                                               std::optional<bool> worker_binding) const {
    if (deleted_) return {.refusal = Reason::kNoSuchStream};
    const change::StreamUpdated updated{.retention = retention.value_or(retention_),
                                        .http = http.value_or(http_),
                                        .worker_binding = worker_binding.value_or(worker_binding_)};
    if (!updated.http && !updated.worker_binding) {
      return {.refusal = Reason::kInvalidArgument};
    }
    return {.change = updated};
  }

  Decision<change::StreamDeleted> DecideDelete() const {
    if (deleted_) return {.refusal = Reason::kNoSuchStream};
    return {.change = change::StreamDeleted{}};
  }

  /// `records` have been checked. Spec: S2, S3.
  Decision<change::Appended> DecideProduce(std::span<const Record> records) const {
    if (deleted_) return {.refusal = Reason::kNoSuchStream};
    return {.change = change::Appended{.first = log_.end(),
                                       .timestamp = Rules::Timestamp(now_, log_.newest()),
                                       .records = records}};
  }

  /// No refusal and no change: the subscription exists. Spec: S8, S9.
  Decision<change::Subscribed> DecideSubscribe(std::string_view name, StartAt start_at,
                                               SubscriptionId fresh) {
    if (deleted_) return {.refusal = Reason::kNoSuchStream};
    if (const Sub* existing = FindByName(name)) {
      return {.refusal = existing->start_at() == start_at ? Reason::kNone : Reason::kNameTaken};
    }
    if (static_cast<int64_t>(subscriptions_.size()) >= settings_->limits.max_subscriptions) {
      return {.refusal = Reason::kSubscriptionLimit};
    }
    // An id that is in use, or none at all, is the id source's fault.
    if (!fresh || Advanced(fresh) != nullptr) return {.refusal = Reason::kInternal};
    const Offset cursor = Rules::StartOffset(start_at, log_.begin(), log_.end());
    return {.change = change::Subscribed{
                .subscription = fresh, .name = name, .start_at = start_at, .cursor = cursor}};
  }

  Decision<change::Unsubscribed> DecideUnsubscribe(SubscriptionId id) {
    Reason refusal = Reason::kNone;
    if (Lookup(id, refusal) == nullptr) return {.refusal = refusal};
    return {.change = change::Unsubscribed{.subscription = id}};
  }

  /// Spec: S13-S16. The ranges of a grant stay valid until the next decision.
  ConsumeDecision DecideConsume(SubscriptionId id, std::string_view worker, int64_t max_records,
                                BatchId fresh) {
    ConsumeDecision decision;
    const Sub* subscription = Lookup(id, decision.refusal);
    if (subscription == nullptr) return decision;
    subscription->PlanConsume(worker, max_records, now_, settings_->lease, settings_->limits,
                              settings_->policy, log_, plan_);
    switch (plan_.kind) {
      case ConsumePlan::Kind::kNothing:
        break;
      case ConsumePlan::Kind::kLeaseLimit:
        decision.refusal = Reason::kLeaseLimit;
        break;
      case ConsumePlan::Kind::kNeedSegment:
        decision.need = plan_.need;
        break;
      case ConsumePlan::Kind::kRefresh:
        decision.renewed = {
            .subscription = id, .batch = plan_.batch, .leased_until = plan_.leased_until};
        break;
      case ConsumePlan::Kind::kGrant:
        if (!fresh || subscription->Find(fresh) != nullptr) {
          decision.refusal = Reason::kInternal;
          break;
        }
        decision.granted = {.subscription = id,
                            .batch = fresh,
                            .worker = worker,
                            .leased_until = plan_.leased_until,
                            .ranges = plan_.ranges};
        break;
    }
    return decision;
  }

  /// Spec: S20.
  Decision<change::Acked> DecideAck(SubscriptionId id, BatchId batch) {
    return DecideSettle<change::Acked>(id, batch);
  }
  /// Spec: S21.
  Decision<change::Released> DecideNack(SubscriptionId id, BatchId batch) {
    return DecideSettle<change::Released>(id, batch);
  }
  /// Spec: S22.
  Decision<change::Renewed> DecideExtend(SubscriptionId id, BatchId batch,
                                         std::string_view worker) {
    Reason refusal = Reason::kNone;
    const Sub* subscription = Lookup(id, refusal);
    if (subscription == nullptr) return {.refusal = refusal};
    const auto* slot = subscription->Find(batch);
    if (slot == nullptr || !Rules::MayExtend(slot->active(), slot->what.worker == worker)) {
      return {.refusal = Reason::kLeaseNotHeld};
    }
    return {.change = change::Renewed{
                .subscription = id,
                .batch = batch,
                .leased_until = Rules::Renewed(slot->leased_until, now_, settings_->lease)}};
  }

  /// Makes `change` happen, after advancing to its time. False, and nothing changes but the time,
  /// if it does not fit the state; a change that this core has just decided always fits.
  bool Apply(const Change& change) {
    Advance(change.now);
    if (deleted_) return false;
    return std::visit([this](const auto& what) { return this->ApplyNow(what); }, change.what);
  }
  /// The same at now(), for a change that was just decided.
  template <class What>
  bool ApplyNow(const What& what) {
    return ApplyWhat(what);
  }

  /// The batch of an active lease whose bytes are in memory, as it was just granted or renewed.
  Batch BatchOf(SubscriptionId id, BatchId batch) {
    const auto* slot = Advanced(id)->Find(batch);
    return {batch, slot->leased_until, slot->what.pieces};
  }

  /// Counts a consume that was answered with the batch already held, or an extend.
  void CountRefresh() { ++counters_.refreshes; }
  void CountExtend() { ++counters_.extends; }

  /// Gives a segment the bytes it lacked; false if they are not the ones asked for.
  bool Install(Offset base, SegmentRef segment) { return log_.Install(base, std::move(segment)); }

  StreamSnapshot Snapshot() {
    StreamSnapshot snapshot{.now = now_,
                            .deleted = deleted_,
                            .name = name_,
                            .retention = retention_,
                            .http = http_,
                            .worker_binding = worker_binding_,
                            .created_at = created_at_,
                            .modified_at = modified_at_,
                            .begin = log_.begin(),
                            .end = log_.end(),
                            .last_timestamp = log_.newest(),
                            .segments = log_.Index(Floor()),
                            .subscriptions = {}};
    for (const auto& subscription : subscriptions_) {
      snapshot.subscriptions.push_back(Advanced(subscription->id())->Snapshot());
    }
    return snapshot;
  }

 private:
  bool Take(const StreamSnapshot& snapshot) {
    created_ = true;
    now_ = snapshot.now;
    deleted_ = snapshot.deleted;
    name_ = snapshot.name;
    retention_ = snapshot.retention;
    http_ = snapshot.http;
    worker_binding_ = snapshot.worker_binding;
    created_at_ = snapshot.created_at;
    modified_at_ = snapshot.modified_at;
    if (snapshot.begin > snapshot.end || !Cover(snapshot)) return false;
    log_ = Log(settings_->pool, snapshot);
    for (const SubscriptionSnapshot& subscription : snapshot.subscriptions) {
      bool ok = false;
      subscriptions_.push_back(std::make_unique<Sub>(subscription, now_, ok));
      if (!ok || subscription.next > snapshot.end) return false;
      if (subscriptions_.back()->LowestLeased() < log_.first_kept()) return false;
      NoteLeaseEnd(*subscriptions_.back());
    }
    return true;
  }

  /// The segments follow each other, in order, up to the end, and hold all that is retained.
  static bool Cover(const StreamSnapshot& snapshot) {
    Offset at = snapshot.segments.empty() ? snapshot.end : snapshot.segments.front().base;
    if (at > snapshot.begin) return false;
    for (const SegmentIndex& index : snapshot.segments) {
      if (index.base != at || index.runs.empty()) return false;
      uint32_t end = 0;
      for (const SegmentIndex::Run& run : index.runs) {
        if (run.end <= end) return false;
        end = run.end;
      }
      at += end;
    }
    return at == snapshot.end;
  }

  /// Advance() has ended leases; what retention removed is skipped when somebody looks.
  Sub* Advanced(SubscriptionId id) {
    if (last_found_ == nullptr || last_found_->id() != id) {
      last_found_ = Search(id);
      if (last_found_ == nullptr) return nullptr;
    }
    last_found_->SkipBefore(log_.begin());
    return last_found_;
  }

  Sub* Search(SubscriptionId id) const {
    for (const auto& subscription : subscriptions_) {
      if (subscription->id() == id) return subscription.get();
    }
    return nullptr;
  }

  Sub* Lookup(SubscriptionId id, Reason& refusal) {
    Sub* found = deleted_ ? nullptr : Advanced(id);
    if (found == nullptr) {
      refusal = deleted_ ? Reason::kNoSuchStream : Reason::kNoSuchSubscription;
    }
    return found;
  }

  template <class Settled>
  Decision<Settled> DecideSettle(SubscriptionId id, BatchId batch) {
    Reason refusal = Reason::kNone;
    const Sub* subscription = Lookup(id, refusal);
    if (subscription == nullptr) return {.refusal = refusal};
    if (subscription->Find(batch) == nullptr) return {};
    return {.change = Settled{.subscription = id, .batch = batch}};
  }

  void NoteLeaseEnd(const Sub& subscription) {
    next_lease_end_ =
        std::min(next_lease_end_, subscription.NextLeaseEnd().value_or(Instant::Max()));
  }

  void DropSegments() {
    if (!log_.HasGone()) return;
    // A lease whose bytes are not all in memory yet has none of its own: the log keeps what is, as
    // a store can be asked for segments of its snapshot only.
    Offset bytes_floor = log_.begin();
    for (const auto& subscription : subscriptions_) {
      bytes_floor = std::min(bytes_floor, subscription->LowestUnmaterialized());
    }
    log_.DropBelow(Floor(), bytes_floor);
  }

  bool ApplyWhat(const change::StreamCreated& created) {
    if (created_) return false;
    created_ = true;
    name_ = created.name;
    retention_ = created.retention;
    http_ = created.http;
    worker_binding_ = created.worker_binding;
    created_at_ = modified_at_ = now_;
    return true;
  }

  bool ApplyWhat(const change::StreamUpdated& updated) {
    retention_ = updated.retention;
    http_ = updated.http;
    worker_binding_ = updated.worker_binding;
    modified_at_ = now_;
    MoveTo(now_);  // A shorter retention works at once.
    return true;
  }

  bool ApplyWhat(const change::StreamDeleted&) {
    deleted_ = true;
    last_found_ = nullptr;
    subscriptions_.clear();
    log_ = Log(settings_->pool);
    return true;
  }

  bool ApplyWhat(const change::Appended& appended) {
    if (appended.first != log_.end() || appended.timestamp < log_.newest()) return false;
    log_.Append(appended.records, appended.timestamp);
    counters_.produced += appended.records.size();
    return true;
  }

  bool ApplyWhat(const change::Subscribed& subscribed) {
    if (subscribed.cursor > log_.end() || Advanced(subscribed.subscription) != nullptr) {
      return false;
    }
    subscriptions_.push_back(std::make_unique<Sub>(subscribed, now_));
    return true;
  }

  bool ApplyWhat(const change::Unsubscribed& unsubscribed) {
    last_found_ = nullptr;
    return std::erase_if(subscriptions_, [&](const auto& subscription) {
             return subscription->id() == unsubscribed.subscription;
           }) == 1;
  }

  bool ApplyWhat(const change::Granted& granted) {
    Sub* subscription = Advanced(granted.subscription);
    if (subscription == nullptr || !subscription->Apply(granted, log_, counters_)) return false;
    next_lease_end_ = std::min(next_lease_end_, granted.leased_until);
    return true;
  }

  bool ApplyWhat(const change::Renewed& renewed) {
    Sub* subscription = Advanced(renewed.subscription);
    return subscription != nullptr && subscription->Apply(renewed, log_);
  }

  bool ApplyWhat(const change::Acked& acked) {
    Sub* subscription = Advanced(acked.subscription);
    if (subscription == nullptr || !subscription->Apply(acked)) return false;
    ++counters_.acks;
    return true;
  }

  bool ApplyWhat(const change::Released& released) {
    Sub* subscription = Advanced(released.subscription);
    if (subscription == nullptr || !subscription->Apply(released, log_)) return false;
    ++counters_.nacks;
    return true;
  }

  const CoreSettings* settings_;
  bool created_ = false;
  bool deleted_ = false;
  bool http_ = true;
  bool worker_binding_ = true;
  Instant now_ = Instant::Min();
  std::string name_;
  Millis retention_;
  Instant created_at_;
  Instant modified_at_;
  Log log_;
  std::vector<std::unique_ptr<Sub>> subscriptions_;
  Sub* last_found_ = nullptr;                ///< Where the last search ended.
  Instant next_lease_end_ = Instant::Max();  ///< No lease ends before it; may be early.
  StreamCounters counters_;
  ConsumePlan plan_;
};

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_CORE_STREAM_CORE_H_
