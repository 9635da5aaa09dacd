// The setting in which the blocks of a Program are written: the Program so far, the groups of its ranks, and what
// model, workload and candidate say about any block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "model/program/program.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"
#include "planner/layer/dense_parts.hpp"
#include "planner/layer/replica_parts.hpp"
#include "planner/layer/schedule.hpp"

namespace moeplan::planner {

class LoweringContext {
 public:
  /// Begins a Program of the candidate's ranks and groups, without blocks. `model` and `candidate` must outlive it.
  LoweringContext(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                  std::int64_t ranks_per_node);

  [[nodiscard]] const ModelSpec& model() const { return model_; }
  [[nodiscard]] const Workload& workload() const { return workload_; }
  [[nodiscard]] Recompute recompute() const { return workload_.recompute.value_or(candidate_.recompute); }
  [[nodiscard]] const Candidate& candidate() const { return candidate_; }
  [[nodiscard]] const Degrees& degrees() const { return candidate_.degrees; }
  [[nodiscard]] const Groups& groups() const { return groups_; }
  [[nodiscard]] Program& program() { return program_; }
  [[nodiscard]] Program take_program() && { return std::move(program_); }

  [[nodiscard]] bool trains() const { return workload_.mode == Mode::Train; }
  /// Whether the placement of experts is planned in every iteration.
  [[nodiscard]] bool replans() const { return replans_; }
  /// Whether layers of this kind of routing wait for the transfers of their own copies
  /// (PlacementStrategy::has_blocking_transfers()). Where a schedule gathers weights before it dispatches, and in
  /// pipelines, transfers are block-wise.
  [[nodiscard]] bool has_blocking_transfers(std::size_t routing) const;
  [[nodiscard]] bool has_replicas() const;
  /// The host's launches that plan a layer of this kind of routing (PlacementStrategy::search_launches()).
  [[nodiscard]] std::int64_t search_launches(std::size_t routing) const;

  /// Writers of dense parts (of a layer with its recomputation, or of embedding and head), and of traffic between
  /// replicas, into a block.
  [[nodiscard]] DenseParts dense(BlockBuilder& block, const LayerSpec* layer = nullptr, Recompute recompute = {}) const;
  [[nodiscard]] ReplicaParts replica_parts(BlockBuilder& block) const { return {workload_, groups_, block}; }

  /// What a schedule needs to know about an MoE layer of this kind of routing. The first layer of a kind adds its
  /// routing to the Program.
  [[nodiscard]] MoeLayer moe_layer(const Moe& moe, std::size_t routing, Recompute recompute) {
    return moe_layer(moe, routing, recompute, tokens_);
  }
  /// The same with another number of tokens on each rank.
  [[nodiscard]] MoeLayer moe_layer(const Moe& moe, std::size_t routing, Recompute recompute, std::int64_t tokens);
  /// The same of a layer to which the workload's recomputation applies, without what executors do not compute: kernels
  /// of their own, a host that reads loads.
  [[nodiscard]] MoeLayer executed_layer(const Moe& moe, std::size_t routing, std::int64_t tokens);
  [[nodiscard]] const Schedule& schedule_of(std::size_t routing) const;
  /// Whether experts of this kind of routing have copies.
  [[nodiscard]] bool has_copies(std::size_t routing) const;

 private:
  /// The number of experts of this kind of routing that have copies.
  [[nodiscard]] std::int64_t shadowed(std::size_t routing) const;
  [[nodiscard]] RoutingTable routing_table(const Moe& moe, std::size_t routing, std::int64_t tokens) const;

  const ModelSpec& model_;
  const Workload workload_;
  const Candidate& candidate_;
  Program program_;
  Groups groups_;
  std::int64_t tokens_;  // rows that a tensor-parallel group works on
  bool replans_, has_blocking_transfers_;
  std::map<std::size_t, RoutingId> routings_;  // by kind of routing
};

}  // namespace moeplan::planner
