// Small clusters built from templates, and random ones.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "model/machine/cluster.hpp"
#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests {

inline ClusterSpec spec_of(NodeLinks intra_node, std::int64_t nodes, std::int64_t gpus, std::optional<Fabric> fabric) {
  return {.name = "test",
          .gpu = toy_gpu(),
          .machine = ClusterTemplate{.nodes = nodes, .gpus_per_node = gpus, .intra_node = intra_node, .fabric = fabric},
          .collectives = {},
          .collective_startup = Seconds(0),
          .message_overhead = Seconds(0)};
}

inline Fabric fabric_of(FabricKind kind, std::int64_t nics, double oversubscription = 1,
                        std::int64_t nodes_per_leaf = 1) {
  return {.kind = kind,
          .nics_per_node = nics,
          .nic_bandwidth = BytesPerSecond(50e9),
          .latency = Seconds(0),
          .oversubscription = oversubscription,
          .nodes_per_leaf = nodes_per_leaf};
}

/// A generator of numbers in [low, high); the first cases already cover the whole range.
template <class T>
rc::Gen<T> whole_range(T low, T high) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::inRange(low, high));
}

/// A random cluster with any kind of node and fabric, up to 32 ranks. For use inside a property.
inline Cluster random_cluster() {
  const auto nodes = *whole_range<std::int64_t>(2, 9);
  const auto gpus = std::int64_t{1} << *whole_range(0, 3);
  const auto nics = *rc::gen::element<std::int64_t>(1, gpus, std::max<std::int64_t>(1, gpus / 2));
  const auto kind = *rc::gen::element(FabricKind::SingleSwitch, FabricKind::RailOptimised, FabricKind::RailOnly,
                                      FabricKind::DualPlane, FabricKind::Dragonfly);
  const auto per_leaf = kind == FabricKind::SingleSwitch ? std::int64_t{1} : *whole_range<std::int64_t>(1, nodes + 1);
  const double oversubscription = kind == FabricKind::SingleSwitch ? 1 : *rc::gen::element(1.0, 2.0, 4.0);
  const PcieTree pcie{.gpus_per_switch = *rc::gen::element<std::int64_t>(0, 1, 2),
                      .switches_per_bridge = *whole_range<std::int64_t>(1, 3),
                      .pcie_bandwidth = BytesPerSecond(*rc::gen::element(16e9, 64e9)),
                      .inter_bridge_bandwidth = BytesPerSecond(*rc::gen::element(20e9, 400e9)),
                      .latency = Seconds(0)};
  NvlinkMesh mesh{.links = {}, .latency = Seconds(0), .pcie = pcie};
  for (std::int64_t g = 0; g + 1 < gpus; g += 2) mesh.links.push_back({g, g + 1, BytesPerSecond(100e9)});
  const NodeLinks intra_node =
      *rc::gen::element<NodeLinks>(NvSwitch{BytesPerSecond(*rc::gen::element(20e9, 450e9)), Seconds(0)}, pcie, mesh);
  return build_cluster(spec_of(intra_node, nodes, gpus, fabric_of(kind, nics, oversubscription, per_leaf)), {});
}

}  // namespace moeplan::tests
