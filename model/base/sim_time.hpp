// Simulated time: whole picoseconds in a strong int64.
//
// A cost in Seconds is converted once, rounded up, so that no positive cost becomes zero and equality is exact.
// The range is 106 days; a cost outside it raises InputError ("outside the model's range").
#pragma once

#include <compare>
#include <cstdint>

#include "model/base/quantity.hpp"

namespace moeplan {

class SimTime {
 public:
  constexpr SimTime() = default;
  constexpr explicit SimTime(std::int64_t picoseconds) : picoseconds_(picoseconds) {}

  /// Rounded up to a whole picosecond. Negative or NaN is a programmer's mistake.
  [[nodiscard]] static SimTime from_seconds(Seconds t);

  [[nodiscard]] constexpr std::int64_t picoseconds() const { return picoseconds_; }
  [[nodiscard]] constexpr Seconds seconds() const { return Seconds(static_cast<double>(picoseconds_) * 1e-12); }

  constexpr SimTime& operator+=(SimTime other) {
    picoseconds_ += other.picoseconds_;
    return *this;
  }
  friend constexpr SimTime operator+(SimTime a, SimTime b) { return SimTime(a.picoseconds_ + b.picoseconds_); }
  friend constexpr SimTime operator-(SimTime a, SimTime b) { return SimTime(a.picoseconds_ - b.picoseconds_); }
  friend constexpr auto operator<=>(SimTime, SimTime) = default;

  /// a * n, checked against the range: raises InputError.
  [[nodiscard]] static SimTime scaled(SimTime a, std::int64_t n);

 private:
  std::int64_t picoseconds_ = 0;
};

}  // namespace moeplan
