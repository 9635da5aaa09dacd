// Raw logs of nccl-tests, as they come out of mpirun or srun.
//
// What is read: every table of a log, both of its halves (out-of-place, in-place), of alltoall, all_gather,
// reduce_scatter, all_reduce, broadcast and sendrecv, in any dtype, of any version so far (1.x without a root column to
// 2.17). The printed size is the n of AlphaBeta in all of them. Columns are found by the table's header. Which
// collective a table is of stands in `# Collective test starting: NAME_perf` (2.17), in a command line that names
// NAME_perf, or else in the file's name. Ranks and nodes are those of the `#  Rank 0 ... on HOST` lines, or, without
// them, of NCCL_DEBUG's `nRanks 16 nNodes 2`.
//
// What is left out, with a note and its line: tables of other tests, rows that are cut short or mixed up with other
// output, rows with wrong results, sizes that were rounded to 0, and tables of one rank or of several groups at once.
// What is refused: a table of unknown ranks or collective, times that cannot be (negative, zero, not what size and
// bandwidth say), and a file without a table.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "profiler/samples.hpp"

namespace moeplan::profiler {

/// Logs of a whole cluster's nodes are megabytes.
inline constexpr std::size_t kMostLogBytes = std::size_t{64} << 20;

/// `name` is the file's, for messages and for the collective. Raises InputError with everything that is refused.
[[nodiscard]] CollectiveSamples parse_nccl_tests(std::string_view text, const std::string& name);

[[nodiscard]] CollectiveSamples read_nccl_tests(const std::filesystem::path& path);

}  // namespace moeplan::profiler
