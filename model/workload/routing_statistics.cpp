#include "model/workload/routing_statistics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "model/base/whole_numbers.hpp"

namespace moeplan {

namespace {

double sum_of(std::span<const std::int64_t> load) {
  return static_cast<double>(std::accumulate(load.begin(), load.end(), std::int64_t{0}));
}

/// Loads of ranks with equally many consecutive experts.
std::vector<std::int64_t> rank_load(std::span<const std::int64_t> load, std::int64_t ranks) {
  const auto experts = static_cast<std::int64_t>(load.size());
  std::vector<std::int64_t> result;
  for (std::int64_t r = 0; r < ranks; ++r) {
    result.push_back(std::accumulate(load.begin() + share_begin(experts, r, ranks),
                                     load.begin() + share_begin(experts, r + 1, ranks), std::int64_t{0}));
  }
  return result;
}

}  // namespace

double max_over_mean(std::span<const std::int64_t> load) {
  const double sum = sum_of(load);
  if (sum == 0) return 1;
  return static_cast<double>(*std::max_element(load.begin(), load.end())) * static_cast<double>(load.size()) / sum;
}

double balance_degree(std::span<const std::int64_t> load) {
  if (load.empty()) return 0;
  const double mean = sum_of(load) / static_cast<double>(load.size());
  double squares = 0;
  for (const std::int64_t l : load) squares += (static_cast<double>(l) - mean) * (static_cast<double>(l) - mean);
  return std::sqrt(squares / static_cast<double>(load.size()));
}

double relative_entropy(std::span<const std::int64_t> load) {
  const double sum = sum_of(load);
  if (sum == 0 || load.size() < 2) return 1;
  double entropy = 0;
  for (const std::int64_t l : load) {
    const double p = static_cast<double>(l) / sum;
    if (p > 0) entropy -= p * std::log(p);
  }
  return entropy / std::log(static_cast<double>(load.size()));
}

double drift(std::span<const std::int64_t> before, std::span<const std::int64_t> after) {
  assert(before.size() == after.size() && "both are loads of the same experts");
  const double a = sum_of(before), b = sum_of(after);
  if (a == 0 || b == 0) return 0;
  double distance = 0;
  for (std::size_t e = 0; e < before.size(); ++e) {
    distance += std::abs(static_cast<double>(before[e]) / a - static_cast<double>(after[e]) / b);
  }
  return distance / 2;
}

std::vector<LayerRouting> trace_statistics(const RoutingTrace& trace, std::int64_t ranks) {
  std::vector<LayerRouting> result;
  const std::size_t iterations = trace.iterations().size();
  const auto n = static_cast<double>(iterations);
  for (std::int64_t layer = 0; layer < trace.layers(); ++layer) {
    LayerRouting of_layer{.mean_max_over_mean = 0, .mean_rank_max_over_mean = 0, .mean_entropy = 0};
    std::vector<std::int64_t> before;
    for (std::size_t i = 0; i < iterations; ++i) {
      std::vector<std::int64_t> load = trace.expert_load(i, layer);
      const double uneven = max_over_mean(load);
      of_layer.mean_max_over_mean += uneven / n;
      of_layer.most_max_over_mean = std::max(of_layer.most_max_over_mean, uneven);
      of_layer.mean_rank_max_over_mean += max_over_mean(rank_load(load, ranks)) / n;
      of_layer.mean_entropy += relative_entropy(load) / n;
      if (i > 0) {
        const double moved = drift(before, load);
        of_layer.mean_drift += moved / (n - 1);
        of_layer.most_drift = std::max(of_layer.most_drift, moved);
      }
      before = std::move(load);
    }
    of_layer.locality = 1 - of_layer.mean_drift;
    result.push_back(of_layer);
  }
  return result;
}

}  // namespace moeplan
