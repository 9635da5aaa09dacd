// The machines and instances of docs/placement.md.
#pragma once

#include <string>
#include <vector>

#include "planner/placement/strategy.hpp"

namespace moeplan::bench {

struct Case {
  std::string name;
  PlacementDevices devices;
  PlacementOptions options{};
};

/// 16 ranks for 32 experts, with room for four more each.
[[nodiscard]] std::vector<Case> cases();

/// `auto` against the exact optimum over random instances with one holder an expert, of one kind each row.
struct ExactRow {
  std::string objective;  // "load", or "time"
  std::int64_t ranks, experts;
  int instances = 0, proved = 0;
  double nodes = 0;                              // mean
  double mean_ratio = 0, worst_ratio = 0;        // auto / optimum, of the proved ones
  double mean_smartmoe = 0, worst_smartmoe = 0;  // the same of smartmoe
};
[[nodiscard]] std::vector<ExactRow> exact_rows();

}  // namespace moeplan::bench
