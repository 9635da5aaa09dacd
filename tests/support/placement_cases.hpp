// Devices, loads and placements for the tests of planner/placement.
#pragma once

#include <rapidcheck.h>

#include "model/base/whole_numbers.hpp"
#include "planner/placement/strategies/strategy.hpp"

namespace moeplan::tests {

using namespace planner;

/// Two nodes with half the ranks each (one node if `ranks` is odd): 1 us and 1 kB per token, 1 MB per expert.
inline PlacementDevices small_machine(std::int64_t ranks, std::int64_t slots) {
  return {.ranks = ranks,
          .ranks_per_node = ranks % 2 == 0 ? ranks / 2 : ranks,
          .slots = slots,
          .token_time = Seconds(1e-6),
          .token_bytes = Bytes(1e3),
          .parameter_bytes = Bytes(1e6),
          .gradient_bytes = Bytes(1e6),
          .state_bytes = Bytes(3e6),
          .rank_bandwidth = BytesPerSecond(10e9),
          .nic_bandwidth = BytesPerSecond(1e9),
          .node_bandwidth = BytesPerSecond(2e9)};
}

/// Devices on which only the largest load determines the time.
inline PlacementDevices loads_only(std::int64_t ranks, std::int64_t slots) {
  PlacementDevices d = small_machine(ranks, slots);
  d.token_bytes = d.parameter_bytes = d.gradient_bytes = d.state_bytes = Bytes(0);
  d.trains = false;
  return d;
}

/// Random routing counts for up to 9 ranks and 20 experts, often with more ranks than experts, a number of experts not
/// divisible by the ranks, experts without load, or one expert that receives all tokens.
inline RoutingCounts any_counts() {
  const auto ranks = *rc::gen::inRange<std::int64_t>(1, 10), experts = *rc::gen::inRange<std::int64_t>(1, 21);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks * experts), 0);
  const auto kind = *rc::gen::inRange(0, 4);
  const auto hot = *rc::gen::inRange<std::int64_t>(0, experts);
  for (std::int64_t i = 0; i < ranks * experts; ++i) {
    const bool is_hot = i % experts == hot;
    auto& count = counts[static_cast<std::size_t>(i)];
    if (kind == 0) count = *rc::gen::inRange<std::int64_t>(0, 50);
    if (kind == 1) count = is_hot ? 40 : 0;
    if (kind == 2) count = is_hot ? 0 : *rc::gen::inRange<std::int64_t>(0, 1000);
    if (kind == 3) count = is_hot ? *rc::gen::inRange<std::int64_t>(0, 10000) : *rc::gen::inRange<std::int64_t>(0, 3);
  }
  return RoutingCounts::dense(ranks, experts, std::move(counts));
}

/// Random devices with room for all experts.
inline PlacementDevices any_machine(std::int64_t ranks, std::int64_t experts) {
  PlacementDevices d = small_machine(ranks, ceil_div(experts, ranks) + *rc::gen::inRange<std::int64_t>(0, 5));
  d.ranks_per_node = *rc::gen::inRange<std::int64_t>(1, ranks + 1);
  d.trains = *rc::gen::inRange(0, 2) == 1;
  d.overlaps_transfers = *rc::gen::inRange(0, 2) == 1;
  return d;
}

/// A random placement that is valid except that it may exceed the slots.
inline Placement any_placement(std::int64_t ranks, std::int64_t experts) {
  Placement placement;
  placement.nearest = *rc::gen::element(Nearest::Off, Nearest::Rank, Nearest::Node);
  for (std::int64_t e = 0; e < experts; ++e) {
    ExpertPlacement place;
    const auto holders = *rc::gen::inRange<std::int64_t>(1, ranks + 1);
    for (std::int64_t h = 0; h < holders; ++h) {
      add_holder(place, RankId(*rc::gen::inRange<std::int32_t>(0, static_cast<std::int32_t>(ranks))),
                 *rc::gen::inRange<std::int64_t>(0, 4));
    }
    ++place.holders.front().share;
    place.home = place.holders[*rc::gen::inRange<std::size_t>(0, place.holders.size())].rank;
    placement.experts.push_back(std::move(place));
  }
  return placement;
}

}  // namespace moeplan::tests
