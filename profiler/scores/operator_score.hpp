// Predicted against measured times of a table of operators.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/operators/operator_models.hpp"
#include "profiler/scores/score.hpp"
#include "profiler/tables/operator_table.hpp"

namespace moeplan::profiler {

/// The models of the GPUs that a table names; a GPU without a file is missing.
using ModelsByGpu = std::map<std::string, OperatorModels>;

/// Predicts every row. A group has one kind, GPU, format, phase and library ("gemm h200_sxm bf16 forward trtllm"), from
/// 1e8 FLOPs on where a kind has FLOPs.
[[nodiscard]] std::vector<ScoredRow> score_operators(std::span<const OperatorRow> table, const ModelsByGpu& models);

}  // namespace moeplan::profiler
