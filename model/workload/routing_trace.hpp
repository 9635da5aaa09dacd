// A routing trace: recorded token counts by iteration, layer, source rank and expert.
//
// A file is CSV, plain or gzip, with the header
//
//     iteration,layer,rank,e0,e1,...,e<E-1>        (`iter` is accepted for `iteration`)
//
// and one line per rank, layer and recorded iteration, in any order. Iterations keep their numbers, with gaps if only
// every n-th was recorded; layers and ranks count from 0.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/workload/routing.hpp"

namespace moeplan {

/// A complete trace: one count for every iteration, layer, source and expert. Four bytes per count.
class RoutingTrace {
 public:
  /// `counts` is ordered by iteration, layer, source, expert; `iterations` are the iteration numbers, increasing.
  RoutingTrace(std::vector<std::int64_t> iterations, std::int64_t layers, std::int64_t sources, std::int64_t experts,
               std::vector<std::uint32_t> counts);

  [[nodiscard]] std::span<const std::int64_t> iterations() const { return iterations_; }
  [[nodiscard]] std::int64_t layers() const { return layers_; }
  [[nodiscard]] std::int64_t sources() const { return sources_; }
  [[nodiscard]] std::int64_t experts() const { return experts_; }

  /// `iteration` is an index into iterations().
  [[nodiscard]] std::span<const std::uint32_t> row(std::size_t iteration, std::int64_t layer, RankId source) const;
  [[nodiscard]] RoutingCounts counts(std::size_t iteration, std::int64_t layer) const;
  /// Number of tokens of each expert, over all sources.
  [[nodiscard]] std::vector<std::int64_t> expert_load(std::size_t iteration, std::int64_t layer) const;
  bool operator==(const RoutingTrace&) const = default;

 private:
  std::vector<std::int64_t> iterations_;
  std::int64_t layers_;
  std::int64_t sources_;
  std::int64_t experts_;
  std::vector<std::uint32_t> counts_;
};

/// A trace of a single iteration, given by its index.
[[nodiscard]] RoutingTrace one_iteration(const RoutingTrace& trace, std::size_t iteration);

/// Limits of a trace file: total counts (512 MiB of them), and each dimension.
inline constexpr std::int64_t kMostTraceCounts = std::int64_t{1} << 27;
inline constexpr std::int64_t kMostTraceRows = std::int64_t{1} << 23;
inline constexpr std::int64_t kMostTraceExperts = 65536;

/// Reads a trace. Raises InputError with the line of every error (the first 20): fields that are not counts, duplicate
/// rows, missing rows.
[[nodiscard]] RoutingTrace read_routing_trace(const std::filesystem::path& path);

/// The trace as CSV text, ordered by iteration, layer, rank.
[[nodiscard]] std::string to_csv(const RoutingTrace& trace);
/// Writes a trace file, compressed with gzip if the name ends in .gz. Raises InputError.
void write_routing_trace(const std::filesystem::path& path, const RoutingTrace& trace);

/// How a trace is mapped to another number of sources or experts. Neighbours are sources or experts with consecutive
/// numbers.
enum class TraceMapping {
  None,    // unchanged: another number is an error
  Sum,     // to a divisor: neighbours are merged into one
  Split,   // to a multiple: each is divided as evenly as integers allow
  Repeat,  // to a multiple, sources only: each is repeated, so that the total number of tokens grows
};
inline constexpr std::array<std::pair<TraceMapping, std::string_view>, 4> kTraceMappingNames{
    {{TraceMapping::None, "none"},
     {TraceMapping::Sum, "sum"},
     {TraceMapping::Split, "split"},
     {TraceMapping::Repeat, "repeat"}}};

/// The trace mapped to `sources` or `experts`. Raises InputError about the trace (named `name`) if the rule cannot
/// produce that number.
[[nodiscard]] RoutingTrace with_sources(const RoutingTrace& trace, std::int64_t sources, TraceMapping rule,
                                        const std::string& name);
[[nodiscard]] RoutingTrace with_experts(const RoutingTrace& trace, std::int64_t experts, TraceMapping rule,
                                        const std::string& name);

}  // namespace moeplan
