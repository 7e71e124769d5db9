// lessor/ids.h: strong 128-bit ids and the source they come from.
#ifndef LESSOR_IDS_H_
#define LESSOR_IDS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lessor/export.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// 128 bits, written as 32 lowercase hexadecimal digits. Ids of different things are different
/// types; a default-constructed id is all zero and names nothing.
///
/// Cost: two words, no allocation; ToString() allocates.
/// Spec: S1, S7, S16.
template <class Tag>
struct Id {
  uint64_t high = 0;
  uint64_t low = 0;

  /// True for every id but the all-zero one.
  constexpr explicit operator bool() const { return (high | low) != 0; }

  friend constexpr auto operator<=>(const Id&, const Id&) = default;

  template <class H>
  friend H AbslHashValue(H state, const Id& id) {
    return H::combine(static_cast<H&&>(state), id.high, id.low);
  }

  /// The 32 lowercase hexadecimal digits.
  std::string ToString() const {
    std::string text(32, '0');
    for (size_t i = 0; i < 16; ++i) {
      text[15 - i] = "0123456789abcdef"[(high >> (4 * i)) & 15U];
      text[31 - i] = "0123456789abcdef"[(low >> (4 * i)) & 15U];
    }
    return text;
  }

  /// The id written as exactly 32 lowercase hexadecimal digits; nothing for any other text.
  static std::optional<Id> Parse(std::string_view text) {
    if (text.size() != 32) return std::nullopt;
    Id id;
    for (size_t i = 0; i < 32; ++i) {
      const char c = text[i];
      uint64_t digit = 0;
      if (c >= '0' && c <= '9') {
        digit = static_cast<uint64_t>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        digit = static_cast<uint64_t>(c - 'a') + 10U;
      } else {
        return std::nullopt;
      }
      uint64_t& half = i < 16 ? id.high : id.low;
      half = half << 4 | digit;
    }
    return id;
  }
};

using StreamId = Id<struct StreamIdTag>;
using SubscriptionId = Id<struct SubscriptionIdTag>;
using BatchId = Id<struct BatchIdTag>;

/// A subscription's whole address.
struct SubscriptionKey {
  StreamId stream;
  SubscriptionId subscription;

  friend constexpr auto operator<=>(const SubscriptionKey&, const SubscriptionKey&) = default;
};

/// 128 bits as a source gives them, before they name something.
struct RandomBits {
  uint64_t high = 0;
  uint64_t low = 0;
};

/// Where fresh ids come from. The default draws from the operating system; tests inject a
/// deterministic one (lessor/testing/sequential_ids.h).
///
/// Threads: Next() is called from any thread, at once from several, and under no lock of lessor's.
/// Lifetime: outlives the Broker that it was given to.
class LESSOR_EXPORT IdSource {
 public:
  virtual ~IdSource() = default;

  /// Bits that no earlier call returned. All-zero bits are asked for again; a call that is given an
  /// id in use, or nothing but zeros, is refused with kInternal.
  virtual RandomBits Next() = 0;
};

/// Random bits from a generator a thread, seeded by the operating system. One source for the
/// process.
///
/// Threads: safe. A forked child repeats its parent's ids: do not use lessor in one that does not
///   exec.
LESSOR_EXPORT IdSource& SystemIdSource();

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_IDS_H_
