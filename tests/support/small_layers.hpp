// A small workload, MoE layer, model and candidate that tests of the lowering vary.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::tests::small_layers {

inline constexpr std::int64_t kM = 64, kH = 128;

inline Workload workload(std::optional<double> capacity_factor, Mode mode = Mode::Train) {
  Workload w{};
  w.name = "test";
  w.global_batch = 8;
  w.sequence_length = 32;
  w.mode = mode;
  w.dtype = Dtype::Fp32;
  w.recompute = Recompute::None;
  w.optimizer = Optimizer::Adam;
  w.capacity_factor = capacity_factor;
  return w;
}

inline Moe moe(std::int64_t experts, bool gated = false) {
  return {.num_experts = experts,
          .top_k = 2,
          .expert = {kH, gated, false},
          .shared = {0, false, false},
          .shared_gate = false,
          .router_bias = false};
}

inline ModelSpec model(std::int64_t vocab_size, std::vector<RepeatedLayers> layers) {
  ModelSpec m{};
  m.name = "small";
  m.vocab_size = vocab_size;
  m.hidden_size = kM;
  m.norms_per_layer = 2;
  m.causal = true;
  m.attention =
      HeadAttention{.num_heads = 4, .num_kv_heads = 4, .head_dim = 16, .bias = false, .qk_norm = false, .sinks = false};
  m.layers = std::move(layers);
  return m;
}

inline planner::Candidate candidate(const std::string& schedule, std::int64_t world, std::int64_t tp, std::int64_t ep,
                                    std::int64_t esp) {
  planner::Candidate c;
  c.degrees = {.dp = world / tp, .tp = tp, .edp = world / (ep * esp), .ep = ep, .esp = esp};
  c.schedule = schedule;
  return c;
}

}  // namespace moeplan::tests::small_layers
