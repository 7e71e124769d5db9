// random.h: random numbers for tests, the same on every machine and under every compiler.
#ifndef LESSOR_TESTS_RANDOM_H_
#define LESSOR_TESTS_RANDOM_H_

#include <cstddef>
#include <cstdint>

namespace lessor_tests {

/// `value` with its bits spread (splitmix64's finish).
inline constexpr uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

/// The generator splitmix64.
class Random {
 public:
  explicit constexpr Random(uint64_t seed) : state_(Mix(seed)) {}

  constexpr uint64_t Next() {
    const uint64_t value = Mix(state_);
    state_ += 0x9e3779b97f4a7c15U;
    return value;
  }
  /// 0 to count - 1.
  constexpr uint64_t Below(uint64_t count) { return Next() % count; }
  /// least to most.
  constexpr int64_t Between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(Below(static_cast<uint64_t>(most - least) + 1));
  }
  constexpr bool OneIn(uint64_t count) { return Below(count) == 0; }
  /// One of what is in an array, a vector or an initializer list.
  template <class Choices>
  constexpr auto Pick(const Choices& choices) {
    return *(choices.begin() + static_cast<std::ptrdiff_t>(Below(choices.size())));
  }
  template <class T, size_t N>
  constexpr T Pick(const T (&choices)[N]) {
    return choices[Below(N)];
  }

 private:
  uint64_t state_;
};

}  // namespace lessor_tests

#endif  // LESSOR_TESTS_RANDOM_H_
