// A reader of raw nccl-tests logs, as printed under mpirun or srun.
//
// Read: every table of a log, both halves (out-of-place and in-place), of alltoall, all_gather, reduce_scatter,
// all_reduce, broadcast and sendrecv, with any dtype, of all versions so far (1.x without a root column to 2.17). The
// printed size is the n of AlphaBeta for all of them. Columns are found by the table's header. The collective of a
// table is taken from `# Collective test starting: NAME_perf` (2.17), from a command line that contains NAME_perf, or
// else from the file name. Ranks and nodes are taken from the `#  Rank 0 ... on HOST` lines or, without them, from
// NCCL_DEBUG's `nRanks 16 nNodes 2`.
//
// Skipped, with a note that gives the line: tables of other tests, rows that are truncated or interleaved with other
// output, rows with wrong results, sizes that were rounded to 0, and tables of one rank, of several concurrent
// groups, or of ranks that are spread unevenly over nodes. Rejected: a table with unknown ranks or collective,
// impossible times (negative, zero, inconsistent with size and bandwidth), and a file without a table.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "profiler/tables/samples.hpp"

namespace moeplan::profiler {

/// The largest log file that is read: logs of all nodes of a cluster take megabytes.
inline constexpr std::size_t kMostLogBytes = std::size_t{64} << 20;

/// Parses the text of a log; `name` is the file name, for messages and to find the collective. Raises InputError with
/// everything that is rejected.
[[nodiscard]] CollectiveSamples parse_nccl_tests(std::string_view text, const std::string& name);

/// parse_nccl_tests() of a file's content.
[[nodiscard]] CollectiveSamples read_nccl_tests(const std::filesystem::path& path);

}  // namespace moeplan::profiler
