#include "profiler/fit_gemm_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "profiler/pattern_search.hpp"

namespace moeplan::profiler {

namespace {

constexpr double kSmallFlops = 1e8;
constexpr double kSmallWeight = 0.15;

constexpr std::uint64_t kProductSplit = 14695981039346656037ULL;  // where the hashes of the two splits start
constexpr std::uint64_t kAttentionSplit = 1469598103934665603ULL;
std::uint64_t hashed(std::uint64_t hash, std::uint8_t byte) { return (hash ^ byte) * 1099511628211ULL; }  // FNV-1a

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

bool is_held_out(const GemmShape& shape) {
  std::uint64_t hash = kProductSplit;
  for (const std::int64_t x : {shape.m, shape.n, shape.k}) {
    for (int byte = 0; byte < 8; ++byte) hash = hashed(hash, static_cast<std::uint8_t>(x >> (8 * byte)));
  }
  return hash % 3 == 0;
}

bool is_held_out(const AttentionShape& s) {
  const std::string text = fmt::format("{},{},{},{},{},{},{},", s.batch, s.sequence_length, s.query_heads, s.kv_heads,
                                       s.head_dim, s.v_head_dim, s.is_causal ? 1 : 0);
  std::uint64_t hash = kAttentionSplit;
  for (const char c : text) hash = hashed(hash, static_cast<std::uint8_t>(c));
  return (hash >> 20) % 3 == 0;
}

}  // namespace moeplan::profiler
