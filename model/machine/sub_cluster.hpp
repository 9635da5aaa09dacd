// A sub-cluster: a range of a cluster's ranks as a cluster of its own.
#pragma once

#include <cstdint>
#include <optional>
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

/// The link of `b` that corresponds to each link of `a` (LinkId -1: no route of `a` crosses it), if every two ranks of
/// one cluster are connected as the ranks of the same numbers in the other are: over links of equal bandwidth, on nodes
/// and GPUs that they share alike. Everything then takes the same time on both. None if they are not. `a` and `b` are
/// sub-clusters of one cluster. Takes O(routes).
[[nodiscard]] std::optional<std::vector<LinkId>> corresponding_links(const Cluster& a, const Cluster& b);

/// The view of the cluster whose rotations (symmetry.hpp) turn any range of `count` ranks that begins at a multiple of
/// `count` into any other; null if none is found, or there is only one.
[[nodiscard]] const SymmetricView* view_of_ranges(const Cluster& cluster, std::int64_t count);

/// Whether all ranges of `count` ranks that begin at a multiple of `count` are equivalent, proved by view_of_ranges().
[[nodiscard]] bool sub_clusters_are_equivalent(const Cluster& cluster, std::int64_t count);

}  // namespace moeplan
