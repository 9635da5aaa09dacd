// Weighted flows that start together on a few resources of their own: when each ends, and how fast sums of them get.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/network/network.hpp"

namespace moeplan::sim {

/// Max-min traffic of classes of equal flows, all started at 0, and watched sums of their rates.
struct SubtreeTraffic {
  struct Class {
    double bytes;   // of each flow, > 0
    double weight;  // how many flows
    std::uint32_t first_use;
    std::uint32_t uses;  // at least one
    std::int32_t sum;    // of the rates of which it is part
  };
  /// A watched value: factor x the sum's value - the rates of some classes of it.
  struct Slot {
    double factor;
    std::int32_t sum;
    std::vector<std::int32_t> without;  // classes; one may stand several times
  };

  std::vector<double> capacity;
  std::vector<Class> classes;
  std::vector<FlowUse> uses;
  std::int32_t sums = 0;
  std::vector<Slot> slots;
};

struct LimbResult {
  std::vector<double> finish_s;   // by class
  std::vector<double> most;       // by sum: the largest value over time of the rates of one flow of each class
  std::vector<double> slot_most;  // by slot
  bool is_constant;               // every flow ran at one rate
};

/// First tries whether every flow keeps one rate: the one that the narrowest resource of its way gives it, where that
/// is shared by flows of equal size only and nothing else is overloaded. Else the engine, O(classes^2), which is taken
/// from `steps_left`; none where that does not suffice.
[[nodiscard]] std::optional<LimbResult> simulate_subtree(const SubtreeTraffic& traffic, double& steps_left);

}  // namespace moeplan::sim
