// The clusters and problem instances of docs/placement.md.
#pragma once

#include <string>
#include <vector>

#include "planner/placement/strategies/strategy.hpp"

namespace moeplan::bench {

using namespace planner;

/// A named placement problem: its devices and planning options.
struct Case {
  std::string name;
  PlacementDevices devices;
  PlacementOptions options{};
};

/// Cases with 16 ranks for 32 experts, where each rank has room for four additional experts.
[[nodiscard]] std::vector<Case> cases();

/// A comparison of `auto` with the exact optimum over random instances of one kind, with one holder per expert. Where
/// the optimum is not proved, `auto` is compared with the proved lower bound.
struct ExactRow {
  std::string objective;  // "load", or "time, MACHINE"
  std::int64_t ranks, nodes, experts;
  int instances = 0, proved = 0;
  double searched = 0;                           // mean number of search nodes
  double widest_gap = 0;                         // largest optimality gap of the exact search
  double mean_ratio = 0, worst_ratio = 0;        // cost of auto / lower bound
  double mean_smartmoe = 0, worst_smartmoe = 0;  // cost of smartmoe / lower bound
};

/// The rows of the table, computed; without `has_long`, those are left out whose exact searches take seconds an
/// instance.
[[nodiscard]] std::vector<ExactRow> exact_rows(bool has_long = true);

}  // namespace moeplan::bench
