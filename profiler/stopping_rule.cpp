#include "profiler/stopping_rule.hpp"

#include <algorithm>

#include "profiler/statistics.hpp"

namespace moeplan::profiler {

void StoppingRule::add(Seconds sample, Seconds took) {
  sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), sample.value()), sample.value());
  spent_ += took;
  if (reason_) return;
  const std::size_t n = sorted_.size();
  if (n >= next_check_) {
    next_check_ = n + std::max<std::size_t>(1, n / 10);
    if (is_precise()) reason_ = StopReason::Precise;
  }
  if (!reason_ && n >= limits_.most) reason_ = StopReason::MostSamples;
  if (!reason_ && spent_ >= limits_.budget) reason_ = StopReason::Budget;
}

bool StoppingRule::is_precise() const {
  const auto ranks = median_ranks(sorted_.size(), limits_.confidence);
  if (!ranks) return false;
  return sorted_[ranks->high] - sorted_[ranks->low] <= limits_.relative_width * median(sorted_);
}

}  // namespace moeplan::profiler
