// A sub-cluster: a range of a cluster's ranks as a cluster of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "model/machine/cluster.hpp"

namespace moeplan {

struct SubCluster {
  Cluster cluster;
  std::vector<LinkId> links;  // LinkId in the whole cluster, by LinkId in the sub-cluster
};

/// The sub-cluster of ranks first .. first + count - 1, renumbered 0 .. count - 1, on the same links. `first` and
/// `count` are multiples of the number of ranks that share a GPU. Nodes without any of these ranks are left out: no
/// route crosses them, since GPUs do not forward and a shortest path enters no third node.
[[nodiscard]] SubCluster sub_cluster(const Cluster& cluster, std::int64_t first, std::int64_t count);

/// Whether shifting all ranks cyclically by `count` maps the cluster onto itself, so that all ranges of `count` ranks
/// that begin at a multiple of `count` are equivalent. Proved by an automorphism (symmetry.hpp); false if none is
/// found.
[[nodiscard]] bool sub_clusters_are_equivalent(const Cluster& cluster, std::int64_t count);

}  // namespace moeplan
