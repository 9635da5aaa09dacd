// The cluster, model and workload of a sweep's cases: every file is parsed once, every variant of it read and built
// once and kept for the cases that have it too.
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

/// What a document says, and a hash of it without name and origins.
template <class Value>
struct Resolved {
  std::string digest;
  Value value;
};

struct ResolvedCluster {
  std::string digest;
  Cluster value;
  std::optional<double> net_over_local;  // what a topology gate takes from it
};

struct CaseInputs {
  std::shared_ptr<const ResolvedCluster> cluster;
  std::shared_ptr<const Resolved<ModelSpec>> model;
  std::shared_ptr<const Resolved<Workload>> workload;
  std::vector<Assignment> decisions;  // degrees, schedule ...
  std::string key;                    // hash of all that the case is made of, names of free axes too
};

/// Safe to share between threads.
class CaseResolver {
 public:
  /// The sweep must outlive this.
  explicit CaseResolver(const SweepSpec& sweep) : sweep_(sweep) {}

  /// Of the case at a place of the grid. Raises InputError with everything that is wrong; messages name the settings.
  [[nodiscard]] CaseInputs resolved(std::int64_t place);

  /// What a case is called whose inputs cannot be read.
  [[nodiscard]] std::string key_of_unreadable(std::int64_t place) const;

  /// A hash of the sweep and of all files that it names: equal where a sweep may be resumed.
  [[nodiscard]] std::string fingerprint();

 private:
  using Overrides = std::vector<Assignment>;

  /// A file of one kind (a folder of configs), parsed.
  const Node& document(const std::string& kind, const std::string& name);
  Node changed(const std::string& kind, const std::string& name, const Overrides& overrides);

  const SweepSpec& sweep_;
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Node>> documents_;
  BoundedCache<ResolvedCluster> clusters_{64};  // of 2,048 GPUs: some megabytes each
  BoundedCache<Resolved<ModelSpec>> models_{4096};
  BoundedCache<Resolved<Workload>> workloads_{4096};
};

}  // namespace moeplan::sweep
