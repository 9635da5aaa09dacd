// Measurements as plain CSV, the form into which anything else converts (docs/profile.md).
//
// The first line names the columns, in any order; lines that begin with `#` and empty ones are left out. No quotes: no
// value has a comma.
//
//   collective,ranks,nodes,bytes,time_us[,in_place][,dtype]   collective: all_to_all, all_gather, reduce_scatter,
//                                                             all_reduce, broadcast, send_receive; bytes: the n of
//                                                             AlphaBeta; in_place: true or false
//   m,n,k,dtype,time_us                                       one GEMM, launch included; dtype: fp32, tf32, fp16, bf16,
//                                                             fp8, int8 (bfloat16, float16 and half are known too)
//
// A time column ends in its unit: time_s, time_ms, time_us or time_ns.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "profiler/samples.hpp"

namespace moeplan::profiler {

/// Raises InputError with the line and column name of everything that is wrong: numbers that are none, times and sizes
/// that are not above 0, fewer than two ranks, more nodes than ranks, unknown names.
[[nodiscard]] std::variant<std::vector<CollectiveSample>, std::vector<GemmSample>> parse_measured_csv(
    std::string_view text, const std::string& name);

[[nodiscard]] std::variant<std::vector<CollectiveSample>, std::vector<GemmSample>> read_measured_csv(
    const std::filesystem::path& path);

}  // namespace moeplan::profiler
