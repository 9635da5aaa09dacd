// The exporters, one a framework, each in a file of its own, and what they share.
#pragma once

#include "planner/candidate/pipeline_layout.hpp"
#include "planner/launch/launch.hpp"

namespace moeplan::planner {

[[nodiscard]] Launch megatron_launch(const LaunchInput& input);
[[nodiscard]] Launch megatron_bridge_launch(const LaunchInput& input);
[[nodiscard]] Launch deepspeed_launch(const LaunchInput& input);
[[nodiscard]] Launch torchtitan_launch(const LaunchInput& input);
[[nodiscard]] Launch sglang_launch(const LaunchInput& input);
[[nodiscard]] Launch vllm_launch(const LaunchInput& input);

/// What each part of the pipeline holds, also where the plan leaves it to the planner.
[[nodiscard]] PipelineLayout layout_of(const ModelSpec& model, const Workload& workload, const Candidate& candidate);

/// GPUs of a host. assumed: NVLink domains of more than 16 GPUs are racks of hosts with 4 (GB200, GB300 NVL72).
[[nodiscard]] std::int64_t gpus_per_host(const Cluster& cluster);

/// Lists the decisions about MoE layers that no framework takes: schedule, chunks, codec, order, strategies by layer,
/// rank order.
void leave_moe_decisions(const LaunchInput& input, Launch& launch);

/// Lists what of the workload differs from what follows from the framework, or that no framework but Megatron-LM's has.
void leave_workload(const LaunchInput& input, Launch& launch);

/// The token mixer, dense FFN and MoE FFN that a framework with one of each kind has, and what differs from them.
/// Points into the model.
struct UniformModel {
  const TokenMixer* mixer = nullptr;       // null: layers have several
  Ffn dense{};                             // hidden_size 0: no layer has one
  const Moe* moe = nullptr;                // null: no layer has one
  std::vector<bool> is_moe;                // by layer
  std::vector<bool> windows;               // by layer, whether it has one
  std::int64_t window = 0;                 // tokens that a query sees in layers with a window
  std::vector<std::string> left_out = {};  // "dense FFNs of several kinds"
};
[[nodiscard]] UniformModel uniform_model(const ModelSpec& model);

}  // namespace moeplan::planner
