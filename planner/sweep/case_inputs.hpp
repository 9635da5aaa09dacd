// Resolution of a sweep case's cluster, model and workload. Every file is parsed once, and every variant of it is read
// and built once and shared by all cases that use it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/machine/cluster.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/sweep/bounded_cache.hpp"
#include "planner/sweep/sweep_spec.hpp"

namespace moeplan::sweep {

/// The typed value of a document, and a hash of its content without name and origins.
template <class Value>
struct Resolved {
  std::string digest;
  Value value;
};

/// A built cluster, and a hash of its document without name and origins.
struct ResolvedCluster {
  std::string digest;
  Cluster value;
  std::optional<double> net_over_local;  // the ratio that a topology gate takes from the cluster
};

/// The resolved inputs of one case.
struct CaseInputs {
  std::shared_ptr<const ResolvedCluster> cluster;
  std::shared_ptr<const Resolved<ModelSpec>> model;
  std::shared_ptr<const Resolved<Workload>> workload;
  std::vector<Assignment> decisions;  // degrees, schedule ...
  std::string key;  // hash of everything that defines the case, including the names of axes that only serve expressions
};

/// Resolves cases. Thread-safe.
class CaseResolver {
 public:
  /// The sweep must outlive this.
  explicit CaseResolver(const SweepSpec& sweep) : sweep_(sweep) {}

  /// The inputs of the case at a grid position. Raises InputError with everything that is wrong; messages name the
  /// settings.
  [[nodiscard]] CaseInputs resolved(std::int64_t place);

  /// The key of a case whose inputs cannot be read.
  [[nodiscard]] std::string key_of_unreadable(std::int64_t place) const;

  /// A hash of the sweep and of all files that it names. A sweep may be resumed if the hash is unchanged.
  [[nodiscard]] std::string fingerprint();

 private:
  using Overrides = std::vector<Assignment>;

  /// The parsed file of a configuration; `kind` is a folder of configs.
  const Node& document(const std::string& kind, const std::string& name);
  Node changed(const std::string& kind, const std::string& name, const Overrides& overrides);

  const SweepSpec& sweep_;
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Node>> documents_;
  BoundedCache<ResolvedCluster> clusters_{64};  // up to some megabytes each, at 2,048 GPUs
  BoundedCache<Resolved<ModelSpec>> models_{4096};
  BoundedCache<Resolved<Workload>> workloads_{4096};
};

}  // namespace moeplan::sweep
