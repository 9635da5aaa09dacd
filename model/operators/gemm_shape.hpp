// The shape of one matrix product.
#pragma once

#include <cstdint>

namespace moeplan {

/// C[m,n] with k terms per element.
struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool operator==(const GemmShape&) const = default;
};

[[nodiscard]] inline bool is_empty(const GemmShape& s) { return s.m == 0 || s.n == 0 || s.k == 0; }

[[nodiscard]] inline double flops_of(const GemmShape& s) {
  return 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
}

}  // namespace moeplan
