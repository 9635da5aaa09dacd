// The time that the operator models predict for one row of a table of operators.
#pragma once

#include "model/operators/operator_models.hpp"
#include "profiler/scores/score.hpp"
#include "profiler/tables/operator_table.hpp"

namespace moeplan::profiler {

/// Predicts `row` with the models of its GPU.
[[nodiscard]] Prediction prediction_of(const OperatorRow& row, const OperatorModels& models);

}  // namespace moeplan::profiler
