// The published systems of the five papers as parts of the planner's search space for one MoE layer, to measure how
// much a combination of their techniques gains over each of them.
#pragma once

#include <limits>
#include <span>
#include <string_view>

#include "planner/search/layer_search.hpp"

namespace moeplan {

using namespace planner;

/// The layer strategies among which one published system can choose.
struct PublishedSystem {
  enum class Codecs { None, SameBothWays };

  std::string_view name;
  std::string_view summary;                       // a description of its strategies, with the source
  std::span<const std::string_view> schedules;    // names of planner/layer/schedule.hpp
  std::span<const std::string_view> all_to_alls;  // names of planner/layer/all_to_all.hpp
  Codecs codecs = Codecs::None;
  std::int64_t most_chunks = std::numeric_limits<std::int64_t>::max();

  [[nodiscard]] bool offers(const LayerStrategy& run) const;
};

/// Tutel, FasterMoE, ScheMoE, Parm and Pro-Prophet. Placements are not part of a LayerStrategy; with balanced loads,
/// Pro-Prophet is equivalent to the expert parallelism that it extends.
[[nodiscard]] std::span<const PublishedSystem> published_systems();

}  // namespace moeplan
