// The report of `explain`: what limits a plan's iteration time, and which changes would reduce it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
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
  std::vector<BufferUse> buffers;                     // at the peak of the fullest stage's memory, largest first
};

/// `progress` is called with (done, total).
[[nodiscard]] Explanation explain(const PreparedPlan& plan,
                                  const std::function<void(std::int64_t, std::int64_t)>& progress = {});

/// A class of operations, worded for use inside a sentence: "expert computation".
[[nodiscard]] std::string_view class_phrase(OpClass op_class);

/// The introductory paragraph of the page, without line breaks.
[[nodiscard]] std::string conclusion(const Explanation& explanation);

[[nodiscard]] std::string explain_page(const Explanation& explanation);
[[nodiscard]] std::string explain_json(const Explanation& explanation, double wall_s);
/// The same document on one line, without its timing, and with the busiest links only: large clusters have thousands.
inline constexpr std::size_t kReportedLinks = 32;
[[nodiscard]] std::string explain_data(const Explanation& explanation);

}  // namespace moeplan::cli
