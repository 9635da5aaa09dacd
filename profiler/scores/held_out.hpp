// Which measurements are held out of a fit, to judge it: one third of the shapes, by their hash, always the same.
#pragma once

#include <string_view>

#include "model/operators/attention_model.hpp"
#include "model/operators/gemm_shape.hpp"
#include "profiler/tables/collective_table.hpp"
#include "profiler/tables/dispatch_table.hpp"
#include "profiler/tables/operator_table.hpp"

namespace moeplan::profiler {

[[nodiscard]] bool is_held_out(const GemmShape& shape);
[[nodiscard]] bool is_held_out(const AttentionShape& shape);
/// Of grouped products, fused layers and kernels.
[[nodiscard]] bool is_held_out(const OperatorRow& row);
/// Of a size of a collective on a cluster, and of a dispatcher's tokens in a configuration.
[[nodiscard]] bool is_held_out(const CollectiveRow& row);
[[nodiscard]] bool is_held_out(const DispatchRow& row);

}  // namespace moeplan::profiler
