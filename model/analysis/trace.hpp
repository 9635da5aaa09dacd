// Export of a Timeline as Chrome trace events (JSON), for Perfetto and chrome://tracing.
//
// A process represents a rank (its id is the rank + 1), a thread a stream, and a slice an operation; times are in
// microseconds with picosecond resolution. Arrows connect a sender's communication to the receiver's. Iterations that
// are copies are not repeated unless that is asked for: a slice of the process "repeats" covers their time and gives
// their number, which keeps the trace of a whole iteration small. Counters of the process "links" show the throughput
// of links in GB/s, during copies its mean. Format: "Trace Event Format",
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/analysis/link_rates.hpp"
#include "model/analysis/timeline.hpp"
#include "model/program/program.hpp"

namespace moeplan {

/// Maximum number of arrows from one slice; peers are chosen in order of position after the sender's, cyclically.
inline constexpr std::int64_t kTraceArrows = 8;

/// Maximum number of slices of a trace; Perfetto opens more only slowly.
inline constexpr std::size_t kTraceSlices = 4'000'000;

struct TraceOptions {
  std::vector<int> node_of_rank{};                      // as Cluster::node_of_rank; empty: nodes are not named
  std::vector<RankId> ranks{};                          // ranks to show, ascending; empty: default_traced_ranks()
  std::vector<LinkTrack> links{};                       // one counter per track
  bool expands_repeats = false;                         // a slice for every operation of every iteration
  std::optional<std::pair<SimTime, SimTime>> window{};  // only slices that overlap it
};

/// All ranks if there are at most 16; otherwise the first 8 of node 0 and the first of each other node, at most 64 in
/// all.
[[nodiscard]] std::vector<RankId> default_traced_ranks(std::int64_t world_size, const std::vector<int>& node_of_rank);

/// The trace as JSON. Deterministic. "otherData" lists the omissions. Raises InputError if it has too many slices.
[[nodiscard]] std::string chrome_trace(const Program& program, const Timeline& timeline,
                                       const TraceOptions& options = {});

/// Writes the trace to a file. Raises InputError if that fails.
void write_chrome_trace(const std::filesystem::path& path, const Program& program, const Timeline& timeline,
                        const TraceOptions& options = {});

}  // namespace moeplan
