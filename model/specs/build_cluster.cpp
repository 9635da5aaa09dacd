#include <fmt/format.h>

#include <algorithm>

#include "model/specs/cluster.hpp"
#include "model/specs/cluster_template.hpp"
#include "model/specs/machine_reader.hpp"

namespace moeplan {

namespace {

[[noreturn]] void fail(std::string message) { throw InputError({{}, "", std::move(message)}); }

void check_range(std::int64_t world) {
  if (world < 1 || world > kMostWorld)
    fail(fmt::format("world {} is out of range; expected 1 to {}", world, kMostWorld));
}

Topology grown(const ClusterTemplate& machine, std::optional<std::int64_t> world) {
  const std::int64_t exist = machine.nodes * machine.gpus_per_node;
  const std::int64_t wanted = world.value_or(exist);
  check_range(wanted);
  if (wanted > exist && !machine.fabric) {
    fail(fmt::format("world {} needs {} GPUs; the cluster has {} and no fabric to grow by", wanted, wanted, exist));
  }
  return expand(machine, (wanted + machine.gpus_per_node - 1) / machine.gpus_per_node);
}

Topology grown(const Topology& machine, std::optional<std::int64_t> world) {
  const std::int64_t exist = std::count_if(machine.vertices.begin(), machine.vertices.end(),
                                           [](const Vertex& v) { return v.kind == VertexKind::Gpu; });
  const std::int64_t wanted = world.value_or(exist);
  check_range(wanted);
  if (wanted > exist) {
    fail(fmt::format("world {} needs {} GPUs; the cluster has {}, and explicit vertices do not grow", wanted, wanted,
                     exist));
  }
  return machine;
}

/// GPUs node by node; within a node as they were listed.
std::vector<VertexId> gpus_in_order(const Topology& topology) {
  std::vector<VertexId> gpus;
  for (std::size_t i = 0; i < topology.vertices.size(); ++i) {
    if (topology.vertices[i].kind == VertexKind::Gpu) gpus.emplace_back(i);
  }
  std::stable_sort(gpus.begin(), gpus.end(), [&](VertexId a, VertexId b) {
    return topology.vertices[a.index()].node < topology.vertices[b.index()].node;
  });
  return gpus;
}

}  // namespace

Cluster build_cluster(const ClusterSpec& spec, std::optional<std::int64_t> world) {
  Topology topology = std::visit([&](const auto& machine) { return grown(machine, world); }, spec.machine);
  std::vector<VertexId> gpus = gpus_in_order(topology);
  if (world) gpus.resize(static_cast<std::size_t>(*world));
  if (const auto pair = unconnected_pair(topology, gpus)) {
    const auto name = [&](VertexId v) { return in_quotes(topology.vertices[v.index()].name); };
    fail(fmt::format("GPU {} cannot reach GPU {}: no path of links joins them (GPUs do not forward)", name(pair->first),
                     name(pair->second)));
  }
  std::vector<int> nodes;
  for (const VertexId g : gpus) nodes.push_back(topology.vertices[g.index()].node.value_or(0));
  Routes routes(topology);
  return {.name = spec.name,
          .gpu = spec.gpu,
          .topology = std::move(topology),
          .gpu_of_rank = std::move(gpus),
          .node_of_rank = std::move(nodes),
          .collectives = spec.collectives,
          .collective_startup = spec.collective_startup,
          .message_overhead = spec.message_overhead,
          .routes = std::move(routes)};
}

}  // namespace moeplan
