// Simulated time: integer picoseconds in a strong int64 type.
//
// A cost in Seconds is converted once and rounded up, so that no positive cost becomes zero and equality is exact. A
// single cost may be up to 53 days and a sum up to 106 days; beyond that, InputError says "outside the model's range".
#pragma once

#include <compare>
#include <cstdint>

#include "model/base/quantity.hpp"

namespace moeplan {

[[noreturn]] void throw_time_out_of_range(double seconds);

class SimTime {
 public:
  constexpr SimTime() = default;
  constexpr explicit SimTime(std::int64_t picoseconds) : picoseconds_(picoseconds) {}

  /// Rounded up to a whole picosecond, except for the rounding error of the multiplication by 1e12: 3 us are exactly
  /// 3,000,000 ps. A negative or NaN argument is a programmer's mistake.
  [[nodiscard]] static SimTime from_seconds(Seconds t);

  [[nodiscard]] constexpr std::int64_t picoseconds() const { return picoseconds_; }
  [[nodiscard]] constexpr Seconds seconds() const { return Seconds(static_cast<double>(picoseconds_) * 1e-12); }

  constexpr SimTime& operator+=(SimTime other) { return *this = *this + other; }
  friend constexpr SimTime operator+(SimTime a, SimTime b) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(a.picoseconds_, b.picoseconds_, &sum)) {
      throw_time_out_of_range(a.seconds().value() + b.seconds().value());
    }
    return SimTime(sum);
  }
  friend constexpr SimTime operator-(SimTime a, SimTime b) { return SimTime(a.picoseconds_ - b.picoseconds_); }
  friend constexpr auto operator<=>(SimTime, SimTime) = default;

  /// a * n. Raises InputError if the product is out of range.
  [[nodiscard]] static SimTime scaled(SimTime a, std::int64_t n);

 private:
  std::int64_t picoseconds_ = 0;
};

}  // namespace moeplan
