// Permutations of GPUs that extend to automorphisms of the topology.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/base/ids.hpp"
#include "model/machine/topology.hpp"

namespace moeplan {

/// The image of every link. Rotations turn long runs of links into as many consecutive ones: only the first link and
/// the first image of each run are stored.
class LinkImages {
 public:
  /// `images` by LinkId; -1: none.
  explicit LinkImages(const std::vector<std::int32_t>& images) : links_(images.size()) {
    std::int32_t before = 0;
    for (std::size_t l = 0; l < images.size(); ++l) {
      const bool continues = !runs_.empty() && images[l] == (before < 0 ? before : before + 1);
      before = images[l];
      if (!continues) runs_.push_back({l, before});
    }
    runs_.shrink_to_fit();
  }

  /// The image of a link; -1: none.
  [[nodiscard]] LinkId of(LinkId link) const {
    const auto after = std::upper_bound(runs_.begin(), runs_.end(), link.index(),
                                        [](std::size_t l, const Run& run) { return l < run.first; });
    return in_run(*(after - 1), link.index());
  }
  /// Calls visit(link, image) for every link that has one.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const std::size_t end = i + 1 < runs_.size() ? runs_[i + 1].first : links_;
      if (runs_[i].image < 0) continue;
      for (std::size_t l = runs_[i].first; l < end; ++l) visit(LinkId(l), in_run(runs_[i], l));
    }
  }

 private:
  struct Run {
    std::size_t first;   // link
    std::int32_t image;  // of it
  };

  static LinkId in_run(const Run& run, std::size_t link) {
    if (run.image < 0) return LinkId(-1);
    return LinkId(static_cast<std::size_t>(run.image) + link - run.first);
  }

  std::size_t links_;
  std::vector<Run> runs_;
};

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
  [[nodiscard]] std::optional<LinkImages> links(const std::vector<VertexId>& gpus,
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
  [[nodiscard]] std::optional<LinkImages> verified(const std::vector<Index>& image) const;

  std::vector<std::size_t> first_;     // by vertex, with one entry past the end
  std::vector<Neighbour> neighbours_;  // of each vertex, ordered by vertex, kind and link
};

}  // namespace moeplan
