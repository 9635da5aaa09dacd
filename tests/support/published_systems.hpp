// What each of the five papers' systems can do in one MoE layer, as parts of the planner's search space: to say what a
// mix of them gains that none of them has.
#pragma once

#include <limits>
#include <span>
#include <string_view>

#include "planner/search/layer_search.hpp"

namespace moeplan {

using namespace planner;

struct PublishedSystem {
  enum class Codecs { None, SameBothWays };

  std::string_view name;
  std::string_view summary;                       // of what it chooses among, with its source
  std::span<const std::string_view> schedules;    // names of planner/schedule.hpp
  std::span<const std::string_view> all_to_alls;  // names of planner/all_to_all.hpp
  Codecs codecs = Codecs::None;
  std::int64_t most_chunks = std::numeric_limits<std::int64_t>::max();

  [[nodiscard]] bool offers(const LayerStrategy& run) const;
};

/// Tutel, FasterMoE, ScheMoE, Parm, Pro-Prophet. Placements are not part of a LayerStrategy: without an imbalance
/// Pro-Prophet is the expert parallelism that it builds on.
[[nodiscard]] std::span<const PublishedSystem> published_systems();

}  // namespace moeplan
