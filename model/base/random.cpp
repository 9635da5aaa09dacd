#include "model/base/random.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace moeplan {

namespace {

/// ln n!, by Stirling's series from n = 16 (its next term is below 1e-11 there). std::lgamma is not used because it
/// writes a global variable.
double log_factorial(double n) {
  if (n < 16) {
    double product = 1;
    for (double i = 2; i <= n; ++i) product *= i;
    return std::log(product);
  }
  const double inverse = 1 / n, square = inverse * inverse;
  return n * std::log(n) - n + 0.5 * std::log(2 * std::numbers::pi * n) +
         inverse * (1.0 / 12 - square * (1.0 / 360 - square / 1260));
}

}  // namespace

std::uint64_t Random::below(std::uint64_t n) {
  assert(n > 0 && "a number below zero does not exist");
  const std::uint64_t excess = (std::numeric_limits<std::uint64_t>::max() % n + 1) % n;  // 2^64 mod n
  const std::uint64_t last = std::numeric_limits<std::uint64_t>::max() - excess;
  std::uint64_t drawn = bits();
  while (drawn > last) drawn = bits();
  return drawn % n;
}

double Random::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

std::int64_t Random::binomial(std::int64_t trials, double p) {
  if (trials <= 0 || !(p > 0)) return 0;
  if (p >= 1) return trials;
  if (p > 0.5) return trials - binomial(trials, 1 - p);
  const auto n = static_cast<double>(trials);
  constexpr double kLargestVariance = 1e6;
  if (n * p * (1 - p) > kLargestVariance) {
    return std::clamp(std::llround(n * p + std::sqrt(n * p * (1 - p)) * normal()), 0LL, static_cast<long long>(trials));
  }
  // Subtract the probabilities from a uniform number one by one, from the mode outwards: about one standard deviation
  // of steps.
  const double mode = std::floor((n + 1) * p);
  const double odds = p / (1 - p);
  const double at_mode = std::exp(log_factorial(n) - log_factorial(mode) - log_factorial(n - mode) +
                                  mode * std::log(p) + (n - mode) * std::log1p(-p));
  double left = uniform() - at_mode;
  double down = mode, up = mode, p_down = at_mode, p_up = at_mode;
  while (left >= 0 && (p_down > 0 || p_up > 0)) {
    if (p_up > 0) {
      p_up *= odds * (n - up) / (up + 1);
      ++up;
      left -= p_up;
      if (left < 0) return static_cast<std::int64_t>(up);
    }
    if (p_down > 0) {
      p_down *= down / (odds * (n - down + 1));
      --down;
      left -= p_down;
      if (left < 0) return static_cast<std::int64_t>(down);
    }
  }
  return static_cast<std::int64_t>(mode);  // also if rounding has left nothing of the tails
}

std::vector<std::size_t> Random::permutation(std::size_t n) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = n; i > 1; --i) std::swap(order[i - 1], order[below(i)]);
  return order;
}

}  // namespace moeplan
