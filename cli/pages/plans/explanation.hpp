// The report of `explain`: what limits a plan's iteration time, and which changes would reduce it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/pages/plans/prepared_plan.hpp"
#include "model/analysis/critical_path.hpp"
#include "model/analysis/ddl_roofline.hpp"
#include "model/analysis/operation_list.hpp"
#include "planner/report/layer_roofline.hpp"
#include "planner/report/paper_forms.hpp"
#include "planner/report/placement_payoff.hpp"
#include "planner/report/sensitivity.hpp"

namespace moeplan::cli {

struct Explanation {
  const PreparedPlan& plan;
  planner::Prediction prediction;
  PathSummary path;
  DdlRoofline roofline;
  std::vector<planner::LayerPoint> layer_points;  // the first MoE layer's points
  planner::PaperForms forms;                      // of that layer
  std::vector<planner::Sensitivity> sensitivities;
  std::optional<planner::PlacementPayoff> placement;  // none if there is nothing to place (placement_payoff())
  std::vector<OperationRow> operations;               // of the binding rank
};

/// `progress` is called with (done, total).
[[nodiscard]] Explanation explain(const PreparedPlan& plan,
                                  const std::function<void(std::int64_t, std::int64_t)>& progress = {});

/// The introductory paragraph of the page, without line breaks.
[[nodiscard]] std::string conclusion(const Explanation& explanation);

[[nodiscard]] std::string explain_page(const Explanation& explanation);
[[nodiscard]] std::string explain_json(const Explanation& explanation, double wall_s);

}  // namespace moeplan::cli
