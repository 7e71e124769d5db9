// property/program.h: what a property test runs: a setup and a list of operations.
//
// Operations name what earlier ones made by the label of the operation that made it, so that a
// program is still a program when some of its operations are left out.
#ifndef LESSOR_TESTS_PROPERTY_PROGRAM_H_
#define LESSOR_TESTS_PROPERTY_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lessor/change.h"
#include "lessor/limits.h"
#include "lessor/policy.h"

namespace lessor_tests {

/// The label of the operation that made a thing; of no operation if the thing never was.
using Label = int;

struct RecordSpec {
  size_t size = 0;  ///< Of the content; its bytes are ContentOf().
  std::vector<std::pair<std::string, std::string>> headers;
};

enum class Do {
  kCreateStream,
  kUpdateStream,
  kDeleteStream,
  kProduce,
  kSubscribe,
  kUnsubscribe,
  kFind,
  kConsume,
  kAck,
  kNack,
  kExtend,
  kClock,    ///< Sets the clock to `ms` after the start, and shows it to the broker.
  kRestart,  ///< Closes the broker and opens one over its store, not before the time it had seen.
};

struct Operation {
  Do what = Do::kClock;
  Label label = 0;
  Label stream = 0;
  Label subscription = 0;
  Label batch = 0;
  std::string name;                          ///< kCreateStream, kSubscribe, kFind.
  std::optional<int64_t> ms;                 ///< kCreateStream, kUpdateStream: retention. kClock.
  std::optional<bool> http, worker_binding;  ///< kCreateStream, kUpdateStream.
  lessor::StartAt start_at = lessor::StartAt::kEarliest;  ///< kSubscribe.
  std::string worker;                                     ///< kConsume to kExtend.
  int64_t max_records = 1;                                ///< kConsume.
  bool wait = false;                ///< kConsume: the form that waits, until an instant long gone.
  std::vector<RecordSpec> records;  ///< kProduce.
};

using Program = std::vector<Operation>;

struct Setup {
  uint64_t seed = 0;
  lessor::Limits limits;
  lessor::StreamPolicy policy;
};

/// The bytes of record `index` of the produce `label`.
std::string ContentOf(Label label, size_t index, size_t size);
/// A record as answers show it.
std::string ShowRecord(uint64_t offset, int64_t timestamp_ms, std::string_view content,
                       const std::vector<std::pair<std::string, std::string>>& headers);

std::string Show(const Operation& operation);
std::string Show(const Setup& setup);
std::string Show(const Program& program);

/// Instants of a program count from here.
inline constexpr int64_t kStartMs = 1'790'164'800'000;

}  // namespace lessor_tests

#endif  // LESSOR_TESTS_PROPERTY_PROGRAM_H_
