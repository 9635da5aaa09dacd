// The report of `replay`: placement strategies over a recorded routing.
#pragma once

#include <string>
#include <vector>

#include "planner/plan/inputs.hpp"
#include "planner/report/trace_replay.hpp"

namespace moeplan::cli {

struct ReplayReport {
  std::string trace_file;
  const RoutingTrace& trace;
  const planner::Inputs& inputs;
  const Cluster& cluster;
  planner::ReplayOptions options;
  std::int64_t redundant_experts;
  std::vector<planner::StrategyReplay> replays;
};

[[nodiscard]] std::string replay_page(const ReplayReport& report);
[[nodiscard]] std::string replay_json(const ReplayReport& report);

}  // namespace moeplan::cli
