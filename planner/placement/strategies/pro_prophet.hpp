// [Pro-Prophet]'s performance model (sec. IV-B, V-C) and greedy planner (algorithm 1).
//
// Notation: D devices, I inputs (selections), H_i inputs computed on device i, R_i of them received from others, s
// selected experts, n devices that a selected expert is not sent to. B is average_bandwidth().
#pragma once

#include <cstdint>
#include <vector>

#include "planner/placement/divide.hpp"

namespace moeplan::planner {

/// T'(R, H, s, n): eq. (6), or scheduled eq. (8), where Trans goes on beside the computation of the block before (FEC +
/// FNEC) and Agg beside its backward (BEC + BNEC).
[[nodiscard]] Seconds pro_prophet_time(std::int64_t most_received, std::int64_t most_computed, std::int64_t selected,
                                       std::int64_t not_sent, const PlacementDevices& devices, bool scheduled);

struct ProProphetPlan {
  std::vector<std::size_t> selected;        // experts, in the order of selection
  std::vector<std::vector<char>> not_sent;  // for each, by device: one of the n, or without a free slot
  Seconds time{};                           // T' of the plan
  Seconds time_before{};                    // T'(R, H, 0, 0)
};

/// Algorithm 1. The heaviest device's heaviest expert goes to all devices but the n with the fewest inputs for it
/// (ties: the lowest device), until max(H) - min(H) < alpha I / E or an expert repeats; the best prefix is kept.
/// Devices without a free slot are not sent to either, beyond the paper. O(selected (E + D log D)).
[[nodiscard]] ProProphetPlan pro_prophet_plan(const ExpertColumns& columns, const std::vector<std::int64_t>& homes,
                                              std::vector<std::int64_t> free, std::int64_t n, double alpha,
                                              const PlacementDevices& devices, bool scheduled);

}  // namespace moeplan::planner
