// The machines and instances of docs/placement.md.
#pragma once

#include <string>
#include <vector>

#include "planner/placement/strategies/strategy.hpp"

namespace moeplan::bench {

using namespace planner;

struct Case {
  std::string name;
  PlacementDevices devices;
  PlacementOptions options{};
};

/// 16 ranks for 32 experts, with room for four more each.
[[nodiscard]] std::vector<Case> cases();

/// `auto` against the exact optimum over random instances with one holder an expert, of one kind each row; where the
/// optimum is not proved, against what is proved of every placement.
struct ExactRow {
  std::string objective;  // "load", or "time, MACHINE"
  std::int64_t ranks, nodes, experts;
  int instances = 0, proved = 0;
  double searched = 0;                           // nodes of the search, mean
  double widest_gap = 0;                         // of what was found, to what is proved
  double mean_ratio = 0, worst_ratio = 0;        // auto over the bound
  double mean_smartmoe = 0, worst_smartmoe = 0;  // the same of smartmoe
};
[[nodiscard]] std::vector<ExactRow> exact_rows();

}  // namespace moeplan::bench
