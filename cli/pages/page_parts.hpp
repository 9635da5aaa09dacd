// Text blocks shared by the pages of several subcommands.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "model/costs/memory.hpp"
#include "model/text/unit_text.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/plan/plan.hpp"

namespace moeplan::cli {

/// The text cut to the length of one line, with "..." if it was longer.
[[nodiscard]] std::string shortened(const std::string& text);

/// A paragraph, wrapped at word boundaries and indented.
[[nodiscard]] std::string in_lines(const std::string& text);

/// A share as "12.3%", and with its sign as "+12.3%".
[[nodiscard]] std::string in_percent(double share);
[[nodiscard]] std::string signed_percent(double share);

[[nodiscard]] std::string degrees_text(const planner::Candidate& candidate);
/// The line "  plan  schedule | degrees" and, if different kinds of MoE layers use different strategies, one for each
/// kind.
[[nodiscard]] std::string plan_lines(std::string_view label, const planner::Candidate& candidate);
[[nodiscard]] std::string memory_text(const MemoryUse& memory, const Cluster& cluster);

/// Model, cluster and workload, in two lines.
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

/// The kernels whose figures price products and attention; "" without operators.
[[nodiscard]] std::string figures_text(const GpuSpec& gpu, const Workload& workload);

/// That the Program has recurrences or sparse attention, whose kernels no figures are known of; "" if it has none.
[[nodiscard]] std::string fused_products_text(const Program& program);

/// That collectives of the Program are priced for groups much larger than those that were measured; "" if none is.
[[nodiscard]] std::string extrapolation_text(const Cluster& cluster, const Program& program);

/// The number of assumed values in a cluster, and the first `most` of them; "" if there are none.
[[nodiscard]] std::string assumed_text(const Node& cluster_document, std::size_t most);

}  // namespace moeplan::cli
