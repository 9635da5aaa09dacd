// Part of a cluster as a machine of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "model/machine/cluster.hpp"

namespace moeplan {

struct SubCluster {
  Cluster cluster;
  std::vector<LinkId> links;  // of the whole cluster, by LinkId of this one
};

/// `first` and `count` are multiples of the ranks that share a GPU. Ranks first .. first + count - 1 as ranks 0 ..
/// count - 1, on the same links. Nodes without any of these are left out: no route crosses them, since GPUs do not
/// forward and a shortest path enters no third node.
[[nodiscard]] SubCluster sub_cluster(const Cluster& cluster, std::int64_t first, std::int64_t count);

/// Whether turning all ranks by `count` maps the machine onto itself, so that each range of `count` ranks that begins
/// at a multiple of it is like any other. Proved by an automorphism (symmetry.hpp); false where that is not found.
[[nodiscard]] bool sub_clusters_are_equivalent(const Cluster& cluster, std::int64_t count);

}  // namespace moeplan
