#include "lessor/core/explain.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "fmt/format.h"
#include "lessor/position.h"
#include "lessor/time.h"

namespace lessor::inline LESSOR_ABI {
namespace {

std::string Count(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace

std::string SentenceOf(const Explanation& explanation, Instant now) {
  using Answer = Explanation::Answer;
  const Position& position = explanation.position;
  const std::string leases = Count(position.active_leases, "lease");
  const std::string wait = absl::FormatDuration(explanation.next_lease_end - ToTime(now));
  std::string sentence;
  switch (explanation.answer) {
    case Answer::kRecords:
      sentence = fmt::format("{} available", Count(position.available, "record"));
      if (position.active_leases > 0) {
        sentence += fmt::format("; {} more leased under {}", position.leased, leases);
      }
      break;
    case Answer::kNothingProduced:
      sentence = "nothing has been produced since the subscription started";
      break;
    case Answer::kCaughtUp:
      sentence = fmt::format("nothing is left to deliver up to offset {}", position.end);
      break;
    case Answer::kAllLeased:
      sentence = fmt::format("all {} left are leased under {}; the first lease ends in {}",
                             Count(position.leased, "record"), leases, wait);
      break;
    case Answer::kLeaseLimit:
      sentence =
          position.active_leases == 0
              ? std::string("no lease is allowed at all")
              : fmt::format("all {} allowed are in use; the first one ends in {}", leases, wait);
      break;
  }
  if (position.skipped > 0) {
    sentence +=
        fmt::format("; retention removed {} unprocessed", Count(position.skipped, "record"));
  }
  return sentence;
}

}  // namespace lessor::inline LESSOR_ABI
