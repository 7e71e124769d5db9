// The demo: leases over a real file, with two workers that misbehave.
//
// Each stanza of a file (the machine's own package database) becomes a record of a stream. Four
// worker threads of one subscription lease batches and add up installed sizes by section; a second
// subscription reads everything too, on its own. Worker 3 dies holding a lease; worker 4 is slow
// and has to extend. In the end a plain computation over the same file must give the same sums.
//
// Leases last 30 seconds, of a clock that runs 40 times too fast: expiry is waited for, not
// pretended.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#if __has_include(<unistd.h>)
#include <unistd.h>
#endif

#include "absl/time/time.h"
#include "fmt/format.h"
#include "lessor/clock.h"
#include "lessor/lessor.h"
#include "stanzas.h"

namespace demo {
namespace {

// All in the demo's time.
constexpr absl::Duration kLease = absl::Seconds(30);
constexpr absl::Duration kProducing = absl::Seconds(168);  // From the first produce to the last.
constexpr absl::Duration kWorkOnBatch = absl::Seconds(20);
constexpr absl::Duration kSlowWorkOnBatch = absl::Seconds(50);  // Longer than the lease.
constexpr absl::Duration kAuditOfBatch = absl::Seconds(22);
constexpr absl::Duration kExtendBefore = absl::Seconds(10);  // The end of the lease,
constexpr absl::Duration kReserve = absl::Seconds(5);  // unless the work ends that long before it.

constexpr size_t kBatches = 14;

/// Time as it is, `speed` times as fast.
class FastClock final : public lessor::Clock {
 public:
  explicit FastClock(int speed) : speed_(speed) {}

  absl::Time Now() override { return start_ + Elapsed(); }

  void Wait(lessor::Waiter& waiter, absl::Time until) override {
    if (until == absl::InfiniteFuture()) return waiter.Block();
    // An hour is enough for one wait: it may return early.
    const absl::Duration real =
        std::clamp((until - Now()) / speed_, absl::ZeroDuration(), absl::Hours(1));
    waiter.BlockUntil(Real::now() +
                      absl::ToChronoNanoseconds(absl::Ceil(real, absl::Nanoseconds(1))));
  }

  absl::Duration Elapsed() const { return absl::FromChrono(Real::now() - real_start_) * speed_; }

  void Sleep(absl::Duration duration) {
    const absl::Time until = Now() + duration;
    for (lessor::Waiter waiter; Now() < until;) Wait(waiter, until);
  }

 private:
  using Real = std::chrono::steady_clock;

  const int speed_;
  const Real::time_point real_start_ = Real::now();
  const absl::Time start_ = absl::FromChrono(std::chrono::system_clock::now());
};

enum class Colour { kPlain, kBold, kRed, kYellow, kGreen };

/// Standard output, a line at a time, from any thread.
class Journal {
 public:
  explicit Journal(const FastClock& clock) : clock_(clock) {
#if __has_include(<unistd.h>)
    colours_ = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
#endif
  }

  void Print(std::string_view line, Colour colour = Colour::kPlain) {
    line = line.substr(0, line.find_last_not_of(' ') + 1);
    static constexpr std::string_view kCodes[] = {"", "\033[1m", "\033[31m", "\033[33m",
                                                  "\033[32m"};
    const bool coloured = colours_ && colour != Colour::kPlain;
    const std::string text =
        fmt::format("{}{}{}\n", coloured ? kCodes[static_cast<size_t>(colour)] : "", line,
                    coloured ? "\033[0m" : "");
    const std::lock_guard lock(mutex_);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  /// What somebody does now.
  void Say(std::string_view who, std::string_view what, Colour colour = Colour::kPlain) {
    Print(fmt::format("{:>7}  {:<9} {}", At(clock_.Elapsed()), who, what), colour);
  }

  /// An instant of the demo, as minutes and seconds.
  static std::string At(absl::Duration elapsed) {
    const int64_t tenths = absl::ToInt64Milliseconds(elapsed) / 100;
    return fmt::format("{}:{:02}.{}", tenths / 600, tenths / 10 % 60, tenths % 10);
  }

 private:
  const FastClock& clock_;
  bool colours_ = false;
  std::mutex mutex_;
};

/// `text` for a terminal: printable ASCII, not too long.
std::string Tidy(std::string_view text, size_t most) {
  std::string tidy(text.substr(0, most));
  std::replace_if(
      tidy.begin(), tidy.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return tidy;
}

std::string_view PackageOf(lessor::RecordView record) {
  return record.headers().Find("package").value_or("-");
}

/// What the workers of one subscription know together. It lives outside of lessor, as a database
/// would.
///
/// Delivery is at least once, and an ack succeeds even when it comes too late to count: no worker
/// can tell from lessor's answers whether a record of its batch was processed by somebody else as
/// well. So the results are kept by record, and merging one that is there already changes nothing.
/// A worker first merges, then acks: dying in between costs a repetition, never a record, and the
/// repetition is ignored. (Offsets exist in this process only. Where they do not, take a key that
/// the producer puts into a header.)
class Ledger {
 public:
  explicit Ledger(size_t records) : holders_(records), merged_(records, false) {}

  struct Delivery {
    size_t again = 0;     ///< Records that had been delivered before,
    std::string last_to;  ///< and to whom the first of them.
  };
  /// Notes that a batch was given to `worker`.
  Delivery Deliver(const lessor::Batch& batch, const std::string& worker) {
    const std::lock_guard lock(mutex_);
    Delivery delivery;
    ++batches_;
    for (const lessor::RecordView record : batch) {
      std::string& holder = holders_[record.offset()];
      if (!holder.empty() && delivery.again++ == 0) delivery.last_to = holder;
      holder = worker;
    }
    delivered_ += batch.size();
    redelivered_ += delivery.again;
    return delivery;
  }

  void NoteExtend() {
    const std::lock_guard lock(mutex_);
    ++extends_;
  }

  /// Adds results to the sums, each record's once. Returns how many were there already.
  size_t Merge(const std::vector<std::pair<lessor::Offset, Item>>& results) {
    const std::lock_guard lock(mutex_);
    size_t ignored = 0;
    for (const auto& [offset, item] : results) {
      if (merged_[offset]) {
        ++ignored;
      } else {
        merged_[offset] = true;
        Add(item, sums_);
      }
    }
    ignored_ += ignored;
    return ignored;
  }

  // When the workers are through.
  size_t batches() const { return batches_; }
  size_t delivered() const { return delivered_; }
  size_t redelivered() const { return redelivered_; }
  size_t extends() const { return extends_; }
  size_t ignored() const { return ignored_; }
  const Sums& sums() const { return sums_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> holders_;  // By offset: who was given the record last.
  std::vector<bool> merged_;          // By offset.
  Sums sums_;
  size_t batches_ = 0;
  size_t delivered_ = 0;
  size_t redelivered_ = 0;
  size_t extends_ = 0;
  size_t ignored_ = 0;
};

/// Ends the waiting of the main thread.
class Finish {
 public:
  explicit Finish(size_t awaited) : awaited_(awaited) {}

  /// Everything that `ledger` is about is processed. May be said more than once.
  void Complete(const Ledger* ledger) {
    const std::lock_guard lock(mutex_);
    complete_.insert(ledger);
    condition_.notify_all();
  }
  void Fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    condition_.notify_all();
  }
  /// Whether all are complete, nothing has failed and it did not take too long.
  bool Wait(std::chrono::seconds at_most) {
    std::unique_lock lock(mutex_);
    condition_.wait_for(lock, at_most, [this] { return failed_ || complete_.size() == awaited_; });
    return !failed_ && complete_.size() == awaited_;
  }

 private:
  const size_t awaited_;
  std::mutex mutex_;
  std::condition_variable condition_;
  std::set<const Ledger*> complete_;
  bool failed_ = false;
};

struct World {
  FastClock& clock;
  Journal& journal;
  Finish& finish;
  size_t records;     ///< In the file.
  size_t batch_size;  ///< Records.
};

/// A worker's place: whom it works for, and how.
struct Job {
  std::string worker;
  lessor::Subscription subscription;
  Ledger& ledger;
  Item (*compute)(std::string_view stanza);
  int64_t max_records;
  absl::Duration work;    ///< On a batch of the usual size.
  int dies_in_batch = 0;  ///< Which of its batches it never acks; 0 for none.
  bool quiet = false;
};

class Worker {
 public:
  Worker(const World& world, Job job) : world_(world), job_(std::move(job)) {}

  /// Leases batch after batch, until `stop`.
  void Run(const std::stop_token& stop) {
    for (int batches = 1;; ++batches) {
      const auto batch = job_.subscription.Consume({.worker = job_.worker,
                                                    .max_records = job_.max_records,
                                                    .wait_until = absl::InfiniteFuture(),
                                                    .stop = stop});
      if (lessor::ReasonOf(batch.status()) == lessor::Reason::kCancelled) return;
      if (!batch.ok()) return Fail(batch.status());
      TellOfLease(*batch);

      std::vector<std::pair<lessor::Offset, Item>> results;
      for (const lessor::RecordView record : *batch) {
        results.emplace_back(record.offset(), job_.compute(record.content()));
      }
      const std::optional<absl::Time> leased_until = Labour(*batch);
      if (!leased_until.has_value()) continue;
      const size_t ignored = job_.ledger.Merge(results);
      if (ignored > 0) {
        Say(fmt::format("finds {} results merged already, and ignores its own", ignored));
      }
      if (batches == job_.dies_in_batch) {
        Say(fmt::format("dies after merging, before its ack: its lease runs on until {}",
                        At(*leased_until)),
            Colour::kRed);
        return;
      }

      if (const absl::Status status = job_.subscription.Ack(*batch, job_.worker); !status.ok()) {
        return Fail(status);
      }
      const auto position = job_.subscription.GetPosition();
      if (!position.ok()) return Fail(position.status());
      if (position->committed == world_.records) world_.finish.Complete(&job_.ledger);
    }
  }

 private:
  void Say(std::string_view what, Colour colour = Colour::kPlain) {
    world_.journal.Say(job_.worker, what, colour);
  }
  void Fail(const absl::Status& status) {
    Say(fmt::format("cannot go on: {}", status.ToString()), Colour::kRed);
    world_.finish.Fail();
  }
  std::string At(absl::Time time) const {
    return Journal::At(world_.clock.Elapsed() + (time - world_.clock.Now()));
  }

  void TellOfLease(const lessor::Batch& batch) {
    const Ledger::Delivery delivery = job_.ledger.Deliver(batch, job_.worker);
    if (job_.quiet) return;
    std::string line =
        fmt::format("leases {:>4} until {:>6}  {} ... {}", batch.size(), At(batch.leased_until()),
                    Tidy(PackageOf(batch.front()), 16), Tidy(PackageOf(batch.back()), 16));
    if (delivery.again == 0) return Say(line);
    line += fmt::format("  ({} again: {}'s lease expired)", delivery.again, delivery.last_to);
    Say(line, Colour::kGreen);
  }

  /// Takes the time that the work on a batch takes, extending the lease whenever its end comes
  /// near. Returns when the lease ends; nothing if it was lost: then others may have the records,
  /// and the worker drops them.
  std::optional<absl::Time> Labour(const lessor::Batch& batch) {
    const double share =
        std::min(1.0, static_cast<double>(batch.size()) / static_cast<double>(world_.batch_size));
    const absl::Time done = world_.clock.Now() + std::max(share, 0.2) * job_.work;
    absl::Time leased_until = batch.leased_until();
    while (leased_until < done + kReserve) {
      world_.clock.Sleep(leased_until - kExtendBefore - world_.clock.Now());
      const auto extended = job_.subscription.Extend(batch, job_.worker);
      if (lessor::ReasonOf(extended.status()) == lessor::Reason::kLeaseNotHeld) {
        Say("was too late to extend: drops its batch", Colour::kRed);
        return std::nullopt;
      }
      if (!extended.ok()) {
        Fail(extended.status());
        return std::nullopt;
      }
      leased_until = *extended;
      job_.ledger.NoteExtend();
      if (!job_.quiet)
        Say(fmt::format("extends     until {:>6}", At(leased_until)), Colour::kYellow);
    }
    world_.clock.Sleep(done - world_.clock.Now());
    return leased_until;
  }

  const World& world_;
  Job job_;
};

/// The record of a stanza: its text, and the package's name as a header if it has a plain one.
class StanzaRecord {
 public:
  StanzaRecord(std::string_view stanza, const lessor::Limits& limits) : stanza_(stanza) {
    header_ = {"package", FieldOf(stanza, "Package")};
    const std::string_view name = header_.value;
    plain_ = !name.empty() && name.size() <= static_cast<size_t>(limits.max_header_value_bytes) &&
             std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; }) &&
             stanza.size() + header_.name.size() + name.size() <=
                 static_cast<size_t>(limits.max_record_bytes);
  }
  lessor::Record record() const {
    lessor::Record record{.content = stanza_};
    if (plain_) record.headers = lessor::HeaderList(&header_, 1);
    return record;
  }

 private:
  std::string_view stanza_;
  lessor::Header header_;
  bool plain_ = false;
};

/// Whether a record can hold the stanza. What it cannot hold is left out on both sides of the
/// check.
bool Fits(std::string_view stanza, const lessor::Limits& limits) {
  return stanza.size() <= static_cast<size_t>(limits.max_record_bytes);
}

/// The sums without lessor: one thread, one pass.
Sums ComputePlainly(std::string_view text, const lessor::Limits& limits,
                    Item (*compute)(std::string_view stanza)) {
  Sums sums;
  for (const std::string_view stanza : SplitStanzas(text)) {
    if (Fits(stanza, limits)) Add(compute(stanza), sums);
  }
  return sums;
}

/// The chunks in which the stanzas are produced: records and bytes within limits.
std::vector<std::span<const std::string_view>> Chunks(const std::vector<std::string_view>& stanzas,
                                                      size_t chunk_size,
                                                      const lessor::Limits& limits) {
  std::vector<std::span<const std::string_view>> chunks;
  // A header adds at most its name and value, and those fit into a record.
  const size_t most = static_cast<size_t>(limits.max_produce_bytes - limits.max_record_bytes);
  for (size_t first = 0; first < stanzas.size();) {
    size_t end = first;
    size_t bytes = 0;
    while (end < stanzas.size() && end - first < chunk_size && bytes <= most) {
      const StanzaRecord record(stanzas[end], limits);
      bytes += lessor::SizeOf(record.record());
      ++end;
    }
    chunks.emplace_back(stanzas.data() + first, end - first);
    first = end;
  }
  return chunks;
}

absl::Status ProduceChunk(const lessor::Stream& stream, std::span<const std::string_view> chunk,
                          const lessor::Limits& limits) {
  std::vector<StanzaRecord> stanzas;
  stanzas.reserve(chunk.size());
  std::vector<lessor::Record> records;
  for (const std::string_view stanza : chunk) {
    stanzas.emplace_back(stanza, limits);
    records.push_back(stanzas.back().record());
  }
  return stream.Produce(records).status();
}

std::string Megabytes(uint64_t kib) {
  return fmt::format("{:.1f} MiB", static_cast<double>(kib) / 1024.0);
}

void PrintTable(Journal& journal, const Ledger& sizes, const Ledger& audit, size_t workers,
                const lessor::Stats& stats) {
  const auto row = [&](std::string_view what, auto in_sizes, auto in_audit,
                       std::string_view broker) {
    journal.Print(fmt::format("  {:<34} {:>9} {:>9} {:>9}", what, in_sizes, in_audit, broker));
  };
  const auto number = [](uint64_t value) { return fmt::format("{}", value); };
  journal.Print("");
  journal.Print(fmt::format("  {:<34} {:>9} {:>9} {:>9}", "", "sizes", "audit", "broker"),
                Colour::kBold);
  row("records produced", "", "", number(stats.produced));
  row("workers", workers, 1, "");
  row("batches leased", sizes.batches(), audit.batches(), number(stats.leases));
  row("records delivered", sizes.delivered(), audit.delivered(), number(stats.delivered));
  row("  of these redeliveries", sizes.redelivered(), audit.redelivered(),
      number(stats.redelivered));
  row("leases that expired", "", "", number(stats.expiries));
  row("extends", sizes.extends(), audit.extends(), number(stats.extends));
  row("repeated results ignored", sizes.ignored(), audit.ignored(), "");
  row("records processed", Total(sizes.sums()).stanzas, Total(audit.sums()).stanzas, "");
}

void PrintSections(Journal& journal, const Sums& sums) {
  constexpr size_t kShown = 8;
  std::vector<std::pair<std::string, Sum>> sections(sums.begin(), sums.end());
  std::stable_sort(sections.begin(), sections.end(),
                   [](const auto& a, const auto& b) { return a.second.amount > b.second.amount; });
  journal.Print("");
  journal.Print(fmt::format("  {:<34} {:>9} {:>13}", "section", "packages", "installed"),
                Colour::kBold);
  Sum rest;
  for (size_t i = 0; i < sections.size(); ++i) {
    const auto& [name, sum] = sections[i];
    if (i < kShown) {
      journal.Print(
          fmt::format("  {:<34} {:>9} {:>13}", Tidy(name, 34), sum.stanzas, Megabytes(sum.amount)));
    } else {
      rest.stanzas += sum.stanzas;
      rest.amount += sum.amount;
    }
  }
  if (sections.size() > kShown) {
    journal.Print(fmt::format("  {:<34} {:>9} {:>13}",
                              fmt::format("({} more)", sections.size() - kShown), rest.stanzas,
                              Megabytes(rest.amount)));
  }
}

/// The groups of the other subscription, on a line.
void PrintArchitectures(Journal& journal, const Sums& sums) {
  constexpr size_t kShown = 4;
  std::string line = "  by architecture:";
  size_t shown = 0;
  for (const auto& [name, sum] : sums) {
    if (++shown > kShown) break;
    line += fmt::format("{} {} {}", shown > 1 ? "," : "", Tidy(name, 16), sum.stanzas);
  }
  if (sums.size() > kShown) line += ", ...";
  journal.Print("");
  journal.Print(line);
}

/// Prints whether the sums of a subscription are those of the plain computation.
bool Check(Journal& journal, std::string_view what, std::string_view unit, const Sums& expected,
           const Sums& got) {
  const bool equal = expected == got;
  journal.Print(
      fmt::format("check: {} {} {} of {} records, {} of {} {}", what,
                  equal ? "is what a plain computation gives:" : "is WRONG:", Total(got).stanzas,
                  Total(expected).stanzas, Total(got).amount, Total(expected).amount, unit),
      equal ? Colour::kGreen : Colour::kRed);
  return equal;
}

int Demo(const std::string& path, std::string_view text, int speed) {
  lessor::Limits limits;
  limits.lease = kLease;

  std::vector<std::string_view> stanzas = SplitStanzas(text);
  const size_t found = stanzas.size();
  std::erase_if(stanzas, [&](std::string_view stanza) { return !Fits(stanza, limits); });
  if (found > stanzas.size()) {
    fmt::print("{} of {} stanzas are longer than {} bytes, which no record can be: left out\n",
               found - stanzas.size(), found, limits.max_record_bytes);
  }
  if (stanzas.empty()) {
    fmt::print(stderr, "lessor_demo: {}: {}\n", path,
               found == 0 ? "no stanzas" : "no stanza that fits into a record");
    return 2;
  }

  FastClock clock(speed);
  Journal journal(clock);
  lessor::Broker broker({.clock = &clock, .limits = limits});
  const auto stream = broker.CreateStream({.name = "packages"});
  if (!stream.ok()) {
    fmt::print(stderr, "lessor_demo: {}\n", stream.status().ToString());
    return 1;
  }
  const auto sizes = stream->Subscribe({.name = "sizes"});
  const auto audit = stream->Subscribe({.name = "audit"});
  if (!sizes.ok() || !audit.ok()) {
    fmt::print(stderr, "lessor_demo: {} {}\n", sizes.status().ToString(),
               audit.status().ToString());
    return 1;
  }

  const size_t batch_size = (stanzas.size() + kBatches - 1) / kBatches;
  const auto chunks = Chunks(stanzas, batch_size, limits);
  const absl::Duration pause = kProducing / static_cast<int64_t>(std::max(chunks.size(), kBatches));
  journal.Print(fmt::format("{} stanzas of {} go into a stream, {} at a time.", stanzas.size(),
                            path, batch_size),
                Colour::kBold);
  journal.Print(
      fmt::format("A lease lasts {}; the clock runs {} times too fast. Worker 3 will die, "
                  "worker 4 is slow.",
                  absl::FormatDuration(kLease), speed));
  journal.Print("");

  Ledger sizes_ledger(stanzas.size());
  Ledger audit_ledger(stanzas.size());
  Finish finish(2);
  const World world{clock, journal, finish, stanzas.size(), batch_size};
  const auto sizes_job = [&](int number) {
    return Job{.worker = fmt::format("worker-{}", number),
               .subscription = *sizes,
               .ledger = sizes_ledger,
               .compute = &SizeBySection,
               .max_records = static_cast<int64_t>(
                   std::min(batch_size, static_cast<size_t>(limits.max_consume_records))),
               .work = number == 4 ? kSlowWorkOnBatch : kWorkOnBatch,
               // In a short file there may be no second one.
               .dies_in_batch = number != 3                    ? 0
                                : chunks.size() < kBatches / 2 ? 1
                                                               : 2};
  };
  std::vector<Worker> workers;
  // The two that misbehave come first, so that even one single stanza meets both.
  for (const int number : {3, 4, 1, 2}) workers.emplace_back(world, sizes_job(number));
  workers.emplace_back(world, Job{.worker = "auditor",
                                  .subscription = *audit,
                                  .ledger = audit_ledger,
                                  .compute = &BytesByArchitecture,
                                  .max_records = limits.max_consume_records,
                                  .work = kAuditOfBatch,
                                  .quiet = true});

  std::stop_source stop;
  bool finished = false;
  {
    std::vector<std::jthread> threads;
    for (Worker& worker : workers) {
      threads.emplace_back([&worker, token = stop.get_token()] { worker.Run(token); });
      clock.Sleep(absl::Seconds(2));
    }
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (i > 0) clock.Sleep(pause);
      if (const absl::Status status = ProduceChunk(*stream, chunks[i], limits); !status.ok()) {
        journal.Say("producer", fmt::format("cannot go on: {}", status.ToString()), Colour::kRed);
        finish.Fail();
        break;
      }
    }
    journal.Say("producer", fmt::format("has produced everything, in {} calls", chunks.size()));
    // Far more than it takes. A lost record would be waited for without end.
    finished = finish.Wait(std::chrono::seconds(120 + 1800 / speed));
    stop.request_stop();
  }
  journal.Say("everyone", finished ? "is through" : "gives up");

  PrintTable(journal, sizes_ledger, audit_ledger, workers.size() - 1, broker.GetStats());
  PrintSections(journal, sizes_ledger.sums());
  PrintArchitectures(journal, audit_ledger.sums());
  journal.Print("");
  bool equal = Check(journal, "sizes", "KiB", ComputePlainly(text, limits, &SizeBySection),
                     sizes_ledger.sums());
  equal &= Check(journal, "audit", "bytes", ComputePlainly(text, limits, &BytesByArchitecture),
                 audit_ledger.sums());
  const bool held = finished && equal;
  journal.Print(held ? "nothing was lost, nothing was counted twice" : "THE CHECK DID NOT HOLD",
                held ? Colour::kGreen : Colour::kRed);
  return held ? 0 : 1;
}

std::optional<std::string> ReadFile(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) return std::nullopt;
  std::string text;
  char block[1 << 16];
  while (const size_t size = std::fread(block, 1, sizeof block, file.get())) {
    text.append(block, size);
  }
  if (std::ferror(file.get()) != 0) return std::nullopt;
  return text;
}

constexpr std::string_view kUsage = R"(usage: lessor_demo [FILE] [--speed N]

  FILE       what to work on: its paragraphs become records (default: /var/lib/dpkg/status)
  --speed N  how many times too fast the clock runs, 1-1000 (default: 40)

exit status: 0 the check held, 1 it did not, 2 wrong usage, no such file or nothing in it
)";

int Main(std::span<char*> args) {
  std::string path;
  int speed = 40;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string_view arg = args[i];
    if (arg == "--help" || arg == "-h") {
      fmt::print("{}", kUsage);
      return 0;
    }
    if (arg == "--speed" && i + 1 < args.size()) {
      const std::string_view value = args[++i];
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), speed);
      if (error == std::errc() && end == value.data() + value.size() && speed >= 1 &&
          speed <= 1000) {
        continue;
      }
    } else if (!arg.starts_with('-') && !arg.empty() && path.empty()) {
      path = arg;
      continue;
    }
    fmt::print(stderr, "lessor_demo: cannot make sense of {}\n{}", arg, kUsage);
    return 2;
  }
  if (path.empty()) path = "/var/lib/dpkg/status";
  const std::optional<std::string> text = ReadFile(path);
  if (!text.has_value()) {
    fmt::print(stderr, "lessor_demo: {}: {}\n", path, std::strerror(errno));
    return 2;
  }
  return Demo(path, *text, speed);
}

}  // namespace
}  // namespace demo

int main(int argc, char** argv) {
  return demo::Main(std::span(argv, static_cast<size_t>(argc)).subspan(argc > 0 ? 1 : 0));
}
