// Dynamic shadowing, [FasterMoE] sec. 4.1.
//
// Notation: B_w tokens that worker w computes, r shadowed experts, alpha H'^2 elements of one of an expert's two
// matrices. In our terms 4 alpha H'^2 / P is token_time, H' b is token_bytes, 2 alpha H'^2 b is parameter_bytes, W_net
// is average_bandwidth().
#pragma once

#include <cstdint>
#include <vector>

#include "planner/placement/divide.hpp"

namespace moeplan::planner {

/// eq. (7) with the largest B_w: 3 B token_time + 4 B token_bytes / W_net.
[[nodiscard]] Seconds fastermoe_imbalanced_latency(std::int64_t largest, const PlacementDevices& devices);

/// eq. (8): 3 B' token_time + 2 r parameter_bytes / W_net. Leaves out what is still exchanged, and so accepts shadowing
/// of balanced loads: the paper's, for reproduction.
[[nodiscard]] Seconds fastermoe_shadowed_latency(std::int64_t shadowed, std::int64_t largest,
                                                 const PlacementDevices& devices);

/// eq. (9) or (10): whether the second is less than the first, without pricing either. With B' <= B.
[[nodiscard]] bool fastermoe_shadowing_pays(std::int64_t shadowed, std::int64_t largest_before,
                                            std::int64_t largest_after, const PlacementDevices& devices);

/// Algorithm 1: which experts to shadow, heaviest first; stops at the first rise, or where a rank has no slot left
/// (`free` by rank, before). `homes` by expert.
[[nodiscard]] std::vector<std::size_t> fastermoe_shadows(const ExpertColumns& columns,
                                                         const std::vector<std::int64_t>& homes,
                                                         std::vector<std::int64_t> free,
                                                         const PlacementDevices& devices);

}  // namespace moeplan::planner
