// DeepSeek's expert-parallelism load balancer [EPLB] (github.com/deepseek-ai/EPLB) with its global and hierarchical
// policies: replicate the experts with the highest load per replica, then pack equal numbers of replicas onto GPUs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moeplan::planner {

/// The physical experts (replicas) of a layer; the first replicas / gpus of them are on GPU 0, and so on.
struct EplbLayer {
  std::vector<std::int64_t> phy2log;    // [replicas]: expert of each replica
  std::vector<std::int64_t> phy2index;  // [replicas]: index among the replicas of its expert
  std::vector<std::int64_t> logcnt;     // [experts]: number of replicas of each expert
  bool operator==(const EplbLayer&) const = default;
};

/// The balancer's policy. Each extra replica goes to argmax(load / replicas) (ties: the lowest expert). Replicas are
/// packed longest processing time first into bins of equal numbers (lightest bin with room; ties: the lowest); with as
/// many bins as items, each item gets its own bin. If groups % nodes == 0, groups of consecutive experts are packed
/// onto nodes, and then each node replicates and packs its own experts; otherwise the policy is global. Preconditions:
/// gpus divides replicas, groups divides experts, nodes divides gpus. Load quotients are compared in double, whereas
/// the released code rounds them to float.
[[nodiscard]] EplbLayer eplb_rebalance(std::span<const std::int64_t> loads, std::int64_t replicas, std::int64_t groups,
                                       std::int64_t nodes, std::int64_t gpus);

/// The released code's tables for several layers: log2phy has the shape [layers][experts][largest number of replicas],
/// padded with -1.
struct EplbTables {
  std::vector<std::vector<std::int64_t>> phy2log;
  std::vector<std::vector<std::vector<std::int64_t>>> log2phy;
  std::vector<std::vector<std::int64_t>> logcnt;
};
[[nodiscard]] EplbTables eplb_tables(std::span<const EplbLayer> layers);

/// A modified global policy of moeplan's own: no GPU holds two replicas of the same expert. The released code's packing
/// can place two (a known defect: the second one receives no tokens). An expert has at most one replica per GPU, which
/// goes to the lightest GPU with room that does not hold the expert; if there is none, another replica makes room.
/// Returns the experts of the replicas on each GPU; a GPU may have fewer than replicas / gpus if no expert is left to
/// replicate.
[[nodiscard]] std::vector<std::vector<std::int64_t>> distinct_rebalance(std::span<const std::int64_t> loads,
                                                                        std::int64_t replicas, std::int64_t gpus);

/// The result of packing weighted items into bins of equal numbers.
struct Packing {
  std::vector<std::int64_t> bin;       // by item
  std::vector<std::int64_t> position;  // by item: its index in the bin
};
/// Packs items longest processing time first, equally many per bin. bins must divide the number of items.
[[nodiscard]] Packing balanced_packing(std::span<const double> weights, std::int64_t bins);

}  // namespace moeplan::planner
