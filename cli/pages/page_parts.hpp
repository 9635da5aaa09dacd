// Parts of the pages that several subcommands print.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "model/costs/memory.hpp"
#include "model/text/unit_text.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/plan/plan.hpp"

namespace moeplan::cli {

/// At most one line's length, with "..." where something was cut.
[[nodiscard]] std::string shortened(const std::string& text);

/// A paragraph, cut into lines between words and indented.
[[nodiscard]] std::string in_lines(const std::string& text);

[[nodiscard]] std::string degrees_text(const planner::Candidate& candidate);
/// "  plan  schedule | degrees", and where MoE layers of different kinds run differently how each does.
[[nodiscard]] std::string plan_lines(std::string_view label, const planner::Candidate& candidate);
[[nodiscard]] std::string memory_text(const MemoryUse& memory, const Cluster& cluster);

/// Model, machine and workload, in two lines.
[[nodiscard]] std::string page_header(const planner::Inputs& inputs, const Cluster& cluster);

/// "stage 2 of 4"; "" without a pipeline.
[[nodiscard]] std::string stage_text(const Program& program, RankId rank);

/// "stream  busy", one line each.
[[nodiscard]] std::string stream_table(const planner::Prediction& prediction);

/// The `most` busiest links, one line each, with their bytes and utilisation.
[[nodiscard]] std::string link_table(const planner::Prediction& prediction, const Topology& topology, std::size_t most);

/// How many numbers of a cluster are assumed, and the first `most` of them; "" if none is.
[[nodiscard]] std::string assumed_text(const Node& cluster_document, std::size_t most);

}  // namespace moeplan::cli
