// The max-min problem of one subtree: weighted flow classes that start together, their completion times, and the peaks
// over time of sums of their rates.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/network/network.hpp"

namespace moeplan::sim {

/// Classes of equal flows that all start at time 0 under max-min fairness, and the sums of their rates to be watched.
struct SubtreeTraffic {
  struct Class {
    double bytes;   // per flow, > 0
    double weight;  // number of flows
    std::uint32_t first_use;
    std::uint32_t uses;  // at least one
    std::int32_t sum;    // the sum to which its rate belongs
  };
  /// A watched value: factor times a sum, minus the rates of some of its classes.
  struct Slot {
    double factor;
    std::int32_t sum;
    std::vector<std::int32_t> without;  // classes; one may occur several times
  };

  std::vector<double> capacity;
  std::vector<Class> classes;
  std::vector<FlowUse> uses;
  std::int32_t sums = 0;
  std::vector<Slot> slots;
};

/// Completion times and peaks of the watched values.
struct SubtreeResult {
  std::vector<double> finish_s;   // by class
  std::vector<double> most;       // by sum: the maximum over time, with the rate of one flow of each class, bytes/s
  std::vector<double> slot_most;  // by slot: the maximum over time, bytes/s
  bool is_constant;               // every flow ran at a constant rate
};

/// Simulates the classes. First tries the closed form in which every flow has the constant rate that the narrowest
/// resource on its path allows; it holds if flows on such a resource have equal bytes and no other resource is
/// overloaded. Otherwise runs the network engine in O(classes^2) steps, subtracted from `steps_left`; none if these do
/// not suffice.
[[nodiscard]] std::optional<SubtreeResult> simulate_subtree(const SubtreeTraffic& traffic, double& steps_left);

}  // namespace moeplan::sim
