// DeepSeek's expert-parallelism load balancer [EPLB] (github.com/deepseek-ai/EPLB), its global and its hierarchical
// policy: replicate the experts with the most load a replica, then pack replicas into equal numbers a GPU.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moeplan::planner {

/// Physical experts (replicas) of a layer; the first replicas / gpus are on GPU 0, and so on.
struct EplbLayer {
  std::vector<std::int64_t> phy2log;    // [replicas]: expert of a replica
  std::vector<std::int64_t> phy2index;  // [replicas]: which of its expert's replicas
  std::vector<std::int64_t> logcnt;     // [experts]: replicas of an expert
  bool operator==(const EplbLayer&) const = default;
};

/// Each extra replica to argmax(load / replicas) (ties: the lowest expert); longest processing time first into bins of
/// equal numbers (lightest bin with room; ties: the lowest); a bin a thing where there are as many. With groups % nodes
/// == 0: groups of consecutive experts are packed on nodes, then each node replicates and packs its own; else globally.
/// gpus divides replicas, groups divides experts, nodes divides gpus. Quotients of loads are compared in double where
/// the released code rounds to float.
[[nodiscard]] EplbLayer eplb_rebalance(std::span<const std::int64_t> loads, std::int64_t replicas, std::int64_t groups,
                                       std::int64_t nodes, std::int64_t gpus);

/// The released code's tables of several layers: log2phy [layers][experts][most replicas of any], padded with -1.
struct EplbTables {
  std::vector<std::vector<std::int64_t>> phy2log;
  std::vector<std::vector<std::vector<std::int64_t>>> log2phy;
  std::vector<std::vector<std::int64_t>> logcnt;
};
[[nodiscard]] EplbTables eplb_tables(std::span<const EplbLayer> layers);

/// Ours: the global policy without two replicas of an expert on one GPU, which is what the released code's packing may
/// lead to (a known defect: the second one serves nobody). An expert has at most one replica a GPU; the lightest GPU
/// with room that does not hold it takes it; where none is left, another replica makes room. GPU of each replica's
/// expert, by GPU; some may have less than replicas / gpus, where no expert is left to replicate.
[[nodiscard]] std::vector<std::vector<std::int64_t>> distinct_rebalance(std::span<const std::int64_t> loads,
                                                                        std::int64_t replicas, std::int64_t gpus);

/// Packs weighted things into equally many a bin; bin by thing. bins divides the number of things.
struct Packing {
  std::vector<std::int64_t> bin;       // by thing
  std::vector<std::int64_t> position;  // in its bin
};
[[nodiscard]] Packing balanced_packing(std::span<const double> weights, std::int64_t bins);

}  // namespace moeplan::planner
