// Text blocks shared by the pages of several subcommands.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/pages/text/wrapping.hpp"
#include "model/costs/memory.hpp"
#include "model/text/unit_text.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/plan/plan.hpp"

namespace moeplan::cli {

/// A share as "12.3%", and with its sign as "+12.3%".
[[nodiscard]] std::string in_percent(double share);
[[nodiscard]] std::string signed_percent(double share);

[[nodiscard]] std::string degrees_text(const planner::Candidate& candidate);
/// The line "  plan  schedule | degrees" and, if different kinds of MoE layers use different strategies, one for each
/// kind.
[[nodiscard]] std::string plan_lines(std::string_view label, const planner::Candidate& candidate);
[[nodiscard]] std::string memory_text(const MemoryUse& memory, const Cluster& cluster);

/// "mixtral_8x7b on 32 x h100_sxm of dgx_h100", and the workload in words.
[[nodiscard]] std::string job_text(const planner::Inputs& inputs, const Cluster& cluster);
[[nodiscard]] std::string workload_text(const Workload& workload);
/// Both, in lines.
[[nodiscard]] std::string page_header(const planner::Inputs& inputs, const Cluster& cluster);

/// How far predictions for such jobs were from measurements, and the same as a line of a page.
[[nodiscard]] std::string accuracy_text(const planner::Inputs& inputs);
[[nodiscard]] std::string accuracy_line(const planner::Inputs& inputs);

/// "stage 2 of 4"; "" without a pipeline.
[[nodiscard]] std::string stage_text(const Program& program, RankId rank);

/// "stream  busy", one line each.
[[nodiscard]] std::string stream_table(const planner::Prediction& prediction);

/// The `most` busiest links, one line each, with their bytes and utilisation.
[[nodiscard]] std::string link_table(const planner::Prediction& prediction, const Topology& topology, std::size_t most);

/// What a reader must know of the prices: the kernels whose figures price products and attention, operations whose
/// kernels no figures are known of, and collectives of much larger groups than those that were measured.
[[nodiscard]] std::vector<std::string> pricing_notes(const planner::Inputs& inputs, const Cluster& cluster,
                                                     const Program& program);
/// These and the first `most` assumed numbers of the cluster, in lines.
[[nodiscard]] std::string notes_text(const planner::Inputs& inputs, const planner::PlanInputs& documents,
                                     const Cluster& cluster, const Program& program, std::size_t most);

}  // namespace moeplan::cli
