// lessor/time.h: instants in milliseconds, and how absl's time is rounded to them.
//
// Public signatures speak absl::Time and absl::Duration. Inside, every instant is a whole number of
// milliseconds since the Unix epoch: an instant is rounded down, a duration is rounded up, so a
// lease never ends before the time that was promised.
#ifndef LESSOR_TIME_H_
#define LESSOR_TIME_H_

#include <compare>
#include <cstdint>

#include "absl/time/time.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// A number of milliseconds. Cost: one integer.
struct Millis {
  int64_t count = 0;

  friend constexpr auto operator<=>(Millis, Millis) = default;
};

/// An instant of the injected clock, in milliseconds since the Unix epoch.
///
/// Limits: kept within [Min(), Max()], about 140,000 years either side of the epoch, so that an
///   instant plus any duration of the specs never overflows.
/// Cost: one integer.
struct Instant {
  int64_t ms = 0;

  static constexpr Instant Min() { return {-(int64_t{1} << 52)}; }
  static constexpr Instant Max() { return {int64_t{1} << 52}; }

  friend constexpr auto operator<=>(Instant, Instant) = default;
  friend constexpr Instant operator+(Instant a, Millis d) { return {a.ms + d.count}; }
  friend constexpr Millis operator-(Instant a, Instant b) { return {a.ms - b.ms}; }
};

/// The instant at or before `time`, clamped to [Instant::Min(), Instant::Max()].
inline Instant FloorToInstant(absl::Time time) {
  const int64_t ms = absl::ToUnixMillis(time);  // Rounds down; saturates for infinite times.
  if (ms < Instant::Min().ms) return Instant::Min();
  if (ms > Instant::Max().ms) return Instant::Max();
  return {ms};
}

/// The first instant at or after `time`: nothing that waits for `time` may go on before it.
inline Instant CeilToInstant(absl::Time time) {
  const Instant floor = FloorToInstant(time);
  const bool exact = absl::FromUnixMillis(floor.ms) >= time || floor == Instant::Max();
  return exact ? floor : floor + Millis{1};
}

inline absl::Time ToTime(Instant instant) { return absl::FromUnixMillis(instant.ms); }

/// `duration` in whole milliseconds, rounded up; an infinite one is the largest int64_t.
inline Millis CeilToMillis(absl::Duration duration) {
  return {absl::ToInt64Milliseconds(absl::Ceil(duration, absl::Milliseconds(1)))};
}

inline absl::Duration ToDuration(Millis millis) { return absl::Milliseconds(millis.count); }

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_TIME_H_
