// A reader of measurements from plain CSV, the common format to which other sources are converted (docs/profile.md).
//
// The first line names the columns, in any order; empty lines and lines that begin with `#` are ignored. There are no
// quotes, since no value contains a comma.
//
//   collective,ranks,nodes,bytes,time_us[,in_place][,dtype]   collective: all_to_all, all_gather, reduce_scatter,
//                                                             all_reduce, broadcast, send_receive; bytes: the n of
//                                                             AlphaBeta; in_place: true or false
//   m,n,k,dtype,time_us                                       one GEMM, launch included; dtype: fp32, tf32, fp16, bf16,
//                                                             fp8, int8 (also bfloat16, float16 and half)
//
// The name of the time column ends in its unit: time_s, time_ms, time_us or time_ns.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "profiler/tables/samples.hpp"

namespace moeplan::profiler {

/// Parses CSV text; `name` is the file name for messages. Raises InputError with the line and column name of every
/// error: invalid numbers, times and sizes that are not positive, fewer than two ranks, more nodes than ranks, unknown
/// names.
[[nodiscard]] std::variant<std::vector<CollectiveSample>, std::vector<GemmSample>> parse_measured_csv(
    std::string_view text, const std::string& name);

/// parse_measured_csv() of a file's content.
[[nodiscard]] std::variant<std::vector<CollectiveSample>, std::vector<GemmSample>> read_measured_csv(
    const std::filesystem::path& path);

}  // namespace moeplan::profiler
