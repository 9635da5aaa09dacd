// Programs that run a single collective over all ranks with a given algorithm, as timed by `moeplan collective`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/infeasibility.hpp"
#include "model/program/program.hpp"
#include "planner/layer/all_to_all.hpp"

namespace moeplan::planner {

/// One step of a collective algorithm. Its group is `group`; Communication::group is ignored.
struct CollectiveStep {
  Communication communication;
  GroupFamily group;
  std::int64_t reads;   // bytes per rank
  std::int64_t writes;  // bytes per rank
};

/// An algorithm for a collective: an all-to-all algorithm of MoE layers, or for other collectives a list of steps.
struct CollectiveAlgorithm {
  Collective collective;
  std::string_view name;
  std::string_view summary;  // one line
  /// The steps, which run one after another, for a whole_message() of `bytes`. Null for all-to-alls.
  std::vector<CollectiveStep> (*steps)(std::int64_t world, std::int64_t bytes) = nullptr;
  bool for_powers_of_two = false;  // requires a power of two as number of ranks
  const AllToAll* all_to_all = nullptr;

  /// The reason why the algorithm cannot run over `world` ranks, of which `ranks_per_node` consecutive ones share a
  /// node; none if it can.
  [[nodiscard]] std::optional<Infeasibility> infeasibility(std::int64_t world, std::int64_t ranks_per_node) const;
};

/// All built-in algorithms: the all-to-alls of planner/layer/all_to_all.hpp that need no tokens, and a table of the
/// others. The first algorithm of a collective is its default.
[[nodiscard]] std::span<const CollectiveAlgorithm> collective_algorithms();

/// Names of a collective's algorithms, the default first; empty for collectives without algorithms (send_receive).
[[nodiscard]] std::vector<std::string> algorithm_names(Collective collective);

/// The algorithm of a collective with this name, or null.
[[nodiscard]] const CollectiveAlgorithm* find_algorithm(Collective collective, std::string_view name);

/// The message size for `bytes` >= 1 by nccl-tests' definition: a rank's send buffer for all-to-all, the gathered
/// output for all-gather, the input for reduce-scatter, the tensor for all-reduce and broadcast. The first three are
/// rounded down to a multiple of the number of ranks, at least one byte per rank (nccl-tests rounds to 16 B per rank,
/// and shows 0 below that).
[[nodiscard]] std::int64_t whole_message(Collective collective, std::int64_t world, std::int64_t bytes);

/// A Program of one block that runs the collective once over `world` ranks with whole_message(bytes) bytes.
/// `ranks_per_node` shapes rings, trees and all-to-alls (Program::ranks_per_node). infeasibility() must be none. An
/// all-to-all moves routed rows of one byte, like a dispatch to one expert per rank that receives the same number of
/// rows from every source.
[[nodiscard]] Program collective_program(const CollectiveAlgorithm& algorithm, std::int64_t world, std::int64_t bytes,
                                         std::int64_t ranks_per_node = 1);

/// Ratio of bus bandwidth to algorithm bandwidth (size over time): the bytes that each link must carry per byte of the
/// message size [nccl-tests, doc/PERFORMANCE.md].
[[nodiscard]] double bus_bandwidth_factor(Collective collective, std::int64_t world);

}  // namespace moeplan::planner
