#include "lessor/core/validate.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "fmt/format.h"
#include "lessor/error.h"
#include "lessor/limits.h"
#include "lessor/record.h"
#include "lessor/segment.h"

namespace lessor::inline LESSOR_ABI {
namespace {

absl::Status Invalid(std::string_view message) {
  return MakeError(Reason::kInvalidArgument, message);
}

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

constexpr size_t kMaxNameBytes = 128;
constexpr int64_t kMaxWorkerCharacters = 256;

absl::Status CheckName(std::string_view what, std::string_view name, std::string_view others) {
  bool good = !name.empty() && name.size() <= kMaxNameBytes;
  for (size_t i = 0; good && i < name.size(); ++i) {
    good = IsLetterOrDigit(name[i]) || others.find(name[i]) != std::string_view::npos;
  }
  if (good) return absl::OkStatus();
  return Invalid(fmt::format("a {} name is 1-{} letters, digits or {}", what, kMaxNameBytes,
                             others == "_" ? "underscores" : "underscores and hyphens"));
}

absl::Status CheckHeaders(size_t index, HeaderList headers, const Limits& limits) {
  const auto over = [](size_t value, int64_t limit) {
    return static_cast<uint64_t>(value) > static_cast<uint64_t>(limit);
  };
  if (over(headers.size(), limits.max_headers)) {
    return Invalid(fmt::format("record {}: {} headers; at most {} are allowed", index,
                               headers.size(), limits.max_headers));
  }
  size_t total = 0;
  for (const Header& header : headers) {
    total += header.name.size() + header.value.size();
    if (header.name.empty()) {
      return Invalid(fmt::format("record {}: a header name is empty", index));
    }
    if (over(header.name.size(), limits.max_header_name_bytes)) {
      return Invalid(fmt::format("record {}: a header name has {} bytes; at most {} are allowed",
                                 index, header.name.size(), limits.max_header_name_bytes));
    }
    if (over(header.value.size(), limits.max_header_value_bytes)) {
      return Invalid(fmt::format("record {}: a header value has {} bytes; at most {} are allowed",
                                 index, header.value.size(), limits.max_header_value_bytes));
    }
  }
  if (over(total, limits.max_headers_bytes)) {
    return Invalid(fmt::format("record {}: headers of {} bytes; at most {} are allowed", index,
                               total, limits.max_headers_bytes));
  }
  for (const Header* header = headers.begin(); header != headers.end(); ++header) {
    if (CountUtf8(header->name) < 0 || CountUtf8(header->value) < 0) {
      return Invalid(fmt::format("record {}: a header is not valid UTF-8", index));
    }
    for (const Header* earlier = headers.begin(); earlier != header; ++earlier) {
      if (earlier->name == header->name) {
        return Invalid(fmt::format("record {}: a header name appears twice", index));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

int64_t CountUtf8(std::string_view text) {
  int64_t characters = 0;
  size_t i = 0;
  // ASCII, eight at a time.
  for (uint64_t eight = 0; i + 8 <= text.size(); i += 8, characters += 8) {
    std::memcpy(&eight, text.data() + i, 8);
    if ((eight & 0x8080808080808080U) != 0) break;
  }
  for (; i < text.size(); ++characters) {
    const auto lead = static_cast<unsigned char>(text[i]);
    size_t length = 1;
    uint32_t character = lead;
    uint32_t least = 0;
    if (lead >= 0x80) {
      if (lead >= 0xC0 && lead < 0xE0) {
        length = 2;
        character = lead & 0x1FU;
        least = 0x80;
      } else if (lead >= 0xE0 && lead < 0xF0) {
        length = 3;
        character = lead & 0x0FU;
        least = 0x800;
      } else if (lead >= 0xF0 && lead < 0xF8) {
        length = 4;
        character = lead & 0x07U;
        least = 0x10000;
      } else {
        return -1;
      }
      if (length > text.size() - i) return -1;
      for (size_t k = 1; k < length; ++k) {
        const auto next = static_cast<unsigned char>(text[i + k]);
        if ((next & 0xC0U) != 0x80U) return -1;
        character = character << 6U | (next & 0x3FU);
      }
      const bool surrogate = character >= 0xD800 && character <= 0xDFFF;
      if (character < least || character > 0x10FFFF || surrogate) return -1;
    }
    i += length;
  }
  return characters;
}

std::string FoldCase(std::string_view name) {
  std::string folded(name);
  for (char& c : folded) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return folded;
}

absl::Status CheckStreamName(std::string_view name) { return CheckName("stream", name, "_"); }

absl::Status CheckSubscriptionName(std::string_view name) {
  return CheckName("subscription", name, "_-");
}

absl::Status CheckRetention(absl::Duration retention) {
  if (retention >= absl::Seconds(3'600) && retention <= absl::Seconds(2'592'000)) {
    return absl::OkStatus();
  }
  return Invalid("a retention is 3600 to 2592000 seconds");
}

absl::Status CheckWorker(std::string_view worker) {
  // A character takes at most four bytes: what is longer need not be read.
  const int64_t characters = worker.size() > 4 * kMaxWorkerCharacters ? -1 : CountUtf8(worker);
  if (characters >= 1 && characters <= kMaxWorkerCharacters) return absl::OkStatus();
  return Invalid(fmt::format("a worker id is 1-{} characters of UTF-8", kMaxWorkerCharacters));
}

absl::Status CheckMaxRecords(int64_t max_records, const Limits& limits) {
  if (max_records >= 1 && max_records <= limits.max_consume_records) return absl::OkStatus();
  return Invalid(fmt::format("max_records is {}; it must be 1 to {}", max_records,
                             limits.max_consume_records));
}

absl::Status CheckProduce(std::span<const Record> records, const Limits& limits,
                          int64_t& footprint) {
  if (records.empty()) return Invalid("a produce needs at least one record");
  const auto most = static_cast<uint64_t>(limits.max_record_bytes);
  uint64_t total = 0;
  uint64_t held = 0;
  size_t too_large = records.size();
  for (size_t i = 0; i < records.size(); ++i) {
    uint64_t size = records[i].content.size();
    held += size + Segment::kEntryBytes;
    if (!records[i].headers.empty()) {
      absl::Status status = CheckHeaders(i, records[i].headers, limits);
      if (!status.ok()) return status;
      held += Segment::Footprint(records[i]) - size - Segment::kEntryBytes;
      size = SizeOf(records[i]);
    }
    if (size > most && too_large == records.size()) too_large = i;
    total += size;
  }
  if (too_large < records.size()) {
    return MakeError(Reason::kRecordTooLarge,
                     fmt::format("record {} has {} bytes; at most {} are allowed", too_large,
                                 SizeOf(records[too_large]), limits.max_record_bytes));
  }
  if (total > static_cast<uint64_t>(limits.max_produce_bytes)) {
    return MakeError(Reason::kProduceTooLarge,
                     fmt::format("the records have {} bytes together; at most {} are allowed",
                                 total, limits.max_produce_bytes));
  }
  footprint = static_cast<int64_t>(held);
  return absl::OkStatus();
}

}  // namespace lessor::inline LESSOR_ABI
