// Measured products as a table of operators, in the columns that `moeplan score` reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cuda_runtime/measure/benchmarks.hpp"
#include "cuda_runtime/measure/measure.hpp"

namespace moeplan::runtime {

/// The columns of such a table, attention's and kernels' among them (torch_rows.hpp).
inline constexpr std::string_view kOperatorColumns =
    "gpu,kind,phase,dtype,m,n,k,groups,rows,sequence_length,batch,query_heads,kv_heads,head_dim,v_head_dim,causal,"
    "time_us,source";

/// The table (docs/operators.md, "Tables") of operator_benchmarks(), by their measurements; those without a time are
/// left out. `gpu`: the name of the GPU in each row. `source`: says what was measured, and how.
[[nodiscard]] std::string operator_rows(const std::vector<Benchmark>& benchmarks, const std::vector<Measured>& measured,
                                        const std::string& gpu, const std::string& source);

}  // namespace moeplan::runtime
