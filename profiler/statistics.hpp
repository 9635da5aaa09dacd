// What a few samples of a time say about it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "model/base/random.hpp"

namespace moeplan::profiler {

/// The middle value, or the mean of the two in the middle; of at least one.
[[nodiscard]] double median(std::vector<double> values);

struct Interval {
  double low;
  double high;
  bool operator==(const Interval&) const = default;
};

/// Ranks (from 0) of the two sorted samples between which the median of any distribution lies with at least this
/// confidence: the narrowest such pair that is symmetric. By the binomial distribution of how many samples are below
/// it; none where the samples are too few (6 for 0.95). [Hollander, Wolfe, Chicken: Nonparametric Statistical
/// Methods, 3rd ed., sec. 3.6]
struct OrderPair {
  std::size_t low;
  std::size_t high;
  bool operator==(const OrderPair&) const = default;
};
[[nodiscard]] std::optional<OrderPair> median_ranks(std::size_t samples, double confidence);

/// The interval between the samples of those ranks.
[[nodiscard]] std::optional<Interval> median_interval(std::vector<double> samples, double confidence);

/// Percentile bootstrap of any statistic, for what has no interval of its own. [Efron, Tibshirani: An Introduction to
/// the Bootstrap, ch. 13]
[[nodiscard]] Interval bootstrap_interval(const std::vector<double>& samples,
                                          const std::function<double(std::vector<double>)>& statistic,
                                          double confidence, std::int64_t resamples, Random random);

}  // namespace moeplan::profiler
