// Test cases with one MoE layer, under any schedule, on the toy cluster of eight ranks on two nodes.
#pragma once

#include <string>
#include <vector>

#include "model/program/resolve.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/program/simulate.hpp"
#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests {

using namespace sim;
using namespace planner;

inline constexpr std::int64_t kLayerM = 64, kLayerH = 128, kLayerTokens = 64, kLayerWorld = 8, kLayerPerNode = 4;

/// Whether the schedule does not repeat work in a tensor-parallel group.
inline bool splits_tokens(const Schedule& schedule) {
  return schedule.name().starts_with("parm_") || schedule.name().starts_with("s1_") ||
         schedule.name().starts_with("s2_") || schedule.name() == "megatron_etp";
}

inline Workload layer_workload(Mode mode = Mode::Train) {
  Workload w{};
  w.name = "test";
  w.global_batch = kLayerWorld;
  w.sequence_length = kLayerTokens;
  w.mode = mode;
  w.dtype = Dtype::Fp32;
  w.recompute = Recompute::None;
  w.optimizer = Optimizer::Adam;
  w.capacity_factor = 2.0;
  w.codecs.allowed = {WireFormat::Fp16, WireFormat::Int8, WireFormat::Fp8Block, WireFormat::Zfp};
  return w;
}

inline Moe layer_moe(std::int64_t experts = 8) {
  return {.num_experts = experts,
          .top_k = 2,
          .expert = {kLayerH, false, false},
          .shared = {0, false, false},
          .shared_gate = false,
          .router_bias = false};
}

inline ModelSpec layer_model(std::int64_t experts = 8) {
  ModelSpec model{};
  model.name = "small";
  model.vocab_size = 8;
  model.hidden_size = kLayerM;
  model.norms_per_layer = 2;
  model.causal = true;
  model.attention =
      HeadAttention{.num_heads = 4, .num_kv_heads = 4, .head_dim = 16, .bias = false, .qk_norm = false, .sinks = false};
  model.layers = {{1, {{0, layer_moe(experts)}}}};
  return model;
}

inline Candidate layer_candidate(const std::string& schedule, std::int64_t tp, std::int64_t ep, std::int64_t esp,
                                 std::int64_t chunks = 1) {
  Candidate c;
  c.degrees = {.dp = kLayerWorld / tp, .tp = tp, .edp = kLayerWorld / (ep * esp), .ep = ep, .esp = esp};
  c.schedule = schedule;
  c.pipeline_degree = chunks;
  return c;
}

inline Program layer_program(const Candidate& candidate, const Workload& workload = layer_workload(),
                             std::int64_t experts = 8) {
  return lower_moe_layer(layer_moe(experts), kLayerM, kLayerTokens, workload, candidate, kLayerPerNode);
}

/// The simulated makespan on the toy cluster, in seconds.
inline double layer_time(const Program& program) {
  return simulate(program, tests::toy_cluster(2, 4), {.keep_spans = false}).makespan.seconds().value();
}

/// The sum of `value` over the operations of one class in a block.
template <class Value>
double class_sum(const Program& p, std::size_t block, OpClass op_class, Value value) {
  double total = 0;
  for (const Operation& op : p.blocks[block].operations) {
    if (op.op_class == op_class) total += static_cast<double>(value(op));
  }
  return total;
}

/// The bytes that a rank sends in the operations of one class in a block.
inline double sent(const Program& p, std::size_t block, OpClass op_class, RankId rank = RankId(0)) {
  return class_sum(p, block, op_class, [&](const Operation& op) { return message_size(p, op, rank); });
}

/// The FLOPs of all expert computations in a block, over all ranks.
inline double expert_flops(const Program& p, std::size_t block) {
  double flops = 0;
  for (std::int32_t r = 0; r < kLayerWorld; ++r) {
    flops +=
        class_sum(p, block, OpClass::Expert, [&](const Operation& op) { return compute_load(p, op, RankId(r)).flops; });
  }
  return flops;
}

}  // namespace moeplan::tests
