#include "cli/pages/collectives/collective_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "model/base/diagnostics.hpp"
#include "model/program/equal_ranks.hpp"
#include "model/text/reader.hpp"

namespace moeplan::cli {

namespace {

/// Limit of rank pairs in one simulation: about 2 GB of memory.
constexpr std::int64_t kMostPairs = std::int64_t{1} << 22;

/// Raises InputError if there are too many pairs. Every pair has its own flow, unless all ranks are equivalent: then
/// one of them represents all, and only the flows of rank 0 are simulated.
void refuse_too_many_pairs(const planner::CollectiveAlgorithm& algorithm, const Cluster& cluster) {
  const std::int64_t world = cluster.world_size();
  if (algorithm.collective != Collective::AllToAll || world * world <= kMostPairs) return;
  if (algorithm.name != "pairwise") {  // pairwise has as many operations as ranks
    const Program program = planner::collective_program(algorithm, world, world, cluster.ranks_per_node());
    if (equal_ranks_view(program, cluster)) return;
  }
  throw InputError(Diagnostic{
      {"--world"},
      "",
      fmt::format("{} ranks are too many for an all_to_all pair by pair; the most are 2048. More are simulated for "
                  "algorithms without leaders or steps where all ranks are provably equal: a template's whole nodes in "
                  "whole leaf groups",
                  world)});
}

/// The name of a collective in nccl-tests' words, alltoall or all_reduce_perf, or in ours.
std::string collective_name(std::string name) {
  if (name.ends_with("_perf")) name.resize(name.size() - 5);
  const auto bare = [](std::string text) {
    std::erase_if(text, [](char c) { return c == '_' || c == '-'; });
    return text;
  };
  for (const auto& [c, known] : kCollectiveNames) {
    if (bare(name) == bare(std::string(known))) return std::string(known);
  }
  return name;
}

}  // namespace

const planner::CollectiveAlgorithm& collective_algorithm(const std::string& asked, const std::string& algorithm) {
  std::vector<std::string> ops;
  for (const auto& [c, name] : kCollectiveNames) {
    if (!planner::algorithm_names(c).empty()) ops.emplace_back(name);
  }
  if (asked.empty()) {
    throw InputError(Diagnostic{{"--op"}, "", fmt::format("is missing; one of {}", fmt::join(ops, ", "))});
  }
  const std::string op = collective_name(asked);
  for (const auto& [c, name] : kCollectiveNames) {
    const std::vector<std::string> names = planner::algorithm_names(c);
    if (name != op || names.empty()) continue;
    const std::string wanted = algorithm.empty() ? names.front() : algorithm;
    if (const planner::CollectiveAlgorithm* a = planner::find_algorithm(c, wanted)) return *a;
    if (c == Collective::AllToAll && planner::find_all_to_all(wanted)) {
      throw InputError(Diagnostic{{"--algorithm"},
                                  "",
                                  fmt::format("{} is for tokens that several experts get, not for a collective; one of "
                                              "{}",
                                              in_quotes(wanted), fmt::join(names, ", "))});
    }
    throw InputError(
        Diagnostic{{"--algorithm"},
                   "",
                   fmt::format("{} is no algorithm of {}{}", in_quotes(wanted), op, suggestion(wanted, names))});
  }
  throw InputError(Diagnostic{{"--op"}, "", fmt::format("{} is no collective{}", in_quotes(op), suggestion(op, ops))});
}

void check_cluster_overrides(const std::vector<std::string>& overrides) {
  Diagnostics wrong;
  for (const std::string& text : overrides) {
    if (text.starts_with("model.") || text.starts_with("workload."))
      wrong.add({"-C " + text}, "", "a collective has a cluster only");
  }
  wrong.throw_if_any();
}

std::vector<CollectiveResult> collective_table(const planner::CollectiveAlgorithm& algorithm, const Cluster& cluster,
                                               const std::vector<std::int64_t>& sizes,
                                               const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const std::int64_t world = cluster.world_size();
  if (world < 2) throw InputError(Diagnostic{{"--cluster"}, "", fmt::format("{} has one GPU only", cluster.name)});
  if (const auto reason = algorithm.infeasibility(world, cluster.ranks_per_node()))
    throw InputError(Diagnostic{{"--algorithm"}, "", reason->text + "; see --world"});
  refuse_too_many_pairs(algorithm, cluster);
  std::vector<CollectiveResult> results;
  for (const std::int64_t bytes : sizes) {
    results.push_back(time_collective(algorithm, cluster, bytes));
    if (progress) progress(std::ssize(results), std::ssize(sizes));
  }
  return results;
}

}  // namespace moeplan::cli
