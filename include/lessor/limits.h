// lessor/limits.h: every number of the contract, as data.
#ifndef LESSOR_LIMITS_H_
#define LESSOR_LIMITS_H_

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lessor/export.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// The limits of one Broker. Each is exact: the limit itself is accepted, one more is refused. The
/// defaults are the hosted service's. They hold for new calls; what is already stored stays.
struct Limits {
  /// How long a lease lasts from the call that gives or refreshes it. Range: 1 ms to 365 days;
  /// rounded up to a millisecond. Spec: S16.
  absl::Duration lease = absl::Seconds(300);

  /// Streams at once. Beyond: Reason::kStreamLimit. Spec: S1.
  int64_t max_streams = 20;
  /// Subscriptions of one stream. Beyond: Reason::kSubscriptionLimit. Spec: S8.
  int64_t max_subscriptions = 100;
  /// Active leases of one subscription. Beyond: Reason::kLeaseLimit. Spec: S14.
  int64_t max_active_leases = 128;
  /// The largest max_records of a consume. Spec: S12.
  int64_t max_consume_records = 10'000;
  /// Bytes of content + headers in one batch; the first record always fits. Spec: S15.
  int64_t max_batch_bytes = 10'000'000;

  /// Bytes of content + headers of one record. Beyond: Reason::kRecordTooLarge. Range: at most
  /// 2^30 - 2^20. Spec: S4.
  int64_t max_record_bytes = 1'000'000;
  /// Bytes of all records of one produce. Beyond: Reason::kProduceTooLarge. Spec: S4.
  int64_t max_produce_bytes = 5'000'000;
  /// Headers of one record. Beyond, as for the next three: Reason::kInvalidArgument. Range: at
  /// most 65,536. Spec: S4.
  int64_t max_headers = 32;
  int64_t max_header_name_bytes = 256;
  int64_t max_header_value_bytes = 8'192;
  /// Bytes of all header names and values of one record.
  int64_t max_headers_bytes = 65'536;

  /// Bytes that all streams of the Broker may hold: for each retained record its content, its
  /// headers and 8 bytes (16 + 8 a header more where it has headers). Default: no limit. Beyond:
  /// Reason::kFull. Memory above it: blocks badly filled (records of half a block take up to
  /// twice their size), not yet full or not yet reclaimed (up to 512 KiB a
  /// stream), spare blocks (16 MiB), and records that leases pin after retention removed them (at
  /// most max_active_leases x max_batch_bytes a subscription). Spec: S31.
  int64_t max_bytes_held = std::numeric_limits<int64_t>::max();

  /// OK, or Reason::kInvalidArgument naming the first field that is out of range.
  LESSOR_EXPORT absl::Status Check() const;
};

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_LIMITS_H_
