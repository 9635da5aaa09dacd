// The planning problem: a model, a workload and a cluster, with the values that follow from these three alone.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "model/costs/stage_clusters.hpp"
#include "model/machine/cluster.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/evaluation/kept_timelines.hpp"

namespace moeplan::planner {

/// The input of every evaluation. Create one per problem and share it among all candidates. Thread-safe.
class Problem {
 public:
  /// The arguments must outlive this.
  Problem(const ModelSpec& model, const Workload& workload, const Cluster& cluster)
      : model_(model),
        workload_(workload),
        clusters_(std::make_unique<StageClusters>(cluster)),
        timelines_(std::make_unique<KeptTimelines>()),
        ranks_per_node_(cluster.ranks_per_node()),
        layer_kinds_(number_of_routing_kinds(model, workload.recorded.has_value())) {}

  [[nodiscard]] const ModelSpec& model() const { return model_; }
  [[nodiscard]] const Workload& workload() const { return workload_; }
  [[nodiscard]] const Cluster& cluster() const { return clusters_->cluster(); }
  [[nodiscard]] std::int64_t ranks_per_node() const { return ranks_per_node_; }

  /// The cache of the clusters of pipeline stages.
  [[nodiscard]] StageClusters& stage_clusters() const { return *clusters_; }
  /// The Timelines of the fastest candidates simulated so far, as many as it was told to keep.
  [[nodiscard]] KeptTimelines& kept_timelines() const { return *timelines_; }
  /// The cluster of a candidate's first stage; without a pipeline, the whole cluster.
  [[nodiscard]] const Cluster& first_stage(const Candidate& candidate) const {
    return clusters_->first_of(candidate.degrees.pp);
  }

  /// The number of kinds of MoE layers (routing_kinds()).
  [[nodiscard]] std::int64_t layer_kinds() const { return layer_kinds_; }
  /// The first MoE layer of the model; null if there is none.
  [[nodiscard]] const LayerSpec* first_moe_layer() const {
    for (const RepeatedLayers& run : model_.layers) {
      for (const LayerSpec& layer : run.pattern) {
        if (std::holds_alternative<Moe>(layer.ffn)) return &layer;
      }
    }
    return nullptr;
  }

 private:
  const ModelSpec& model_;
  const Workload& workload_;
  std::unique_ptr<StageClusters> clusters_;
  std::unique_ptr<KeptTimelines> timelines_;
  std::int64_t ranks_per_node_;
  std::int64_t layer_kinds_;
};

}  // namespace moeplan::planner
