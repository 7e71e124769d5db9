#include "lessor/error.h"

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace lessor::inline LESSOR_ABI {
namespace {

constexpr char kPayload[] = "lessor/reason";

using Code = absl::StatusCode;

// In the order of the enumeration. The wire codes and the last column are those of the spec's
// table.
constexpr std::array<ReasonFacts, 19> kFacts = {{
    {"none", Code::kOk, 0, false},
    {"no_such_stream", Code::kNotFound, 10200, false},
    {"name_taken", Code::kAlreadyExists, 10201, false},
    {"invalid_argument", Code::kInvalidArgument, 10204, false},
    {"stream_limit", Code::kResourceExhausted, 10204, false},
    {"produce_too_large", Code::kInvalidArgument, 10206, false},
    {"record_too_large", Code::kInvalidArgument, 10207, false},
    {"unavailable", Code::kUnavailable, 10211, true},
    {"full", Code::kResourceExhausted, 10211, true},
    {"outcome_unknown", Code::kUnknown, 10212, false},
    {"internal", Code::kInternal, 10213, false},
    {"read_failed", Code::kUnavailable, 10214, true},
    {"no_such_subscription", Code::kNotFound, 10215, false},
    {"lease_limit", Code::kResourceExhausted, 10216, true},
    {"still_reading", Code::kAborted, 10217, true},
    {"lease_not_held", Code::kFailedPrecondition, 10218, false},
    {"subscription_limit", Code::kResourceExhausted, 10219, false},
    {"cancelled", Code::kCancelled, 0, false},
    {"race_lost", Code::kAborted, 0, true},
}};
static_assert(kFacts.size() == static_cast<size_t>(Reason::kRaceLost) + 1);

}  // namespace

const ReasonFacts& FactsOf(Reason reason) {
  const auto index = static_cast<size_t>(reason);
  return kFacts[index < kFacts.size() ? index : static_cast<size_t>(Reason::kInternal)];
}

Reason ReasonOf(const absl::Status& status) {
  if (status.ok()) return Reason::kNone;
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return Reason::kNone;
  const std::string name(*payload);
  for (size_t i = 0; i < kFacts.size(); ++i) {
    if (kFacts[i].name == name) return static_cast<Reason>(i);
  }
  return Reason::kNone;
}

int WireCodeOf(const absl::Status& status) { return FactsOf(ReasonOf(status)).wire_code; }

absl::Status MakeError(Reason reason, std::string_view message) {
  const ReasonFacts& facts = FactsOf(reason);
  absl::Status status(facts.code, absl::string_view(message.data(), message.size()));
  status.SetPayload(kPayload, absl::Cord(absl::string_view(facts.name.data(), facts.name.size())));
  return status;
}

}  // namespace lessor::inline LESSOR_ABI
