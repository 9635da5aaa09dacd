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

/// What to run: "pp 4x8 tp 2 sp dp 8 ep 64 | micro batch 1 | s1_tapered | experts contiguous".
[[nodiscard]] std::string run_text(const planner::Candidate& candidate);
/// Decisions about the whole model that are not the usual ones: "operations reordered, layout Et|tL"; "" if all are.
[[nodiscard]] std::string settings_text(const planner::Candidate& candidate);
/// All decisions: what to run, recomputation, the strategies of the MoE layers, and settings.
[[nodiscard]] std::string plan_text(const planner::Candidate& candidate);

/// "step time 4.441 s, 7379 tokens/s/GPU, MFU 59.5%".
[[nodiscard]] std::string speed_text(const planner::Prediction& prediction);
/// "73.1 GiB of 74.5: weights 7.5, ...", with host_memory_text().
[[nodiscard]] std::string memory_text(const MemoryUse& memory, const Cluster& cluster);
/// "; 12.3 GiB in the host's memory" if anything is there; else "".
[[nodiscard]] std::string host_memory_text(const MemoryUse& memory);
/// "; it may not fit: ..." if what is free beside the peak is less than the error of such predictions; else "".
[[nodiscard]] std::string tightness_text(Bytes peak, Bytes capacity, const Workload& workload);

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

/// Prices that no measurement supports: of operations whose kernels no figures are known of, of collectives of much
/// larger groups than those that were measured, of dispatchers by figures of other groups, and of all-reduces whose
/// figures contradict others.
[[nodiscard]] std::vector<std::string> pricing_warnings(const Cluster& cluster, const Program& program);
/// The kernels whose figures price products and attention, and the warnings.
[[nodiscard]] std::vector<std::string> pricing_notes(const planner::Inputs& inputs, const Cluster& cluster,
                                                     const Program& program);
/// These and the first `most` assumed numbers of the cluster, in lines.
[[nodiscard]] std::string notes_text(const planner::Inputs& inputs, const planner::PlanInputs& documents,
                                     const Cluster& cluster, const Program& program, std::size_t most);

}  // namespace moeplan::cli
