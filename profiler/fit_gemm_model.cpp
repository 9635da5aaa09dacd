#include "profiler/fit_gemm_model.hpp"

#include <algorithm>
#include <cmath>

#include "profiler/pattern_search.hpp"

namespace moeplan::profiler {

namespace {

constexpr double kSmallFlops = 1e8;
constexpr double kSmallWeight = 0.15;

/// The numbers of a model that are fitted, as values in one unit each.
std::vector<double> numbers_of(const GemmModel& m) {
  return {m.launch.value(),
          m.math.value(),
          m.power,
          m.read.value(),
          m.write.value(),
          m.l2.value(),
          m.residency,
          m.tile_start.value(),
          m.k_step.value(),
          m.split.value_or(Seconds(0)).value(),
          m.quantise.value(),
          m.scale_padding.value()};
}

GemmModel with_numbers(GemmModel m, std::span<const double> x) {
  m.launch = Seconds(x[0]);
  m.math = FlopsPerSecond(x[1]);
  m.power = x[2];
  m.read = BytesPerSecond(x[3]);
  m.write = BytesPerSecond(x[4]);
  m.l2 = BytesPerSecond(x[5]);
  m.residency = x[6];
  m.tile_start = Seconds(x[7]);
  m.k_step = Seconds(x[8]);
  if (m.split) m.split = Seconds(x[9]);
  m.quantise = BytesPerSecond(x[10]);
  m.scale_padding = Seconds(x[11]);
  return m;
}

double mean_error(const GemmModel& model, std::int64_t num_sms, std::span<const MeasuredProduct> products) {
  double sum = 0, weights = 0;
  for (const MeasuredProduct& p : products) {
    const double weight = flops_of(p.shape) >= kSmallFlops ? 1 : kSmallWeight;
    sum += weight * std::abs(std::log(gemm_cost(model, num_sms, p.shape).time() / p.time));
    weights += weight;
  }
  return sum / weights;
}

}  // namespace

GemmModel fit_gemm_model(const GemmModel& start, std::int64_t num_sms, std::span<const MeasuredProduct> products) {
  const auto error = [&](std::span<const double> x) { return mean_error(with_numbers(start, x), num_sms, products); };
  return with_numbers(start, pattern_search(numbers_of(start), error));
}

}  // namespace moeplan::profiler
