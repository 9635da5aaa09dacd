// Cluster files of users' machines: the options that `moeplan cluster new` and `moeplan import` share.
#pragma once

#include <optional>
#include <string>

#include "profiler/fits/new_cluster.hpp"

namespace CLI {
class App;
}

namespace moeplan::cli {

struct ClusterOptions {
  std::string gpu, like, nics, output;
  std::int64_t nodes = 0;
};

/// --like, --nodes, --nics and --cluster (-o).
void add_cluster_options(CLI::App& command, ClusterOptions& o);

/// Parses "8x400Gbps". Raises InputError, located at --nics.
[[nodiscard]] profiler::Nics parse_nics(const std::string& text);

/// Completes the facts by the options, chooses the similar cluster (--like, or the only one with the GPU; none if
/// there is none), checks the cluster that follows, writes it to --cluster and prints what it is made of. `command`:
/// how the file's first line names its origin. Raises InputError.
void write_new_cluster(const ClusterOptions& o, profiler::ClusterFacts facts, const std::string& command);

}  // namespace moeplan::cli
