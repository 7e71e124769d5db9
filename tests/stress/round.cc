#include "stress/round.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lessor/batch.h"
#include "lessor/broker.h"
#include "lessor/error.h"
#include "lessor/ids.h"
#include "lessor/limits.h"
#include "lessor/position.h"
#include "lessor/record.h"
#include "lessor/service.h"
#include "random.h"
#include "stress/history.h"

#if defined(__SANITIZE_THREAD__)
#define LESSOR_TESTS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LESSOR_TESTS_TSAN 1
#endif
#endif

namespace lessor_tests {
namespace {

using lessor::Reason;

constexpr absl::Duration kLease = absl::Seconds(1);
constexpr int64_t kMaxActiveLeases = 5;
constexpr int kProducers = 2;
constexpr int kWorkers = 6;
constexpr int kCallsOfProducer = 60;
constexpr int kCallsOfWorker = 70;

/// Where the clock notes what the current thread reads.
thread_local std::vector<Reading>* readings_of_thread = nullptr;

int64_t ToMs(absl::Time time) { return absl::ToUnixMillis(time); }

/// The calls of one thread, made and noted.
class Recorder {
 public:
  Recorder(Subject& subject, Stamps& stamps) : subject_(subject), stamps_(stamps) {}

  absl::StatusOr<lessor::StreamInfo> CreateStream(const std::string& name) {
    Event event = Begin(Op::kCreateStream);
    event.name = name;
    auto info = subject_.service->DoCreateStream({.name = name, .retention = absl::Hours(24 * 30)});
    if (info.ok()) event.stream = info->id;
    End(std::move(event), info.status());
    return info;
  }
  void DeleteStream(lessor::StreamId stream) {
    Event event = Begin(Op::kDeleteStream);
    event.stream = stream;
    End(std::move(event), subject_.service->DeleteStream(stream));
  }
  absl::StatusOr<lessor::SubscriptionInfo> Subscribe(lessor::StreamId stream,
                                                     const std::string& name, bool latest) {
    Event event = Begin(Op::kSubscribe);
    event.stream = stream;
    event.name = name;
    event.latest = latest;
    auto info = subject_.service->Subscribe(
        stream,
        {.name = name, .start_at = latest ? lessor::StartAt::kLatest : lessor::StartAt::kEarliest});
    if (info.ok()) event.subscription = info->id;
    End(std::move(event), info.status());
    return info;
  }
  void Unsubscribe(lessor::SubscriptionKey key) {
    Event event = Begin(Op::kUnsubscribe, key);
    End(std::move(event), subject_.service->DeleteSubscription(key));
  }
  void Produce(lessor::StreamId stream, const std::vector<uint64_t>& tokens) {
    std::vector<std::string> contents;
    for (const uint64_t token : tokens) contents.push_back(std::to_string(token));
    std::vector<lessor::Record> records;
    for (const std::string& content : contents) records.push_back({.content = content});
    Event event = Begin(Op::kProduce);
    event.stream = stream;
    event.tokens = tokens;
    const auto appended = subject_.service->Produce(stream, records);
    if (appended.ok()) {
      for (uint64_t i = 0; i < appended->count; ++i) {
        event.offsets.push_back(appended->first + i);
        event.timestamps_ms.push_back(ToMs(appended->timestamp));
      }
    }
    End(std::move(event), appended.status());
  }
  absl::StatusOr<lessor::Batch> Consume(lessor::SubscriptionKey key,
                                        const lessor::ConsumeRequest& request) {
    Event event = Begin(Op::kConsume, key);
    event.worker = request.worker;
    event.max_records = request.max_records;
    event.waits = request.wait_until.has_value();
    if (event.waits) event.wait_until_ms = ToMs(*request.wait_until);
    auto batch = subject_.service->Consume(key, request);
    event.stopped = request.stop.stop_requested();
    const Stamp answered = stamps_.Next();
    if (batch.ok() && !batch->empty()) {
      event.batch = batch->id();
      event.leased_until_ms = ToMs(batch->leased_until());
      for (const lessor::RecordView record : *batch) {
        event.offsets.push_back(record.offset());
        event.tokens.push_back(std::stoull(std::string(record.content())));
        event.timestamps_ms.push_back(ToMs(record.timestamp()));
      }
    }
    End(std::move(event), batch.status(), answered);
    return batch;
  }
  void Settle(Op op, lessor::SubscriptionKey key, lessor::BatchId batch, std::string_view worker) {
    Event event = Begin(op, key);
    event.batch = batch;
    event.worker = worker;
    const absl::Status status = op == Op::kAck ? subject_.service->Ack(key, batch, worker)
                                               : subject_.service->Nack(key, batch, worker);
    End(std::move(event), status);
  }
  void Extend(lessor::SubscriptionKey key, lessor::BatchId batch, std::string_view worker) {
    Event event = Begin(Op::kExtend, key);
    event.batch = batch;
    event.worker = worker;
    const auto until = subject_.service->Extend(key, batch, worker);
    if (until.ok()) event.leased_until_ms = ToMs(*until);
    End(std::move(event), until.status());
  }
  absl::StatusOr<lessor::Position> GetPosition(lessor::SubscriptionKey key) {
    Event event = Begin(Op::kPosition, key);
    auto position = subject_.service->GetPosition(key);
    if (position.ok()) event.position = *position;
    End(std::move(event), position.status());
    return position;
  }
  void GetStats() {
    Event event = Begin(Op::kStats);
    const lessor::Stats stats = subject_.stats();
    event.counters = {stats.produced, stats.delivered, stats.redelivered,
                      stats.leases,   stats.refreshes, stats.extends,
                      stats.acks,     stats.nacks,     stats.expiries};
    End(std::move(event), absl::OkStatus());
  }

  std::vector<Event> events;
  std::vector<Reading> readings;

 private:
  Event Begin(Op op, lessor::SubscriptionKey key = {}) {
    readings_of_thread = &readings;
    readings_before_ = readings.size();
    Event event;
    event.op = op;
    event.stream = key.stream;
    event.subscription = key.subscription;
    event.invoked = stamps_.Next();
    return event;
  }
  void End(Event event, const absl::Status& status, std::optional<Stamp> answered = {}) {
    event.answered = answered ? *answered : stamps_.Next();
    event.reason = lessor::ReasonOf(status);
    for (size_t i = readings_before_; i < readings.size(); ++i) {
      event.seen_ms = std::max(event.seen_ms, readings[i].ms);
    }
    events.push_back(std::move(event));
  }

  Subject& subject_;
  Stamps& stamps_;
  size_t readings_before_ = 0;
};

/// What the threads tell each other of what there is.
class Directory {
 public:
  void Put(size_t stream, size_t subscription, lessor::SubscriptionKey key) {
    const std::lock_guard lock(mutex_);
    keys_[stream][subscription] = key;
  }
  lessor::SubscriptionKey Get(size_t stream, size_t subscription) {
    const std::lock_guard lock(mutex_);
    return keys_[stream][subscription];
  }

  struct Given {
    lessor::SubscriptionKey key;
    lessor::BatchId batch;
    std::string worker;
  };
  void Tell(Given given) {
    const std::lock_guard lock(mutex_);
    given_[next_given_++ % kGiven] = std::move(given);
  }
  Given SomeGiven(Random& random) {
    const std::lock_guard lock(mutex_);
    return given_[random.Below(kGiven)];
  }

  /// The stop source of one worker's current wait.
  void SetStop(size_t worker, std::stop_source stop) {
    const std::lock_guard lock(mutex_);
    stops_[worker] = std::move(stop);
  }
  std::stop_source GetStop(size_t worker) {
    const std::lock_guard lock(mutex_);
    return stops_[worker];
  }

  static constexpr size_t kStreams = 2;
  static constexpr size_t kSubscriptions = 2;

 private:
  static constexpr size_t kGiven = 16;

  std::mutex mutex_;
  lessor::SubscriptionKey keys_[kStreams][kSubscriptions];
  Given given_[kGiven];
  size_t next_given_ = 0;
  std::stop_source stops_[kWorkers];
};

class Round {
 public:
  Round(uint64_t seed, const SubjectMaker& make)
      : seed_(seed),
        clock_(stamps_),
        subject_(make({.clock = &clock_,
                       .limits = {.lease = kLease, .max_active_leases = kMaxActiveLeases}})) {}

  RoundResult Run() {
    Recorder& admin = NewRecorder();
    for (size_t s = 0; s < Directory::kStreams; ++s) Renew(admin, s, true, {});
    std::vector<std::thread> threads;
    const auto start = [&](auto body) {
      Recorder& recorder = NewRecorder();
      const uint64_t seed = Mix(seed_ * 1'000 + recorders_.size());
      ++running_;
      threads.emplace_back([this, body, seed, &recorder] {
        Random random(seed);
        body(recorder, random);
        --running_;
      });
    };
    for (int p = 0; p < kProducers; ++p) {
      start([this, p](Recorder& recorder, Random& random) { Produce(recorder, random, p); });
    }
    for (int w = 0; w < kWorkers; ++w) {
      start([this, w](Recorder& recorder, Random& random) { Work(recorder, random, w); });
    }
    start([this](Recorder& recorder, Random& random) { Administer(recorder, random); });
    start([this](Recorder& recorder, Random& random) { Watch(recorder, random); });
    MoveTime();
    for (std::thread& thread : threads) thread.join();
    Drain(admin);
    return Finish();
  }

 private:
  Recorder& NewRecorder() {
    return *recorders_.emplace_back(std::make_unique<Recorder>(subject_, stamps_));
  }

  /// Makes a stream (again) with its subscriptions, or a subscription only.
  void Renew(Recorder& recorder, size_t s, bool whole, lessor::SubscriptionKey old,
             size_t only = 0) {
    lessor::StreamId stream = old.stream;
    if (whole) {
      if (old.stream) recorder.DeleteStream(old.stream);
      const auto made = recorder.CreateStream("s" + std::to_string(s));
      if (!made.ok()) return;
      stream = made->id;
    }
    for (size_t i = 0; i < Directory::kSubscriptions; ++i) {
      if (!whole && i != only) continue;
      // The first of a stream starts at its first record, the second at its next one.
      const auto made = recorder.Subscribe(stream, "sub" + std::to_string(i), i == 1);
      if (made.ok()) directory_.Put(s, i, {stream, made->id});
    }
  }

  lessor::SubscriptionKey SomeKey(Random& random) {
    return directory_.Get(random.Below(Directory::kStreams),
                          random.Below(Directory::kSubscriptions));
  }

  void Produce(Recorder& recorder, Random& random, int number) {
    uint64_t token = static_cast<uint64_t>(number + 1) * 1'000'000;
    for (int call = 0; call < kCallsOfProducer; ++call) {
      std::vector<uint64_t> tokens(1 + random.Below(4));
      for (uint64_t& each : tokens) each = ++token;
      recorder.Produce(SomeKey(random).stream, tokens);
      for (uint64_t i = random.Below(8); i > 0; --i) std::this_thread::yield();
    }
  }

  void Work(Recorder& recorder, Random& random, int number) {
    // The last two share one worker id now and then.
    const std::string own = "w" + std::to_string(number);
    const auto home = std::pair(random.Below(2), random.Below(2));
    int deaths = 0;
    std::vector<Directory::Given> kept;
    for (int call = 0; call < kCallsOfWorker; ++call) {
      const lessor::SubscriptionKey key =
          random.OneIn(4) ? SomeKey(random) : directory_.Get(home.first, home.second);
      const std::string worker = number >= kWorkers - 2 && random.OneIn(2)
                                     ? std::string("twin")
                                     : own + "." + std::to_string(deaths);
      lessor::ConsumeRequest request{.worker = worker, .max_records = random.Between(1, 6)};
      if (random.OneIn(2)) {
        std::stop_source stop;
        request.stop = stop.get_token();
        request.wait_until = clock_.Read() + absl::Milliseconds(random.Between(-10, 1'500));
        directory_.SetStop(static_cast<size_t>(number), std::move(stop));
      }
      const auto batch = recorder.Consume(key, request);
      if (batch.ok() && !batch->empty()) {
        const Directory::Given given{key, batch->id(), worker};
        directory_.Tell(given);
        switch (random.Below(10)) {
          case 0:  // Dies. Its next incarnation is another worker.
            ++deaths;
            break;
          case 1:  // Forgets, and asks again as the same worker.
            break;
          case 2:
            recorder.Settle(Op::kNack, key, given.batch, worker);
            break;
          case 3:  // Keeps it, and acks long after.
          case 4:
            kept.push_back(given);
            break;
          case 5:  // Is slow, and says so.
            for (uint64_t i = random.Below(40); i > 0; --i) std::this_thread::yield();
            recorder.Extend(key, given.batch, worker);
            recorder.Settle(Op::kAck, key, given.batch, worker);
            break;
          default:
            recorder.Settle(Op::kAck, key, given.batch, worker);
        }
      } else if (random.OneIn(3)) {
        std::this_thread::yield();
      }
      if (kept.size() > random.Below(4)) {
        const Directory::Given late = kept.front();
        kept.erase(kept.begin());
        if (random.OneIn(3)) recorder.Extend(late.key, late.batch, late.worker);
        recorder.Settle(random.OneIn(4) ? Op::kNack : Op::kAck, late.key, late.batch, late.worker);
      }
      if (random.OneIn(12)) {
        // Meddles with what is another's.
        const Directory::Given other = directory_.SomeGiven(random);
        if (!other.batch) continue;
        if (random.OneIn(2)) {
          recorder.Extend(other.key, other.batch, random.OneIn(2) ? worker : other.worker);
        } else {
          recorder.Settle(random.OneIn(2) ? Op::kAck : Op::kNack, other.key, other.batch, worker);
        }
      }
    }
  }

  void Administer(Recorder& recorder, Random& random) {
    for (int call = 0; call < 6; ++call) {
      for (uint64_t i = 100 + random.Below(300); i > 0; --i) std::this_thread::yield();
      const size_t s = random.Below(Directory::kStreams);
      const size_t sub = random.Below(Directory::kSubscriptions);
      const lessor::SubscriptionKey key = directory_.Get(s, sub);
      if (random.OneIn(3)) {
        Renew(recorder, s, true, key);
      } else {
        recorder.Unsubscribe(key);
        Renew(recorder, s, false, key, sub);
      }
      if (random.OneIn(2)) {
        (void)recorder.Subscribe(key.stream, "sub" + std::to_string(sub), sub == 1);
        recorder.Unsubscribe(key);  // Again.
      }
    }
  }

  void Watch(Recorder& recorder, Random& random) {
    for (int call = 0; call < 150; ++call) {
      if (random.OneIn(5)) {
        recorder.GetStats();
      } else {
        (void)recorder.GetPosition(SomeKey(random));
      }
      if (random.OneIn(10)) (void)subject_.next_deadline();
      for (uint64_t i = random.Below(8); i > 0; --i) std::this_thread::yield();
    }
  }

  /// Lets time pass, mostly forwards, about as fast as calls are made; ends waits and stops some.
  void MoveTime() {
    Random random(Mix(seed_ ^ 0x71e5U));
    std::vector<Reading> unused;
    readings_of_thread = &unused;
    Stamp last = 0;
    int idle = 0;
    while (running_ > 0) {
      std::this_thread::yield();
      const Stamp now = stamps_.Last();
      // While all are blocked, only time wakes them.
      if (now < last + 20 && ++idle < 30) continue;
      last = now;
      idle = 0;
      if (random.OneIn(5)) {
        clock_.Advance(-absl::Milliseconds(random.Between(1, 400)));
      } else if (random.OneIn(20)) {
        clock_.Advance(kLease + absl::Milliseconds(random.Between(-1, 1)));
      } else {
        clock_.Advance(absl::Milliseconds(random.Between(1, 120)));
      }
      if (random.OneIn(8)) directory_.GetStop(random.Below(kWorkers)).request_stop();
    }
  }

  /// Everything is acked in the end. Nothing is lost: what was never acked comes again.
  void Drain(Recorder& recorder) {
    readings_of_thread = nullptr;
    clock_.Advance(absl::Hours(1));
    for (size_t s = 0; s < Directory::kStreams; ++s) {
      for (size_t i = 0; i < Directory::kSubscriptions; ++i) {
        const lessor::SubscriptionKey key = directory_.Get(s, i);
        for (int call = 0; call < 10'000; ++call) {
          const auto batch = recorder.Consume(key, {.worker = "drain", .max_records = 50});
          if (!batch.ok() || batch->empty()) break;
          recorder.Settle(Op::kAck, key, batch->id(), "drain");
        }
        const auto position = recorder.GetPosition(key);
        if (!position.ok()) continue;
        if (position->committed != position->end || position->available != 0 ||
            position->active_leases != 0 || position->skipped != 0) {
          wrong_.push_back("S11: a subscription cannot be drained: committed " +
                           std::to_string(position->committed) + " of " +
                           std::to_string(position->end));
        }
      }
    }
    recorder.GetStats();
    if (clock_.blocked() != 0) wrong_.emplace_back("someone is still blocked");
    if (subject_.stats().waiters != 0) wrong_.emplace_back("someone is still counted as waiting");
  }

  RoundResult Finish() {
    RoundResult result;
    result.wrong = std::move(wrong_);
    result.history.lease_ms = absl::ToInt64Milliseconds(kLease);
    result.history.max_active_leases = kMaxActiveLeases;
    for (const auto& recorder : recorders_) {
      for (Event& event : recorder->events) result.history.events.push_back(std::move(event));
      for (const Reading& reading : recorder->readings) result.history.readings.push_back(reading);
    }
    return result;
  }

  const uint64_t seed_;
  Stamps stamps_;
  StressClock clock_;
  Subject subject_;
  Directory directory_;
  std::vector<std::unique_ptr<Recorder>> recorders_;
  std::atomic<int> running_ = 0;
  std::vector<std::string> wrong_;
};

}  // namespace

Stamp Stamps::Next() {
#ifdef LESSOR_TESTS_TSAN
  // Orders nothing else, so that the sanitizer sees the calls as unordered as the Broker leaves
  // them. What it runs on is strong enough to keep the order of the stamps.
  return last_.fetch_add(1, std::memory_order_relaxed) + 1;
#else
  return last_.fetch_add(1, std::memory_order_seq_cst) + 1;
#endif
}

Stamp Stamps::Last() const { return last_.load(std::memory_order_relaxed); }

StressClock::StressClock(Stamps& stamps)
    : stamps_(stamps), now_ms_(absl::ToUnixMillis(simulated_.Now())) {}

absl::Time StressClock::Now() {
  const Stamp at = stamps_.Next();
  const int64_t ms = now_ms_.load(std::memory_order_relaxed);
  if (readings_of_thread != nullptr) readings_of_thread->push_back({at, ms});
  return absl::FromUnixMillis(ms);
}

void StressClock::Advance(absl::Duration by) {
  // First what is read, then those who wait: whoever is woken reads a time that has come.
  now_ms_.fetch_add(absl::ToInt64Milliseconds(by), std::memory_order_relaxed);
  simulated_.Advance(by);
}

RoundResult RunRound(uint64_t seed, const SubjectMaker& make) { return Round(seed, make).Run(); }

}  // namespace lessor_tests
