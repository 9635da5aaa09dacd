// When a measurement has been repeated often enough. Fed with numbers, never with a clock.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/quantity.hpp"

namespace moeplan::profiler {

struct StoppingLimits {
  double confidence = 0.95;
  double relative_width = 0.05;  // of the median's interval, as a share of the median
  std::size_t least = 8;         // samples
  std::size_t most = 10'000;
  Seconds budget{1};  // of all samples of this measurement
};

enum class StopReason { Precise, Budget, MostSamples };
inline constexpr std::array<std::pair<StopReason, std::string_view>, 3> kStopReasonNames{
    {{StopReason::Precise, "precise"}, {StopReason::Budget, "budget"}, {StopReason::MostSamples, "most samples"}}};

/// Stops once the median is known to the wanted width, by order statistics: nothing is assumed of the distribution.
/// Whether it is known is asked each time there are a tenth more samples, so that asking often does not find luck.
class StoppingRule {
 public:
  explicit StoppingRule(const StoppingLimits& limits) : limits_(limits), next_check_(limits.least) {}

  /// One more sample; `took` is the time that it cost, preparation included.
  void add(Seconds sample, Seconds took);
  [[nodiscard]] std::optional<StopReason> reason() const { return reason_; }
  /// In ascending order.
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
