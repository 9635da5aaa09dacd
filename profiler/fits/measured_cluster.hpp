// A whole cluster file from measured collectives, and from a cluster that resembles it for what they do not show.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "model/machine/cluster.hpp"
#include "profiler/fits/fitted_models.hpp"
#include "profiler/fits/link_rates.hpp"
#include "profiler/fits/profile.hpp"

namespace moeplan::profiler {

/// The cluster that resembles the measured one.
struct SimilarCluster {
  std::string name;  // as named by the caller, for origins
  Node document;     // its file, without embedded files
  ClusterTemplate machine;
  std::optional<Node> models = {};  // its models of collectives (a file of configs/collectives); none: it has none
};

/// Which machine was measured.
struct MeasuredMachine {
  std::string name;                // of the new cluster
  std::optional<std::string> gpu;  // none: that of the similar cluster
  std::set<std::string> hosts;     // as named by the logs; may be empty
};

struct MeasuredCluster {
  Node document;
  ClusterTemplate machine;
  std::optional<LinkRate> intra_node, nic;  // none: as in the similar cluster
  std::optional<FittedModels> models = {};  // none: as the similar cluster has none
  std::vector<std::string> kept;            // what stays as in the similar cluster though logs can show it, and why
};

/// The document of the measured cluster. Nodes are the hosts, a node's GPUs the most ranks of a host; NICs in
/// proportion; bandwidths of links from the largest messages; `collectives` from the fits, which replace those of the
/// similar cluster, and for groups of other shapes its models, fitted to the logs (fitted_models.hpp). All else is that
/// of the similar cluster and marked "assumed: as NAME (its origin)". Raises InputError for logs between nodes if the
/// similar cluster has no fabric.
[[nodiscard]] MeasuredCluster measured_cluster(const SimilarCluster& like, const MeasuredMachine& measured,
                                               std::span<const CollectiveSample> samples,
                                               std::span<const CollectiveFit> fits);

}  // namespace moeplan::profiler
