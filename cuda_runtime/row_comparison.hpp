// Differences of rows from reference rows, relative to the largest reference value.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace moeplan::runtime {

class RowComparison {
 public:
  void add(std::span<const double> got, std::span<const double> expected) {
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      largest_ = std::max(largest_, std::abs(expected[i]));
      // NaN counts as an infinite difference.
      const double d = std::abs(got[i] - expected[i]);
      worst = std::isfinite(d) ? std::max(worst, d) : std::numeric_limits<double>::infinity();
    }
    rows_.push_back(worst);
  }
  /// The largest difference.
  [[nodiscard]] double worst() const {
    return rows_.empty() ? 0 : *std::max_element(rows_.begin(), rows_.end()) / scale();
  }
  [[nodiscard]] std::int64_t rows() const { return std::ssize(rows_); }
  /// The number of rows that differ by more than `tolerance`.
  [[nodiscard]] std::int64_t off(double tolerance) const {
    return std::count_if(rows_.begin(), rows_.end(), [&](double d) { return d > tolerance * scale(); });
  }

 private:
  [[nodiscard]] double scale() const { return largest_ > 0 ? largest_ : 1; }
  double largest_ = 0;
  std::vector<double> rows_;
};

}  // namespace moeplan::runtime
