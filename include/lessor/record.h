// lessor/record.h: what a caller produces.
#ifndef LESSOR_RECORD_H_
#define LESSOR_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// A record's place in its stream: 0, 1, 2, ... in the order of appending. In process only; offsets
/// never appear on the wire. Spec: S3.
using Offset = uint64_t;

/// One header of a record: a name and a value, both UTF-8. Names keep their case; values keep their
/// bytes. Lifetime: borrows both texts.
struct Header {
  std::string_view name;
  std::string_view value;
};

/// The headers of a record that is being produced: a view of an array of Header.
///
/// Lifetime: borrows the array. Written in braces inside a call, as in the example of Record, it
///   lives until that call has returned; do not keep it in a variable.
class HeaderList {
 public:
  constexpr HeaderList() = default;
  constexpr HeaderList(const Header* first, size_t size) : first_(first), size_(size) {}
  HeaderList(const std::vector<Header>& headers)  // NOLINT(google-explicit-constructor)
      : HeaderList(headers.data(), headers.size()) {}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
#endif
  constexpr HeaderList(std::initializer_list<Header> headers)
      : first_(headers.begin()), size_(headers.size()) {}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const Header* begin() const { return first_; }
  constexpr const Header* end() const { return first_ + size_; }

 private:
  const Header* first_ = nullptr;
  size_t size_ = 0;
};

/// A record to produce: content (any bytes, may be empty) and optional headers.
///
/// Limits: see Limits; content plus header names and values at most 1,000,000 bytes by default.
/// Lifetime: borrows everything it names until the call has returned; the stream keeps a copy.
/// Example:
///   stream.Produce({{.content = payload, .headers = {{"event-type", "order.created"}}}});
/// Spec: S2, S4.
struct Record {
  std::string_view content = {};
  HeaderList headers = {};
};

/// The size that every limit counts: bytes of content, header names and header values. Spec: S4.
inline size_t SizeOf(const Record& record) {
  size_t size = record.content.size();
  for (const Header& header : record.headers) size += header.name.size() + header.value.size();
  return size;
}

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_RECORD_H_
