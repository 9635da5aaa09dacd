// Physical quantities: a double with a dimension.
//
// Only the physically meaningful mixed operators exist, so that a bandwidth cannot be passed as a time per byte. Values
// are in SI base units: seconds, bytes, bytes per second, floating-point operations, and so on. Text forms ("450 GB/s")
// are read and written by unit_text.hpp.
#pragma once

#include <compare>

namespace moeplan {

template <class Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value_(value) {}

  [[nodiscard]] constexpr double value() const { return value_; }

  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }
  constexpr Quantity& operator*=(double factor) {
    value_ *= factor;
    return *this;
  }

  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value_ + b.value_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value_ - b.value_); }
  friend constexpr Quantity operator-(Quantity a) { return Quantity(-a.value_); }
  friend constexpr Quantity operator*(Quantity a, double factor) { return Quantity(a.value_ * factor); }
  friend constexpr Quantity operator*(double factor, Quantity a) { return Quantity(a.value_ * factor); }
  friend constexpr Quantity operator/(Quantity a, double divisor) { return Quantity(a.value_ / divisor); }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

 private:
  double value_ = 0;
};

using Seconds = Quantity<struct SecondsTag>;
using Bytes = Quantity<struct BytesTag>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;
using SecondsPerByte = Quantity<struct SecondsPerByteTag>;  // the beta of the alpha-beta model
using Flops = Quantity<struct FlopsTag>;                    // a number of operations, not operations per second
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;

constexpr Seconds operator/(Bytes n, BytesPerSecond rate) { return Seconds(n.value() / rate.value()); }
constexpr Bytes operator*(BytesPerSecond rate, Seconds t) { return Bytes(rate.value() * t.value()); }
constexpr Bytes operator*(Seconds t, BytesPerSecond rate) { return rate * t; }
constexpr BytesPerSecond operator/(Bytes n, Seconds t) { return BytesPerSecond(n.value() / t.value()); }
constexpr Seconds operator*(Bytes n, SecondsPerByte beta) { return Seconds(n.value() * beta.value()); }
constexpr Seconds operator*(SecondsPerByte beta, Bytes n) { return n * beta; }
constexpr Seconds operator/(Flops n, FlopsPerSecond rate) { return Seconds(n.value() / rate.value()); }
constexpr Flops operator*(FlopsPerSecond rate, Seconds t) { return Flops(rate.value() * t.value()); }
constexpr FlopsPerSecond operator/(Flops n, Seconds t) { return FlopsPerSecond(n.value() / t.value()); }

namespace literals {
constexpr Seconds operator""_s(long double v) { return Seconds(static_cast<double>(v)); }
constexpr Seconds operator""_us(long double v) { return Seconds(static_cast<double>(v) * 1e-6); }
constexpr Bytes operator""_B(unsigned long long v) { return Bytes(static_cast<double>(v)); }
constexpr BytesPerSecond operator""_GBps(long double v) { return BytesPerSecond(static_cast<double>(v) * 1e9); }
constexpr FlopsPerSecond operator""_TFLOPps(long double v) { return FlopsPerSecond(static_cast<double>(v) * 1e12); }
}  // namespace literals

}  // namespace moeplan
