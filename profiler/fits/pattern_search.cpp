#include "profiler/fits/pattern_search.hpp"

#include <algorithm>
#include <cmath>

namespace moeplan::profiler {

namespace {

constexpr int kMostRounds = 60;
constexpr double kFirstStep = 0.25, kLeastStep = 0.005;  // of the logarithm
constexpr double kGrow = 1.3, kShrink = 0.9, kHalve = 0.5;
constexpr double kLeastGain = 1e-6;

}  // namespace

std::vector<double> pattern_search(std::vector<double> x, const std::function<double(std::span<const double>)>& error) {
  std::vector<double> steps(x.size(), kFirstStep);
  double least = error(x);
  for (int round = 0; round < kMostRounds; ++round) {
    bool gained = false;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double before = x[i];
      if (before == 0) continue;
      for (const double step : {steps[i], -steps[i]}) {
        x[i] = before * std::exp(step);
        const double now = error(x);
        if (now < least - kLeastGain) {
          least = now;
          steps[i] *= kGrow;
          gained = true;
          break;
        }
        x[i] = before;
      }
    }
    for (double& step : steps) step *= gained ? kShrink : kHalve;
    if (*std::max_element(steps.begin(), steps.end()) < kLeastStep) break;
  }
  return x;
}

}  // namespace moeplan::profiler
