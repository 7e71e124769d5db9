// The Broker over a store that delays, fails and loses races at every call: lessor/store.h, S27.
#include "lessor/store.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "broker/fixture.h"
#include "broker/log_store.h"
#include "catch.h"
#include "lessor/broker.h"
#include "lessor/error.h"
#include "lessor/stream.h"
#include "lessor/testing/sequential_ids.h"
#include "lessor/testing/simulated_clock.h"

namespace lessor_tests {
namespace {

using lessor::Broker;
using lessor::BrokerOptions;
using lessor::Reason;
using Compaction = LogStore::Compaction;

constexpr Compaction kCompactions[] = {Compaction::kNone, Compaction::kAll, Compaction::kHalf};

/// A Broker over a LogStore, in simulated time.
struct Site {
  explicit Site(Compaction how = Compaction::kNone) : store(std::make_unique<LogStore>(how)) {
    store->clock = &clock;
    Reopen();
  }
  /// What a crash and a restart do.
  void Reopen() {
    broker.reset();
    broker =
        std::make_unique<Broker>(BrokerOptions{.clock = &clock, .ids = &ids, .store = store.get()});
  }
  lessor::Stream Named(std::string_view name) const {
    const auto stream = broker->OpenStream(name);
    REQUIRE(Why(stream) == "ok");
    return *stream;
  }
  lessor::Subscription Sub(std::string_view name) const {
    const auto sub = Named("orders").OpenSubscription(name);
    REQUIRE(Why(sub) == "ok");
    return *sub;
  }
  absl::Status Consume(std::string_view sub, std::string_view worker, int64_t max_records,
                       std::string_view as) {
    const auto batch = Sub(sub).Consume({.worker = worker, .max_records = max_records});
    if (batch.ok()) {
      batches[std::string(as)] = batch->id();
      shown = Offsets(*batch);
    }
    return batch.status();
  }
  lessor::BatchId Batch(std::string_view name) { return batches.at(std::string(name)); }

  lessor_testing::SimulatedClock clock;
  lessor_testing::SequentialIds ids;
  std::unique_ptr<LogStore> store;
  std::unique_ptr<Broker> broker;
  std::map<std::string, lessor::BatchId> batches;
  std::string shown;  ///< The offsets of the last batch.
};

/// What a Broker that is opened anew on what is durable shows.
std::string DescribeFresh(Site& site, bool with_ids = true) {
  const auto clone = site.store->Clone();
  lessor_testing::SequentialIds ids(7);
  Broker fresh({.clock = &site.clock, .ids = &ids, .store = clone.get()});
  return Describe(fresh, with_ids);
}

/// Everything that can be consumed: what each lease holds, and all that is retained. It changes
/// the Broker.
std::string Drain(Broker& broker) {
  std::string text;
  const auto add = [&](const lessor::Batch& batch) {
    for (const lessor::RecordView record : batch) {
      text += " " + std::to_string(record.offset()) + "@" +
              std::to_string(absl::ToUnixMillis(record.timestamp())) + ":" +
              std::string(record.content());
      for (const lessor::Header header : record.headers()) {
        text += "{" + std::string(header.name) + "=" + std::string(header.value) + "}";
      }
    }
    text += "\n";
  };
  const auto streams = broker.ListStreams();
  if (!streams.ok()) return Why(streams);
  for (const lessor::StreamInfo& info : *streams) {
    const lessor::Stream stream(broker, info.id);
    const auto leases = stream.ListLeases();
    if (!leases.ok()) return Why(leases);
    for (const lessor::LeaseInfo& lease : *leases) {
      const lessor::Subscription sub(broker, {info.id, lease.subscription});
      const auto batch = sub.Consume({.worker = lease.worker});
      text += info.name + " " + lease.worker + ":";
      if (!batch.ok()) return text + Why(batch);
      if (batch->id() != lease.batch) text += " another batch";
      if (batch->size() != lease.records) text += " another size";
      add(*batch);
    }
    const auto probe = stream.Subscribe({.name = "probe"});
    if (!probe.ok()) return text + Why(probe);
    const auto batch = probe->Consume({.worker = "prober", .max_records = 10'000});
    if (!batch.ok()) return text + Why(batch);
    text += info.name + ":";
    add(*batch);
  }
  return text;
}

std::string DrainFresh(Site& site) {
  const auto clone = site.store->Clone();
  lessor_testing::SequentialIds ids(7);
  Broker fresh({.clock = &site.clock, .ids = &ids, .store = clone.get()});
  return Drain(fresh);
}

struct Step {
  const char* name;
  std::function<absl::Status(Site&)> run;
  bool consumes = false;
};

absl::Status Produce(Site& site, std::string_view stream, const std::vector<lessor::Record>& all) {
  return site.Named(stream).Produce(all).status();
}

/// About thirty operations that go through every change and every way that a lease can end.
std::vector<Step> Script() {
  const auto advance = [](int64_t seconds) {
    return [seconds](Site& site) {
      site.clock.Advance(absl::Seconds(seconds));
      return absl::OkStatus();
    };
  };
  const auto consume = [](const char* sub, const char* worker, int64_t max, const char* as) {
    return [=](Site& site) { return site.Consume(sub, worker, max, as); };
  };
  return {
      {"create orders",
       [](Site& s) { return s.broker->CreateStream({.name = "orders"}).status(); }},
      {"subscribe a", [](Site& s) { return s.Named("orders").Subscribe({.name = "a"}).status(); }},
      {"produce five",
       [](Site& s) {
         return Produce(s, "orders",
                        {{.content = "r0", .headers = {}},
                         {.content = "r1"},
                         {.content = ""},
                         {.content = "r3"},
                         {.content = "r4"}});
       }},
      {"subscribe b",
       [](Site& s) {
         return s.Named("orders")
             .Subscribe({.name = "b", .start_at = lessor::StartAt::kLatest})
             .status();
       }},
      {"a/w1 takes two", consume("a", "w1", 2, "a1"), true},
      {"a/w2 takes two", consume("a", "w2", 2, "a2"), true},
      {"100 s pass", advance(100)},
      {"w1 extends", [](Site& s) { return s.Sub("a").Extend(s.Batch("a1"), "w1").status(); }},
      {"w2 refreshes", consume("a", "w2", 9, "a2"), true},
      {"w2 nacks", [](Site& s) { return s.Sub("a").Nack(s.Batch("a2"), "w2"); }},
      {"a/w3 takes two", consume("a", "w3", 2, "a3"), true},
      {"w1 acks", [](Site& s) { return s.Sub("a").Ack(s.Batch("a1"), "w1"); }},
      {"produce two with headers",
       [](Site& s) {
         const auto stream = s.Named("orders");
         return stream
             .Produce({{.content = "r5", .headers = {{"kind", "late"}, {"n", ""}}},
                       {.content = "r6", .headers = {{"kind", "last"}}}})
             .status();
       }},
      {"b/w1 takes both", consume("b", "w1", 9, "b1"), true},
      {"the leases expire", advance(300)},
      {"w3 acks late", [](Site& s) { return s.Sub("a").Ack(s.Batch("a3"), "w3"); }},
      {"b/w4 takes one again", consume("b", "w4", 1, "b2"), true},
      {"b/w1's ack is too late", [](Site& s) { return s.Sub("b").Ack(s.Batch("b1"), "w1"); }},
      {"create audit",
       [](Site& s) {
         return s.broker->CreateStream({.name = "audit", .worker_binding = false}).status();
       }},
      {"produce to audit", [](Site& s) { return Produce(s, "audit", {{.content = "x"}}); }},
      {"4000 s pass", advance(4000)},
      {"a/w5 takes one", consume("a", "w5", 1, "a4"), true},
      {"produce r7", [](Site& s) { return Produce(s, "orders", {{.content = "r7"}}); }},
      {"retention of an hour",
       [](Site& s) {
         return s.Named("orders").Update({.retention = absl::Seconds(3600)}).status();
       }},
      {"w5's pinned batch", consume("a", "w5", 1, "a4"), true},
      {"a/w6 goes on at what is left", consume("a", "w6", 9, "a5"), true},
      {"delete subscription b", [](Site& s) { return s.Sub("b").Delete(); }},
      {"w5 acks", [](Site& s) { return s.Sub("a").Ack(s.Batch("a4"), "w5"); }},
      {"delete audit", [](Site& s) { return s.Named("audit").Delete(); }},
      {"create it again",
       [](Site& s) { return s.broker->CreateStream({.name = "AUDIT"}).status(); }},
      {"a batch that is in use stays",
       [](Site& s) { return s.Sub("a").Extend(s.Batch("a5"), "w6").status(); }},
  };
}

/// What the script shows, after each step, where nothing fails.
struct Reference {
  std::vector<std::string> after;
  std::vector<std::string> after_without_ids;
  std::vector<int> step_of_wait;  ///< The step that makes Wait call i + 1.
  std::string drained;
  std::vector<std::string> shown;
};

Reference RunReference(Compaction how) {
  Site site(how);
  Reference reference;
  const auto script = Script();
  for (size_t step = 0; step < script.size(); ++step) {
    CAPTURE(script[step].name);
    REQUIRE(Why(script[step].run(site)) == "ok");
    reference.step_of_wait.resize(static_cast<size_t>(site.store->waits.calls()),
                                  static_cast<int>(step));
    reference.after.push_back(Describe(*site.broker));
    reference.after_without_ids.push_back(Describe(*site.broker, false));
    reference.shown.push_back(site.shown);
    REQUIRE(DescribeFresh(site) == reference.after.back());
  }
  REQUIRE(site.store->violations().empty());
  REQUIRE(site.store->loads.calls() == 0);
  reference.drained = DrainFresh(site);
  REQUIRE(Drain(*site.broker) == reference.drained);
  return reference;
}

TEST_CASE("a script without faults shows the same before and after a restart at every point",
          "[store][S27]") {
  for (const Compaction how : kCompactions) {
    const Reference reference = RunReference(how);
    CHECK(reference.step_of_wait.size() >= 25);
    CHECK(reference.shown.at(24) == "4");
    CHECK(reference.shown.at(25) == "7");
    CHECK(reference.drained.find(":r7") != std::string::npos);
  }
}

/// Runs the script with one fault; `load_failures` Loads after it fail too.
void RunWithFault(const Reference& reference, int wait, WaitFault fault, Compaction how,
                  int load_failures) {
  const auto script = Script();
  Site site(how);
  LogStore& store = *site.store;
  store.wait_faults[wait] = fault;
  for (int load = 1; load <= load_failures; ++load) store.load_failures.insert(load);
  const auto failing =
      static_cast<size_t>(reference.step_of_wait.at(static_cast<size_t>(wait) - 1));
  for (size_t at = 0; at < failing; ++at) REQUIRE(Why(script[at].run(site)) == "ok");
  INFO("Wait " << wait << " in step '" << script[failing].name << "', fault "
               << static_cast<int>(fault) << ", compaction " << static_cast<int>(how) << ", "
               << load_failures << " loads fail");
  REQUIRE(store.waits.calls() == wait - 1);
  const std::string before = DescribeFresh(site);
  const std::string told = Why(script[failing].run(site));
  const std::string fresh = DescribeFresh(site);

  const bool creates = std::string_view(script[failing].name).substr(0, 6) == "create";
  bool repeat = false;
  bool follows = true;  // The rest of the script goes as in the reference.
  switch (fault) {
    case WaitFault::kUnavailable:
      CHECK(told == "unavailable");
      CHECK(fresh == before);
      repeat = true;
      break;
    case WaitFault::kUnknownStored:
      CHECK(told == "outcome_unknown");
      CHECK(fresh == reference.after[failing]);
      break;
    case WaitFault::kUnknownLost:
    case WaitFault::kStrange:
      CHECK(told == "outcome_unknown");
      CHECK(fresh == before);
      repeat = true;
      break;
    case WaitFault::kRaceDropped:
      if (told != "ok") {  // Decided again only once the store answers.
        CHECK(load_failures > 1);
        CHECK(told == "unavailable");
        CHECK(fresh == before);
        repeat = true;
      } else {
        // A creation tries until the store answers.
        CHECK((load_failures < 2 || creates));
        // A creation that lost its race is another stream.
        if (creates) {
          CHECK(DescribeFresh(site, false) == reference.after_without_ids[failing]);
        } else {
          CHECK(fresh == reference.after[failing]);
        }
      }
      break;
    case WaitFault::kForeignAppend:
      follows = false;
      if (load_failures > 1 && !creates) {
        CHECK(told == "unavailable");
        repeat = true;
      } else {
        CHECK(told == "ok");
      }
      break;
    case WaitFault::kForeignDelete:
      follows = false;
      break;
  }
  // The Broker that had the failure goes on, and shows what is durable, once its store answers.
  for (int tries = 0; tries < load_failures; ++tries) (void)Describe(*site.broker);
  CHECK(Describe(*site.broker) == DescribeFresh(site));
  if (repeat || (fault == WaitFault::kUnknownStored && script[failing].consumes)) {
    CHECK(Why(script[failing].run(site)) == "ok");
  }
  if (follows) {
    CHECK(DescribeFresh(site, false) == reference.after_without_ids[failing]);
    CHECK(Describe(*site.broker, false) == reference.after_without_ids[failing]);
    for (size_t at = failing + 1; at < script.size(); ++at) {
      INFO("then step '" << script[at].name << "'");
      REQUIRE(Why(script[at].run(site)) == "ok");
      if (script[at].consumes) CHECK(site.shown == reference.shown[at]);
    }
    CHECK(Describe(*site.broker, false) == reference.after_without_ids.back());
    CHECK(DrainFresh(site) == reference.drained);
  } else if (fault == WaitFault::kForeignAppend) {
    // What the steps give is up to the foreign record; that they agree with the store is not.
    for (size_t at = failing + 1; at < script.size(); ++at) (void)script[at].run(site);
  }
  CHECK(Describe(*site.broker) == DescribeFresh(site));
  const std::string drained = DrainFresh(site);
  CHECK(Drain(*site.broker) == drained);
  CHECK(store.violations().empty());
}

TEST_CASE("whatever happens to whichever change, callers are told the truth", "[store][S27]") {
  const Compaction how = GENERATE(Compaction::kNone, Compaction::kAll, Compaction::kHalf);
  const WaitFault fault =
      GENERATE(WaitFault::kUnavailable, WaitFault::kUnknownStored, WaitFault::kUnknownLost,
               WaitFault::kStrange, WaitFault::kRaceDropped, WaitFault::kForeignAppend);
  const int load_failures = GENERATE(0, 1, 2);
  const Reference reference = RunReference(how);
  for (int wait = 1; wait <= static_cast<int>(reference.step_of_wait.size()); ++wait) {
    RunWithFault(reference, wait, fault, how, load_failures);
  }
}

TEST_CASE("a stream that another writer deletes is gone for whoever comes second",
          "[store][S10][S27]") {
  const auto script = Script();
  const Reference reference = RunReference(Compaction::kNone);
  for (int wait = 2; wait <= 14; ++wait) {
    Site site;
    site.store->wait_faults[wait] = WaitFault::kForeignDelete;
    const auto failing =
        static_cast<size_t>(reference.step_of_wait.at(static_cast<size_t>(wait) - 1));
    CAPTURE(wait, script[failing].name);
    for (size_t at = 0; at < failing; ++at) REQUIRE(Why(script[at].run(site)) == "ok");
    const lessor::Stream orders = site.Named("orders");
    CHECK(Why(script[failing].run(site)) == "no_such_stream");
    CHECK(Why(orders.Info()) == "no_such_stream");
    CHECK(Why(orders.Produce({{.content = "x"}})) == "no_such_stream");
    CHECK(site.broker->ListStreams()->empty());
    CHECK(Describe(*site.broker) == DescribeFresh(site));
    CHECK(Why(site.broker->CreateStream({.name = "Orders"})) == "ok");
    CHECK(Describe(*site.broker) == DescribeFresh(site));
  }
}

TEST_CASE("while a stream cannot be loaded its calls are unavailable, and others are not disturbed",
          "[store][S27]") {
  Site site;
  const auto orders = *site.broker->CreateStream({.name = "orders"});
  const auto audit = *site.broker->CreateStream({.name = "audit"});
  REQUIRE(Why(orders.Subscribe({.name = "a"})) == "ok");
  site.store->wait_faults[site.store->waits.calls() + 1] = WaitFault::kUnavailable;
  for (int load = 1; load <= 4; ++load) site.store->load_failures.insert(load);
  CHECK(Why(orders.Produce({{.content = "x"}})) == "unavailable");  // Load 1.
  CHECK(Why(orders.Produce({{.content = "x"}})) == "unavailable");  // Load 2.
  CHECK(Why(orders.Info()) == "unavailable");                       // Load 3.
  CHECK(Why(audit.Produce({{.content = "y"}})) == "ok");
  CHECK(Why(orders.Delete()) == "unavailable");  // Load 4.
  CHECK(site.store->loads.calls() == 4);
  CHECK(orders.Produce({{.content = "x"}})->first == 0);
  CHECK(site.store->loads.calls() == 5);
  CHECK(site.broker->GetStats().reloads == 1);
  CHECK(Describe(*site.broker) == DescribeFresh(site));
}

TEST_CASE("a store that cannot be loaded refuses the opening with its own status", "[store]") {
  lessor_testing::SimulatedClock clock;
  LogStore store;
  store.load_all_failures.insert(1);
  CHECK(Why(Broker::Open({.clock = &clock, .store = &store}).status()) == "unavailable");
  CHECK(Broker::Open({.clock = &clock, .store = &store}).ok());
}

TEST_CASE("whoever loses every race gives up with nothing stored", "[store][S27]") {
  Site site;
  const auto orders = *site.broker->CreateStream({.name = "orders"});
  for (int wait = 2; wait < 400; ++wait) site.store->wait_faults[wait] = WaitFault::kRaceDropped;
  CHECK(Why(orders.Produce({{.content = "x"}})) == "unavailable");
  CHECK(site.store->durable_changes(orders.id()) == 1);
  const int calls = site.store->waits.calls();
  CHECK(calls < 400);
  CHECK(Why(site.broker->CreateStream({.name = "audit"})) == "unavailable");
  CHECK(site.broker->ListStreams()->size() == 1);
  site.store->wait_faults.clear();
  CHECK(orders.Produce({{.content = "x"}})->first == 0);
  CHECK(Describe(*site.broker) == DescribeFresh(site));
}

// --- Restarts ---

TEST_CASE("a restart after any step neither drops nor refreshes anything", "[store][S27][S13]") {
  const Compaction how = GENERATE(Compaction::kNone, Compaction::kAll, Compaction::kHalf);
  const auto script = Script();
  for (size_t steps = 1; steps <= script.size(); ++steps) {
    INFO("after '" << script[steps - 1].name << "', compaction " << static_cast<int>(how));
    for (const int64_t closed_s : {0, 100, 299, 300, 3'600, 700'000}) {
      CAPTURE(closed_s);
      Site open(how);
      Site closed(how);
      for (size_t at = 0; at < steps; ++at) {
        REQUIRE(Why(script[at].run(open)) == "ok");
        REQUIRE(Why(script[at].run(closed)) == "ok");
      }
      closed.broker.reset();
      open.clock.Advance(absl::Seconds(closed_s));
      closed.clock.Advance(absl::Seconds(closed_s));
      closed.Reopen();
      CHECK(Describe(*closed.broker) == Describe(*open.broker));
      if (closed_s <= 100) CHECK(Drain(*closed.broker) == Drain(*open.broker));
    }
  }
}

TEST_CASE("a script that is restarted after every step goes the same way", "[store][S27]") {
  const Compaction how = GENERATE(Compaction::kNone, Compaction::kAll, Compaction::kHalf);
  const Reference reference = RunReference(how);
  const auto script = Script();
  Site site(how);
  for (size_t at = 0; at < script.size(); ++at) {
    INFO("step '" << script[at].name << "', compaction " << static_cast<int>(how));
    REQUIRE(Why(script[at].run(site)) == "ok");
    if (script[at].consumes) CHECK(site.shown == reference.shown[at]);
    site.Reopen();
    CHECK(Describe(*site.broker) == reference.after[at]);
  }
  CHECK(Drain(*site.broker) == reference.drained);
  CHECK(site.store->violations().empty());
}

TEST_CASE("after a restart time is not before the last instant that the store holds",
          "[store][S26]") {
  const Compaction how = GENERATE(Compaction::kNone, Compaction::kAll);
  Site site(how);
  const absl::Time start = site.clock.Now();
  const auto orders = *site.broker->CreateStream({.name = "orders"});
  const auto sub = *orders.Subscribe({.name = "a"});
  REQUIRE(Why(orders.Produce({{.content = "x"}})) == "ok");
  const auto batch = *sub.Consume({.worker = "w1"});
  site.clock.AdvanceTo(start + absl::Seconds(100));
  REQUIRE(Why(orders.Produce({{.content = "y"}})) == "ok");
  site.clock.AdvanceTo(start + absl::Seconds(900));  // Seen by reads alone: not in the store.
  REQUIRE(sub.GetPosition()->leased == 0);

  site.clock.AdvanceTo(start - absl::Hours(24));
  site.Reopen();
  const auto leases = site.Named("orders").ListLeases();
  REQUIRE(leases->size() == 1);
  CHECK(leases->front().batch == batch.id());
  CHECK(leases->front().leased_until == start + absl::Seconds(300));
  CHECK(*site.Sub("a").Extend(batch, "w1") == start + absl::Seconds(400));
  CHECK(site.Named("orders").Produce({{.content = "z"}})->timestamp == start + absl::Seconds(100));
  // Other streams, and ones made later, see that instant too.
  CHECK(site.broker->CreateStream({.name = "late"}).ok());
  CHECK(site.Named("late").Info()->created_at == start + absl::Seconds(100));
  // One millisecond before, and at, the end of the lease.
  site.clock.AdvanceTo(start + absl::Seconds(400) - Ms(1));
  CHECK(site.Sub("a").GetPosition()->active_leases == 1);
  site.clock.AdvanceTo(start + absl::Seconds(400));
  CHECK(site.Sub("a").GetPosition()->active_leases == 0);
}

TEST_CASE("an expiry that was seen is not undone when the stream is loaded anew",
          "[store][S26][S28]") {
  Site site;
  LogStore& store = *site.store;
  const absl::Time start = site.clock.Now();
  const auto orders = *site.broker->CreateStream({.name = "orders"});
  const auto sub = *orders.Subscribe({.name = "a"});
  REQUIRE(Why(orders.Produce({{.content = "x"}})) == "ok");
  const auto batch = *sub.Consume({.worker = "w1"});
  site.clock.AdvanceTo(start + absl::Seconds(299));
  // The extend sees 299 s, loses its race, and hears of it late.
  const int extend_wait = store.waits.calls() + 1;
  store.wait_faults[extend_wait + 1] = WaitFault::kRaceDropped;
  store.waits.Hold(extend_wait);
  absl::StatusOr<absl::Time> extended;
  std::thread extending([&] { extended = sub.Extend(batch, "w1"); });
  store.waits.AwaitArrival(extend_wait);
  // At 300 s a reader takes up the stream without the extend, and is told that the lease is over.
  site.clock.AdvanceTo(start + absl::Seconds(300));
  const auto seen = sub.GetPosition();
  const bool over = seen.ok() && seen->active_leases == 0 && seen->available == 1;
  // Then another failure makes the stream be loaded once more.
  store.wait_faults[store.waits.calls() + 1] = WaitFault::kUnavailable;
  const std::string told = Why(orders.Produce({{.content = "y"}}));
  store.waits.Release(extend_wait);
  extending.join();
  CHECK(over);
  CHECK(told == "unavailable");
  CHECK(Why(extended) == "lease_not_held");
  CHECK(sub.GetPosition()->active_leases == 0);
}

// --- Nothing is shown before it is durable ---

/// Runs `call` on a thread of its own until its Wait is held; End() lets it go on.
template <class Answer>
class Held {
 public:
  Held(LogStore& store, std::function<Answer()> call) : store_(store) {
    wait_ = store.waits.calls() + 1;
    store.waits.Hold(wait_);
    thread_ = std::thread([this, call = std::move(call)] { answer_.emplace(call()); });
    store.waits.AwaitArrival(wait_);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { (void)End(); }

  /// What the held Wait is to do.
  void Fail(WaitFault fault) { store_.wait_faults[wait_] = fault; }
  const Answer& End() {
    store_.waits.Release(wait_);
    if (thread_.joinable()) thread_.join();
    return *answer_;
  }

 private:
  LogStore& store_;
  int wait_ = 0;
  std::optional<Answer> answer_;
  std::thread thread_;
};

TEST_CASE("a reader is never answered with a change that then fails", "[store][S27]") {
  const WaitFault fault = GENERATE(WaitFault::kUnavailable, WaitFault::kUnknownLost,
                                   WaitFault::kRaceDropped, WaitFault::kUnknownStored);
  CAPTURE(static_cast<int>(fault));
  Site site;
  LogStore& store = *site.store;
  const auto orders = *site.broker->CreateStream({.name = "orders"});
  const auto sub = *orders.Subscribe({.name = "a"});
  const lessor::Offset end =
      fault == WaitFault::kUnknownStored || fault == WaitFault::kRaceDropped  // Done again.
          ? 1
          : 0;

  store.wait_faults[store.waits.calls() + 1] = fault;
  Held<absl::Status> producing(store, [&] { return orders.Produce({{.content = "x"}}).status(); });
  Held<absl::StatusOr<lessor::Position>> reading(store, [&] { return sub.GetPosition(); });
  Held<absl::StatusOr<std::vector<lessor::LeaseInfo>>> listing(store,
                                                               [&] { return orders.ListLeases(); });
  Held<absl::StatusOr<lessor::Batch>> consuming(store,
                                                [&] { return sub.Consume({.worker = "w1"}); });
  const std::string told = Why(producing.End());
  const auto position = reading.End();
  const auto batch = consuming.End();
  const auto leases = listing.End();
  CHECK(told == (fault == WaitFault::kUnavailable   ? "unavailable"
                 : fault == WaitFault::kRaceDropped ? "ok"
                                                    : "outcome_unknown"));
  REQUIRE(Why(position) == "ok");
  CHECK(position->end == end);
  REQUIRE(Why(batch) == "ok");
  CHECK(batch->size() == end);
  CHECK(Why(leases) == "ok");
  CHECK(Describe(*site.broker) == DescribeFresh(site));
}

TEST_CASE("a failed delete is never shown to others", "[store][S27][S10]") {
  Site site;
  LogStore& store = *site.store;
  const auto orders = *site.broker->CreateStream({.name = "orders"});
  const auto sub = *orders.Subscribe({.name = "a"});
  store.wait_faults[store.waits.calls() + 1] = WaitFault::kUnavailable;
  Held<absl::Status> deleting(store, [&] { return orders.Delete(); });
  Held<absl::Status> reading(store, [&] { return sub.GetPosition().status(); });
  Held<absl::Status> producing(store, [&] { return orders.Produce({{.content = "x"}}).status(); });
  Held<absl::Status> creating(
      store, [&] { return site.broker->CreateStream({.name = "ORDERS"}).status(); });
  CHECK(Why(deleting.End()) == "unavailable");
  CHECK(Why(reading.End()) == "ok");
  CHECK(Why(producing.End()) == "ok");
  CHECK(Why(creating.End()) == "name_taken");
  CHECK(Describe(*site.broker) == DescribeFresh(site));
}

TEST_CASE("a creation that fails frees its name for who waits for it", "[store][S27][S1]") {
  Site site;
  LogStore& store = *site.store;
  store.wait_faults[1] = WaitFault::kUnavailable;
  Held<absl::Status> first(store,
                           [&] { return site.broker->CreateStream({.name = "orders"}).status(); });
  Held<absl::Status> second(store,
                            [&] { return site.broker->CreateStream({.name = "Orders"}).status(); });
  CHECK(Why(first.End()) == "unavailable");
  CHECK(Why(second.End()) == "ok");
  REQUIRE(site.broker->ListStreams()->size() == 1);
  CHECK(site.broker->ListStreams()->front().name == "Orders");
  CHECK(Describe(*site.broker) == DescribeFresh(site));
}

TEST_CASE("a creation beyond the limit waits for whether the one before it is durable",
          "[store][S27][S1]") {
  lessor_testing::SimulatedClock clock;
  LogStore store;
  Broker broker({.clock = &clock, .store = &store, .limits = {.max_streams = 1}});
  const WaitFault fault = GENERATE(WaitFault::kUnavailable, WaitFault::kUnknownStored);
  store.wait_faults[1] = fault;
  Held<absl::Status> first(store, [&] { return broker.CreateStream({.name = "a"}).status(); });
  Held<absl::Status> second(store, [&] { return broker.CreateStream({.name = "b"}).status(); });
  const bool stored = fault == WaitFault::kUnknownStored;
  CHECK(Why(first.End()) == (stored ? "outcome_unknown" : "unavailable"));
  CHECK(Why(second.End()) == (stored ? "stream_limit" : "ok"));
  REQUIRE(broker.ListStreams()->size() == 1);
  CHECK(broker.ListStreams()->front().name == (stored ? "a" : "b"));
}

TEST_CASE("calls on one stream wait for the store while another stream goes on", "[store][S28]") {
  Site site;
  const auto orders = *site.broker->CreateStream({.name = "orders"});
  const auto audit = *site.broker->CreateStream({.name = "audit"});
  Held<absl::Status> producing(*site.store,
                               [&] { return orders.Produce({{.content = "x"}}).status(); });
  CHECK(audit.Produce({{.content = "y"}})->first == 0);
  CHECK(Why(audit.Info()) == "ok");
  CHECK(Why(producing.End()) == "ok");
}

TEST_CASE("while a stream is being loaded its callers wait, and then go on", "[store][S27]") {
  Site site;
  LogStore& store = *site.store;
  const auto orders = *site.broker->CreateStream({.name = "orders"});
  const auto sub = *orders.Subscribe({.name = "a"});
  store.wait_faults[store.waits.calls() + 1] = WaitFault::kUnavailable;
  store.loads.Hold(1);
  std::string told;
  std::thread producing([&] { told = Why(orders.Produce({{.content = "x"}})); });
  store.loads.AwaitArrival(1);
  std::string read;
  std::thread reading([&] { read = Why(sub.GetPosition()); });
  store.loads.Release(1);
  producing.join();
  reading.join();
  CHECK(told == "unavailable");
  CHECK(read == "ok");
  CHECK(store.loads.calls() == 1);
}

// --- Two Brokers, one store ---

TEST_CASE("the loser of a race catches up and decides again", "[store][S27][S18]") {
  Site a;
  lessor_testing::SequentialIds ids_b(2);
  const auto orders_a = *a.broker->CreateStream({.name = "orders"});
  const auto sub_a = *orders_a.Subscribe({.name = "s"});
  REQUIRE(orders_a.Produce({{.content = "0"}, {.content = "1"}, {.content = "2"}}).ok());
  Broker b({.clock = &a.clock, .ids = &ids_b, .store = a.store.get()});
  const auto orders_b = *b.OpenStream("orders");
  const auto sub_b = *orders_b.OpenSubscription("s");

  CHECK(Offsets(sub_a.Consume({.worker = "wa", .max_records = 2})) == "0 1");
  // B does not know that yet: it decides for 0 1, loses, and is given what is left.
  CHECK(Offsets(sub_b.Consume({.worker = "wb", .max_records = 2})) == "2");
  CHECK(b.GetStats().reloads == 1);
  // A, which has not seen B's lease, loses as well, and then answers with it to B's worker.
  CHECK(Offsets(sub_a.Consume({.worker = "wb", .max_records = 2})) == "2");
  CHECK(orders_a.Produce({{.content = "3"}})->first == 3);
  CHECK(orders_b.Produce({{.content = "4"}})->first == 4);
  CHECK(Offsets(sub_a.Consume({.worker = "wb"})) == "2");
  CHECK(Why(orders_b.Update({.http = false})) == "ok");
  CHECK(Why(orders_a.Update({.worker_binding = true})) == "ok");
  CHECK(Describe(*a.broker) == Describe(b));
  CHECK(Describe(*a.broker) == DescribeFresh(a));
  // A subscription that both make is one.
  CHECK(orders_a.Subscribe({.name = "both"})->id() == orders_b.Subscribe({.name = "BOTH"})->id());
}

TEST_CASE("Brokers that race on one store lose nothing and lease nothing twice",
          "[store][S11][S18][S28]") {
  Site a;
  lessor_testing::SequentialIds ids_b(2);
  const auto orders = *a.broker->CreateStream({.name = "orders"});
  REQUIRE(orders.Subscribe({.name = "s"}).ok());
  Broker b({.clock = &a.clock, .ids = &ids_b, .store = a.store.get()});

  struct Tally {
    int produced = 0;
    std::vector<lessor::Offset> acked;
    std::string trouble;
  };
  const auto work = [](Broker& broker, const std::string& worker, Tally& tally) {
    const auto stream = *broker.OpenStream("orders");
    const auto sub = *stream.OpenSubscription("s");
    for (int round = 0; round < 40; ++round) {
      const auto appended = stream.Produce({{.content = worker}, {.content = worker}});
      if (appended.ok()) {
        tally.produced += 2;
      } else if (lessor::ReasonOf(appended.status()) != Reason::kUnavailable) {
        tally.trouble += Why(appended);
      }
      const auto batch = sub.Consume({.worker = worker, .max_records = 3});
      if (!batch.ok() || batch->empty()) continue;
      const bool acks = round % 3 != 0;
      const absl::Status settled = acks ? sub.Ack(*batch, worker) : sub.Nack(*batch, worker);
      if (!settled.ok()) {
        tally.trouble += Why(settled);
      } else if (acks) {
        for (const lessor::RecordView record : *batch) tally.acked.push_back(record.offset());
      }
    }
  };
  Tally tallies[4];
  std::thread threads[] = {
      std::thread([&] { work(*a.broker, "a1", tallies[0]); }),
      std::thread([&] { work(b, "b1", tallies[1]); }),
      std::thread([&] { work(*a.broker, "a2", tallies[2]); }),
      std::thread([&] { work(b, "b2", tallies[3]); }),
  };
  for (std::thread& thread : threads) thread.join();

  // Each takes up what the other did last.
  REQUIRE(a.Named("orders").Update({.http = true}).ok());
  REQUIRE(b.OpenStream("orders")->Update({.http = true}).ok());
  REQUIRE(a.Named("orders").Update({.http = true}).ok());
  CHECK(Describe(*a.broker) == DescribeFresh(a));
  CHECK(Describe(*a.broker) == Describe(b));
  uint64_t produced = 0;
  std::map<lessor::Offset, int> acked;
  for (const Tally& tally : tallies) {
    CHECK(tally.trouble.empty());
    produced += static_cast<uint64_t>(tally.produced);
    for (const lessor::Offset offset : tally.acked) ++acked[offset];
  }
  const auto position = *a.Sub("s").GetPosition();
  CHECK(position.end == produced);
  for (const auto& [offset, times] : acked) CHECK(times == 1);
  // Whatever was not acked can still be had.
  CHECK(acked.size() + position.available + position.leased == produced);
}

// --- Segments that are not in memory ---

/// A stream of two segments and a half, opened over a snapshot that has no bytes.
struct Cold {
  explicit Cold(int64_t retention_s = 604'800) : site(Compaction::kAll), start(site.clock.Now()) {
    const auto orders =
        *site.broker->CreateStream({.name = "orders", .retention = absl::Seconds(retention_s)});
    (void)*orders.Subscribe({.name = "a"});
    const std::string content(65'000, 'x');
    for (int i = 0; i < 10; ++i) REQUIRE(orders.Produce({{.content = content}}).ok());
  }
  absl::StatusOr<lessor::Batch> Take(std::string_view worker, int64_t max_records = 1) {
    return site.Sub("a").Consume({.worker = worker, .max_records = max_records});
  }

  Site site;
  absl::Time start;
};

TEST_CASE("a failed read refuses the consume, which then gives what it would have given",
          "[store][S29][S13]") {
  const ReadFault fault =
      GENERATE(ReadFault::kFails, ReadFault::kNull, ReadFault::kOtherSegment, ReadFault::kShort);
  const int times = GENERATE(1, 3);
  CAPTURE(static_cast<int>(fault), times);
  Cold cold;
  Site& site = cold.site;
  const auto held = *cold.Take("w1", 5);
  REQUIRE(Offsets(held) == "0 1 2 3 4");
  site.Reopen();
  const std::string before = Describe(*site.broker);

  SECTION("for a worker that holds a batch") {
    site.clock.Advance(absl::Seconds(1));
    for (int i = 1; i <= times; ++i) {
      site.store->read_faults[i] = fault;
      CHECK(Why(cold.Take("w1")) == "read_failed");
    }
    CHECK(site.Named("orders").ListLeases()->front().leased_until ==
          cold.start + absl::Seconds(300));  // Not refreshed.
    const auto batch = cold.Take("w1");
    CHECK(Offsets(batch) == "0 1 2 3 4");
    CHECK(batch->id() == held.id());
    CHECK(batch->leased_until() == cold.start + absl::Seconds(301));
    CHECK(batch->front().content().size() == 65'000);
  }
  SECTION("for a worker that is given a new one") {
    for (int i = 1; i <= times; ++i) {
      site.store->read_faults[i] = fault;
      CHECK(Why(cold.Take("w2", 3)) == "read_failed");
      CHECK(Describe(*site.broker) == before);
    }
    CHECK(Offsets(cold.Take("w2", 3)) == "5 6 7");
  }
  SECTION("at any of the segments that a batch needs") {
    for (int i = 2; i <= 1 + times; ++i) site.store->read_faults[i] = fault;
    for (int i = 0; i < times; ++i) {
      CHECK(Why(cold.Take("w3", 10)) == "read_failed");
      CHECK(Describe(*site.broker) == before);
    }
    CHECK(Offsets(cold.Take("w3", 10)) == "5 6 7 8 9");
  }
  CHECK(site.store->violations().empty());
}

TEST_CASE("every read of the script may fail once", "[store][S29]") {
  for (const Compaction how : {Compaction::kAll, Compaction::kHalf}) {
    const Reference reference = RunReference(how);
    const auto script = Script();
    for (const ReadFault fault :
         {ReadFault::kFails, ReadFault::kNull, ReadFault::kOtherSegment, ReadFault::kShort}) {
      for (int read = 1;; ++read) {
        Site site(how);
        site.store->read_faults[read] = fault;
        int refused = 0;
        for (size_t at = 0; at < script.size(); ++at) {
          INFO("step '" << script[at].name << "', read " << read << ", fault "
                        << static_cast<int>(fault));
          const std::string before = DescribeFresh(site);
          std::string told = Why(script[at].run(site));
          if (told == "read_failed") {
            ++refused;
            CHECK(script[at].consumes);
            CHECK(DescribeFresh(site) == before);
            told = Why(script[at].run(site));
          }
          REQUIRE(told == "ok");
          if (script[at].consumes) CHECK(site.shown == reference.shown[at]);
          site.Reopen();
        }
        CHECK(Describe(*site.broker, false) == reference.after_without_ids.back());
        CHECK(site.store->violations().empty());
        if (site.store->reads.calls() < read) break;
        CHECK(refused == 1);
      }
    }
  }
}

TEST_CASE("while a batch is being read its worker is told so, and no other worker is disturbed",
          "[store][S29]") {
  Cold cold;
  Site& site = cold.site;
  SECTION("where the worker holds a batch") {
    const auto held = *cold.Take("w1", 2);
    site.Reopen();
    site.store->reads.Hold(1);
    std::string first;
    lessor::BatchId id;
    const auto sub = site.Sub("a");
    std::thread consuming([&] {
      const auto batch = sub.Consume({.worker = "w1"});
      first = Offsets(batch);
      if (batch.ok()) id = batch->id();
    });
    site.store->reads.AwaitArrival(1);
    CHECK(Why(sub.Consume({.worker = "w1"})) == "still_reading");
    CHECK(Why(sub.Consume({.worker = "w1", .max_records = 0})) == "invalid_argument");
    CHECK(Offsets(sub.Consume({.worker = "w2", .max_records = 2})) == "2 3");
    CHECK(Why(sub.Consume({.worker = "w1"})) == "still_reading");
    CHECK(sub.GetPosition()->leased == 4);
    site.store->reads.Release(1);
    consuming.join();
    CHECK(first == "0 1");
    CHECK(id == held.id());
    const auto retried = sub.Consume({.worker = "w1"});
    CHECK(Offsets(retried) == "0 1");
    CHECK(retried->id() == held.id());
  }
  SECTION("where the worker holds none") {
    site.Reopen();
    site.store->reads.Hold(1);
    std::string first;
    const auto sub = site.Sub("a");
    std::thread consuming(
        [&] { first = Offsets(sub.Consume({.worker = "w1", .max_records = 2})); });
    site.store->reads.AwaitArrival(1);
    CHECK(Why(sub.Consume({.worker = "w1", .max_records = 2})) == "still_reading");
    CHECK(Offsets(sub.Consume({.worker = "w2", .max_records = 2})) == "0 1");
    site.store->reads.Release(1);
    consuming.join();
    CHECK(first == "2 3");
    CHECK(Offsets(sub.Consume({.worker = "w1"})) == "2 3");
  }
  SECTION("where the subscription, then the stream, goes away meanwhile") {
    REQUIRE(site.Named("orders").Subscribe({.name = "b"}).ok());
    for (const bool whole : {false, true}) {
      site.Reopen();
      const auto orders = site.Named("orders");
      const auto sub = *orders.OpenSubscription(whole ? "b" : "a");
      const int read = site.store->reads.calls() + 1;
      site.store->reads.Hold(read);
      std::string first;
      std::thread consuming([&] { first = Why(sub.Consume({.worker = "w1"})); });
      site.store->reads.AwaitArrival(read);
      const std::string deleted = Why(whole ? orders.Delete() : sub.Delete());
      site.store->reads.Release(read);
      consuming.join();
      CHECK(deleted == "ok");
      CHECK(first == (whole ? "no_such_stream" : "no_such_subscription"));
    }
  }
  CHECK(site.store->violations().empty());
}

TEST_CASE("a worker whose read failed may read again at once", "[store][S29]") {
  Cold cold;
  cold.site.Reopen();
  cold.site.store->read_faults[1] = ReadFault::kFails;
  CHECK(Why(cold.Take("w1")) == "read_failed");
  CHECK(Offsets(cold.Take("w1")) == "0");
}

TEST_CASE("after a restart a lease still gives records that retention has removed",
          "[store][S5][S27]") {
  Cold cold(4'000);
  Site& site = cold.site;
  site.clock.AdvanceTo(cold.start + absl::Seconds(3'900));
  const auto held = *cold.Take("w1", 2);
  REQUIRE(Offsets(held) == "0 1");

  SECTION("where the snapshot is from before they went") {
    site.Reopen();
    REQUIRE(site.Sub("a").GetPosition()->skipped == 0);
    site.clock.AdvanceTo(cold.start + absl::Seconds(4'000));
  }
  SECTION("where the snapshot is from after they went") {
    site.clock.AdvanceTo(cold.start + absl::Seconds(4'000));
    REQUIRE(Why(site.Named("orders").Produce({{.content = "new"}})) == "ok");
    site.Reopen();
  }
  SECTION("where the stream is loaded anew") {
    site.clock.AdvanceTo(cold.start + absl::Seconds(4'000));
    site.store->wait_faults[site.store->waits.calls() + 1] = WaitFault::kUnavailable;
    REQUIRE(Why(site.Named("orders").Produce({{.content = "new"}})) == "unavailable");
    REQUIRE(Why(site.Named("orders").Produce({{.content = "new"}})) == "ok");
    site.store->wait_faults[site.store->waits.calls() + 1] = WaitFault::kUnavailable;
    REQUIRE(Why(site.Named("orders").Produce({{.content = "new"}})) == "unavailable");
  }
  REQUIRE(site.Named("orders").ListLeases()->size() == 1);
  CHECK(site.Sub("a").GetPosition()->leased == 2);
  CHECK(site.Sub("a").GetPosition()->skipped == 8);
  const auto batch = cold.Take("w1");
  CHECK(Offsets(batch) == "0 1");
  CHECK(batch->id() == held.id());
  REQUIRE(batch->size() == 2);
  CHECK(batch->back().content() == std::string(65'000, 'x'));
  CHECK(Why(site.Sub("a").Ack(*batch, "w1")) == "ok");
  CHECK(site.Sub("a").GetPosition()->skipped == 8);
  CHECK(site.store->violations().empty());
}

// --- Trim ---

TEST_CASE("the store is never told to free what is retained or actively leased", "[store][S5]") {
  Cold cold(4'000);
  Site& site = cold.site;
  const auto orders = site.Named("orders");
  site.clock.AdvanceTo(cold.start + absl::Seconds(3'800));
  REQUIRE(orders.Produce({{.content = "new"}}).ok());
  const auto held = *cold.Take("w1", 2);
  const auto late = *cold.Take("w2", 2);
  CHECK(site.store->trims() == 0);
  // 0 to 9 leave; 0 to 3 are leased.
  site.clock.AdvanceTo(cold.start + absl::Seconds(4'000));
  CHECK(Why(orders.Info()) == "ok");
  CHECK(site.store->trimmed(orders.id()) == 0);
  REQUIRE(Why(site.Sub("a").Ack(held, "w1")) == "ok");
  CHECK(site.store->trimmed(orders.id()) == 2);
  // The other lease expires: nothing that has left comes again.
  site.clock.AdvanceTo(late.leased_until() - Ms(1));
  CHECK(Why(orders.Info()) == "ok");
  CHECK(site.store->trimmed(orders.id()) == 2);
  site.clock.AdvanceTo(late.leased_until());
  CHECK(Why(orders.Info()) == "ok");
  CHECK(site.store->trimmed(orders.id()) == 10);
  // Told once.
  const int trims = site.store->trims();
  for (int i = 0; i < 5; ++i) CHECK(Why(orders.Info()) == "ok");
  CHECK(site.store->trims() == trims);
  CHECK(site.store->violations().empty());
  site.Reopen();
  CHECK(Offsets(cold.Take("w3", 9)) == "10");
  CHECK(site.store->violations().empty());
}

TEST_CASE("a trim that fails changes no answer, and is told again by a later call", "[store]") {
  Cold cold(3'600);
  Site& site = cold.site;
  const auto orders = site.Named("orders");
  const auto sub = site.Sub("a");
  for (int trim = 1; trim <= 2; ++trim) site.store->trim_failures.insert(trim);
  site.clock.Advance(absl::Seconds(3'600));
  CHECK(IsEmpty(sub.Consume({.worker = "w1"})));
  CHECK(Why(orders.Info()) == "ok");
  CHECK(site.store->trimmed(orders.id()) == 0);
  CHECK(site.store->trims() == 2);
  CHECK(Why(orders.Info()) == "ok");
  CHECK(site.store->trimmed(orders.id()) == 10);
}

TEST_CASE("no floor is told that rests on a change which then fails", "[store][S27]") {
  Site site;
  const auto orders = *site.broker->CreateStream({.name = "orders"});
  REQUIRE(orders.Produce({{.content = "old"}}).ok());
  site.clock.Advance(absl::Seconds(4'000));
  site.store->wait_faults[site.store->waits.calls() + 1] = WaitFault::kUnavailable;
  CHECK(Why(orders.Update({.retention = absl::Seconds(3'600)})) == "unavailable");
  CHECK(site.store->trims() == 0);
  CHECK(site.broker->GetStats().records == 1);
  CHECK(Why(orders.Update({.retention = absl::Seconds(3'600)})) == "ok");
  CHECK(site.store->trimmed(orders.id()) == 1);
  CHECK(site.store->violations().empty());
}

TEST_CASE("a store may say that a change is durable as it is submitted", "[store]") {
  Site site;
  site.store->durable_at_once = true;
  for (const Step& step : Script()) {
    CAPTURE(step.name);
    REQUIRE(Why(step.run(site)) == "ok");
    CHECK(Describe(*site.broker) == DescribeFresh(site));
  }
  CHECK(site.store->waits.calls() == 0);
  CHECK(site.store->violations().empty());
}

TEST_CASE("what failed is not counted as held", "[store][S31]") {
  lessor_testing::SimulatedClock clock;
  LogStore store;
  Broker broker({.clock = &clock, .store = &store, .limits = {.max_bytes_held = 18}});
  const auto orders = *broker.CreateStream({.name = "orders"});
  store.wait_faults[2] = WaitFault::kUnavailable;
  store.wait_faults[3] = WaitFault::kUnknownLost;
  CHECK(Why(orders.Produce({{.content = "0123456789"}})) == "unavailable");
  CHECK(broker.GetStats().bytes == 0);
  CHECK(Why(orders.Produce({{.content = "0123456789"}})) == "outcome_unknown");
  CHECK(Why(orders.Produce({{.content = "0123456789"}})) == "ok");
  CHECK(broker.GetStats().bytes == 18);
  CHECK(Why(orders.Produce({{.content = ""}})) == "full");
  const lessor::Stats stats = broker.GetStats();
  CHECK(stats.records == 1);
  CHECK(stats.reloads == 2);
}

}  // namespace
}  // namespace lessor_tests
