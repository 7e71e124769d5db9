#include "scenario_run.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "lessor/batch.h"
#include "lessor/broker.h"
#include "lessor/error.h"
#include "lessor/record.h"
#include "lessor/stream.h"
#include "lessor/testing/sequential_ids.h"
#include "lessor/testing/simulated_clock.h"

namespace lessor_tool {
namespace {

// The memory backend.

class MemoryBackend final : public Backend {
 public:
  static absl::StatusOr<std::unique_ptr<Backend>> Make(const Scenario& scenario) {
    std::unique_ptr<MemoryBackend> backend(
        new MemoryBackend(absl::FromUnixMillis(scenario.start_ms)));
    auto broker = lessor::Broker::Open(
        {.clock = &backend->clock_, .ids = &backend->ids_, .limits = scenario.limits});
    if (!broker.ok()) return broker.status();
    backend->broker_ = *std::move(broker);
    return backend;
  }

  lessor::Service& service() override { return *broker_; }
  void SetTime(absl::Time now) override { clock_.AdvanceTo(now); }
  absl::Status Restart(bool) override {
    return absl::UnimplementedError("the memory backend keeps nothing");
  }

 private:
  explicit MemoryBackend(absl::Time start) : clock_(start) {}

  lessor_testing::SimulatedClock clock_;
  // A seed that no id written in a scenario is likely to have.
  lessor_testing::SequentialIds ids_{0x6c6573736f720000};
  std::unique_ptr<lessor::Broker> broker_;
};

constexpr BackendKind kBackends[] = {
    {"memory", false, &MemoryBackend::Make},
};

// Contents as bytes.

/// The bytes of contents, each distinct one made once. Lifetime: views live as long as this and
/// the contents.
class Texts {
 public:
  std::string_view Of(const Content& content) {
    if (content.count == 1) return content.unit;
    std::string& text = texts_[{content.unit, content.count}];
    if (text.empty()) {
      text.reserve(content.size());
      for (uint64_t i = 0; i < content.count; ++i) text += content.unit;
    }
    return text;
  }

 private:
  std::map<std::pair<std::string_view, uint64_t>, std::string> texts_;
};

bool Equal(const RecordSpec& expected, lessor::RecordView got) {
  if (!expected.content.Equals(got.content())) return false;
  if (!expected.headers.has_value()) return true;
  // As maps. The names that were got are distinct; so are those expected if each is found.
  const std::vector<HeaderSpec>& headers = *expected.headers;
  if (headers.size() != got.headers().size()) return false;
  return std::all_of(got.headers().begin(), got.headers().end(), [&](lessor::Header header) {
    return std::any_of(headers.begin(), headers.end(), [&](const HeaderSpec& candidate) {
      return candidate.name.Equals(header.name) && candidate.value.Equals(header.value);
    });
  });
}

// How values look in a message.

std::string Show(int64_t value) { return fmt::format("{}", value); }
std::string Show(bool value) { return value ? "true" : "false"; }
std::string Show(const std::string& text) { return Quoted(text); }

std::string Show(const Content& content) {
  if (content.count == 1) return Quoted(content.unit);
  return fmt::format("{} {} times", Quoted(content.unit), content.count);
}

std::string Show(const RecordSpec& record) {
  std::string shown = Show(record.content);
  if (!record.headers.has_value()) return shown;
  shown += " {";
  for (const HeaderSpec& header : *record.headers) {
    if (shown.back() != '{') shown += ", ";
    shown += fmt::format("{}: {}", Show(header.name), Show(header.value));
  }
  return shown + '}';
}

std::string Show(lessor::RecordView record) {
  std::string shown = Quoted(record.content());
  if (record.headers().empty()) return shown;
  shown += " {";
  for (const lessor::Header header : record.headers()) {
    if (shown.back() != '{') shown += ", ";
    shown += fmt::format("{}: {}", Quoted(header.name), Quoted(header.value));
  }
  return shown + '}';
}

/// The items from `first` on; a long list is cut short.
template <class List>
std::string ShowList(const List& list, size_t first = 0) {
  constexpr size_t kMostShown = 8;
  std::string shown = first == 0 ? "[" : "[..., ";
  for (size_t i = first; i < list.size(); ++i) {
    if (i > first) shown += ", ";
    if (i == first + kMostShown) {
      shown += "...";
      break;
    }
    shown += Show(list[i]);
  }
  shown += ']';
  if (list.size() > kMostShown) shown += fmt::format(" ({} in all)", list.size());
  return shown;
}

std::string ShowError(const absl::Status& status) {
  const int code = lessor::WireCodeOf(status);
  if (code == 0) return fmt::format("an error without a code: {}", status.ToString());
  return fmt::format("error {} ({}: {})", code, lessor::FactsOf(lessor::ReasonOf(status)).name,
                     std::string(status.message()));
}

/// What was expected of a step's answer and not got.
class Mismatches {
 public:
  void Add(std::string_view expected, std::string_view got) {
    Append(expected_, expected);
    Append(got_, got);
  }
  /// Compares a field, if it is expected at all.
  template <class Expected, class Got>
  void Check(std::string_view field, const std::optional<Expected>& expected, const Got& got) {
    if (!expected.has_value() || *expected == got) return;
    Add(fmt::format("{} {}", field, Show(*expected)), fmt::format("{} {}", field, Show(got)));
  }
  /// The same for lists. The text tells them apart even if they begin alike.
  template <class Expected, class Got, class Same>
  void CheckList(std::string_view field, const std::optional<Expected>& expected, const Got& got,
                 Same same) {
    if (!expected.has_value()) return;
    const size_t common = std::min(expected->size(), got.size());
    size_t alike = 0;
    while (alike < common && same((*expected)[alike], got[alike])) ++alike;
    if (alike == common && expected->size() == got.size()) return;
    const size_t first = alike < 4 ? 0 : alike;
    Add(fmt::format("{} {}", field, ShowList(*expected, first)),
        fmt::format("{} {}", field, ShowList(got, first)));
  }

  bool any() const { return !expected_.empty(); }
  std::string ToString() const { return fmt::format("expected {}, got {}", expected_, got_); }

 private:
  static void Append(std::string& list, std::string_view item) {
    if (!list.empty()) list += ", ";
    list += item;
  }

  std::string expected_;
  std::string got_;
};

struct BoundBatch {
  lessor::SubscriptionKey subscription;
  lessor::BatchId id;
};

/// The state of one run.
class Runner {
 public:
  Runner(const Scenario& scenario, Backend& backend) : scenario_(scenario), backend_(backend) {}

  Outcome Run() {
    size_t number = 0;
    for (const Step& step : scenario_.steps) {
      ++number;
      mismatches_ = {};
      unreadable_.clear();
      bound_.reset();
      backend_.SetTime(absl::FromUnixMillis(scenario_.start_ms + step.at_ms));
      const absl::Status status = std::visit(*this, step.op);
      if (unreadable_.empty()) {
        CheckStatus(step, status);
        if (status.ok() && step.as.has_value() && bound_.has_value()) Bind(*step.as);
      }
      if (!unreadable_.empty()) {
        return {Outcome::Kind::kUnreadable, fmt::format("step {}: {}", number, unreadable_)};
      }
      if (mismatches_.any()) {
        return {Outcome::Kind::kFailed, fmt::format("step {}: {}", number, mismatches_.ToString())};
      }
    }
    return {};
  }

  // One operation each: makes the call, compares a result with what is expected of it and says
  // how the call was answered.

  absl::Status operator()(const CreateStream& op) {
    lessor::StreamSettings settings{
        .name = op.name, .http = op.http, .worker_binding = op.worker_binding};
    if (op.retention_seconds) settings.retention = absl::Seconds(*op.retention_seconds);
    const auto stream = backend_.service().CreateStream(settings);
    if (!stream.ok()) return stream.status();
    bound_ = stream->id();
    return absl::OkStatus();
  }

  absl::Status operator()(const UpdateStream& op) {
    const auto stream = Find<lessor::StreamId>(op.stream);
    if (!stream) return absl::OkStatus();
    return backend_.service()
        .UpdateStream(*stream, {.retention = absl::Seconds(op.retention_seconds)})
        .status();
  }

  absl::Status operator()(const DeleteStream& op) {
    const auto stream = Find<lessor::StreamId>(op.stream);
    if (!stream) return absl::OkStatus();
    return backend_.service().DeleteStream(*stream);
  }

  absl::Status operator()(const Produce& op) {
    const auto stream = Find<lessor::StreamId>(op.stream);
    if (!stream) return absl::OkStatus();
    Texts texts;
    std::vector<std::vector<lessor::Header>> headers;
    headers.reserve(op.records.items.size());
    std::vector<lessor::Record> records;
    records.reserve(op.records.size());
    for (const RecordSpec& item : op.records.items) {
      lessor::Record record{.content = texts.Of(item.content)};
      if (item.headers.has_value()) {
        std::vector<lessor::Header>& list = headers.emplace_back();
        for (const HeaderSpec& header : *item.headers) {
          list.push_back({texts.Of(header.name), texts.Of(header.value)});
        }
        record.headers = list;
      }
      records.push_back(record);
    }
    if (op.records.repeats == 0) records.clear();
    const std::vector<lessor::Record> once = records;
    for (uint64_t i = 1; i < op.records.repeats; ++i) {
      records.insert(records.end(), once.begin(), once.end());
    }
    return backend_.service().Produce(*stream, records).status();
  }

  absl::Status operator()(const Subscribe& op) {
    const auto stream = Find<lessor::StreamId>(op.stream);
    if (!stream) return absl::OkStatus();
    const auto info = backend_.service().Subscribe(
        *stream, lessor::SubscriptionSettings{.name = op.name, .start_at = op.start_at});
    if (!info.ok()) return info.status();
    const lessor::SubscriptionKey key{*stream, info->id};
    if (op.expect_same_as) {
      const auto same = Find<lessor::SubscriptionKey>(*op.expect_same_as);
      if (same && *same != key) {
        mismatches_.Add(fmt::format("the id of {} ({})", Quoted(op.expect_same_as->name),
                                    same->subscription.ToString()),
                        info->id.ToString());
      }
    }
    bound_ = key;
    return absl::OkStatus();
  }

  absl::Status operator()(const ListSubscriptions& op) {
    const auto stream = Find<lessor::StreamId>(op.stream);
    if (!stream) return absl::OkStatus();
    const auto list = backend_.service().ListSubscriptions(*stream, op.name);
    if (!list.ok()) return list.status();
    std::vector<std::string> names;
    for (const lessor::SubscriptionInfo& info : *list) names.push_back(info.name);
    mismatches_.CheckList("names", op.expect_names, names, std::equal_to<>());
    return absl::OkStatus();
  }

  absl::Status operator()(const DeleteSubscription& op) {
    const auto key = Find<lessor::SubscriptionKey>(op.subscription);
    if (!key) return absl::OkStatus();
    return backend_.service().DeleteSubscription(*key);
  }

  absl::Status operator()(const Consume& op) {
    const auto key = Find<lessor::SubscriptionKey>(op.subscription);
    if (!key) return absl::OkStatus();
    const auto batch =
        backend_.service().Consume(*key, {.worker = op.worker_id, .max_records = op.max_records});
    if (!batch.ok()) return batch.status();
    const bool fresh = !batch->empty() && batches_seen_.insert(batch->id()).second;
    CheckBatch(op, *batch, fresh);
    if (!batch->empty()) bound_ = BoundBatch{*key, batch->id()};
    return absl::OkStatus();
  }

  absl::Status operator()(const Settle& op) {
    const auto batch = FindBatch(op.batch, op.subscription);
    if (!batch) return absl::OkStatus();
    lessor::Service& service = backend_.service();
    return op.ack ? service.Ack(batch->subscription, batch->id, op.worker_id)
                  : service.Nack(batch->subscription, batch->id, op.worker_id);
  }

  absl::Status operator()(const Extend& op) {
    const auto batch = FindBatch(op.batch, op.subscription);
    if (!batch) return absl::OkStatus();
    const auto until = backend_.service().Extend(batch->subscription, batch->id, op.worker_id);
    if (!until.ok()) return until.status();
    mismatches_.Check("leased_until", op.expect_leased_until_ms, SinceStart(*until));
    return absl::OkStatus();
  }

  absl::Status operator()(const GetPosition& op) {
    const auto key = Find<lessor::SubscriptionKey>(op.subscription);
    if (!key) return absl::OkStatus();
    const auto position = backend_.service().GetPosition(*key);
    if (!position.ok()) return position.status();
    CheckCount("committed", op.expect_committed, position->committed);
    CheckCount("active_leases", op.expect_active_leases, position->active_leases);
    CheckCount("available", op.expect_available, position->available);
    CheckCount("skipped", op.expect_skipped, position->skipped);
    return absl::OkStatus();
  }

  absl::Status operator()(const Restart& op) { return backend_.Restart(op.crash); }

 private:
  using Bound = std::variant<lessor::StreamId, lessor::SubscriptionKey, BoundBatch>;

  void CheckStatus(const Step& step, const absl::Status& status) {
    if (!step.expect_error.has_value()) {
      if (!status.ok()) mismatches_.Add("success", ShowError(status));
    } else if (status.ok()) {
      mismatches_.Add(fmt::format("error {}", *step.expect_error), "success");
    } else if (lessor::WireCodeOf(status) != *step.expect_error) {
      mismatches_.Add(fmt::format("error {}", *step.expect_error), ShowError(status));
    }
  }

  void CheckCount(std::string_view field, const std::optional<int64_t>& expected, uint64_t got) {
    mismatches_.Check(field, expected, static_cast<int64_t>(got));
  }

  void CheckBatch(const Consume& op, const lessor::Batch& batch, bool fresh) {
    mismatches_.Check("empty", op.expect_empty, batch.empty());
    CheckCount("count", op.expect_count, batch.size());
    const std::vector<lessor::RecordView> records(batch.begin(), batch.end());
    mismatches_.CheckList("records", op.expect_records, records, Equal);
    std::vector<int64_t> timestamps;
    timestamps.reserve(records.size());
    for (const lessor::RecordView record : records) {
      timestamps.push_back(SinceStart(record.timestamp()));
    }
    mismatches_.CheckList("timestamps", op.expect_timestamps_ms, timestamps, std::equal_to<>());

    // The rest is what an empty batch has none of.
    const auto check = [&](std::string_view field, const auto& expected, const auto& equal,
                           const auto& got) {
      if (!expected.has_value() || (!batch.empty() && equal())) return;
      mismatches_.Add(fmt::format("{} {}", field, Show(*expected)),
                      fmt::format("{} {}", field, batch.empty() ? "none" : Show(got())));
    };
    check(
        "first", op.expect_first, [&] { return Equal(*op.expect_first, records.front()); },
        [&] { return records.front(); });
    check(
        "last", op.expect_last, [&] { return Equal(*op.expect_last, records.back()); },
        [&] { return records.back(); });
    const auto until = [&] { return SinceStart(batch.leased_until()); };
    check(
        "leased_until", op.expect_leased_until_ms,
        [&] { return *op.expect_leased_until_ms == until(); }, until);
    check(
        "new_batch", op.expect_new_batch, [&] { return *op.expect_new_batch == fresh; },
        [&] { return fresh; });
    if (op.expect_same_batch.has_value()) {
      const auto same = Find<BoundBatch>(*op.expect_same_batch);
      if (same && (batch.empty() || batch.id() != same->id)) {
        mismatches_.Add(
            fmt::format("batch {} ({})", Quoted(op.expect_same_batch->name), same->id.ToString()),
            fmt::format("batch {}", batch.empty() ? "none" : batch.id().ToString()));
      }
    }
  }

  int64_t SinceStart(absl::Time time) const {
    return absl::ToUnixMillis(time) - scenario_.start_ms;
  }

  /// What an alias names. The reader has seen to it that its kind is right; nothing if the step
  /// that was to bind it gave nothing.
  template <class T>
  std::optional<T> Find(const Alias& alias) {
    const auto found = aliases_.find(alias.name);
    if (found == aliases_.end()) {
      unreadable_ =
          fmt::format("alias {} is not bound: there was nothing to bind it to", Quoted(alias.name));
      return std::nullopt;
    }
    return std::get<T>(found->second);
  }

  std::optional<BoundBatch> FindBatch(const BatchName& name,
                                      const std::optional<Alias>& subscription) {
    BoundBatch batch;
    if (const Alias* alias = std::get_if<Alias>(&name)) {
      const auto bound = Find<BoundBatch>(*alias);
      if (!bound) return std::nullopt;
      batch = *bound;
    } else {
      // A text that is no id names no batch, as the id that is all zero does.
      batch.id = lessor::BatchId::Parse(std::get<std::string>(name)).value_or(lessor::BatchId());
    }
    if (subscription.has_value()) {
      const auto key = Find<lessor::SubscriptionKey>(*subscription);
      if (!key) return std::nullopt;
      batch.subscription = *key;
    }
    return batch;
  }

  void Bind(const Alias& alias) {
    if (!aliases_.try_emplace(alias.name, *bound_).second) {
      unreadable_ = fmt::format("alias {} is bound twice", Quoted(alias.name));
    }
  }

  const Scenario& scenario_;
  Backend& backend_;
  std::map<std::string, Bound, std::less<>> aliases_;
  std::set<lessor::BatchId> batches_seen_;
  // Of the step at hand.
  Mismatches mismatches_;
  std::string unreadable_;
  std::optional<Bound> bound_;
};

void PrintLine(std::string_view line) { fmt::print("{}\n", line); }

/// The name without what would break its line.
std::string OneLine(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
  return name;
}

}  // namespace

std::span<const BackendKind> Backends() { return kBackends; }

Outcome Run(const Scenario& scenario, const BackendKind& backend) {
  if (scenario.backends.has_value() &&
      std::find(scenario.backends->begin(), scenario.backends->end(), backend.name) ==
          scenario.backends->end()) {
    return {Outcome::Kind::kSkipped, ""};
  }
  if (scenario.Restarts() && !backend.restarts) return {Outcome::Kind::kSkipped, ""};
  const auto world = backend.make(scenario);
  if (!world.ok()) {
    return {Outcome::Kind::kFailed, fmt::format("step 0: expected a {} backend, got {}",
                                                backend.name, ShowError(world.status()))};
  }
  return Runner(scenario, **world).Run();
}

int ScenarioCommand(std::span<const std::string_view> args) {
  const BackendKind* backend = &kBackends[0];
  std::vector<std::string_view> files;
  const auto usage = [](std::string_view what) {
    fmt::print(stderr, "lessor scenario: {}\nusage: lessor scenario [--backend NAME] FILE...\n",
               what);
    return 2;
  };
  for (size_t i = 0; i < args.size(); ++i) {
    std::string_view name;
    if (args[i] == "--") {
      files.insert(files.end(), args.begin() + static_cast<std::ptrdiff_t>(i) + 1, args.end());
      break;
    } else if (args[i] == "--backend") {
      if (++i == args.size()) return usage("--backend needs a name");
      name = args[i];
    } else if (args[i].starts_with("--backend=")) {
      name = args[i].substr(args[i].find('=') + 1);
    } else if (args[i].starts_with('-')) {
      return usage(fmt::format("unknown option {}", Quoted(args[i])));
    } else {
      files.push_back(args[i]);
      continue;
    }
    backend = std::find_if(std::begin(kBackends), std::end(kBackends),
                           [&](const BackendKind& kind) { return kind.name == name; });
    if (backend == std::end(kBackends)) {
      return usage(fmt::format("there is no backend {}", Quoted(name)));
    }
  }
  if (files.empty()) return usage("no FILE");

  size_t passed = 0;
  size_t failed = 0;
  size_t skipped = 0;
  size_t unreadable = 0;
  const auto complain = [&](std::string_view file, std::string_view what) {
    ++unreadable;
    std::fflush(stdout);
    fmt::print(stderr, "lessor scenario: {}: {}\n", file, what);
  };
  for (const std::string_view file : files) {
    const absl::StatusOr<Scenario> scenario = ReadScenario(std::string(file));
    if (!scenario.ok()) {
      complain(file, std::string(scenario.status().message()));
      continue;
    }
    const Outcome outcome = Run(*scenario, *backend);
    const std::string name = OneLine(scenario->name);
    switch (outcome.kind) {
      case Outcome::Kind::kPassed:
        ++passed;
        PrintLine("ok " + name);
        break;
      case Outcome::Kind::kFailed:
        ++failed;
        PrintLine(fmt::format("FAIL {}: {}", name, outcome.what));
        break;
      case Outcome::Kind::kSkipped:
        ++skipped;
        PrintLine("skip " + name);
        break;
      case Outcome::Kind::kUnreadable:
        complain(file, outcome.what);
        break;
    }
    std::fflush(stdout);
  }
  std::string total = fmt::format("{} passed, {} failed", passed, failed);
  if (skipped > 0) total += fmt::format(", {} skipped", skipped);
  if (unreadable > 0) total += fmt::format(", {} unreadable", unreadable);
  PrintLine(total);
  return unreadable > 0 ? 2 : failed > 0 ? 1 : 0;
}

}  // namespace lessor_tool
