#include "lessor/change.h"

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "lessor/error.h"
#include "lessor/ids.h"
#include "lessor/record.h"
#include "lessor/time.h"

// Version 1 of the encoding:
//
//   a change    the version, one byte; the kind, one byte: its index in Change::What; now; the
//   kind's
//               fields in the order of FieldsOf() below
//   an integer  LEB128 in as few bytes as it needs
//   an instant  its milliseconds in zigzag (0, -1, 1, -2, ...), an integer
//   a duration  its milliseconds, an integer
//   bool, enum  one byte
//   an id       16 bytes, the highest first
//   a text      its size, its bytes
//   records     how many; how many headers all of them have together; of each record its content,
//   how
//               many headers it has, and the name and the value of each
//   ranges      how many; of each its first offset and its size
//
// What stores have kept must stay readable: another encoding is another version beside this one.
// A change has exactly one encoding; everything else is refused.
namespace lessor::inline LESSOR_ABI {
namespace {

constexpr uint8_t kVersion = 1;
constexpr size_t kKinds = std::variant_size_v<Change::What>;

// The longest duration: added to an instant or taken from one, it does not overflow.
constexpr Millis kMaxDuration = Instant::Max() - Instant::Min();

// The fewest bytes that a record, a header or a range takes: two integers.
constexpr size_t kLeastBytes = 2;

// U, to read or to write.
template <class T, class U>
concept Is = std::same_as<std::remove_const_t<T>, U>;

// The fields of each kind, in the order of their encoding.
auto FieldsOf(Is<change::StreamCreated> auto& what) {
  return std::tie(what.name, what.retention, what.http, what.worker_binding);
}
auto FieldsOf(Is<change::StreamUpdated> auto& what) {
  return std::tie(what.retention, what.http, what.worker_binding);
}
auto FieldsOf(Is<change::StreamDeleted> auto&) { return std::tie(); }
auto FieldsOf(Is<change::Appended> auto& what) {
  return std::tie(what.first, what.timestamp, what.records);
}
auto FieldsOf(Is<change::Subscribed> auto& what) {
  return std::tie(what.subscription, what.name, what.start_at, what.cursor);
}
auto FieldsOf(Is<change::Unsubscribed> auto& what) { return std::tie(what.subscription); }
auto FieldsOf(Is<change::Granted> auto& what) {
  return std::tie(what.subscription, what.batch, what.worker, what.leased_until, what.ranges);
}
auto FieldsOf(Is<change::Renewed> auto& what) {
  return std::tie(what.subscription, what.batch, what.leased_until);
}
auto FieldsOf(Is<change::Acked> auto& what) { return std::tie(what.subscription, what.batch); }
auto FieldsOf(Is<change::Released> auto& what) { return std::tie(what.subscription, what.batch); }

constexpr uint64_t ToZigzag(int64_t value) {
  return static_cast<uint64_t>(value) << 1U ^ (value < 0 ? ~uint64_t{0} : 0);
}
constexpr int64_t FromZigzag(uint64_t value) {
  return static_cast<int64_t>(value >> 1U ^ ((value & 1U) != 0 ? ~uint64_t{0} : 0));
}

// How many bytes Writer::PutInteger() writes.
constexpr size_t IntegerSize(uint64_t value) {
  return (static_cast<size_t>(std::bit_width(value | 1U)) + 6) / 7;
}
constexpr size_t TextSize(std::string_view text) { return IntegerSize(text.size()) + text.size(); }

class Writer {
 public:
  Writer() { bytes_.reserve(64); }

  std::string Take() && { return std::move(bytes_); }

  void PutByte(uint8_t byte) { bytes_.push_back(static_cast<char>(byte)); }
  void PutInteger(uint64_t value) {
    for (; value >= 0x80; value >>= 7U) PutByte(static_cast<uint8_t>(value | 0x80U));
    PutByte(static_cast<uint8_t>(value));
  }

  void Put(bool flag) { PutByte(flag ? 1 : 0); }
  void Put(StartAt start_at) { PutByte(static_cast<uint8_t>(start_at)); }
  void Put(Offset offset) { PutInteger(offset); }
  void Put(Instant instant) { PutInteger(ToZigzag(instant.ms)); }
  void Put(Millis duration) { PutInteger(static_cast<uint64_t>(duration.count)); }
  void Put(std::string_view text) {
    PutInteger(text.size());
    bytes_.append(text);
  }
  template <class Tag>
  void Put(const Id<Tag>& id) {
    for (const uint64_t half : {id.high, id.low}) {
      for (unsigned shift = 64; shift > 0; shift -= 8) {
        PutByte(static_cast<uint8_t>(half >> (shift - 8)));
      }
    }
  }
  void Put(std::span<const OffsetRange> ranges) {
    PutInteger(ranges.size());
    for (const OffsetRange& range : ranges) {
      PutInteger(range.first);
      PutInteger(range.size());
    }
  }
  void Put(std::span<const Record> records) {
    size_t headers = 0;
    size_t size = IntegerSize(records.size());
    for (const Record& record : records) {
      headers += record.headers.size();
      size += TextSize(record.content) + IntegerSize(record.headers.size());
      for (const Header& header : record.headers) {
        size += TextSize(header.name) + TextSize(header.value);
      }
    }
    bytes_.reserve(bytes_.size() + size + IntegerSize(headers));
    PutInteger(records.size());
    PutInteger(headers);
    for (const Record& record : records) {
      Put(record.content);
      PutInteger(record.headers.size());
      for (const Header& header : record.headers) {
        Put(header.name);
        Put(header.value);
      }
    }
  }

 private:
  std::string bytes_;
};

// Reads what a Writer wrote. After the first failure there are no bytes left, and what is read is
// zero or empty.
class Reader {
 public:
  // The arrays that are read belong to the caller.
  Reader(std::string_view bytes, std::unique_ptr<Record[]>& records,
         std::unique_ptr<Header[]>& headers, std::vector<OffsetRange>& ranges)
      : size_(bytes.size()), rest_(bytes), records_(records), headers_(headers), ranges_(ranges) {}

  // OK if every byte was read and none was wrong.
  absl::Status Finish() {
    if (!rest_.empty()) Fail("bytes after the end");
    if (failure_.empty()) return absl::OkStatus();
    return MakeError(Reason::kInternal, fmt::format("not a change: {} before byte {} of {}",
                                                    failure_, failed_at_, size_));
  }

  void Fail(std::string_view failure) {
    if (!failure_.empty()) return;
    failure_ = failure;
    failed_at_ = size_ - rest_.size();
    rest_ = {};
  }

  // A byte below `end`.
  uint8_t GetByte(size_t end, std::string_view otherwise) {
    const std::string_view byte = GetBytes(1);
    if (byte.empty()) return 0;
    const auto value = static_cast<uint8_t>(byte.front());
    if (value < end) return value;
    Fail(otherwise);
    return 0;
  }

  void Get(bool& flag) { flag = GetByte(2, "a flag that is neither 0 nor 1") != 0; }
  void Get(StartAt& start_at) {
    constexpr size_t kEnd = static_cast<size_t>(StartAt::kLatest) + 1;
    start_at = static_cast<StartAt>(GetByte(kEnd, "an unknown start"));
  }
  void Get(Offset& offset) { offset = GetInteger(); }
  void Get(Instant& instant) {
    instant.ms = FromZigzag(GetInteger());
    if (instant < Instant::Min() || instant > Instant::Max()) Fail("an instant out of range");
  }
  void Get(Millis& duration) {
    const uint64_t count = GetInteger();
    if (count > static_cast<uint64_t>(kMaxDuration.count)) return Fail("a duration out of range");
    duration.count = static_cast<int64_t>(count);
  }
  void Get(std::string_view& text) { text = GetBytes(GetInteger()); }
  template <class Tag>
  void Get(Id<Tag>& id) {
    const std::string_view bytes = GetBytes(16);
    for (size_t i = 0; i < bytes.size(); ++i) {
      uint64_t& half = i < 8 ? id.high : id.low;
      half = half << 8U | static_cast<uint8_t>(bytes[i]);
    }
  }
  void Get(std::span<const OffsetRange>& ranges) {
    const size_t count = GetCount(0);
    ranges_.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      const Offset first = GetInteger();
      const Offset end = first + GetInteger();
      if (first >= end) return Fail("an empty or endless range");
      ranges_.push_back({first, end});
    }
    ranges = ranges_;
  }
  void Get(std::span<const Record>& records) {
    const size_t count = GetCount(0);
    const size_t header_count = GetCount(count);
    if (count > 0) records_ = std::make_unique<Record[]>(count);
    if (header_count > 0) headers_ = std::make_unique<Header[]>(header_count);
    size_t headers_read = 0;
    for (size_t i = 0; i < count; ++i) {
      Record& record = records_[i];
      Get(record.content);
      const uint64_t own = GetInteger();
      if (own > header_count - headers_read) return Fail("more headers than were announced");
      if (own == 0) continue;
      Header* const first = &headers_[headers_read];
      const std::span<Header> headers(first, static_cast<size_t>(own));
      for (Header& header : headers) {
        Get(header.name);
        Get(header.value);
      }
      record.headers = HeaderList(first, headers.size());
      headers_read += headers.size();
    }
    if (headers_read != header_count) return Fail("fewer headers than were announced");
    records = {records_.get(), count};
  }

 private:
  std::string_view GetBytes(uint64_t size) {
    if (size > rest_.size()) {
      Fail("a field cut short");
      return {};
    }
    const std::string_view bytes = rest_.substr(0, static_cast<size_t>(size));
    rest_.remove_prefix(bytes.size());
    return bytes;
  }

  uint64_t GetInteger() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) break;
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      if (shift == 63 && byte > 1) break;
      value |= static_cast<uint64_t>(byte & 0x7FU) << shift;
      if (byte >= 0x80) continue;
      if (byte != 0 || shift == 0) return value;
      break;
    }
    Fail("an integer cut short, too large or longer than it need be");
    return 0;
  }

  // How many things follow, `before` of others not counted: no more than the bytes can hold, so
  // that the memory taken for them is in proportion to the input.
  size_t GetCount(size_t before) {
    const uint64_t count = GetInteger();
    const size_t most = rest_.size() / kLeastBytes;
    if (before <= most && count <= most - before) return static_cast<size_t>(count);
    Fail("a count of more than the bytes can hold");
    return 0;
  }

  size_t size_;
  std::string_view rest_;
  std::string_view failure_;
  size_t failed_at_ = 0;
  std::unique_ptr<Record[]>& records_;
  std::unique_ptr<Header[]>& headers_;
  std::vector<OffsetRange>& ranges_;
};

// Makes `what` an empty change of the kind that has this index.
template <size_t... Index>
void Emplace(Change::What& what, size_t kind, std::index_sequence<Index...>) {
  ((Index == kind ? static_cast<void>(what.emplace<Index>()) : void()), ...);
}

}  // namespace

std::string EncodeChange(const Change& change) {
  static_assert(kKinds <= 0x100);
  Writer writer;
  writer.PutByte(kVersion);
  writer.PutByte(static_cast<uint8_t>(change.what.index()));
  writer.Put(change.now);
  const auto put = [&](const auto&... fields) { (writer.Put(fields), ...); };
  std::visit([&](const auto& what) { std::apply(put, FieldsOf(what)); }, change.what);
  return std::move(writer).Take();
}

absl::StatusOr<DecodedChange> DecodedChange::Decode(std::string_view bytes) {
  DecodedChange decoded;
  Change& change = decoded.change_;
  Reader reader(bytes, decoded.records_, decoded.headers_, decoded.ranges_);
  if (reader.GetByte(kVersion + 1, "an unknown version") != kVersion) {
    reader.Fail("an unknown version");
  }
  const size_t kind = reader.GetByte(kKinds, "an unknown kind");
  Emplace(change.what, kind, std::make_index_sequence<kKinds>());
  reader.Get(change.now);
  const auto get = [&](auto&... fields) { (reader.Get(fields), ...); };
  std::visit([&](auto& what) { std::apply(get, FieldsOf(what)); }, change.what);
  absl::Status status = reader.Finish();
  if (!status.ok()) return status;
  return decoded;
}

}  // namespace lessor::inline LESSOR_ABI
