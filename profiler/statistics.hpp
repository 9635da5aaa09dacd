// Statistics of small samples of times: median, confidence intervals and bootstrap.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/base/random.hpp"

namespace moeplan::profiler {

/// The median: the middle value, or the mean of the two middle values. Requires at least one value.
[[nodiscard]] double median(std::vector<double> values);
/// The 90th percentile: the least value that is not below nine tenths of them. Requires at least one value.
[[nodiscard]] double p90(std::vector<double> values);

/// A confidence interval.
struct Interval {
  double low;
  double high;
  bool operator==(const Interval&) const = default;
};

/// Indices of two order statistics, from 0.
struct OrderPair {
  std::size_t low;
  std::size_t high;
  bool operator==(const OrderPair&) const = default;
};

/// The order statistics between which the median lies with at least this confidence, for any distribution: the
/// narrowest symmetric pair, from the binomial distribution of the number of samples below the median. None if there
/// are too few samples (0.95 needs 6). [Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3rd ed.,
/// sec. 3.6]
[[nodiscard]] std::optional<OrderPair> median_ranks(std::size_t samples, double confidence);

/// The confidence interval of the median between the samples at median_ranks(); none if there are too few samples.
[[nodiscard]] std::optional<Interval> median_interval(std::vector<double> samples, double confidence);

}  // namespace moeplan::profiler
