#include "lessor/limits.h"

#include <cstdint>
#include <limits>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "fmt/format.h"
#include "lessor/error.h"

namespace lessor::inline LESSOR_ABI {

absl::Status Limits::Check() const {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  constexpr int64_t kRecordBytes = (int64_t{1} << 30) - (int64_t{1} << 20);
  const struct {
    std::string_view name;
    int64_t value;
    int64_t least;
    int64_t most;
  } fields[] = {
      {"max_streams", max_streams, 0, kAny},
      {"max_subscriptions", max_subscriptions, 0, kAny},
      {"max_active_leases", max_active_leases, 0, int64_t{1} << 31},
      {"max_consume_records", max_consume_records, 1, kAny},
      {"max_batch_bytes", max_batch_bytes, 0, kAny},
      {"max_record_bytes", max_record_bytes, 0, kRecordBytes},
      {"max_produce_bytes", max_produce_bytes, 0, kAny},
      {"max_headers", max_headers, 0, 65'536},
      {"max_header_name_bytes", max_header_name_bytes, 0, kAny},
      {"max_header_value_bytes", max_header_value_bytes, 0, kAny},
      {"max_headers_bytes", max_headers_bytes, 0, kAny},
      {"max_bytes_held", max_bytes_held, 0, kAny},
  };
  for (const auto& field : fields) {
    if (field.value >= field.least && field.value <= field.most) continue;
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("Limits::{} is {}; it must be {} to {}", field.name, field.value,
                                 field.least, field.most));
  }
  if (lease <= absl::ZeroDuration() || lease > absl::Hours(24 * 365)) {
    return MakeError(Reason::kInvalidArgument, "Limits::lease must be 1 ms to 365 days");
  }
  return absl::OkStatus();
}

}  // namespace lessor::inline LESSOR_ABI
