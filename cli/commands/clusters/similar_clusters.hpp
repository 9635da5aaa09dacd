// Clusters of configs/clusters that hold for what is not known of a user's machine.
#pragma once

#include <string>
#include <vector>

#include "profiler/fits/measured_cluster.hpp"

namespace moeplan::cli {

/// The clusters of configs/clusters with this GPU, of any size of memory, and with models of collectives of their own,
/// which published machines have.
[[nodiscard]] std::vector<std::string> clusters_with(const std::string& gpu);

/// The cluster of this name or path. Raises InputError, located at --like, for one that lists its links.
[[nodiscard]] profiler::SimilarCluster similar_cluster(const std::string& name);

/// How a cluster file names a GPU: a name as it is, a path from the root.
[[nodiscard]] std::string path_in_file(const std::string& name);

}  // namespace moeplan::cli
