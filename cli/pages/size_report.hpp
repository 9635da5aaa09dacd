// The report of `size`: how many GPUs a job needs, when it is done, and what it costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/whole_numbers.hpp"
#include "planner/frameworks/framework.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/size/size_search.hpp"

namespace moeplan::cli {

/// What is asked for: a throughput, or what so many GPUs reach.
struct SizeTarget {
  std::optional<double> tokens_per_day = {};  // absent: `gpus` are at hand
  std::optional<double> tokens = {};          // of the whole job
  std::optional<std::int64_t> gpus = {};
  double availability = 1;  // the part of the time in which the job makes progress

  /// Tokens per second while the job makes progress.
  [[nodiscard]] double needed_tokens_per_s() const { return tokens_per_day.value_or(0) / 86'400 / availability; }
};

struct SizedCluster {
  planner::PlanInputs documents;
  planner::Inputs inputs;
  std::optional<double> price;  // per GPU-hour
  planner::Sizing sizing = {};
  std::int64_t gpus_per_node = 1;

  /// Nodes of so many GPUs, the last of them perhaps a part of a rack.
  [[nodiscard]] std::int64_t nodes(std::int64_t gpus) const { return ceil_div(gpus, gpus_per_node); }
};

/// The same job with NICs of another bandwidth, on the cluster of the answer.
struct NicSizing {
  BytesPerSecond rate;
  bool is_own = false;  // as in the cluster's file
  planner::Sizing sizing = {};
};

struct SizeReport {
  SizeTarget target;
  std::vector<SizedCluster> clusters;
  std::optional<std::size_t> best = {};  // of `clusters`; none: no cluster reaches the target
  std::vector<NicSizing> nics = {};      // ascending; empty: not tried
  double nics_within = 0.05;             // how much slower than with the fastest NICs is still enough
  std::optional<planner::Framework> framework = {};
  std::int64_t most_gpus = 0;
  double wall_s = 0;

  [[nodiscard]] const SizedCluster& answer() const { return clusters[*best]; }
};

/// What follows from a size's throughput. The unit of costs is that of the price.
struct SizeFigures {
  double tokens_per_day;
  std::optional<double> days = {}, cost = {};  // of the whole job
  std::optional<double> cost_per_million_tokens = {};
};
[[nodiscard]] SizeFigures size_figures(const SizeTarget& target, const std::optional<double>& price,
                                       const planner::TriedSize& size);

/// The cluster with the least cost of a million tokens, where all that reach the target have a price, or else with the
/// fewest GPUs; for GPUs at hand the fastest. None if none reaches the target.
[[nodiscard]] std::optional<std::size_t> best_cluster(const SizeTarget& target,
                                                      const std::vector<SizedCluster>& clusters);

/// The NICs of the lowest bandwidth that lose at most `nics_within` on the answer's GPUs against the best; null if
/// there are none.
[[nodiscard]] const NicSizing* enough_nics(const SizeReport& report);

[[nodiscard]] std::string size_page(const SizeReport& report);
[[nodiscard]] std::string size_json(const SizeReport& report);

}  // namespace moeplan::cli
