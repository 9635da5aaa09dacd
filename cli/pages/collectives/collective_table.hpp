// The table of `moeplan collective`: a collective of several sizes on an otherwise idle cluster.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/pages/collectives/collective_report.hpp"

namespace moeplan::cli {

/// The algorithm of a collective, which may have the name that nccl-tests gives it (alltoall, all_reduce_perf); ""
/// names the default algorithm. Raises InputError that names the options --op and --algorithm.
[[nodiscard]] const planner::CollectiveAlgorithm& collective_algorithm(const std::string& op,
                                                                       const std::string& algorithm);

/// Raises InputError for overrides of a model or a workload, which a collective does not have.
void check_cluster_overrides(const std::vector<std::string>& overrides);

/// The results for these sizes, in bytes as nccl-tests counts them. `progress` receives (done, total). Raises
/// InputError if the algorithm does not run on the cluster, or would have too many pairs of ranks.
[[nodiscard]] std::vector<CollectiveResult> collective_table(
    const planner::CollectiveAlgorithm& algorithm, const Cluster& cluster, const std::vector<std::int64_t>& sizes,
    const std::function<void(std::int64_t, std::int64_t)>& progress = {});

}  // namespace moeplan::cli
