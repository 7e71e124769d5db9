#include "scenario_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/time/time.h"
#include "fmt/format.h"
#include "lessor/core/validate.h"
#include "lessor/time.h"
#include "nlohmann/json.hpp"

namespace lessor_tool {
namespace {

using Json = nlohmann::json;

// No list and no content of a scenario is longer, however few bytes describe it.
constexpr int64_t kMaxRepeats = 10'000'000;
constexpr size_t kMaxContentBytes = 1'000'000'000;
constexpr size_t kMaxDepth = 32;

constexpr std::string_view kStepsKey = "steps";

/// The first thing found wrong. What is read after it is of no interest.
class Finding {
 public:
  void Note(std::string what) {
    if (what_.empty()) what_ = std::move(what);
  }
  bool any() const { return !what_.empty(); }
  const std::string& what() const { return what_; }

 private:
  std::string what_;
};

/// Builds a Json from the parser's events: as nlohmann's own parser does, except that a duplicate
/// key is an error and that errors tell the step.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(Finding& finding) : finding_(finding) {}

  Json Take() { return std::move(root_); }

  bool null() override { return Put(nullptr); }
  bool boolean(bool value) override { return Put(value); }
  bool number_integer(number_integer_t value) override { return Put(value); }
  bool number_unsigned(number_unsigned_t value) override { return Put(value); }
  bool number_float(number_float_t value, const string_t& written) override {
    // An integer beyond 64 bits comes here too. It is as good as the largest: nothing accepts it.
    if (written.find_first_not_of("-0123456789") != string_t::npos) return Put(value);
    return Put(written.front() == '-' ? std::numeric_limits<int64_t>::min()
                                      : std::numeric_limits<int64_t>::max());
  }
  bool string(string_t& value) override { return Put(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // Not in JSON.
  bool start_object(size_t) override { return Open(Json::object()); }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& key) override {
    if (open_.back()->contains(key)) {
      finding_.Note(fmt::format("{}duplicate key {}", Place(), Quoted(key)));
      return false;
    }
    key_ = std::move(key);
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ...": without the first.
    std::string what = error.what();
    if (const size_t end = what.find("] "); what.starts_with('[') && end != std::string::npos) {
      what.erase(0, end + 2);
    }
    // The text may quote what it could not read.
    if (lessor::CountUtf8(what) < 0) what = what.substr(0, what.find("; last read"));
    std::replace_if(
        what.begin(), what.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
    finding_.Note(Place() + what);
    return false;
  }

 private:
  /// Adds a value where the parser stands; returns where it is kept.
  Json* Add(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    return &((*open_.back())[key_] = std::move(value));
  }
  bool Put(Json value) {
    Add(std::move(value));
    return true;
  }
  bool Open(Json value) {
    if (open_.size() == kMaxDepth) {
      finding_.Note(fmt::format("{}nested deeper than {} levels", Place(), kMaxDepth));
      return false;
    }
    open_.push_back(Add(std::move(value)));
    if (open_.size() == 2) in_steps_ = key_ == kStepsKey && open_.back()->is_array();
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }
  std::string Place() const {
    if (open_.size() < 3 || !in_steps_) return "";
    return fmt::format("step {}: ", open_[1]->size());
  }

  Finding& finding_;
  Json root_;
  std::vector<Json*> open_;  ///< From the root inwards.
  std::string key_;
  bool in_steps_ = false;
};

// How one value of each type is read. `place` says where it stands, for the finding.

std::string_view NameOfType(const Json& json) {
  if (json.is_number_integer()) return "an integer";
  if (json.is_number()) return "a number with a fraction or an exponent";
  if (json.is_string()) return "a string";
  if (json.is_object()) return "an object";
  if (json.is_array()) return "a list";
  if (json.is_boolean()) return "true or false";
  return "null";
}

void NoteType(std::string_view wanted, const Json& json, const std::string& place,
              Finding& finding) {
  finding.Note(fmt::format("{} must be {}, not {}", place, wanted, NameOfType(json)));
}

int64_t ToInt(const Json& json, const std::string& place, Finding& finding) {
  if (json.is_number_unsigned()) {
    constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
    return static_cast<int64_t>(std::min(json.get<uint64_t>(), kMax));
  }
  if (json.is_number_integer()) return json.get<int64_t>();
  NoteType("an integer", json, place, finding);
  return 0;
}

int64_t ToIntWithin(int64_t least, int64_t most, const Json& json, const std::string& place,
                    Finding& finding) {
  const int64_t value = ToInt(json, place, finding);
  if (value < least || value > most) {
    finding.Note(fmt::format("{} must be from {} to {}, not {}", place, least, most, value));
  }
  return value;
}

bool ToBool(const Json& json, const std::string& place, Finding& finding) {
  if (json.is_boolean()) return json.get<bool>();
  NoteType("true or false", json, place, finding);
  return false;
}

std::string ToText(const Json& json, const std::string& place, Finding& finding) {
  if (json.is_string()) return json.get<std::string>();
  NoteType("a string", json, place, finding);
  return "";
}

template <class Read>
auto ToList(Read read, const Json& json, const std::string& place, Finding& finding) {
  std::vector<decltype(read(json, place, finding))> list;
  if (!json.is_array()) {
    NoteType("a list", json, place, finding);
    return list;
  }
  list.reserve(json.size());
  for (const Json& item : json) {
    list.push_back(read(item, fmt::format("{}[{}]", place, list.size()), finding));
  }
  return list;
}

/// An object of which each key is asked for by name; what nobody asked for is an unknown key.
class Object {
 public:
  /// `place` is empty or ends in ": ".
  Object(const Json& json, std::string place, Finding& finding)
      : json_(&json), place_(std::move(place)), finding_(finding) {
    if (json.is_object()) return;
    finding.Note(fmt::format("{}must be an object, not {}", place_, NameOfType(json)));
    static const Json kEmpty = Json::object();
    json_ = &kEmpty;
  }

  size_t size() const { return json_->size(); }
  bool Has(const char* key) const { return json_->contains(key); }

  /// The value of `key` as `read` has it; nothing if there is no such key.
  template <class Read>
  auto Maybe(const char* key, Read read)
      -> std::optional<decltype(read(Json(), std::string(), std::declval<Finding&>()))> {
    known_.emplace_back(key);
    const auto found = json_->find(key);
    if (found == json_->end()) return std::nullopt;
    return read(*found, fmt::format("{}\"{}\"", place_, key), finding_);
  }
  /// The same for a key that must be there.
  template <class Read>
  auto Get(const char* key, Read read) {
    auto value = Maybe(key, read);
    if (!value.has_value()) {
      finding_.Note(fmt::format("{}\"{}\" is missing", place_, key));
      value.emplace();
    }
    return *std::move(value);
  }

  /// To be called when all keys have been asked for.
  void Close() {
    for (const auto& [key, value] : json_->items()) {
      if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
        finding_.Note(fmt::format("{}unknown key {}", place_, Quoted(key)));
      }
    }
  }

 private:
  const Json* json_;
  std::string place_;
  Finding& finding_;
  std::vector<std::string_view> known_;
};

Content ToContent(const Json& json, const std::string& place, Finding& finding) {
  if (json.is_string()) return {json.get<std::string>()};
  if (!json.is_object()) {
    NoteType("a string or an object", json, place, finding);
    return {};
  }
  Object object(json, place + ": ", finding);
  Content content;
  if (object.Has("base64")) {
    const std::string encoded = object.Get("base64", ToText);
    if (!absl::Base64Unescape(encoded, &content.unit)) {
      finding.Note(fmt::format("{}: this is not base64: {}", place, Quoted(encoded)));
    }
  } else if (object.Has("repeat")) {
    content.unit = object.Get("repeat", ToText);
    content.count = static_cast<uint64_t>(
        object.Get("count", [](const Json& count, const std::string& where, Finding& found) {
          return ToIntWithin(0, kMaxRepeats, count, where, found);
        }));
    if (!finding.any() && content.size() > kMaxContentBytes) {
      finding.Note(
          fmt::format("{} has {} bytes; the most is {}", place, content.size(), kMaxContentBytes));
    }
  } else {
    finding.Note(place + " has neither \"base64\" nor \"repeat\"");
  }
  object.Close();
  return content;
}

/// A map of texts, or a list of [NAME, VALUE], in which a name may come twice.
std::vector<HeaderSpec> ToHeaders(const Json& json, const std::string& place, Finding& finding) {
  std::vector<HeaderSpec> headers;
  if (json.is_object()) {
    for (const auto& [name, value] : json.items()) {
      const std::string where = fmt::format("{}: {}", place, Quoted(name));
      headers.push_back({{name}, {ToText(value, where, finding)}});
    }
  } else if (json.is_array()) {
    for (const std::vector<Content>&pair :
         ToList([](const Json&item, const std::string&where,
                   Finding&found) { return ToList(ToContent, item, where, found); },
                json, place, finding)) {
      if (pair.size() == 2) {
        headers.push_back({pair[0], pair[1]});
      } else {
        finding.Note(fmt::format("{}: a header must be [NAME, VALUE]", place));
      }
    }
  } else {
    NoteType("an object or a list", json, place, finding);
  }
  return headers;
}

RecordSpec ToRecord(const Json& json, const std::string& place, Finding& finding) {
  if (!json.is_object() || !json.contains("content")) return {ToContent(json, place, finding), {}};
  Object object(json, place + ": ", finding);
  RecordSpec record;
  record.content = object.Get("content", ToContent);
  record.headers = object.Maybe("headers", ToHeaders).value_or(std::vector<HeaderSpec>());
  object.Close();
  return record;
}

/// A list of records, or {"each": RECORD, "count": N}.
RecordList ToRecords(const Json& json, const std::string& place, Finding& finding) {
  if (!json.is_object()) return {ToList(ToRecord, json, place, finding)};
  Object object(json, place + ": ", finding);
  RecordList list;
  list.items.push_back(object.Get("each", ToRecord));
  list.repeats = static_cast<uint64_t>(
      object.Get("count", [](const Json& count, const std::string& where, Finding& found) {
        return ToIntWithin(0, kMaxRepeats, count, where, found);
      }));
  object.Close();
  return list;
}

lessor::StartAt ToStartAt(const Json& json, const std::string& place, Finding& finding) {
  const std::string text = ToText(json, place, finding);
  if (text == "latest") return lessor::StartAt::kLatest;
  if (text != "earliest") {
    finding.Note(fmt::format("{} must be \"earliest\" or \"latest\", not {}", place, Quoted(text)));
  }
  return lessor::StartAt::kEarliest;
}

std::string ToBackend(const Json& json, const std::string& place, Finding& finding) {
  std::string name = ToText(json, place, finding);
  if (std::find(std::begin(kBackendNames), std::end(kBackendNames), name) ==
      std::end(kBackendNames)) {
    finding.Note(fmt::format("{}: there is no backend {}", place, Quoted(name)));
  }
  return name;
}

lessor::Limits ToLimits(const Json& json, const std::string& place, Finding& finding) {
  using lessor::Limits;
  static constexpr std::pair<const char*, int64_t Limits::*> kFields[] = {
      {"max_streams", &Limits::max_streams},
      {"max_subscriptions", &Limits::max_subscriptions},
      {"max_active_leases", &Limits::max_active_leases},
      {"max_consume_records", &Limits::max_consume_records},
      {"max_batch_bytes", &Limits::max_batch_bytes},
      {"max_record_bytes", &Limits::max_record_bytes},
      {"max_produce_bytes", &Limits::max_produce_bytes},
      {"max_headers", &Limits::max_headers},
      {"max_header_name_bytes", &Limits::max_header_name_bytes},
      {"max_header_value_bytes", &Limits::max_header_value_bytes},
      {"max_headers_bytes", &Limits::max_headers_bytes},
  };
  Object object(json, place + ": ", finding);
  Limits limits;
  if (const auto lease_ms = object.Maybe("lease_ms", ToInt)) {
    limits.lease = absl::Milliseconds(*lease_ms);
  }
  for (const auto& [key, field] : kFields) {
    if (const auto value = object.Maybe(key, ToInt)) limits.*field = *value;
  }
  object.Close();
  if (const absl::Status status = limits.Check(); !status.ok()) {
    finding.Note(fmt::format("{}: {}", place, std::string(status.message())));
  }
  return limits;
}

enum class Kind { kStream, kSubscription, kBatch };

std::string_view NameOf(Kind kind) {
  switch (kind) {
    case Kind::kStream:
      return "a stream";
    case Kind::kSubscription:
      return "a subscription";
    case Kind::kBatch:
      return "a batch";
  }
  return "";
}

/// Whether a step whose expectations are met gives its alias something to name.
enum class Binds { kNever, kPerhaps, kAlways };

/// Reads the steps, one after the other, and knows which aliases they may have bound so far.
class StepReader {
 public:
  explicit StepReader(Finding& finding) : finding_(finding) {}

  Step Read(const Json& json, int64_t start_ms) {
    ++number_;
    place_ = fmt::format("step {}: ", number_);
    Object arguments(json, place_, finding_);
    arguments_ = &arguments;
    static const Json kNothing = Json::object();
    const bool expects = json.is_object() && json.contains("expect");
    Object expect(expects ? json["expect"] : kNothing, place_ + "expect: ", finding_);
    arguments.Maybe("expect", [](const Json&, const std::string&, Finding&) { return true; });
    expect_ = &expect;

    Step step;
    step.at_ms = arguments.Get("at", ToInt);
    CheckInstant(start_ms, step.at_ms);
    step.expect_error = expect.Maybe("error", ToInt);
    if (step.expect_error.has_value()) {
      if (*step.expect_error < 1) finding_.Note(place_ + "expect: \"error\" must be a wire code");
      if (expect.size() > 1) finding_.Note(place_ + "expect: \"error\" goes with nothing else");
    }
    refused_ = step.expect_error.has_value();

    const std::string op = arguments.Get("op", ToText);
    const auto reader = std::find_if(std::begin(kReaders), std::end(kReaders),
                                     [&](const OpReader& candidate) { return candidate.op == op; });
    if (reader == std::end(kReaders)) {
      finding_.Note(fmt::format("{}unknown op {}", place_, Quoted(op)));
      return step;
    }
    (this->*reader->read)(step);
    arguments.Close();
    expect.Close();
    return step;
  }

 private:
  struct OpReader {
    std::string_view op;
    void (StepReader::*read)(Step& step);
  };
  static const OpReader kReaders[14];

  struct Known {
    Kind kind;
    bool always;
    size_t step;
  };

  void CheckInstant(int64_t start_ms, int64_t at_ms) {
    // Both are below 2^53, so that the sum does not overflow.
    constexpr int64_t kMax = lessor::Instant::Max().ms;
    if (at_ms < -2 * kMax || at_ms > 2 * kMax || start_ms + at_ms < -kMax ||
        start_ms + at_ms > kMax) {
      finding_.Note(place_ + "\"at\" is an instant beyond the range of clocks");
    }
  }

  // Of the step at hand.
  template <class Read>
  auto Get(const char* key, Read read) {
    return arguments_->Get(key, read);
  }
  template <class Read>
  auto Maybe(const char* key, Read read) {
    return arguments_->Maybe(key, read);
  }
  template <class Read>
  auto Expect(const char* key, Read read) {
    return expect_->Maybe(key, read);
  }

  /// Reads a use of an alias of this kind.
  auto ToAlias(Kind kind) {
    return [this, kind](const Json& json, const std::string& place, Finding& finding) {
      Alias alias{ToText(json, place, finding)};
      const auto found = known_.find(alias.name);
      if (found == known_.end()) {
        finding.Note(fmt::format("{}: unknown alias {}", place, Quoted(alias.name)));
      } else if (found->second.kind != kind) {
        finding.Note(fmt::format("{}: {} is {}, not {}", place, Quoted(alias.name),
                                 NameOf(found->second.kind), NameOf(kind)));
      }
      return alias;
    };
  }

  /// Reads `as`.
  void MayBind(Step& step, Kind kind, Binds binds) {
    std::optional<std::string> name = Maybe("as", ToText);
    if (!name.has_value()) return;
    step.as = Alias{*name};
    if (binds == Binds::kNever) return;
    const auto [known, fresh] =
        known_.try_emplace(*name, Known{kind, binds == Binds::kAlways, number_});
    if (fresh) return;
    if (known->second.always || known->second.kind != kind) {
      finding_.Note(fmt::format("{}alias {} is bound twice, first in step {}", place_,
                                Quoted(*name), known->second.step));
    }
    known->second.always = binds == Binds::kAlways;
  }
  Binds BindsUnlessRefused() const { return refused_ ? Binds::kNever : Binds::kAlways; }

  void ReadCreateStream(Step& step) {
    CreateStream op;
    op.name = Get("stream", ToText);
    op.retention_seconds = Maybe("retention_seconds", ToInt);
    op.http = Maybe("http", ToBool).value_or(true);
    op.worker_binding = Maybe("worker_binding", ToBool).value_or(true);
    MayBind(step, Kind::kStream, BindsUnlessRefused());
    step.op = std::move(op);
  }

  void ReadUpdateStream(Step& step) {
    UpdateStream op;
    op.stream = Get("stream", ToAlias(Kind::kStream));
    op.retention_seconds = Get("retention_seconds", ToInt);
    step.op = std::move(op);
  }

  void ReadDeleteStream(Step& step) {
    step.op = DeleteStream{Get("stream", ToAlias(Kind::kStream))};
  }

  void ReadProduce(Step& step) {
    Produce op;
    op.stream = Get("stream", ToAlias(Kind::kStream));
    op.records = Get("records", ToRecords);
    step.op = std::move(op);
  }

  void ReadSubscribe(Step& step) {
    Subscribe op;
    op.stream = Get("stream", ToAlias(Kind::kStream));
    op.name = Get("name", ToText);
    op.start_at = Get("start_at", ToStartAt);
    op.expect_same_as = Expect("same_as", ToAlias(Kind::kSubscription));
    MayBind(step, Kind::kSubscription, BindsUnlessRefused());
    step.op = std::move(op);
  }

  void ReadListSubscriptions(Step& step) {
    ListSubscriptions op;
    op.stream = Get("stream", ToAlias(Kind::kStream));
    op.name = Maybe("name", ToText);
    op.expect_names =
        Expect("names", [](const Json& json, const std::string& place, Finding& finding) {
          return ToList(ToText, json, place, finding);
        });
    step.op = std::move(op);
  }

  void ReadDeleteSubscription(Step& step) {
    step.op = DeleteSubscription{Get("subscription", ToAlias(Kind::kSubscription))};
  }

  void ReadConsume(Step& step) {
    Consume op;
    op.subscription = Get("subscription", ToAlias(Kind::kSubscription));
    op.worker_id = Get("worker_id", ToText);
    op.max_records = Get("max_records", ToInt);
    op.expect_empty = Expect("empty", ToBool);
    op.expect_records = Expect("records", ToRecords);
    op.expect_count = Expect("count", ToInt);
    op.expect_first = Expect("first", ToRecord);
    op.expect_last = Expect("last", ToRecord);
    op.expect_leased_until_ms = Expect("leased_until", ToInt);
    op.expect_same_batch = Expect("same_batch", ToAlias(Kind::kBatch));
    op.expect_new_batch = Expect("new_batch", ToBool);
    op.expect_timestamps_ms =
        Expect("timestamps", [](const Json& json, const std::string& place, Finding& finding) {
          return ToList(ToInt, json, place, finding);
        });

    const bool empty = op.expect_empty == true || op.expect_count == 0 ||
                       (op.expect_records.has_value() && op.expect_records->size() == 0) ||
                       (op.expect_timestamps_ms.has_value() && op.expect_timestamps_ms->empty());
    const bool full = op.expect_empty == false || op.expect_count.has_value() ||
                      op.expect_records.has_value() || op.expect_first.has_value() ||
                      op.expect_last.has_value() || op.expect_leased_until_ms.has_value() ||
                      op.expect_same_batch.has_value() || op.expect_new_batch.has_value() ||
                      op.expect_timestamps_ms.has_value();
    MayBind(step, Kind::kBatch,
            refused_ || empty ? Binds::kNever
            : full            ? Binds::kAlways
                              : Binds::kPerhaps);
    step.op = std::move(op);
  }

  /// Reads what ack, nack and extend have in common.
  template <class Op>
  void ReadBatchCall(Op& op) {
    op.subscription = Maybe("subscription", ToAlias(Kind::kSubscription));
    const bool has_subscription = op.subscription.has_value();
    op.batch = Get("batch",
                   [this, has_subscription](const Json& json, const std::string& place,
                                            Finding& finding) -> BatchName {
                     if (!json.is_object()) return ToAlias(Kind::kBatch)(json, place, finding);
                     Object object(json, place + ": ", finding);
                     std::string id = object.Get("id", ToText);
                     object.Close();
                     if (!has_subscription)
                       finding.Note(place + " with an id needs a \"subscription\"");
                     return id;
                   });
    op.worker_id = Get("worker_id", ToText);
  }

  void ReadAck(Step& step) {
    Settle op;
    ReadBatchCall(op);
    step.op = std::move(op);
  }

  void ReadNack(Step& step) {
    Settle op;
    op.ack = false;
    ReadBatchCall(op);
    step.op = std::move(op);
  }

  void ReadExtend(Step& step) {
    Extend op;
    ReadBatchCall(op);
    op.expect_leased_until_ms = Expect("leased_until", ToInt);
    step.op = std::move(op);
  }

  void ReadPosition(Step& step) {
    GetPosition op;
    op.subscription = Get("subscription", ToAlias(Kind::kSubscription));
    op.expect_committed = Expect("committed", ToInt);
    op.expect_active_leases = Expect("active_leases", ToInt);
    op.expect_available = Expect("available", ToInt);
    op.expect_skipped = Expect("skipped", ToInt);
    step.op = std::move(op);
  }

  void ReadRestart(Step& step) { step.op = Restart{.crash = false}; }
  void ReadCrash(Step& step) { step.op = Restart{.crash = true}; }

  Finding& finding_;
  std::map<std::string, Known, std::less<>> known_;
  // Of the step at hand.
  size_t number_ = 0;
  std::string place_;
  Object* arguments_ = nullptr;
  Object* expect_ = nullptr;
  bool refused_ = false;
};

const StepReader::OpReader StepReader::kReaders[14] = {
    {"create_stream", &StepReader::ReadCreateStream},
    {"update_stream", &StepReader::ReadUpdateStream},
    {"delete_stream", &StepReader::ReadDeleteStream},
    {"produce", &StepReader::ReadProduce},
    {"subscribe", &StepReader::ReadSubscribe},
    {"list_subscriptions", &StepReader::ReadListSubscriptions},
    {"delete_subscription", &StepReader::ReadDeleteSubscription},
    {"consume", &StepReader::ReadConsume},
    {"ack", &StepReader::ReadAck},
    {"nack", &StepReader::ReadNack},
    {"extend", &StepReader::ReadExtend},
    {"position", &StepReader::ReadPosition},
    {"restart", &StepReader::ReadRestart},
    {"crash", &StepReader::ReadCrash},
};

Scenario ToScenario(const Json& json, Finding& finding) {
  Scenario scenario;
  Object object(json, "", finding);
  scenario.name = object.Get("name", ToText);
  object.Maybe("rules", [](const Json& rules, const std::string& place, Finding& found) {
    return ToList(ToText, rules, place, found);
  });
  scenario.start_ms =
      object
          .Maybe("start_ms",
                 [](const Json& start, const std::string& place, Finding& found) {
                   return ToIntWithin(lessor::Instant::Min().ms, lessor::Instant::Max().ms, start,
                                      place, found);
                 })
          .value_or(0);
  scenario.limits = object.Maybe("limits", ToLimits).value_or(lessor::Limits());
  scenario.backends =
      object.Maybe("backends", [](const Json& names, const std::string& place, Finding& found) {
        std::vector<std::string> backends = ToList(ToBackend, names, place, found);
        if (backends.empty()) found.Note(place + " names no backend");
        return backends;
      });
  object.Get("steps", [&](const Json& steps, const std::string& place, Finding& found) {
    StepReader reader(found);
    if (!steps.is_array()) NoteType("a list", steps, place, found);
    for (const Json& step : steps) {
      if (found.any()) break;
      scenario.steps.push_back(reader.Read(step, scenario.start_ms));
    }
    return true;
  });
  object.Close();
  return scenario;
}

}  // namespace

bool Content::Equals(std::string_view bytes) const {
  if (bytes.size() != size()) return false;
  for (; !bytes.empty(); bytes.remove_prefix(unit.size())) {
    if (!bytes.starts_with(unit)) return false;
  }
  return true;
}

bool Scenario::Restarts() const {
  return std::any_of(steps.begin(), steps.end(),
                     [](const Step& step) { return std::holds_alternative<Restart>(step.op); });
}

std::string Quoted(std::string_view text) {
  constexpr size_t kMostShown = 80;
  const bool utf8 = lessor::CountUtf8(text) >= 0;
  std::string_view shown = text.substr(0, kMostShown);
  if (text.size() > kMostShown) {
    // Not in the middle of a character.
    while (utf8 && !shown.empty() && lessor::CountUtf8(shown) < 0) shown.remove_suffix(1);
  }
  std::string quoted = "\"";
  for (const char c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !utf8)) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      quoted += c;
    }
  }
  quoted += '"';
  if (shown.size() < text.size()) quoted += fmt::format("... ({} bytes)", text.size());
  return quoted;
}

absl::StatusOr<Scenario> ParseScenario(std::string_view text) {
  Finding finding;
  Builder builder(finding);
  Json::sax_parse(text.begin(), text.end(), &builder);
  Scenario scenario;
  if (!finding.any()) scenario = ToScenario(builder.Take(), finding);
  if (finding.any()) return absl::InvalidArgumentError(finding.what());
  return scenario;
}

absl::StatusOr<Scenario> ReadScenario(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) return absl::NotFoundError(std::strerror(errno));
  std::string text;
  char block[1 << 16];
  while (const size_t size = std::fread(block, 1, sizeof block, file.get())) {
    text.append(block, size);
  }
  if (std::ferror(file.get()) != 0) return absl::NotFoundError(std::strerror(errno));
  return ParseScenario(text);
}

}  // namespace lessor_tool
