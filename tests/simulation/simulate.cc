// simulate: years of a 128-worker subscription in seconds, or many cycles at constant memory.
//
//   simulate [--seed N] [--years Y]   workers crash, are slow, extend late or not at all; the clock
//                                     steps both ways; retention removes what is not read in time.
//                                     Every answer is checked against the rules, and so is the
//                                     position after every step. One line: what happened, with a
//                                     digest of it that is the same wherever the seed is.
//   simulate --cycles N               produce, consume, ack N times with retention; memory must not
//                                     grow after the warm-up.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <queue>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "fmt/format.h"
#include "lessor/broker.h"
#include "lessor/stream.h"
#include "lessor/testing/sequential_ids.h"
#include "lessor/testing/simulated_clock.h"
#include "random.h"
#include "simulation/checker.h"

#if defined(__linux__)
#include <unistd.h>
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LESSOR_TESTS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LESSOR_TESTS_SANITIZED 1
#endif
#endif
#ifndef LESSOR_TESTS_SANITIZED
#define LESSOR_TESTS_SANITIZED 0
#endif

namespace lessor_tests {
namespace {

constexpr int64_t kStartMs = 1'790'164'800'000;
constexpr int64_t kSecond = 1'000;
constexpr int64_t kMinute = 60 * kSecond;
constexpr int64_t kHour = 60 * kMinute;
constexpr int64_t kDay = 24 * kHour;

struct Options {
  uint64_t seed = 1;
  double years = 1;
  uint64_t cycles = 0;  ///< Zero: simulate years.
};

// What the digest tells of each step.
enum class Step : uint64_t { kProduce, kConsume, kAck, kNack, kExtend, kClock, kRetention };

class Simulation {
 public:
  explicit Simulation(const Options& options) : options_(options), random_(options.seed) {
    stream_.retention = kDay;
    auto stream =
        broker_.CreateStream({.name = "year", .retention = absl::Milliseconds(stream_.retention)});
    auto subscription = stream->Subscribe({.name = "workers"});
    handle_ = *stream;
    subscription_ = *subscription;
  }

  void Run() {
    const auto until = static_cast<int64_t>(options_.years * 365.25 * static_cast<double>(kDay));
    for (int actor = 0; actor < kActors; ++actor) Later(actor, random_.Between(0, kHour));
    while (events_.top().at < until) {
      const Event event = events_.top();
      events_.pop();
      real_ = event.at;
      SetClock();
      Act(event.actor);
    }
    Drain();
    fmt::print(
        "simulated seed={} years={}: steps={} records={} processed={} skipped={} redelivered={} "
        "expired={} late_acks={} pinned={} at_lease_limit={} digest={:016x}\n",
        options_.seed, options_.years, steps_, checker_.end(), checker_.processed(),
        checker_.skipped(), checker_.redelivered(), checker_.expired(), checker_.late_acks(),
        checker_.pinned(), at_limit_, digest_);
  }

 private:
  static constexpr int kWorkers = 128;
  static constexpr int kProducer = kWorkers;
  static constexpr int kClockSetter = kWorkers + 1;
  static constexpr int kOperator = kWorkers + 2;
  static constexpr int kStranger = kWorkers + 3;
  static constexpr int kActors = kWorkers + 4;

  // Time as the actors live it; the clock shows it with an error.
  struct Event {
    int64_t at = 0;
    uint64_t number = 0;  // Of two at one time, the one that was planned first.
    int actor = 0;

    friend bool operator<(const Event& a, const Event& b) {
      return a.at != b.at ? a.at > b.at : a.number > b.number;
    }
  };

  struct Worker {
    enum class Plan { kAsk, kFinish, kExtend, kExtendLate, kAskAgain };
    std::string id;
    int incarnation = 0;
    lessor::BatchId batch;
    Plan plan = Plan::kAsk;
    int extends_left = 0;
  };

  void Later(int actor, int64_t by) { events_.push({real_ + by, ++planned_, actor}); }

  int64_t ClockMs() const { return kStartMs + real_ + clock_error_; }
  void SetClock() { clock_.AdvanceTo(absl::FromUnixMillis(ClockMs())); }
  // Before each call on the broker, which then sees the time.
  void SeeTime() { checker_.SeeTime(ClockMs()); }

  void Act(int actor) {
    if (actor < kWorkers) return Act(workers_[static_cast<size_t>(actor)], actor);
    switch (actor) {
      case kProducer:
        Produce();
        // Busy hours need more.
        return Later(actor, random_.Between(1, busy_ ? 20 * kSecond : 20 * kMinute));
      case kClockSetter:
        return SetTheClock();
      case kOperator:
        return Operate();
      default:
        return Meddle();
    }
  }

  void Act(Worker& worker, int actor) {
    using Plan = Worker::Plan;
    if (worker.id.empty()) worker.id = fmt::format("worker-{}", actor);
    switch (worker.plan) {
      case Plan::kAsk:
      case Plan::kAskAgain: {
        // During an outage nobody works.
        if (real_ < outage_until_)
          return Later(actor, outage_until_ - real_ + random_.Between(0, kHour));
        const auto batch = Consume(worker.id, storm_              ? 1
                                              : random_.OneIn(20) ? 1'000
                                                                  : random_.Between(1, 20));
        if (!batch.ok() || batch->empty()) return Rest(worker, actor);
        worker.batch = batch->id();
        return Decide(worker, actor);
      }
      case Plan::kExtend: {
        const bool held = Extend(worker.batch, worker.id);
        if (held && --worker.extends_left > 0)
          return Later(actor, random_.Between(100, 299) * kSecond);
        worker.plan = Plan::kFinish;
        return Later(actor, random_.Between(1, 250) * kSecond);
      }
      case Plan::kExtendLate:
        // Some notice that they are late, some finish all the same.
        if (Extend(worker.batch, worker.id) || random_.OneIn(2)) Finish(worker);
        return Rest(worker, actor);
      case Plan::kFinish:
        Finish(worker);
        return Rest(worker, actor);
    }
  }

  // What a worker does with the batch that it has just been given.
  void Decide(Worker& worker, int actor) {
    using Plan = Worker::Plan;
    const uint64_t kind = random_.Below(storm_ ? 120 : 100);
    if (kind < 70) {
      worker.plan = Plan::kFinish;
      Later(actor, random_.Between(1, busy_ && !storm_ ? 100 : 299) * kSecond);
    } else if (kind < 78) {
      worker.plan = Plan::kExtend;
      // A few go on for days: longer than what they hold is retained.
      worker.extends_left = static_cast<int>(random_.OneIn(400) ? random_.Between(200, 1'500)
                                                                : random_.Between(1, 6));
      Later(actor, random_.Between(100, 299) * kSecond);
    } else if (kind < 86) {
      worker.plan = Plan::kExtendLate;
      Later(actor, random_.Between(250, 700) * kSecond);
    } else if (kind < 90) {
      worker.plan = Plan::kFinish;  // Slow, and never extends.
      Later(actor, random_.Between(250, 2'000) * kSecond);
    } else if (kind < 94) {
      worker.plan = Plan::kAskAgain;
      Later(actor, random_.Between(0, 200) * kSecond);
    } else {
      // A crash. Some come back as who they were, some under a new name.
      if (random_.OneIn(2)) worker.id = fmt::format("worker-{}.{}", actor, ++worker.incarnation);
      worker.plan = Plan::kAsk;
      Later(actor,
            storm_ || random_.OneIn(2) ? random_.Between(0, kMinute) : random_.Between(0, kHour));
    }
  }

  void Rest(Worker& worker, int actor) {
    worker.plan = Worker::Plan::kAsk;
    Later(actor, random_.Between(1, storm_ ? 5 * kSecond : busy_ ? 3 * kMinute : 12 * kHour));
  }

  void Finish(const Worker& worker) {
    Settle(worker.batch, worker.id, !random_.OneIn(20));
    last_finished_ = worker.batch;
  }

  // Acks, nacks and extends what others hold, have held or never held.
  void Meddle() {
    const Worker& other = workers_[random_.Below(kWorkers)];
    const lessor::BatchId batch = random_.OneIn(4)   ? last_finished_
                                  : random_.OneIn(8) ? lessor::BatchId{.high = 9, .low = 9}
                                                     : other.batch;
    switch (random_.Below(4)) {
      case 0:
        Settle(batch, "stranger", true);
        break;
      case 1:
        Settle(batch, "stranger", false);
        break;
      default:
        (void)Extend(batch, random_.OneIn(2) ? "stranger" : "worker-1");
    }
    Later(kStranger, random_.Between(1, 6 * kHour));
  }

  // Steps of the clock, and back to about the right time.
  void SetTheClock() {
    const int64_t step = random_.OneIn(4)   ? random_.Between(-3 * kHour, 3 * kHour)
                         : random_.OneIn(3) ? random_.Between(-300 * kSecond, 300 * kSecond)
                                            : random_.Between(-2 * kSecond, 2 * kSecond);
    clock_error_ = random_.OneIn(2) ? step : clock_error_ + step;
    SetClock();
    SeeTime();
    Done(Step::kClock, static_cast<uint64_t>(clock_error_));
    Later(kClockSetter, random_.Between(1, 8 * kHour));
  }

  // Busy hours, storms (small batches, long work and many crashes: more than 128 leases are
  // wanted), outages, other retentions.
  void Operate() {
    busy_ = random_.OneIn(3);
    storm_ = busy_ && random_.OneIn(6);
    if (random_.OneIn(300)) outage_until_ = real_ + random_.Between(kHour, 3 * kDay);
    if (random_.OneIn(60)) {
      stream_.retention = random_.Pick({kHour, kHour, 6 * kHour, kDay, kDay, 3 * kDay});
      SeeTime();
      const auto info = handle_.Update({.retention = absl::Milliseconds(stream_.retention)});
      Require(info.ok(), "an update is refused");
      checker_.SetRetention(stream_.retention);
      Done(Step::kRetention, static_cast<uint64_t>(stream_.retention));
    }
    Later(kOperator, kHour);
  }

  void Produce() {
    const uint64_t count = 1 + random_.Below(random_.OneIn(10) ? 100 : 8);
    contents_.resize(std::max<size_t>(contents_.size(), count));
    std::vector<lessor::Record> records(count);
    std::vector<size_t> sizes(count);
    static constexpr lessor::Header kHeader{.name = "kind", .value = "odd"};
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t word = Checker::WordOf(checker_.end() + i);
      contents_[i].resize(sizeof word + word % 90);
      std::memcpy(contents_[i].data(), &word, sizeof word);
      records[i].content = contents_[i];
      if (word % 16 == 0) records[i].headers = lessor::HeaderList(&kHeader, 1);
      sizes[i] = contents_[i].size();
    }
    SeeTime();
    const auto appended = handle_.Produce(records);
    Require(appended.ok(), "a produce is refused");
    Require(checker_.Produced(appended->first, appended->count,
                              absl::ToUnixMillis(appended->timestamp), sizes));
    Done(Step::kProduce, appended->first);
  }

  absl::StatusOr<lessor::Batch> Consume(std::string_view worker, int64_t max_records) {
    SeeTime();
    absl::StatusOr<lessor::Batch> batch =
        subscription_.Consume({.worker = worker, .max_records = max_records});
    Require(checker_.Consumed(worker, max_records, batch));
    at_limit_ += !batch.ok();
    Done(Step::kConsume, batch.ok() ? batch->id().low : 0);
    return batch;
  }

  void Settle(lessor::BatchId batch, std::string_view worker, bool ack) {
    SeeTime();
    const absl::Status status =
        ack ? subscription_.Ack(batch, worker) : subscription_.Nack(batch, worker);
    Require(status.ok(), "S20, S21: an ack or a nack is refused");
    checker_.Settled(KeyOf(batch), ack);
    Done(ack ? Step::kAck : Step::kNack, batch.low);
  }

  bool Extend(lessor::BatchId batch, std::string_view worker) {
    SeeTime();
    const absl::StatusOr<absl::Time> until = subscription_.Extend(batch, worker);
    Require(checker_.Extended(KeyOf(batch), worker, until));
    Done(Step::kExtend, until.ok() ? batch.low : 0);
    return until.ok();
  }

  // No batch of the broker's has this one's key.
  static Checker::BatchKey KeyOf(lessor::BatchId batch) { return batch.high == 0 ? batch.low : 0; }

  void Drain() {
    for (;;) {
      real_ += kHour;  // All leases end.
      clock_error_ += 6 * kHour;
      SetClock();
      const auto batch = Consume("last", 10'000);
      if (batch->empty()) break;
      Settle(batch->id(), "last", true);
    }
    Require(checker_.CheckEnd());
  }

  // After every step.
  void Done(Step step, uint64_t result) {
    ++steps_;
    const absl::StatusOr<lessor::Position> position = subscription_.GetPosition();
    Require(position.ok(), "there is no position");
    Require(checker_.Check(*position));
    if (steps_ % 16 == 0) {
      Require(checker_.CheckNext(broker_.NextDeadline(), broker_.NextRetention()));
    }
    if (steps_ % 256 == 0) Require(checker_.CheckLeases(*handle_.ListLeases()));
    for (const uint64_t value :
         {static_cast<uint64_t>(step), static_cast<uint64_t>(checker_.now()), result,
          position->committed, position->available, position->leased, position->skipped}) {
      digest_ = Mix(digest_ ^ value);
    }
  }

  void Require(bool right, std::string_view wrong) {
    if (!right) Require(Checker::Wrong(wrong));
  }
  void Require(const Checker::Wrong& wrong) {
    if (wrong.empty()) return;
    fmt::print(stderr,
               "simulate: seed {}, step {}, {} ms after the start (clock off by {} ms): {}\n"
               "simulate: ./dev simulate --seed {} --years {}\n",
               options_.seed, steps_ + 1, real_, clock_error_, wrong, options_.seed,
               options_.years);
    std::exit(1);
  }

  struct {
    int64_t retention = 0;
  } stream_;

  const Options options_;
  Random random_;
  lessor_testing::SimulatedClock clock_{absl::FromUnixMillis(kStartMs)};
  lessor_testing::SequentialIds ids_;
  lessor::Broker broker_{{.clock = &clock_, .ids = &ids_}};
  lessor::Stream handle_{broker_, {}};
  lessor::Subscription subscription_{broker_, {}};
  Checker checker_{300 * kSecond, 128, kDay};

  std::priority_queue<Event> events_;
  uint64_t planned_ = 0;
  int64_t real_ = 0;
  int64_t clock_error_ = 0;
  bool busy_ = false;
  bool storm_ = false;
  int64_t outage_until_ = 0;
  std::vector<Worker> workers_{kWorkers};
  lessor::BatchId last_finished_;
  std::vector<std::string> contents_;
  uint64_t at_limit_ = 0;
  uint64_t steps_ = 0;
  uint64_t digest_ = 0;
};

// Resident bytes of this process; 0 where that cannot be told.
uint64_t ResidentBytes() {
#if defined(__linux__)
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  unsigned long long total = 0;
  unsigned long long resident = 0;
  const bool read = std::fscanf(file, "%llu %llu", &total, &resident) == 2;
  std::fclose(file);
  return read ? resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
#else
  return 0;
#endif
}

// A steady state: an hour of retention holds 100,000 records; now and then a batch is given back,
// expires, or goes to a worker never heard of before.
int RunCycles(uint64_t cycles) {
  constexpr uint64_t kRetained = 100'000;
  constexpr uint64_t kWarmUp = 3 * kRetained;
  constexpr uint64_t kAllowed = uint64_t{1} << 20;
  lessor_testing::SimulatedClock clock;
  lessor::Broker broker({.clock = &clock});
  auto stream = *broker.CreateStream({.name = "cycles", .retention = absl::Hours(1)});
  auto subscription = *stream.Subscribe({.name = "steady"});
  std::string content(100, 'x');
  uint64_t resident_before = 0;
  uint64_t allocated_before = 0;
  bool grown = false;
  const uint64_t interval = std::max<uint64_t>(cycles / 10, 1);
  const uint64_t warm = std::min(kWarmUp, cycles / 2);
  fmt::print("{:>12} {:>16} {:>16} {:>10}\n", "cycles", "resident bytes", "bytes allocated",
             "records");
  for (uint64_t cycle = 1; cycle <= cycles; ++cycle) {
    clock.Advance(absl::Hours(1) / kRetained);
    std::memcpy(content.data(), &cycle, sizeof cycle);
    bool good = stream.Produce({{.content = content}}).ok();
    const std::string worker =
        cycle % 100 == 0 ? fmt::format("a worker with a long name, {}", cycle) : "steady";
    auto batch = subscription.Consume({.worker = worker, .max_records = 100});
    good = good && batch.ok();
    if (cycle % 64 == 0) {
      good = good && subscription.Nack(*batch, worker).ok();
      batch = subscription.Consume({.worker = worker});
      good = good && batch.ok();
    }
    // The records of every thousandth batch are delivered again after 300 s.
    const bool crash = cycle % 1'000 == 0;
    if (!crash && !batch->empty()) good = good && subscription.Ack(*batch, worker).ok();
    if (!good) {
      fmt::print(stderr, "simulate: cycle {} of --cycles {}: a call is refused\n", cycle, cycles);
      return 1;
    }
    if (cycle != warm && cycle % interval != 0) continue;
    const lessor::Stats stats = broker.GetStats();
    const uint64_t resident = ResidentBytes();
    fmt::print("{:>12} {:>16} {:>16} {:>10}\n", cycle, resident, stats.bytes_allocated,
               stats.records);
    if (cycle <= warm) {
      resident_before = resident;
      allocated_before = stats.bytes_allocated;
      continue;
    }
    // A sanitizer keeps what was freed.
    grown |= LESSOR_TESTS_SANITIZED == 0 && resident > resident_before + kAllowed;
    grown |= stats.bytes_allocated > allocated_before + kAllowed;
  }
  if (grown) {
    fmt::print(stderr, "simulate: memory grew by more than {} bytes after the warm-up\n", kAllowed);
    return 1;
  }
  return 0;
}

template <class Number>
bool Read(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

int Main(const std::vector<std::string_view>& arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); i += 2) {
    const std::string_view value = i + 1 < arguments.size() ? arguments[i + 1] : "";
    const bool good = arguments[i] == "--seed"    ? Read(value, options.seed)
                      : arguments[i] == "--years" ? Read(value, options.years) && options.years > 0
                      : arguments[i] == "--cycles"
                          ? Read(value, options.cycles) && options.cycles > 0
                          : false;
    if (good) continue;
    fmt::print(stderr, "usage: simulate [--seed N] [--years Y] | simulate --cycles N\n");
    return 2;
  }
  if (options.cycles > 0) return RunCycles(options.cycles);
  Simulation(options).Run();
  return 0;
}

}  // namespace
}  // namespace lessor_tests

int main(int argc, char** argv) {
  return lessor_tests::Main(std::vector<std::string_view>(argv + 1, argv + argc));
}
