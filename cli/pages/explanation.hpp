// What `explain` says about a plan: why an iteration takes as long as it does, and what would make it shorter.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/pages/prepared_plan.hpp"
#include "model/analysis/critical_path.hpp"
#include "model/analysis/ddl_roofline.hpp"
#include "planner/report/layer_roofline.hpp"
#include "planner/report/placement_payoff.hpp"
#include "planner/report/sensitivity.hpp"

namespace moeplan::cli {

struct Explanation {
  const PreparedPlan& plan;
  planner::Prediction prediction;
  PathSummary path;
  DdlRoofline roofline;
  std::vector<planner::LayerPoint> layer_points;  // of an MoE layer alone
  std::vector<planner::Sensitivity> sensitivities;
  std::optional<planner::PlacementPayoff> placement;  // where there is anything to place
};

/// `progress` is told (done, total).
[[nodiscard]] Explanation explain(const PreparedPlan& plan,
                                  const std::function<void(std::int64_t, std::int64_t)>& progress = {});

/// The paragraph that the page begins with, without line breaks.
[[nodiscard]] std::string conclusion(const Explanation& explanation);

[[nodiscard]] std::string explain_page(const Explanation& explanation);
[[nodiscard]] std::string explain_json(const Explanation& explanation, double wall_s);

}  // namespace moeplan::cli
