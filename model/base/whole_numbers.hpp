// Dividing whole numbers of things.
#pragma once

#include <cstdint>

namespace moeplan {

/// a / b rounded up; a >= 0, b > 0.
[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// How many of n things are in part `index` of `count`, the parts as equal as whole numbers allow.
[[nodiscard]] constexpr std::int64_t part(std::int64_t n, std::int64_t index, std::int64_t count) {
  return n * (index + 1) / count - n * index / count;
}

/// Where share `index` of n things in order begins, if the first n % count of the shares have one more than the others.
[[nodiscard]] constexpr std::int64_t share_begin(std::int64_t n, std::int64_t index, std::int64_t count) {
  return index * (n / count) + (index < n % count ? index : n % count);
}

}  // namespace moeplan
