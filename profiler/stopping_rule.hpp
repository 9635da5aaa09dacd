// A stopping rule that decides when a measurement has been repeated often enough. It is fed with numbers and never
// reads a clock.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/quantity.hpp"

namespace moeplan::profiler {

/// Parameters of a StoppingRule.
struct StoppingLimits {
  double confidence = 0.95;      // of the median's interval
  double relative_width = 0.05;  // width of the median's interval relative to the median
  std::size_t least = 8;         // minimum number of samples
  std::size_t most = 10'000;     // maximum number of samples
  Seconds budget{1};             // total time of all samples of the measurement
};

/// The reason why a measurement stopped: the interval is narrow enough, or the budget or sample limit is exhausted.
enum class StopReason { Precise, Budget, MostSamples };
inline constexpr std::array<std::pair<StopReason, std::string_view>, 3> kStopReasonNames{
    {{StopReason::Precise, "precise"}, {StopReason::Budget, "budget"}, {StopReason::MostSamples, "most samples"}}};

/// A rule that stops once the median's confidence interval is narrow enough. The interval is computed from order
/// statistics, without an assumption on the distribution. It is tested each time the number of samples has grown by a
/// tenth, so that frequent testing does not stop by chance.
class StoppingRule {
 public:
  explicit StoppingRule(const StoppingLimits& limits) : limits_(limits), next_check_(limits.least) {}

  /// Adds a sample; `took` is the time that it cost, including preparation.
  void add(Seconds sample, Seconds took);
  [[nodiscard]] std::optional<StopReason> reason() const { return reason_; }
  /// The samples in ascending order.
  [[nodiscard]] const std::vector<double>& samples() const { return sorted_; }

 private:
  [[nodiscard]] bool is_precise() const;

  StoppingLimits limits_;
  std::vector<double> sorted_;
  Seconds spent_{};
  std::size_t next_check_;
  std::optional<StopReason> reason_;
};

}  // namespace moeplan::profiler
