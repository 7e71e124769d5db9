// lessor/broker_impl.h: the Broker's code. Include lessor/broker.h instead, unless you instantiate
// BasicBroker with other rules than the standard ones.
#ifndef LESSOR_BROKER_IMPL_H_
#define LESSOR_BROKER_IMPL_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lessor/broker.h"
#include "lessor/core/explain.h"
#include "lessor/core/stream_core.h"
#include "lessor/core/validate.h"
#include "lessor/error.h"

namespace lessor::inline LESSOR_ABI {

/// How an operation runs (Run): under its stream's lock it advances the core, decides, submits at
/// most one change and applies it; after the lock it wakes whom it must and waits until all it saw
/// is durable. If that fails, the stream is loaded anew from the store, and the operation either
/// reports the failure of its own change or decides again.
template <class Rules>
struct BasicBroker<Rules>::Impl {
  using Core = StreamCore<Rules>;
  using Sub = SubscriptionCore<Rules>;

  /// One blocked call. Shared, so that whoever wakes it after the lock may outlive it.
  struct Waiting {
    Waiter waiter;
    // Under the stream's lock:
    std::string_view worker;            ///< Valid while in a queue.
    Instant deadline = Instant::Max();  ///< The call's own.
    Instant until = Instant::Max();     ///< What it sleeps until.
    bool queued = false;
    bool signalled = false;  ///< Woken, and not yet back under the lock.
  };
  using WaitingPtr = std::shared_ptr<Waiting>;

  /// A stream and what surrounds its core. Cells live as long as the Broker, and serve one stream
  /// after another: whoever found a cell without a lock checks, under its lock, that it still is
  /// the stream's.
  struct Cell {
    enum class State { kReady, kLoading, kBroken };

    std::mutex mutex;
    // Under the mutex:
    StreamId id;                 ///< All zero while the cell serves no stream.
    std::unique_ptr<Core> core;  ///< Null if the store turned out not to have the stream.
    State state = State::kReady;
    uint64_t epoch = 0;     ///< Loads and streams so far.
    uint64_t sequence = 0;  ///< Changes submitted, counted as the store does.
    uint64_t durable = 0;   ///< Sequence known to be durable.
    Store::Ticket last;     ///< Of the last change.
    std::vector<WaitingPtr> for_load;
    std::map<SubscriptionId, std::list<WaitingPtr>> queues;  ///< No queue is empty.
    Instant soonest_deadline = Instant::Max();  ///< No queued deadline is before it; may be early.
    std::vector<std::pair<SubscriptionId, std::string>> reading;  ///< Consumes reading a segment.
    int64_t accounted = 0;  ///< The core's part of bytes_held.
    Offset trimmed = 0;     ///< The store was told to free what is before it.
    bool trimming = false;
    StreamCounters counted;  ///< What the core counted, once `core` is null.
  };

  /// One pass of an operation through a cell's lock.
  struct Attempt {
    enum class Then { kAnswer, kSleep, kRead, kMakeRoom };

    Cell& cell;
    Core& core;
    Then then = Then::kAnswer;
    bool changed = false;
    bool nudge = false;  ///< The host's wake-up callback is due.
    Offset need = 0;     ///< For kRead.
    std::vector<WaitingPtr> wake;
    std::optional<Offset> trim;
    uint64_t expiries_before = 0;
    Instant lease_end_before = Instant::Max();
  };

  explicit Impl(const BrokerOptions& options)
      : clock(options.clock != nullptr ? *options.clock : SystemClock()),
        ids(options.ids != nullptr ? *options.ids : SystemIdSource()),
        store(options.store != nullptr ? *options.store : MemoryStore()),
        in_memory(&store == &MemoryStore()),
        core_settings{options.limits, options.policy, CeilToMillis(options.limits.lease),
                      SegmentPool::Create()} {}

  const Limits& limits() const { return core_settings.limits; }

  /// How often an operation is decided again before it gives up.
  static constexpr int kMaxTries = 100;

  // --- Time and ids ---

  /// Reads the clock, once a call. Time never goes back (S26).
  Instant See() {
    const Instant now = FloorToInstant(clock.Now());
    Instant seen = latest.load(std::memory_order_relaxed);
    while (seen < now && !latest.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
    }
    return std::max(now, seen);
  }

  /// An id from the source; all zero, which is refused, only if the source gives nothing else.
  template <class AnyId>
  AnyId FreshId() {
    AnyId id;
    for (int tries = 0; tries < kMaxTries && !id; ++tries) {
      const RandomBits bits = ids.Next();
      id = {bits.high, bits.low};
    }
    return id;
  }

  static absl::Time TimeOrNever(std::optional<Instant> instant) {
    if (!instant || *instant >= Instant::Max()) return absl::InfiniteFuture();
    return ToTime(*instant);
  }

  // --- The directory ---

  /// The cell that serves `id`, or null. It may serve another stream by the time it is locked.
  Cell* FindCell(StreamId id) {
    // A thread mostly stays with one stream. Cells never go away before their Broker, whose serial
    // no other Broker of the process ever has.
    struct Last {
      uint64_t broker = 0;
      StreamId stream;
      Cell* cell = nullptr;
    };
    static thread_local Last last;
    if (last.broker == serial && last.stream == id) return last.cell;
    const std::lock_guard lock(directory_mutex);
    const auto found = by_id.find(id);
    if (found == by_id.end()) return nullptr;
    last = {serial, id, found->second};
    return found->second;
  }

  /// Locks the cell that serves `id`; a null one if there is none.
  std::pair<Cell*, std::unique_lock<std::mutex>> LockCell(StreamId id) {
    Cell* cell = FindCell(id);
    if (cell == nullptr) return {};
    std::unique_lock lock(cell->mutex);
    if (cell->id == id) return {cell, std::move(lock)};
    return {};  // Gone: no id is ever used again.
  }

  std::vector<Cell*> AllCells() {
    const std::lock_guard lock(directory_mutex);
    return oldest_first;
  }

  std::vector<StreamId> AllIds() {
    const std::lock_guard lock(directory_mutex);
    std::vector<StreamId> ids_of_all;
    for (Cell* cell : oldest_first) {
      const std::lock_guard cell_lock(cell->mutex);
      ids_of_all.push_back(cell->id);
    }
    return ids_of_all;
  }

  /// A cell for a new stream, not in the directory yet. Under the directory's lock.
  Cell& TakeCell(StreamId id) {
    if (spare.empty()) {
      cells.push_back(std::make_unique<Cell>());
      spare.push_back(cells.back().get());
    }
    Cell& cell = *spare.back();
    spare.pop_back();
    const std::lock_guard lock(cell.mutex);
    cell.id = id;
    return cell;
  }

  /// Takes a stream that is deleted, or never came to be, out of the directory.
  void Erase(StreamId id) {
    std::vector<WaitingPtr> wake;
    std::unique_ptr<Core> core;  // Freed after the locks: it may be large.
    {
      const std::lock_guard lock(directory_mutex);
      const auto found = by_id.find(id);
      if (found == by_id.end()) return;
      Cell& cell = *found->second;
      by_id.erase(found);
      std::erase(oldest_first, &cell);
      std::erase_if(by_name, [&](const auto& entry) { return entry.second == &cell; });
      spare.push_back(&cell);
      const std::lock_guard cell_lock(cell.mutex);
      Add(cell.core != nullptr ? cell.core->counters() : cell.counted, retired);
      WakeAll(cell, wake);
      for (const WaitingPtr& waiting : std::exchange(cell.for_load, {})) wake.push_back(waiting);
      cell.id = StreamId();
      core = std::move(cell.core);
      Account(cell);
      ++cell.epoch;
      cell.state = Cell::State::kReady;
      cell.sequence = cell.durable = 0;
      cell.last = Store::Ticket();
      cell.reading.clear();
      cell.trimmed = 0;
      cell.trimming = false;
      cell.counted = StreamCounters();
    }
    Notify(wake);
  }

  static void Add(const StreamCounters& from, StreamCounters& to) {
    to.produced += from.produced;
    to.delivered += from.delivered;
    to.redelivered += from.redelivered;
    to.leases += from.leases;
    to.refreshes += from.refreshes;
    to.extends += from.extends;
    to.acks += from.acks;
    to.nacks += from.nacks;
    to.expiries += from.expiries;
  }

  // --- The store ---

  /// Submits and applies a decided change. Under the lock.
  template <class What>
  void Commit(Attempt& attempt, const What& what) {
    Cell& cell = attempt.cell;
    cell.last = store.Submit(cell.id, {attempt.core.now(), what}, cell.sequence++);
    if (!attempt.core.ApplyNow(what)) {
      std::fputs("lessor: a change did not fit the state that it was decided for\n", stderr);
      std::abort();
    }
    attempt.changed = true;
    attempt.nudge |=
        !std::is_same_v<What, change::Renewed> && !std::is_same_v<What, change::Granted>;
  }

  /// Loads the stream anew. Called, and returns, with the lock held; state is then ready or broken.
  void Reload(Cell& cell, std::unique_lock<std::mutex>& lock) {
    const StreamId id = cell.id;
    const uint64_t epoch = cell.epoch;
    cell.state = Cell::State::kLoading;
    lock.unlock();
    absl::StatusOr<std::optional<Store::Loaded>> loaded = store.Load(id);
    std::unique_ptr<Core> core;
    bool good = loaded.ok();
    if (good && loaded->has_value()) {
      core = Core::Restore(core_settings, **loaded);
      good = core != nullptr;
    }
    lock.lock();
    if (cell.epoch != epoch) return;  // It serves another stream now.
    std::vector<WaitingPtr> wake = std::exchange(cell.for_load, {});
    cell.state = good ? Cell::State::kReady : Cell::State::kBroken;
    if (good) {
      ++cell.epoch;
      reloads.fetch_add(1, std::memory_order_relaxed);
      if (cell.core != nullptr) cell.counted = cell.core->counters();
      if (core != nullptr) {
        core->set_counters(cell.counted);
        cell.sequence = cell.durable = (*loaded)->sequence;
      }
      cell.core = std::move(core);
      cell.last = Store::Ticket();
      cell.reading.clear();
      Account(cell);
      WakeAll(cell, wake);
    }
    lock.unlock();
    Notify(wake);
    if (good) Nudge();
    lock.lock();
  }

  /// True once the cell can be used; false if its store does not answer. With the lock held.
  bool Ready(Cell& cell, std::unique_lock<std::mutex>& lock) {
    return cell.state == Cell::State::kReady || MakeReady(cell, lock);
  }
  bool MakeReady(Cell& cell, std::unique_lock<std::mutex>& lock) {
    if (cell.state == Cell::State::kBroken) Reload(cell, lock);
    while (cell.state == Cell::State::kLoading) {
      const auto waiting = std::make_shared<Waiting>();
      cell.for_load.push_back(waiting);
      lock.unlock();
      clock.Wait(waiting->waiter, absl::InfiniteFuture());
      lock.lock();
    }
    return cell.state == Cell::State::kReady;
  }

  /// After a Wait of `epoch` has failed: makes sure that the cell no longer shows what was lost.
  void Recover(Cell& cell, uint64_t epoch) {
    std::unique_lock lock(cell.mutex);
    while (cell.epoch == epoch && cell.state != Cell::State::kBroken) {
      if (cell.state == Cell::State::kReady) {
        Reload(cell, lock);
      } else if (!Ready(cell, lock)) {
        return;
      }
    }
  }

  /// After a Wait of `epoch` has succeeded: nobody need wait for that ticket again.
  static void NoteDurable(Cell& cell, uint64_t epoch, const Store::Ticket& ticket) {
    const std::lock_guard lock(cell.mutex);
    if (cell.epoch == epoch) cell.durable = std::max(cell.durable, ticket.sequence);
  }

  /// What a failed Wait tells the caller whose change it was.
  static absl::Status Failure(const absl::Status& status) {
    switch (ReasonOf(status)) {
      case Reason::kUnavailable:
      case Reason::kFull:
      case Reason::kOutcomeUnknown:
        return status;
      default:
        return MakeError(Reason::kOutcomeUnknown, status.ToString());
    }
  }

  // --- Room (S31) ---

  /// Tells bytes_held what the core holds now. Under the lock.
  void Account(Cell& cell) {
    const int64_t held = cell.core == nullptr ? 0 : cell.core->log().footprint();
    if (held == cell.accounted) return;
    bytes_held.fetch_add(held - cell.accounted, std::memory_order_relaxed);
    cell.accounted = held;
  }

  /// Reserves room for `footprint` more bytes in `cell`. Under the lock.
  bool Reserve(Cell& cell, int64_t footprint) {
    Account(cell);
    int64_t held = bytes_held.load(std::memory_order_relaxed);
    do {
      if (footprint > limits().max_bytes_held - held) return false;
    } while (!bytes_held.compare_exchange_weak(held, held + footprint, std::memory_order_relaxed));
    cell.accounted += footprint;
    return true;
  }

  /// Lets every stream see the time and calls visit(cell, counters) for it, under its lock. The
  /// cell's core is null if its store turned out not to have it. Gives what streams that are gone
  /// have counted, of the same instant: no stream comes or goes meanwhile.
  template <class Visit>
  StreamCounters VisitAll(Instant now, Visit visit) {
    std::vector<WaitingPtr> wake;
    bool nudge = false;
    StreamCounters gone;
    {
      const std::lock_guard directory_lock(directory_mutex);
      gone = retired;
      for (Cell* cell : oldest_first) {
        const std::lock_guard lock(cell->mutex);
        if (cell->core == nullptr) {
          visit(*cell, cell->counted);
          continue;
        }
        Attempt attempt = Begin(*cell, now);
        visit(*cell, attempt.core.counters());
        End(attempt);
        cell->trimming &= !attempt.trim;
        wake.insert(wake.end(), attempt.wake.begin(), attempt.wake.end());
        nudge |= attempt.nudge;
      }
    }
    Notify(wake);
    if (nudge) Nudge();
    return gone;
  }

  // --- Waking ---

  static void Wake(const WaitingPtr& waiting, std::vector<WaitingPtr>& wake) {
    if (std::exchange(waiting->signalled, true)) return;
    wake.push_back(waiting);
  }

  static void WakeAll(Cell& cell, std::vector<WaitingPtr>& wake) {
    for (const auto& [subscription, queue] : cell.queues) {
      for (const WaitingPtr& waiting : queue) Wake(waiting, wake);
    }
  }

  static void Notify(const std::vector<WaitingPtr>& wake) {
    for (const WaitingPtr& waiting : wake) waiting->waiter.Notify();
  }

  /// Chooses whom to wake: of each subscription the first in the queue, if something is deliverable
  /// or it sleeps past the next lease end. When that one has been served, this runs again and wakes
  /// the next: one waiter a deliverable batch. Under the lock.
  void ChooseWakes(Cell& cell, std::vector<WaitingPtr>& wake) {
    if (!cell.queues.empty()) ChooseWakesAmong(cell, wake);
  }
  void ChooseWakesAmong(Cell& cell, std::vector<WaitingPtr>& wake) {
    if (cell.core == nullptr || cell.core->deleted()) return WakeAll(cell, wake);
    // A sleeper's own clock wakes it at its deadline, unless that clock has gone back meanwhile.
    if (cell.core->now() >= cell.soonest_deadline) {
      cell.soonest_deadline = Instant::Max();
      for (const auto& [id, queue] : cell.queues) {
        for (const WaitingPtr& waiting : queue) {
          if (cell.core->now() >= waiting->deadline) {
            Wake(waiting, wake);
          } else {
            cell.soonest_deadline = std::min(cell.soonest_deadline, waiting->deadline);
          }
        }
      }
    }
    for (const auto& [id, queue] : cell.queues) {
      const Sub* subscription = cell.core->Find(id);
      if (subscription == nullptr) {
        for (const WaitingPtr& waiting : queue) Wake(waiting, wake);
        continue;
      }
      const WaitingPtr& first = queue.front();
      const bool deliverable =
          subscription->Available(cell.core->log()) > 0 &&
          !Rules::AtLeaseLimit(subscription->active_leases(), limits().max_active_leases);
      if (deliverable || subscription->NextLeaseEnd().value_or(Instant::Max()) < first->until) {
        Wake(first, wake);
      }
    }
  }

  /// Calls the host's wake-up callback, if there is one.
  void Nudge() {
    if (!has_wake_up.load(std::memory_order_acquire)) return;
    std::shared_ptr<const std::function<void()>> call;
    {
      const std::lock_guard lock(wake_up_mutex);
      call = wake_up;
    }
    if (call != nullptr) (*call)();
  }

  // --- Operations ---

  /// Begins an attempt: sees the time. Under the lock, with a core.
  Attempt Begin(Cell& cell, Instant now) {
    Attempt attempt{.cell = cell, .core = *cell.core, .wake = {}, .trim = {}};
    if (has_wake_up.load(std::memory_order_relaxed)) {
      attempt.expiries_before = attempt.core.counters().expiries;
      attempt.lease_end_before = attempt.core.NextLeaseEnd().value_or(Instant::Max());
    }
    attempt.core.Advance(now);
    return attempt;
  }

  /// Ends an attempt's time under the lock.
  void End(Attempt& attempt) {
    Cell& cell = attempt.cell;
    Account(cell);
    ChooseWakes(cell, attempt.wake);
    if (has_wake_up.load(std::memory_order_relaxed)) {
      attempt.nudge |=
          attempt.core.counters().expiries != attempt.expiries_before ||
          attempt.core.NextLeaseEnd().value_or(Instant::Max()) < attempt.lease_end_before;
    }
    // Not before a sleep: what it saw may not be durable yet.
    if (!in_memory && attempt.then != Attempt::Then::kSleep && !cell.trimming &&
        attempt.core.log().begin() > cell.trimmed) {
      const Offset floor = attempt.core.Floor();
      if (floor > cell.trimmed) {
        cell.trimming = true;
        attempt.trim = floor;
      }
    }
  }

  /// Lets the store free a bounded step of what is before `floor`, unless that turned out not to be
  /// durable. Under no lock.
  void Trim(Cell& cell, StreamId id, uint64_t epoch, Offset floor, bool durable) {
    constexpr size_t kBudget = size_t{1} << 20;
    const bool more = !durable || store.Trim(id, floor, kBudget).value_or(true);
    const std::lock_guard lock(cell.mutex);
    if (cell.id != id) return;
    cell.trimming = false;
    if (!more && cell.epoch == epoch) cell.trimmed = floor;
  }

  /// Reads a segment for a consume and installs it. Under no lock.
  absl::Status ReadSegment(Cell& cell, StreamId id, uint64_t epoch, Offset need) {
    absl::StatusOr<SegmentRef> segment = store.Read(id, need, *core_settings.pool);
    if (!segment.ok()) {
      return MakeError(Reason::kReadFailed, segment.status().ToString());
    }
    const std::lock_guard lock(cell.mutex);
    if (cell.epoch != epoch || cell.core == nullptr) return absl::OkStatus();
    if (cell.core->Install(need, *std::move(segment))) return absl::OkStatus();
    return MakeError(Reason::kReadFailed, "the store gave another segment than the one asked for");
  }

  /// Runs one operation on a stream: `body(Attempt&)` gives its answer, under the lock, and may be
  /// run again. `waiting` is what a body that says kSleep sleeps on.
  template <class Answer, class Body>
  Answer Run(StreamId id, Instant now, Body body, const WaitingPtr& waiting = nullptr,
             absl::Status* read_status = nullptr) {
    bool made_room = false;
    for (int tries = 0; tries < kMaxTries;) {
      auto [cell, lock] = LockCell(id);
      if (cell == nullptr) return MakeError(Reason::kNoSuchStream, "no such stream");
      if (!Ready(*cell, lock)) {
        return MakeError(Reason::kUnavailable, "the store does not answer");
      }
      if (cell->id != id) continue;
      if (cell->core == nullptr) {
        lock.unlock();
        Erase(id);
        continue;
      }
      // A stream that was just loaded may not have seen what other calls have.
      now = std::max(now, latest.load(std::memory_order_relaxed));
      Attempt attempt = Begin(*cell, now);
      Answer answer = body(attempt, made_room);
      End(attempt);
      const Store::Ticket ticket = cell->last;
      const uint64_t epoch = cell->epoch;
      const bool durable = ticket.durable || ticket.sequence <= cell->durable;
      const bool deleted = attempt.core.deleted();
      const Instant until = waiting == nullptr ? Instant::Max() : waiting->until;
      lock.unlock();

      Notify(attempt.wake);
      if (attempt.nudge) Nudge();
      if (attempt.then == Attempt::Then::kMakeRoom) {
        VisitAll(now, [](Cell&, const StreamCounters&) {});
        made_room = true;
      } else if (attempt.then == Attempt::Then::kSleep) {
        clock.Wait(waiting->waiter, TimeOrNever(until));
        now = See();
      } else if (attempt.then == Attempt::Then::kRead && read_status != nullptr) {
        *read_status = ReadSegment(*cell, id, epoch, attempt.need);
      }
      absl::Status status;
      if (!durable && attempt.then != Attempt::Then::kSleep) {
        status = store.Wait(ticket);
        if (status.ok()) NoteDurable(*cell, epoch, ticket);
      }
      if (attempt.trim) Trim(*cell, id, epoch, *attempt.trim, status.ok());
      if (!status.ok()) {
        Recover(*cell, epoch);
        ++tries;
        if (attempt.changed && ReasonOf(status) != Reason::kRaceLost) return Failure(status);
        continue;
      }
      if (attempt.then != Attempt::Then::kAnswer) continue;
      if (deleted) Erase(id);
      return answer;
    }
    return MakeError(Reason::kUnavailable, "other writers came first every time");
  }

  static absl::Status Refusal(Reason reason) {
    switch (reason) {
      case Reason::kNone:
        return absl::OkStatus();
      case Reason::kNoSuchStream:
        return MakeError(reason, "no such stream");
      case Reason::kNoSuchSubscription:
        return MakeError(reason, "no such subscription");
      case Reason::kNameTaken:
        return MakeError(reason, "the name is taken");
      case Reason::kStreamLimit:
        return MakeError(reason, "no further stream is allowed");
      case Reason::kSubscriptionLimit:
        return MakeError(reason, "no further subscription is allowed in the stream");
      case Reason::kLeaseLimit:
        return MakeError(reason, "all leases of the subscription are in use");
      case Reason::kLeaseNotHeld:
        return MakeError(reason, "the worker does not hold the batch in an active lease");
      case Reason::kFull:
        return MakeError(reason, "no room: Limits::max_bytes_held would be passed");
      case Reason::kStillReading:
        return MakeError(reason, "a consume of this worker is still reading its batch");
      case Reason::kCancelled:
        return MakeError(reason, "the wait was ended");
      case Reason::kInternal:
        return MakeError(reason, "the id source repeats itself");
      default:
        return MakeError(reason, FactsOf(reason).name);
    }
  }

  /// An operation that is one decision without an answer.
  template <class Decide>
  absl::Status RunDecision(StreamId id, Decide decide) {
    return Run<absl::Status>(id, See(), [&](Attempt& attempt, bool) {
      const auto decision = decide(attempt.core);
      if (decision.change) Commit(attempt, *decision.change);
      return Refusal(decision.refusal);
    });
  }

  /// Ack and nack: the worker is checked, and need not be the holder.
  template <class Decide>
  absl::Status Settle(SubscriptionKey key, std::string_view worker, Decide decide) {
    if (absl::Status status = CheckWorker(worker); !status.ok()) {
      See();
      return status;
    }
    return RunDecision(key.stream, decide);
  }

  /// An operation that only looks at a subscription: look(subscription, core).
  template <class Seen, class LookAt>
  absl::StatusOr<Seen> Look(SubscriptionKey key, LookAt look) {
    return Run<absl::StatusOr<Seen>>(
        key.stream, See(), [&](Attempt& attempt, bool) -> absl::StatusOr<Seen> {
          if (attempt.core.deleted()) return Refusal(Reason::kNoSuchStream);
          const Sub* subscription = attempt.core.Find(key.subscription);
          if (subscription == nullptr) return Refusal(Reason::kNoSuchSubscription);
          return look(*subscription, attempt.core);
        });
  }

  static StreamInfo InfoOf(StreamId id, const Core& core) {
    return {.id = id,
            .name = core.name(),
            .retention = ToDuration(core.retention()),
            .http = core.http(),
            .worker_binding = core.worker_binding(),
            .created_at = ToTime(core.created_at()),
            .modified_at = ToTime(core.modified_at())};
  }

  static SubscriptionInfo InfoOf(const Sub& subscription) {
    return {.id = subscription.id(),
            .name = subscription.name(),
            .start_at = subscription.start_at(),
            .created_at = ToTime(subscription.created_at()),
            .modified_at = ToTime(subscription.created_at())};
  }

  absl::StatusOr<StreamInfo> GetInfo(StreamId id) {
    return Run<absl::StatusOr<StreamInfo>>(
        id, See(), [&](Attempt& attempt, bool) -> absl::StatusOr<StreamInfo> {
          if (attempt.core.deleted()) return Refusal(Reason::kNoSuchStream);
          return InfoOf(id, attempt.core);
        });
  }

  absl::StatusOr<std::vector<StreamInfo>> List() {
    std::vector<StreamInfo> all;
    for (const StreamId id : AllIds()) {
      absl::StatusOr<StreamInfo> info = GetInfo(id);
      if (info.ok()) {
        all.push_back(*std::move(info));
      } else if (ReasonOf(info.status()) != Reason::kNoSuchStream) {
        return info.status();
      }
    }
    return all;
  }

  /// Puts a new stream into the directory and submits its creation. False if the name is taken, by
  /// `conflict`, or if there is no room for it.
  bool Add(StreamId id, const change::StreamCreated& created, Instant now, StreamId& conflict,
           Store::Ticket& ticket) {
    const std::string folded = FoldCase(created.name);
    const std::lock_guard directory_lock(directory_mutex);
    if (const auto found = by_name.find(folded); found != by_name.end()) {
      const std::lock_guard lock(found->second->mutex);
      conflict = found->second->id;
      return false;
    }
    if (static_cast<int64_t>(by_id.size()) >= limits().max_streams) return false;
    Cell& cell = TakeCell(id);
    const std::lock_guard lock(cell.mutex);
    cell.core = std::make_unique<Core>(core_settings);
    Attempt attempt = Begin(cell, now);
    Commit(attempt, created);
    ticket = cell.last;
    by_id.emplace(id, &cell);
    by_name.emplace(folded, &cell);
    oldest_first.push_back(&cell);
    return true;
  }

  absl::StatusOr<StreamInfo> Create(const StreamSettings& settings) {
    const Instant now = See();
    if (absl::Status status = CheckStreamName(settings.name); !status.ok()) return status;
    if (absl::Status status = CheckRetention(settings.retention); !status.ok()) return status;
    if (!settings.http && !settings.worker_binding) {
      return MakeError(Reason::kInvalidArgument, "a stream needs one of its inputs enabled");
    }
    const change::StreamCreated created{.name = settings.name,
                                        .retention = CeilToMillis(settings.retention),
                                        .http = settings.http,
                                        .worker_binding = settings.worker_binding};
    for (int tries = 0; tries < kMaxTries; ++tries) {
      const auto id = FreshId<StreamId>();
      if (!id || FindCell(id) != nullptr) {
        return MakeError(Reason::kInternal, "the id source repeats itself");
      }
      StreamId conflict;
      Store::Ticket ticket;
      if (!Add(id, created, now, conflict, ticket)) {
        // Refuse only for what is durable: looking at it waits for that, or makes it go.
        if (conflict) {
          const absl::Status status = GetInfo(conflict).status();
          if (status.ok()) return Refusal(Reason::kNameTaken);
          if (ReasonOf(status) != Reason::kNoSuchStream) return status;
          continue;
        }
        const absl::StatusOr<std::vector<StreamInfo>> all = List();
        if (!all.ok()) return all.status();
        if (static_cast<int64_t>(all->size()) >= limits().max_streams) {
          return Refusal(Reason::kStreamLimit);
        }
        continue;
      }
      auto [cell, lock] = LockCell(id);
      if (cell == nullptr || cell->core == nullptr) continue;  // Found not to have come to be.
      const uint64_t epoch = cell->epoch;
      const StreamInfo info = InfoOf(id, *cell->core);
      lock.unlock();
      if (ticket.durable) return info;
      const absl::Status status = store.Wait(ticket);
      if (status.ok()) {
        NoteDurable(*cell, epoch, ticket);
        return info;
      }
      Recover(*cell, epoch);
      (void)GetInfo(id);  // Takes it out of the directory if the store does not have it.
      if (ReasonOf(status) != Reason::kRaceLost) return Failure(status);
    }
    return MakeError(Reason::kUnavailable, "other writers came first every time");
  }

  // --- Blocking ---

  /// Counts the calls that may be blocked, for Shutdown.
  class Inside {
   public:
    explicit Inside(Impl& impl) : impl_(impl) {
      const std::lock_guard lock(impl_.inside_mutex);
      ++impl_.inside;
    }
    ~Inside() {
      const std::lock_guard lock(impl_.inside_mutex);
      if (--impl_.inside > 0) return;
      for (const WaitingPtr& waiting : impl_.for_empty) waiting->waiter.Notify();
      impl_.for_empty.clear();
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Impl& impl_;
  };

  void Enqueue(Cell& cell, SubscriptionId id, const WaitingPtr& waiting) {
    if (waiting->queued) return;
    cell.queues[id].push_back(waiting);
    waiting->queued = true;
    cell.soonest_deadline = std::min(cell.soonest_deadline, waiting->deadline);
  }
  static void Dequeue(Cell& cell, SubscriptionId id, const WaitingPtr& waiting) {
    if (waiting == nullptr || !waiting->queued) return;
    const auto queue = cell.queues.find(id);
    queue->second.remove(waiting);
    if (queue->second.empty()) cell.queues.erase(queue);
    waiting->queued = false;
  }
  static bool IsFirst(const Cell& cell, SubscriptionId id, const WaitingPtr& waiting) {
    const auto queue = cell.queues.find(id);
    return queue == cell.queues.end() || queue->second.front() == waiting;
  }

  /// Consumes, or says how to go on. `waiting` is null in the form that does not wait.
  absl::StatusOr<Batch> TryConsume(Attempt& attempt, SubscriptionKey key,
                                   const ConsumeRequest& request, BatchId fresh,
                                   const WaitingPtr& waiting, absl::Status& read_status) {
    Cell& cell = attempt.cell;
    Core& core = attempt.core;
    const SubscriptionId id = key.subscription;
    const auto reading = [&](const auto& entry) {
      return entry.first == id && entry.second == request.worker;
    };
    if (waiting != nullptr) waiting->signalled = false;
    if (request.stop.stop_requested()) return Refusal(Reason::kCancelled);
    if (core.deleted()) return Refusal(Reason::kNoSuchStream);
    const Sub* subscription = core.Find(id);
    if (subscription == nullptr) return Refusal(Reason::kNoSuchSubscription);
    if (!read_status.ok()) return std::exchange(read_status, absl::OkStatus());
    if (std::any_of(cell.reading.begin(), cell.reading.end(), reading)) {
      return Refusal(Reason::kStillReading);
    }
    if (waiting == nullptr || subscription->HoldsLease(request.worker) ||
        IsFirst(cell, id, waiting)) {
      const ConsumeDecision decision =
          core.DecideConsume(id, request.worker, request.max_records, fresh);
      if (decision.need) {
        attempt.then = Attempt::Then::kRead;
        attempt.need = *decision.need;
        cell.reading.emplace_back(id, request.worker);
        return Batch();
      }
      if (decision.renewed) {
        Commit(attempt, *decision.renewed);
        core.CountRefresh();
        return core.BatchOf(id, decision.renewed->batch);
      }
      if (decision.granted) {
        Commit(attempt, *decision.granted);
        WakeSharers(attempt, id, request.worker);
        return core.BatchOf(id, fresh);
      }
      const bool wait_for_lease = waiting != nullptr && decision.refusal == Reason::kLeaseLimit;
      if (decision.refusal != Reason::kNone && !wait_for_lease) return Refusal(decision.refusal);
    }
    if (waiting == nullptr) return Batch();
    if (shutting_down.load(std::memory_order_acquire)) return Refusal(Reason::kCancelled);
    if (core.now() >= waiting->deadline) return Batch();
    // The host's next deadline may be this call's now.
    attempt.nudge |= !waiting->queued && waiting->deadline < Instant::Max();
    Enqueue(cell, id, waiting);
    waiting->until = waiting->deadline;
    if (IsFirst(cell, id, waiting)) {
      waiting->until =
          std::min(waiting->until, subscription->NextLeaseEnd().value_or(Instant::Max()));
    }
    attempt.then = Attempt::Then::kSleep;
    return Batch();
  }

  /// A worker that has just been given a batch may be waiting for one in another thread too: that
  /// one's answer is now the same batch (S13).
  static void WakeSharers(Attempt& attempt, SubscriptionId id, std::string_view worker) {
    const auto queue = attempt.cell.queues.find(id);
    if (queue == attempt.cell.queues.end()) return;
    for (const WaitingPtr& waiting : queue->second) {
      if (waiting->worker == worker) Wake(waiting, attempt.wake);
    }
  }

  absl::StatusOr<Batch> Consume(SubscriptionKey key, const ConsumeRequest& request) {
    Instant now = See();
    if (absl::Status status = CheckWorker(request.worker); !status.ok()) return status;
    if (absl::Status status = CheckMaxRecords(request.max_records, limits()); !status.ok()) {
      return status;
    }
    if (!request.wait_until) return ConsumeAs(key, request, now, nullptr);

    const Inside counted(*this);
    const auto waiting = std::make_shared<Waiting>();
    waiting->worker = request.worker;
    waiting->deadline = CeilToInstant(*request.wait_until);
    const std::stop_callback wake_on_stop(request.stop, [&] { waiting->waiter.Notify(); });
    return ConsumeAs(key, request, now, waiting);
  }

  /// The rest of Consume, with checked arguments; `waiting` is null in the form that does not wait.
  absl::StatusOr<Batch> ConsumeAs(SubscriptionKey key, const ConsumeRequest& request, Instant now,
                                  const WaitingPtr& waiting) {
    const auto fresh = FreshId<BatchId>();
    absl::Status read_status;
    Cell* left = nullptr;  // Where a place in a queue, or a reading mark, was left.
    bool reading = false;
    const auto stop_reading = [&](Cell& cell) {
      if (!std::exchange(reading, false)) return;
      std::erase_if(cell.reading, [&](const auto& entry) {
        return entry.first == key.subscription && entry.second == request.worker;
      });
    };
    absl::StatusOr<Batch> answer = Run<absl::StatusOr<Batch>>(
        key.stream, now,
        [&](Attempt& attempt, bool) {
          stop_reading(attempt.cell);
          absl::StatusOr<Batch> batch =
              TryConsume(attempt, key, request, fresh, waiting, read_status);
          reading = attempt.then == Attempt::Then::kRead;
          if (attempt.then == Attempt::Then::kAnswer) {
            Dequeue(attempt.cell, key.subscription, waiting);
            left = nullptr;
          } else {
            left = &attempt.cell;
          }
          return batch;
        },
        waiting, &read_status);
    if (left != nullptr) {
      std::vector<WaitingPtr> wake;
      {
        const std::lock_guard lock(left->mutex);
        stop_reading(*left);
        Dequeue(*left, key.subscription, waiting);
        ChooseWakes(*left, wake);
      }
      Notify(wake);
    }
    return answer;
  }

  static inline std::atomic<uint64_t> last_serial = 0;
  const uint64_t serial = ++last_serial;
  Clock& clock;
  IdSource& ids;
  Store& store;
  const bool in_memory;
  const CoreSettings core_settings;

  std::atomic<Instant> latest = Instant::Min();
  std::atomic<int64_t> bytes_held = 0;
  std::atomic<uint64_t> reloads = 0;
  std::atomic<bool> shutting_down = false;

  std::mutex directory_mutex;  // Before a cell's mutex, never after.
  absl::flat_hash_map<StreamId, Cell*> by_id;
  std::map<std::string, Cell*> by_name;
  std::vector<Cell*> oldest_first;
  std::vector<std::unique_ptr<Cell>> cells;
  std::vector<Cell*> spare;  ///< Of these, the ones that serve no stream.
  StreamCounters retired;    ///< Of streams that are gone.

  std::mutex inside_mutex;
  uint64_t inside = 0;
  std::vector<WaitingPtr> for_empty;

  std::atomic<bool> has_wake_up = false;
  std::mutex wake_up_mutex;
  std::shared_ptr<const std::function<void()>> wake_up;
};

template <class Rules>
BasicBroker<Rules>::BasicBroker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

template <class Rules>
absl::StatusOr<std::unique_ptr<BasicBroker<Rules>>> BasicBroker<Rules>::Open(
    const BrokerOptions& options) {
  if (absl::Status status = options.limits.Check(); !status.ok()) return status;
  auto impl = std::make_unique<Impl>(options);
  absl::StatusOr<std::vector<Store::Loaded>> loaded = impl->store.Load();
  if (!loaded.ok()) return loaded.status();
  for (const Store::Loaded& stream : *loaded) {
    std::unique_ptr<typename Impl::Core> core = Impl::Core::Restore(impl->core_settings, stream);
    if (core == nullptr) {
      return MakeError(Reason::kInternal,
                       "the store's stream " + stream.stream.ToString() + " contradicts itself");
    }
    if (core->deleted()) continue;
    auto& cell = impl->TakeCell(stream.stream);
    cell.core = std::move(core);
    cell.sequence = cell.durable = stream.sequence;
    impl->latest = std::max(impl->latest.load(), cell.core->now());
    impl->Account(cell);
    if (!impl->by_id.emplace(stream.stream, &cell).second ||
        !impl->by_name.emplace(FoldCase(cell.core->name()), &cell).second) {
      return MakeError(Reason::kInternal, "the store has two streams of one name or id");
    }
    impl->oldest_first.push_back(&cell);
  }
  return std::unique_ptr<BasicBroker>(new BasicBroker(std::move(impl)));
}

template <class Rules>
BasicBroker<Rules>::BasicBroker(const BrokerOptions& options) {
  absl::StatusOr<std::unique_ptr<BasicBroker>> opened = Open(options);
  if (!opened.ok()) {
    std::fprintf(stderr, "lessor: no broker: %s\n", opened.status().ToString().c_str());
    std::abort();
  }
  impl_ = std::move((*opened)->impl_);
}

template <class Rules>
BasicBroker<Rules>::~BasicBroker() {
  if (impl_ != nullptr) Shutdown();
}

template <class Rules>
absl::Time BasicBroker<Rules>::NextDeadline() {
  Instant next = Instant::Max();
  impl_->VisitAll(impl_->See(), [&](auto& cell, const StreamCounters&) {
    if (cell.core == nullptr) return;
    next = std::min(next, cell.core->NextLeaseEnd().value_or(Instant::Max()));
    for (const auto& [subscription, queue] : cell.queues) {
      for (const auto& waiting : queue) next = std::min(next, waiting->deadline);
    }
  });
  return Impl::TimeOrNever(next);
}

template <class Rules>
absl::Time BasicBroker<Rules>::NextRetention() {
  Instant next = Instant::Max();
  impl_->VisitAll(impl_->See(), [&](auto& cell, const StreamCounters&) {
    if (cell.core == nullptr) return;
    next = std::min(next, cell.core->NextRetention().value_or(Instant::Max()));
  });
  return Impl::TimeOrNever(next);
}

template <class Rules>
Stats BasicBroker<Rules>::GetStats() {
  Stats stats;
  StreamCounters counters;
  const StreamCounters gone =
      impl_->VisitAll(impl_->See(), [&](auto& cell, const StreamCounters& counted) {
        Impl::Add(counted, counters);
        if (cell.core == nullptr || cell.core->deleted()) return;
        const Log& log = cell.core->log();
        ++stats.streams;
        stats.records += log.end() - log.begin();
        stats.bytes += static_cast<uint64_t>(log.footprint());
        stats.subscriptions += cell.core->subscriptions().size();
        for (const auto& subscription : cell.core->subscriptions()) {
          stats.active_leases += subscription->active_leases();
        }
        for (const auto& [subscription, queue] : cell.queues) stats.waiters += queue.size();
      });
  Impl::Add(gone, counters);
  stats.bytes_allocated = impl_->core_settings.pool->bytes_allocated();
  stats.produced = counters.produced;
  stats.delivered = counters.delivered;
  stats.redelivered = counters.redelivered;
  stats.leases = counters.leases;
  stats.refreshes = counters.refreshes;
  stats.extends = counters.extends;
  stats.acks = counters.acks;
  stats.nacks = counters.nacks;
  stats.expiries = counters.expiries;
  stats.reloads = impl_->reloads.load(std::memory_order_relaxed);
  return stats;
}

template <class Rules>
void BasicBroker<Rules>::SetWakeUp(std::function<void()> wake_up) {
  const std::lock_guard lock(impl_->wake_up_mutex);
  const bool set = static_cast<bool>(wake_up);
  impl_->wake_up =
      set ? std::make_shared<const std::function<void()>>(std::move(wake_up)) : nullptr;
  impl_->has_wake_up.store(set, std::memory_order_release);
}

template <class Rules>
void BasicBroker<Rules>::Shutdown() {
  impl_->shutting_down.store(true, std::memory_order_release);
  for (auto* cell : impl_->AllCells()) {
    std::vector<typename Impl::WaitingPtr> wake;
    {
      const std::lock_guard lock(cell->mutex);
      Impl::WakeAll(*cell, wake);
    }
    Impl::Notify(wake);
  }
  const auto waiting = std::make_shared<typename Impl::Waiting>();
  for (;;) {
    {
      const std::lock_guard lock(impl_->inside_mutex);
      if (impl_->inside == 0) return;
      impl_->for_empty.push_back(waiting);
    }
    impl_->clock.Wait(waiting->waiter, absl::InfiniteFuture());
  }
}

template <class Rules>
absl::StatusOr<StreamInfo> BasicBroker<Rules>::DoCreateStream(const StreamSettings& settings) {
  return impl_->Create(settings);
}

template <class Rules>
absl::StatusOr<std::vector<StreamInfo>> BasicBroker<Rules>::ListStreams() {
  return impl_->List();
}

template <class Rules>
absl::StatusOr<StreamInfo> BasicBroker<Rules>::GetStream(StreamId stream) {
  return impl_->GetInfo(stream);
}

template <class Rules>
absl::StatusOr<StreamInfo> BasicBroker<Rules>::UpdateStream(StreamId stream,
                                                            const StreamUpdate& update) {
  const Instant now = impl_->See();
  if (!update.retention && !update.http && !update.worker_binding) {
    return MakeError(Reason::kInvalidArgument, "an update names at least one setting");
  }
  std::optional<Millis> retention;
  if (update.retention) {
    if (absl::Status status = CheckRetention(*update.retention); !status.ok()) return status;
    retention = CeilToMillis(*update.retention);
  }
  using Answer = absl::StatusOr<StreamInfo>;
  return impl_->template Run<Answer>(
      stream, now, [&](typename Impl::Attempt& attempt, bool) -> Answer {
        const auto decision =
            attempt.core.DecideUpdate(retention, update.http, update.worker_binding);
        if (!decision.change) return Impl::Refusal(decision.refusal);
        impl_->Commit(attempt, *decision.change);
        return Impl::InfoOf(stream, attempt.core);
      });
}

template <class Rules>
absl::Status BasicBroker<Rules>::DeleteStream(StreamId stream) {
  return impl_->RunDecision(stream, [](auto& core) { return core.DecideDelete(); });
}

template <class Rules>
absl::StatusOr<Appended> BasicBroker<Rules>::Produce(StreamId stream,
                                                     std::span<const Record> records) {
  const Instant now = impl_->See();
  int64_t footprint = 0;
  if (absl::Status status = CheckProduce(records, impl_->limits(), footprint); !status.ok()) {
    return status;
  }
  using Answer = absl::StatusOr<Appended>;
  return impl_->template Run<Answer>(
      stream, now, [&](typename Impl::Attempt& attempt, bool made_room) -> Answer {
        const auto decision = attempt.core.DecideProduce(records);
        if (!decision.change) return Impl::Refusal(decision.refusal);
        if (!impl_->Reserve(attempt.cell, footprint)) {
          if (!made_room) attempt.then = Impl::Attempt::Then::kMakeRoom;
          return Impl::Refusal(Reason::kFull);
        }
        impl_->Commit(attempt, *decision.change);
        return Appended{.first = decision.change->first,
                        .count = records.size(),
                        .timestamp = ToTime(decision.change->timestamp)};
      });
}

template <class Rules>
absl::StatusOr<SubscriptionInfo> BasicBroker<Rules>::Subscribe(
    StreamId stream, const SubscriptionSettings& settings) {
  const Instant now = impl_->See();
  if (absl::Status status = CheckSubscriptionName(settings.name); !status.ok()) return status;
  const auto fresh = impl_->template FreshId<SubscriptionId>();
  using Answer = absl::StatusOr<SubscriptionInfo>;
  return impl_->template Run<Answer>(
      stream, now, [&](typename Impl::Attempt& attempt, bool) -> Answer {
        const auto decision = attempt.core.DecideSubscribe(settings.name, settings.start_at, fresh);
        if (decision.refusal != Reason::kNone) return Impl::Refusal(decision.refusal);
        if (decision.change) impl_->Commit(attempt, *decision.change);
        return Impl::InfoOf(*attempt.core.FindByName(settings.name));
      });
}

template <class Rules>
absl::StatusOr<std::vector<SubscriptionInfo>> BasicBroker<Rules>::ListSubscriptions(
    StreamId stream, std::optional<std::string_view> name) {
  using Answer = absl::StatusOr<std::vector<SubscriptionInfo>>;
  return impl_->template Run<Answer>(
      stream, impl_->See(), [&](typename Impl::Attempt& attempt, bool) -> Answer {
        if (attempt.core.deleted()) return Impl::Refusal(Reason::kNoSuchStream);
        std::vector<SubscriptionInfo> found;
        for (const auto& subscription : attempt.core.subscriptions()) {
          if (name && FoldCase(*name) != FoldCase(subscription->name())) continue;
          found.push_back(Impl::InfoOf(*subscription));
        }
        return found;
      });
}

template <class Rules>
absl::StatusOr<SubscriptionInfo> BasicBroker<Rules>::GetSubscription(SubscriptionKey key) {
  return impl_->template Look<SubscriptionInfo>(
      key, [](const auto& subscription, auto&) { return Impl::InfoOf(subscription); });
}

template <class Rules>
absl::Status BasicBroker<Rules>::DeleteSubscription(SubscriptionKey key) {
  return impl_->RunDecision(key.stream,
                            [&](auto& core) { return core.DecideUnsubscribe(key.subscription); });
}

template <class Rules>
absl::StatusOr<Batch> BasicBroker<Rules>::Consume(SubscriptionKey key,
                                                  const ConsumeRequest& request) {
  return impl_->Consume(key, request);
}

template <class Rules>
absl::Status BasicBroker<Rules>::Ack(SubscriptionKey key, BatchId batch, std::string_view worker) {
  return impl_->Settle(key, worker,
                       [&](auto& core) { return core.DecideAck(key.subscription, batch); });
}

template <class Rules>
absl::Status BasicBroker<Rules>::Nack(SubscriptionKey key, BatchId batch, std::string_view worker) {
  return impl_->Settle(key, worker,
                       [&](auto& core) { return core.DecideNack(key.subscription, batch); });
}

template <class Rules>
absl::StatusOr<absl::Time> BasicBroker<Rules>::Extend(SubscriptionKey key, BatchId batch,
                                                      std::string_view worker) {
  const Instant now = impl_->See();
  if (absl::Status status = CheckWorker(worker); !status.ok()) return status;
  using Answer = absl::StatusOr<absl::Time>;
  return impl_->template Run<Answer>(
      key.stream, now, [&](typename Impl::Attempt& attempt, bool) -> Answer {
        const auto decision = attempt.core.DecideExtend(key.subscription, batch, worker);
        if (!decision.change) return Impl::Refusal(decision.refusal);
        impl_->Commit(attempt, *decision.change);
        attempt.core.CountExtend();
        return ToTime(decision.change->leased_until);
      });
}

template <class Rules>
absl::StatusOr<Position> BasicBroker<Rules>::GetPosition(SubscriptionKey key) {
  return impl_->template Look<Position>(key, [](const auto& subscription, auto& core) {
    return subscription.GetPosition(core.log());
  });
}

template <class Rules>
absl::StatusOr<Explanation> BasicBroker<Rules>::Explain(SubscriptionKey key) {
  return impl_->template Look<Explanation>(key, [&](const auto& subscription, auto& core) {
    return ExplainConsume<Rules>(subscription, core.log(), impl_->limits(),
                                 impl_->core_settings.policy, core.now());
  });
}

template <class Rules>
absl::StatusOr<std::vector<LeaseInfo>> BasicBroker<Rules>::ListLeases(StreamId stream) {
  using Answer = absl::StatusOr<std::vector<LeaseInfo>>;
  return impl_->template Run<Answer>(
      stream, impl_->See(), [&](typename Impl::Attempt& attempt, bool) -> Answer {
        if (attempt.core.deleted()) return Impl::Refusal(Reason::kNoSuchStream);
        std::vector<LeaseInfo> leases;
        for (const auto& subscription : attempt.core.subscriptions()) {
          for (const auto* slot : attempt.core.Find(subscription->id())->ActiveLeases()) {
            leases.push_back({.subscription = subscription->id(),
                              .batch = slot->what.batch,
                              .worker = slot->what.worker,
                              .leased_until = ToTime(slot->leased_until),
                              .first = slot->what.ranges.front().first,
                              .records = slot->what.records});
          }
        }
        return leases;
      });
}

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_BROKER_IMPL_H_
