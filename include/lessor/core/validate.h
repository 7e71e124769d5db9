// lessor/core/validate.h: what arguments may be, checked before anything is looked up.
#ifndef LESSOR_CORE_VALIDATE_H_
#define LESSOR_CORE_VALIDATE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lessor/export.h"
#include "lessor/limits.h"
#include "lessor/record.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// The number of Unicode characters in `text`, or -1 if it is not valid UTF-8 (overlong forms,
/// surrogates and anything beyond U+10FFFF are not).
LESSOR_EXPORT int64_t CountUtf8(std::string_view text);

/// `name` with A-Z as a-z: what names that ignore case are compared by.
LESSOR_EXPORT std::string FoldCase(std::string_view name);

/// S1: kInvalidArgument unless 1-128 letters, digits, underscores.
LESSOR_EXPORT absl::Status CheckStreamName(std::string_view name);
/// S1: kInvalidArgument unless 3,600-2,592,000 seconds.
LESSOR_EXPORT absl::Status CheckRetention(absl::Duration retention);
/// S7: kInvalidArgument unless 1-128 letters, digits, underscores, hyphens.
LESSOR_EXPORT absl::Status CheckSubscriptionName(std::string_view name);
/// S12: kInvalidArgument unless 1-256 characters of valid UTF-8.
LESSOR_EXPORT absl::Status CheckWorker(std::string_view worker);
/// S12: kInvalidArgument unless 1 to the limit.
LESSOR_EXPORT absl::Status CheckMaxRecords(int64_t max_records, const Limits& limits);
/// S3, S4: headers first, then kRecordTooLarge, then kProduceTooLarge. On success `footprint` is
/// what the records will take of Limits::max_bytes_held.
LESSOR_EXPORT absl::Status CheckProduce(std::span<const Record> records, const Limits& limits,
                                        int64_t& footprint);

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_CORE_VALIDATE_H_
