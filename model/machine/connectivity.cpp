#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/strong_components.hpp>
#include <boost/range/iterator_range.hpp>

#include "model/base/diagnostics.hpp"
#include "model/machine/topology.hpp"

namespace moeplan {

namespace {

using Graph = boost::compressed_sparse_row_graph<boost::directedS>;
using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

Graph graph_of(const Pairs& pairs, std::size_t vertices) {
  return {boost::edges_are_unsorted_multi_pass, pairs.begin(), pairs.end(), vertices};
}

/// Whether one strongly connected component of forwarding vertices is reachable from, and reaches, every GPU.
bool share_a_component(const Topology& t, std::span<const VertexId> gpus) {
  const auto forwards = [&](VertexId v) { return t.vertices[v.index()].kind != VertexKind::Gpu; };
  Pairs inner;
  for (const Link& link : t.links) {
    if (forwards(link.from) && forwards(link.to)) inner.emplace_back(link.from.index(), link.to.index());
  }
  const Graph graph = graph_of(inner, t.vertices.size());
  std::vector<std::size_t> component(t.vertices.size());
  const std::size_t count = boost::strong_components(
      graph, boost::make_iterator_property_map(component.begin(), boost::get(boost::vertex_index, graph)));

  // For every component, the GPUs that reach it and the GPUs that it reaches; a GPU with several links counts once.
  Pairs enters, leaves;  // (component, GPU)
  for (const Link& link : t.links) {
    if (forwards(link.to)) enters.emplace_back(component[link.to.index()], link.from.index());
    if (forwards(link.from)) leaves.emplace_back(component[link.from.index()], link.to.index());
  }
  std::vector<char> wanted(t.vertices.size(), 0);
  for (const VertexId g : gpus) wanted[g.index()] = 1;
  const auto counted = [&](Pairs& pairs) {
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    std::vector<std::size_t> number(count, 0);
    for (const auto& [c, gpu] : pairs) number[c] += wanted[gpu] ? 1U : 0U;
    return number;
  };
  const std::vector<std::size_t> in = counted(enters), out = counted(leaves);
  for (std::size_t c = 0; c < count; ++c) {
    if (in[c] == gpus.size() && out[c] == gpus.size()) return true;
  }
  return false;
}

}  // namespace

std::optional<std::pair<VertexId, VertexId>> unconnected_pair(const Topology& t, std::span<const VertexId> gpus) {
  if (gpus.size() < 2 || share_a_component(t, gpus)) return std::nullopt;

  constexpr double kMostSteps = 1e9;
  if (static_cast<double>(gpus.size()) * static_cast<double>(t.vertices.size() + t.links.size()) > kMostSteps) {
    throw InputError({{},
                      "",
                      fmt::format("{} GPUs that no strongly connected set of switches joins are too many to "
                                  "check that all can reach one another; join them by switches",
                                  gpus.size())});
  }
  Pairs pairs;
  for (const Link& link : t.links) pairs.emplace_back(link.from.index(), link.to.index());
  const Graph graph = graph_of(pairs, t.vertices.size());
  for (const VertexId source : gpus) {
    std::vector<char> seen(t.vertices.size(), 0);
    std::vector<std::size_t> queue{source.index()};
    seen[source.index()] = 1;
    for (std::size_t i = 0; i < queue.size(); ++i) {
      if (i > 0 && t.vertices[queue[i]].kind == VertexKind::Gpu) continue;
      for (const std::size_t next : boost::make_iterator_range(boost::adjacent_vertices(queue[i], graph))) {
        if (seen[next]) continue;
        seen[next] = 1;
        queue.push_back(next);
      }
    }
    for (const VertexId target : gpus) {
      if (!seen[target.index()]) return std::pair{source, target};
    }
  }
  return std::nullopt;
}

}  // namespace moeplan
