// scenario_file.h: a scenario file as typed data.
//
// A scenario is a JSON file that scripts calls against a manual clock and says what each must
// answer. Reading is strict: whatever is not understood to the last key is an error, so that no
// expectation goes unchecked because of a slip of the pen.
#ifndef LESSOR_TOOL_SCENARIO_FILE_H_
#define LESSOR_TOOL_SCENARIO_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "lessor/ids.h"
#include "lessor/limits.h"
#include "lessor/service.h"

namespace lessor_tool {

/// Bytes: `unit`, `count` times over. Kept that way, because limits are tested with megabytes.
struct Content {
  std::string unit;
  uint64_t count = 1;

  size_t size() const { return unit.size() * count; }
  bool Equals(std::string_view bytes) const;
};

struct HeaderSpec {
  Content name;
  Content value;
};

/// A record to produce, or one that is expected.
struct RecordSpec {
  Content content;
  /// Absent: the content is written alone, and compared alone.
  std::optional<std::vector<HeaderSpec>> headers;
};

/// The items, `repeats` times over.
struct RecordList {
  std::vector<RecordSpec> items;
  uint64_t repeats = 1;

  size_t size() const { return items.size() * repeats; }
  const RecordSpec& operator[](size_t index) const { return items[index % items.size()]; }
};

/// The name that a step's `as` gave to a stream, a subscription or a batch.
struct Alias {
  std::string name;
};

/// A batch by alias, or by an id that is written out and may be any text.
using BatchName = std::variant<Alias, std::string>;

// One struct an operation: its arguments, and what is expected of its answer. Absent expectations
// are not checked.

struct CreateStream {
  std::string name;
  std::optional<int64_t> retention_seconds;
  bool http = true;
  bool worker_binding = true;
};

struct UpdateStream {
  Alias stream;
  int64_t retention_seconds = 0;
};

struct DeleteStream {
  Alias stream;
};

struct Produce {
  Alias stream;
  RecordList records;
};

struct Subscribe {
  Alias stream;
  std::string name;
  lessor::StartAt start_at = lessor::StartAt::kEarliest;
  std::optional<Alias> expect_same_as;
};

struct ListSubscriptions {
  Alias stream;
  std::optional<std::string> name;
  std::optional<std::vector<std::string>> expect_names;
};

struct DeleteSubscription {
  Alias subscription;
};

struct Consume {
  Alias subscription;
  std::string worker_id;
  int64_t max_records = 0;
  std::optional<bool> expect_empty;
  std::optional<RecordList> expect_records;
  std::optional<int64_t> expect_count;
  std::optional<RecordSpec> expect_first;
  std::optional<RecordSpec> expect_last;
  std::optional<int64_t> expect_leased_until_ms;
  std::optional<Alias> expect_same_batch;
  std::optional<bool> expect_new_batch;
  std::optional<std::vector<int64_t>> expect_timestamps_ms;
};

/// Ack or nack.
struct Settle {
  bool ack = true;
  BatchName batch;
  std::optional<Alias> subscription;  ///< Absent: the one that gave the batch.
  std::string worker_id;
};

struct Extend {
  BatchName batch;
  std::optional<Alias> subscription;
  std::string worker_id;
  std::optional<int64_t> expect_leased_until_ms;
};

struct GetPosition {
  Alias subscription;
  std::optional<int64_t> expect_committed;
  std::optional<int64_t> expect_active_leases;
  std::optional<int64_t> expect_available;
  std::optional<int64_t> expect_skipped;
};

/// Closes and reopens what holds the state; as by kill -9 if it is a crash.
struct Restart {
  bool crash = false;
};

struct Step {
  int64_t at_ms = 0;                    ///< After the scenario's start. It may go down.
  std::optional<Alias> as;              ///< What the result is called from here on.
  std::optional<int64_t> expect_error;  ///< The wire code of the refusal that is expected.
  std::variant<CreateStream, UpdateStream, DeleteStream, Produce, Subscribe, ListSubscriptions,
               DeleteSubscription, Consume, Settle, Extend, GetPosition, Restart>
      op;
};

struct Scenario {
  std::string name;
  int64_t start_ms = 0;
  lessor::Limits limits;
  /// The backends that it is meant for; absent for all.
  std::optional<std::vector<std::string>> backends;
  std::vector<Step> steps;

  /// Whether a step restarts or crashes what holds the state.
  bool Restarts() const;
};

/// `text` in quotes, on one line, whatever is in it; a long one is cut short and its size told.
std::string Quoted(std::string_view text);

/// The backends that a scenario may name.
inline constexpr std::string_view kBackendNames[] = {"memory", "sqlite", "http"};

/// The scenario that `text` is. Errors: kInvalidArgument; the message says in which step (from 1)
/// and what is wrong.
absl::StatusOr<Scenario> ParseScenario(std::string_view text);

/// The scenario in a file. Errors: as above; kNotFound if it cannot be read.
absl::StatusOr<Scenario> ReadScenario(const std::string& path);

}  // namespace lessor_tool

#endif  // LESSOR_TOOL_SCENARIO_FILE_H_
