// The time that the operator models predict for one row of a table of operators.
#pragma once

#include <optional>
#include <string>

#include "model/operators/operator_models.hpp"
#include "profiler/operator_table.hpp"

namespace moeplan::profiler {

/// A predicted time, or the reason why there is none.
struct Prediction {
  std::optional<Seconds> time;
  std::string reason;      // "" with a time
  std::string library;     // of the model that answers
  bool is_fitted = false;  // the numbers were fitted to this shape, as far as is known: it is not held out
};

/// Predicts `row` with the models of its GPU.
[[nodiscard]] Prediction prediction_of(const OperatorRow& row, const OperatorModels& models);

}  // namespace moeplan::profiler
