// One collective over all ranks as a Program of its own, by algorithm: what `moeplan collective` times.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/program/program.hpp"
#include "planner/layer/all_to_all.hpp"

namespace moeplan::planner {

/// One step of an algorithm. Its group goes by place: Communication::group is not looked at.
struct CollectiveStep {
  Communication communication;
  GroupFamily group;
  std::int64_t reads;   // bytes of a rank
  std::int64_t writes;  // bytes of a rank
};

/// How a collective is carried out: an all-to-all as an MoE layer does it, any other in steps.
struct CollectiveAlgorithm {
  Collective collective;
  std::string_view name;
  std::string_view summary;  // one line
  /// One after the other, for a whole_message() of `bytes`. Null of an all-to-all.
  std::vector<CollectiveStep> (*steps)(std::int64_t world, std::int64_t bytes) = nullptr;
  bool for_powers_of_two = false;  // only for so many ranks
  const AllToAll* all_to_all = nullptr;

  /// Why it cannot run over so many ranks, of which `ranks_per_node` consecutive ones share a node; "" if it can.
  [[nodiscard]] std::string infeasibility(std::int64_t world, std::int64_t ranks_per_node) const;
};

/// All built-in algorithms: those of planner/all_to_all.hpp that need no tokens, and the one visible table of the
/// others. The first of a collective is its default.
[[nodiscard]] std::span<const CollectiveAlgorithm> collective_algorithms();

/// Names of a collective's algorithms, the default first; empty for those that have none (send_receive).
[[nodiscard]] std::vector<std::string> algorithm_names(Collective collective);

/// The algorithm of this name, or null.
[[nodiscard]] const CollectiveAlgorithm* find_algorithm(Collective collective, std::string_view name);

/// `bytes` >= 1 in whole bytes a rank, at least one: nccl-tests' size. It is the send buffer of a rank for all-to-all,
/// the gathered output for all-gather, the input for reduce-scatter, the tensor for all-reduce and broadcast; the first
/// three are rounded down to a multiple of the ranks (nccl-tests rounds to 16 B a rank, and shows 0 below).
[[nodiscard]] std::int64_t whole_message(Collective collective, std::int64_t world, std::int64_t bytes);

/// One block that runs the collective once over `world` ranks, with whole_message(bytes) bytes. `ranks_per_node` shapes
/// rings, trees and all-to-alls (Program::ranks_per_node). infeasibility() must be "". An all-to-all moves routed rows
/// of one byte, as a dispatch to one expert a rank from which every source wants the same.
[[nodiscard]] Program collective_program(const CollectiveAlgorithm& algorithm, std::int64_t world, std::int64_t bytes,
                                         std::int64_t ranks_per_node = 1);

/// Bus bandwidth over algorithm bandwidth (size over time): what each link must carry for each byte of the size
/// [nccl-tests, doc/PERFORMANCE.md].
[[nodiscard]] double bus_bandwidth_factor(Collective collective, std::int64_t world);

}  // namespace moeplan::planner
