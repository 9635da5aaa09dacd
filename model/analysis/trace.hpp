// A Timeline as Chrome trace events (JSON), which Perfetto and chrome://tracing open.
//
// A process is a rank (its id is one more than the rank's), a thread a stream, a slice an operation; times are
// microseconds with all digits down to the picosecond. Arrows lead from a sender's communication to the receiver's.
// Iterations that are copies are not repeated: a slice of the process "repeats" fills their time and says how many
// there are, so that a whole iteration stays small. Counters of the process "links" show what links carry, in GB/s, and
// in the time of copies their mean. Format: "Trace Event Format",
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "model/analysis/link_rates.hpp"
#include "model/analysis/timeline.hpp"
#include "model/program/program.hpp"

namespace moeplan {

/// Arrows out of one slice, to the nearest positions of the group first (cyclically, upwards).
inline constexpr std::int64_t kTraceArrows = 8;

struct TraceOptions {
  std::vector<int> node_of_rank{};  // as Cluster::node_of_rank; empty: nodes are not named
  std::vector<RankId> ranks{};      // those shown, ascending; empty: default_traced_ranks()
  std::vector<LinkTrack> links{};   // a counter each
};

/// All ranks if there are at most 16; else the first 8 of node 0 and the first of each other node, at most 64 in all.
[[nodiscard]] std::vector<RankId> default_traced_ranks(std::int64_t world_size, const std::vector<int>& node_of_rank);

/// The JSON text. The same bytes for the same arguments. What was left out is said under "otherData".
[[nodiscard]] std::string chrome_trace(const Program& program, const Timeline& timeline,
                                       const TraceOptions& options = {});

/// Writes it to a file. Raises InputError where that cannot be done.
void write_chrome_trace(const std::filesystem::path& path, const Program& program, const Timeline& timeline,
                        const TraceOptions& options = {});

}  // namespace moeplan
