// Tables of measured operators in the columns that `moeplan score` reads (docs/operators.md, "Tables").
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/diagnostics.hpp"
#include "model/base/quantity.hpp"
#include "model/operators/attention_model.hpp"
#include "model/operators/fused_moe_model.hpp"
#include "model/operators/gemm_shape.hpp"
#include "profiler/tables/table_reader.hpp"

namespace moeplan::profiler {

/// The columns of the format, in its order.
[[nodiscard]] const TableFormat& operator_format();

/// One measured operator. Numbers that do not apply are 0, texts are empty.
struct OperatorRow {
  std::string gpu;     // a name of configs/operators
  std::string kind;    // gemm, grouped_gemm, attention, fused_moe, kernel
  std::string phase;   // forward, dgrad, wgrad, backward
  std::string format;  // column dtype: a name of MathFormat
  std::int64_t m = 0, n = 0, k = 0, groups = 0;
  std::string rows;  // rows of each group: one number, or "a|b|c"
  std::int64_t sequence_length = 0, batch = 0, query_heads = 0, kv_heads = 0, head_dim = 0, v_head_dim = 0, causal = 0,
               window = 0;
  std::int64_t hidden = 0, expert_hidden = 0, experts = 0, top_k = 0, ep = 0, tp = 0, tokens = 0;
  std::string loads;
  Seconds time;
  std::string source;
  Location where;
};

/// Reads a table, plain or gzip. Raises InputError with the line and column of everything that is wrong: unknown or
/// missing columns, numbers below 0, times that are not positive.
[[nodiscard]] std::vector<OperatorRow> read_operator_table(const std::filesystem::path& path);

/// The shape of a row of kind gemm, and of kind attention. A missing v_head_dim is head_dim.
[[nodiscard]] GemmShape gemm_shape(const OperatorRow& row);
[[nodiscard]] AttentionShape attention_shape(const OperatorRow& row);

/// The products of a row of kind grouped_gemm, one for each group; none if `rows` cannot be read.
[[nodiscard]] std::vector<GemmShape> grouped_shapes(const OperatorRow& row);

/// The layer of a row of kind fused_moe, and the rows of its local experts; none if `loads` cannot be read.
[[nodiscard]] FusedMoeShape layer_shape(const OperatorRow& row);
[[nodiscard]] std::optional<std::vector<ExpertLoad>> expert_loads(const OperatorRow& row);

/// The kernel and the implementation that `source` of a row of kind kernel starts with ("rms_norm:liger ..."), both
/// empty if it does not; and the elements of the kernel's tensor.
[[nodiscard]] std::pair<std::string, std::string> kernel_name(const OperatorRow& row);
[[nodiscard]] double kernel_elements(const OperatorRow& row);

/// FLOPs of the row by the conventions of the format; 0 for memory-bound kernels.
[[nodiscard]] double flops_of(const OperatorRow& row);

}  // namespace moeplan::profiler
