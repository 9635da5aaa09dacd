// [Pro-Prophet]'s performance model (sec. IV-B, V-C) and greedy planner (algorithm 1).
//
// Notation: D devices, I inputs (selections), H_i inputs computed on device i, R_i of these received from other
// devices, s selected experts, n devices to which a selected expert is not sent. The paper has one B, the average
// bandwidth, and an error of less than 5% for A2A, Trans and Agg (fig. 13); its published code (search_algorithm.py)
// has a bandwidth for each. Here B is average_bandwidth() for A2A, and chain_bandwidth() for Trans and Agg, which are
// broadcasts and reductions along chains.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/placement/divide.hpp"

namespace moeplan::planner {

/// The modelled layer time T'(R, H, s, n): eq. (6), or if `scheduled` eq. (8), where Trans overlaps with the
/// computation of the preceding block (FEC + FNEC) and Agg with its backward pass (BEC + BNEC).
[[nodiscard]] Seconds pro_prophet_time(std::int64_t most_received, std::int64_t most_computed, std::int64_t selected,
                                       std::int64_t not_sent, const PlacementDevices& devices, bool scheduled);

/// The planner's result.
struct ProProphetPlan {
  std::vector<std::size_t> selected;        // experts, in the order of selection
  std::vector<std::vector<char>> not_sent;  // by selected expert and device: one of the n, or without a free slot
  Seconds time{};                           // T' of the plan
  Seconds time_before{};                    // T'(R, H, 0, 0)
};

/// The greedy planner, algorithm 1. The heaviest device's heaviest expert is sent to all devices except the n with the
/// fewest inputs for it (ties: the lowest device), until max(H) - min(H) < alpha I / E or an expert repeats; the best
/// prefix is kept. Beyond the paper, devices without a free slot are excluded as well. O(selected (E + D log D)).
[[nodiscard]] ProProphetPlan pro_prophet_plan(const ExpertColumns& columns, const std::vector<std::int64_t>& homes,
                                              std::vector<std::int64_t> free, std::int64_t n, double alpha,
                                              const PlacementDevices& devices, bool scheduled);

}  // namespace moeplan::planner
