// A random number generator with the same sequence on every platform, which the standard library's distributions do not
// guarantee.
//
// The generator is SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
// normal() and binomial() use the C library's log, exp and cos, so their results may differ in the last bit between
// libraries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace moeplan {

/// The finaliser of SplitMix64: every input bit affects every output bit.
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

class Random {
 public:
  /// Different streams of one seed are independent.
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) : state_(mixed(mixed(seed) + stream)) {}

  [[nodiscard]] std::uint64_t bits() { return mixed(state_ += 0x9e3779b97f4a7c15ULL); }
  /// Uniform in [0, 1), a multiple of 2^-53.
  [[nodiscard]] double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  /// Uniform in 0 .. n-1, unbiased; n > 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t n);
  /// Standard normal by the Box-Muller transform; consumes two uniform numbers.
  [[nodiscard]] double normal();
  /// Number of successes in `trials` trials of probability p each. Exact inversion from the mode up to a variance of
  /// 1e6; above it, a rounded normal variate, whose error is then below 1e-3 of a standard deviation.
  [[nodiscard]] std::int64_t binomial(std::int64_t trials, double p);

  /// A uniformly random permutation of 0 .. n-1 (Fisher-Yates shuffle).
  [[nodiscard]] std::vector<std::size_t> permutation(std::size_t n);

 private:
  std::uint64_t state_;
};

}  // namespace moeplan
