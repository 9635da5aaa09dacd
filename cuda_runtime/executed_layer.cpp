#include "cuda_runtime/executed_layer.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "cuda_runtime/reference/synthetic_layer.hpp"
#include "model/base/diagnostics.hpp"
#include "model/base/to_index.hpp"

namespace moeplan::runtime {

SyntheticLayer with_choices(SyntheticLayer layer, const RoutingTable& table, std::int64_t tokens) {
  const RoutingCounts& counts = table.counts;
  for (std::int64_t s = 0; s < counts.sources(); ++s) {
    const RankId source(static_cast<std::int32_t>(s));
    auto choices = planned_choices(layer.asked, source, layer.shape.top_k, layer.seed);
    if (std::ssize(choices) != tokens) {
      throw InputError(Diagnostic{{"routing"},
                                  "",
                                  fmt::format("source {} has {} tokens where every source has {}; execution needs as "
                                              "many tokens of every source",
                                              s, choices.size(), tokens)});
    }
    const std::vector<std::int64_t> rooms = selections_by_expert(table, source);
    std::vector<std::int64_t> taken(rooms.size(), 0);
    for (auto& chosen : choices) {
      std::erase_if(chosen, [&](std::int64_t e) {
        if (taken[to_index(e)]++ < rooms[to_index(e)]) return false;
        layer.capacity = rooms[to_index(e)];
        return true;
      });
    }
    layer.kept.push_back(std::move(choices));
  }
  return layer;
}

}  // namespace moeplan::runtime
