// Permutations of GPUs that the whole topology follows.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/machine/topology.hpp"

namespace moeplan {

/// Extends a permutation of GPUs to the whole topology, vertex by vertex from the GPUs outwards: an unmapped vertex
/// goes to the one that is joined to the images of its mapped neighbours by equal links (compared by a hash). Ties are
/// broken by order; the result is verified, so a wrong guess only means "not shown". O(links log links) a permutation.
class Automorphisms {
 public:
  using Index = std::int32_t;

  explicit Automorphisms(const Topology& topology);

  /// The images of all links where gpus[i] goes to gpus[turned[i]] (-1: not joined to any of them), each of equal
  /// bandwidth, latency and tier; nothing where that is not shown.
  [[nodiscard]] std::optional<std::vector<Index>> links(const std::vector<VertexId>& gpus,
                                                        const std::vector<Index>& turned) const;

 private:
  struct Neighbour {
    Index vertex;
    Index kind;  // twice the link's kind, and 1 if it leads to the vertex
    Index link;
    auto operator<=>(const Neighbour&) const = default;
  };

  [[nodiscard]] std::span<const Neighbour> of(Index vertex) const;
  std::optional<std::vector<Index>> grow(const std::vector<Index>& front, std::vector<Index>& image,
                                         std::vector<char>& taken) const;
  [[nodiscard]] std::pair<const Neighbour*, const Neighbour*> between(Index from, Index to) const;
  [[nodiscard]] std::optional<std::vector<Index>> verified(const std::vector<Index>& image) const;

  std::vector<std::size_t> first_;     // by vertex, and one past the end
  std::vector<Neighbour> neighbours_;  // of each vertex by vertex, kind and link
};

}  // namespace moeplan
