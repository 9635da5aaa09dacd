#include "model/collectives/read_collectives.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace moeplan {

std::vector<Collective> read_collectives(MapReader& entry, std::initializer_list<Collective> possible) {
  std::vector<std::string> names;
  for (const Collective c : possible) names.emplace_back(name_of(Names<Collective>(kCollectiveNames), c));
  std::vector<Collective> out;
  for (const auto& [node, path] : entry.list("collectives")) {
    const auto it = std::find(names.begin(), names.end(), node->scalar);
    if (it == names.end()) {
      entry.complain("collectives", fmt::format("{} is none of its collectives{}", in_quotes(node->scalar),
                                                suggestion(node->scalar, names)));
      continue;
    }
    out.push_back(*(possible.begin() + (it - names.begin())));
  }
  return out;
}

}  // namespace moeplan
