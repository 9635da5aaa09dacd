// Permutations of GPUs that extend to automorphisms of the topology.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/machine/topology.hpp"

namespace moeplan {

/// Extends a permutation of GPUs to the whole topology, vertex by vertex from the GPUs outwards: an unmapped vertex is
/// mapped to the vertex that is connected to the images of its mapped neighbours by equal links (compared by a hash).
/// Ties are broken by order. The result is verified, so that a wrong choice only means that the symmetry is not proved.
/// O(L log L) per permutation, L links.
class Automorphisms {
 public:
  using Index = std::int32_t;

  explicit Automorphisms(const Topology& topology);

  /// The image of every link when gpus[i] is mapped to gpus[turned[i]] (-1: connected to none of these GPUs); a link
  /// and its image have equal bandwidth, latency and tier. None if no automorphism is found.
  [[nodiscard]] std::optional<std::vector<Index>> links(const std::vector<VertexId>& gpus,
                                                        const std::vector<Index>& turned) const;

 private:
  struct Neighbour {
    Index vertex;
    Index kind;  // 2 x the link's kind, + 1 if the link leads to the vertex
    Index link;
    auto operator<=>(const Neighbour&) const = default;
  };

  [[nodiscard]] std::span<const Neighbour> of(Index vertex) const;
  std::optional<std::vector<Index>> grow(const std::vector<Index>& front, std::vector<Index>& image,
                                         std::vector<char>& taken) const;
  [[nodiscard]] std::pair<const Neighbour*, const Neighbour*> between(Index from, Index to) const;
  [[nodiscard]] std::optional<std::vector<Index>> verified(const std::vector<Index>& image) const;

  std::vector<std::size_t> first_;     // by vertex, with one entry past the end
  std::vector<Neighbour> neighbours_;  // of each vertex, ordered by vertex, kind and link
};

}  // namespace moeplan
