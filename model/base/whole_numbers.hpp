// Integer division and partitioning.
#pragma once

#include <cstdint>

namespace moeplan {

/// a / b rounded up; a >= 0, b > 0.
[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Size of part `index` when n items are divided into `count` parts as equal as possible.
[[nodiscard]] constexpr std::int64_t part(std::int64_t n, std::int64_t index, std::int64_t count) {
  return n * (index + 1) / count - n * index / count;
}

/// First item of part `index` when n items in order are divided into `count` contiguous parts. Where they do not
/// divide, some parts at equal intervals, the first one among them, have one item more than the others.
[[nodiscard]] constexpr std::int64_t share_begin(std::int64_t n, std::int64_t index, std::int64_t count) {
  return ceil_div(n * index, count);
}

}  // namespace moeplan
