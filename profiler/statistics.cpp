#include "profiler/statistics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>

namespace moeplan::profiler {

double median(std::vector<double> values) {
  assert(!values.empty() && "no median of nothing");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double p90(std::vector<double> values) {
  assert(!values.empty() && "no percentile of nothing");
  const auto at = values.begin() + static_cast<std::ptrdiff_t>((values.size() * 9 + 9) / 10 - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

std::optional<OrderPair> median_ranks(std::size_t samples, double confidence) {
  const auto n = static_cast<double>(samples);
  // The interval from sample k to sample n-1-k misses the median if at most k samples are below or above it.
  double missed = 0;
  std::optional<OrderPair> found;
  for (std::size_t k = 0; k < samples / 2; ++k) {
    const auto x = static_cast<double>(k);
    missed += 2 * std::exp(std::lgamma(n + 1) - std::lgamma(x + 1) - std::lgamma(n - x + 1) - n * std::numbers::ln2);
    if (missed > 1 - confidence) break;
    found = {k, samples - 1 - k};
  }
  return found;
}

std::optional<Interval> median_interval(std::vector<double> samples, double confidence) {
  const auto ranks = median_ranks(samples.size(), confidence);
  if (!ranks) return std::nullopt;
  std::sort(samples.begin(), samples.end());
  return Interval{samples[ranks->low], samples[ranks->high]};
}

}  // namespace moeplan::profiler
