#include <fmt/format.h>

#include "cli/pages/page_parts.hpp"
#include "cli/pages/plans/plan_report.hpp"
#include "model/text/unit_text.hpp"

namespace moeplan::cli {

std::string simulate_page(const planner::Plan& plan, const planner::Inputs& inputs, const Cluster& cluster,
                          const planner::Prediction& p) {
  std::string out = page_header(inputs, cluster);
  out += labelled("plan", plan_text(plan.candidate));
  out += labelled("speed", speed_text(p) + (p.makespan == plan.makespan
                                                ? ", as the plan predicts"
                                                : ", where the plan predicts " + human(plan.makespan.seconds())));
  out += accuracy_line(inputs);
  out += fmt::format("  bound          {} ({})\n", human(p.estimate.lower_bound), p.estimate.bound_by);
  out += labelled("memory", memory_text(p.memory, cluster) +
                                tightness_text(p.memory.total(), cluster.memory_per_rank(), inputs.workload));
  out += '\n' + stream_table(p) + '\n' + link_table(p, cluster.topology, 5);
  const std::vector<std::string> warnings = pricing_warnings(cluster, p.program);
  if (!warnings.empty()) out += '\n';
  for (const std::string& text : warnings) out += in_lines(text);
  return out;
}

}  // namespace moeplan::cli
