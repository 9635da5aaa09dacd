// What a run's gates did: tokens for every expert, by iteration, layer and source rank.
//
// A file is CSV, plain or gzip, with the header
//
//     iteration,layer,rank,e0,e1,...,e<E-1>        (`iter` is taken for `iteration`)
//
// and one line for every rank of every layer of every iteration kept, in any order. Iterations bear their own numbers,
// with gaps where only every n-th was kept; layers and ranks count from 0.
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

/// Complete: a count for every iteration, layer, source and expert. Four bytes a count.
class RoutingTrace {
 public:
  /// `counts` is ordered by iteration, layer, source, expert; `iterations` are their numbers, increasing.
  RoutingTrace(std::vector<std::int64_t> iterations, std::int64_t layers, std::int64_t sources, std::int64_t experts,
               std::vector<std::uint32_t> counts);

  [[nodiscard]] std::span<const std::int64_t> iterations() const { return iterations_; }
  [[nodiscard]] std::int64_t layers() const { return layers_; }
  [[nodiscard]] std::int64_t sources() const { return sources_; }
  [[nodiscard]] std::int64_t experts() const { return experts_; }

  /// `iteration` is an index into iterations().
  [[nodiscard]] std::span<const std::uint32_t> row(std::size_t iteration, std::int64_t layer, RankId source) const;
  [[nodiscard]] RoutingCounts counts(std::size_t iteration, std::int64_t layer) const;
  /// Tokens for each expert over all sources.
  [[nodiscard]] std::vector<std::int64_t> expert_load(std::size_t iteration, std::int64_t layer) const;
  bool operator==(const RoutingTrace&) const = default;

 private:
  std::vector<std::int64_t> iterations_;
  std::int64_t layers_;
  std::int64_t sources_;
  std::int64_t experts_;
  std::vector<std::uint32_t> counts_;
};

/// One of its iterations alone, by index.
[[nodiscard]] RoutingTrace one_iteration(const RoutingTrace& trace, std::size_t iteration);

/// Limits of a file: counts in all (512 MiB of them), and each dimension.
inline constexpr std::int64_t kMostTraceCounts = std::int64_t{1} << 27;
inline constexpr std::int64_t kMostTraceRows = std::int64_t{1} << 23;
inline constexpr std::int64_t kMostTraceExperts = 65536;

/// Raises InputError with the line of everything that is wrong (the first 20): fields that are no counts, rows given
/// twice, rows that lack.
[[nodiscard]] RoutingTrace read_routing_trace(const std::filesystem::path& path);

/// The file's text, ordered by iteration, layer, rank.
[[nodiscard]] std::string to_csv(const RoutingTrace& trace);
/// Writes it, as gzip where the name ends in .gz. Raises InputError.
void write_routing_trace(const std::filesystem::path& path, const RoutingTrace& trace);

/// How a trace serves another number of sources or experts. Neighbours are those with consecutive numbers.
enum class TraceMapping {
  None,    // as it is: another number is refused
  Sum,     // to a divisor: neighbours count as one
  Split,   // to a multiple: each is dealt out as evenly as whole numbers allow
  Repeat,  // to a multiple, sources only: each stands for several, so that tokens in all grow
};
inline constexpr std::array<std::pair<TraceMapping, std::string_view>, 4> kTraceMappingNames{
    {{TraceMapping::None, "none"},
     {TraceMapping::Sum, "sum"},
     {TraceMapping::Split, "split"},
     {TraceMapping::Repeat, "repeat"}}};

/// Raises InputError about the trace (named `name`) where the rule does not lead to `sources` or `experts`.
[[nodiscard]] RoutingTrace with_sources(const RoutingTrace& trace, std::int64_t sources, TraceMapping rule,
                                        const std::string& name);
[[nodiscard]] RoutingTrace with_experts(const RoutingTrace& trace, std::int64_t experts, TraceMapping rule,
                                        const std::string& name);

}  // namespace moeplan
