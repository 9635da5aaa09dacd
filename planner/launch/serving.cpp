// Prefill servers: SGLang and vLLM.
#include <fmt/format.h>

#include "planner/launch/exporters.hpp"

namespace moeplan::planner {

namespace {

/// Layers of each stage, as "20,21,20".
std::string layers_by_stage(const LaunchInput& input) {
  std::vector<std::int64_t> layers;
  for (const LayoutPart& part : layout_of(input.inputs.model, input.inputs.workload, input.plan.candidate).parts)
    layers.push_back(part.layers);
  return fmt::format("{}", fmt::join(layers, ","));
}

std::int64_t redundant_experts(const Candidate& c) { return c.redundant_experts * c.degrees.ep; }

/// What both servers have in common.
Launch server(const LaunchInput& input, const std::string& variable) {
  const Workload& w = input.inputs.workload;
  const Candidate& c = input.plan.candidate;
  Launch launch;
  launch.one_task_per_node = true;
  if (c.degrees.pp > 1)
    launch.environment.emplace_back(input.framework.own_name(FrameworkDecision::Layouts, "any"),
                                    layers_by_stage(input));
  if (w.dtype == Dtype::Bf16) launch.set("dtype", "bfloat16");
  if (w.dtype == Dtype::Fp16) launch.set("dtype", "float16");
  if (w.precision) {
    launch.set("quantization",
               input.framework.own_name(FrameworkDecision::Precisions,
                                        std::string(name_of<Precision>(kPrecisionNames, *w.precision))));
  }
  leave_moe_decisions(input, launch);
  leave_workload(input, launch);
  if (w.capacity_factor) launch.leave("a capacity factor: servers drop no rows");
  if (w.cuda_graphs != CudaGraphs::None) launch.leave("CUDA graphs of modules");
  if (c.degrees.cp > 1) launch.leave("context parallelism");
  launch.to_fill_in = {variable + ": the model's checkpoint",
                       "requests: the plan is a prefill of " +
                           fmt::format("{} sequences of {} tokens", w.global_batch, w.sequence_length)};
  return launch;
}

}  // namespace

Launch sglang_launch(const LaunchInput& input) {
  const Candidate& c = input.plan.candidate;
  const Degrees& d = c.degrees;
  const std::int64_t tokens = c.micro_batch * input.inputs.workload.sequence_length;
  Launch launch = server(input, "MODEL");
  const bool shares_experts = d.ep > 1;  // replicas of attention exchange rows
  launch.set("model-path", "$MODEL");
  launch.set("tp-size", shares_experts ? d.tp * d.dp : d.tp);
  launch.set("pp-size", d.pp);
  if (d.dp > 1) launch.set("dp-size", d.dp);
  if (shares_experts) {
    if (d.dp > 1) launch.set("enable-dp-attention");
    launch.set("ep-size", d.ep);
    launch.set("moe-a2a-backend", input.framework.own_name(FrameworkDecision::AllToAlls, c.all_to_all.name()));
    launch.set("deepep-mode", "normal");
  }
  launch.set("chunked-prefill-size", shares_experts ? tokens * d.dp : tokens);  // divided by the attention replicas
  launch.set("max-prefill-tokens", tokens);
  launch.set("disaggregation-mode", "prefill");
  if (c.placement != kContiguous) {
    launch.set("ep-num-redundant-experts", redundant_experts(c));
    launch.set("eplb-algorithm", input.framework.own_name(FrameworkDecision::Placements, c.placement.name()));
    launch.set("init-expert-location", "$EXPERT_MAP");
    launch.to_fill_in.emplace_back("EXPERT_MAP: a map of the same loads, from moeplan eplb --format sglang");
  }
  launch.set("nnodes", "$SLURM_NNODES");
  launch.set("node-rank", "$SLURM_NODEID");
  launch.set("dist-init-addr", "$MASTER_ADDR:$MASTER_PORT");
  launch.command = "python -m sglang.launch_server \"${ARGUMENTS[@]}\"";
  return launch;
}

Launch vllm_launch(const LaunchInput& input) {
  const Candidate& c = input.plan.candidate;
  const Degrees& d = c.degrees;
  Launch launch = server(input, "MODEL");
  launch.set("model", "$MODEL");
  launch.set("tensor-parallel-size", d.tp);
  launch.set("pipeline-parallel-size", d.pp);
  if (d.dp > 1) {
    const std::int64_t replica = d.tp * d.pp,
                       per_node = std::max<std::int64_t>(1, gpus_per_host(input.cluster) / replica);
    if (replica > gpus_per_host(input.cluster))
      launch.to_fill_in.push_back(fmt::format("replicas of {} GPUs span nodes: start them with Ray", replica));
    launch.set("data-parallel-size", d.dp);
    launch.set("data-parallel-size-local", std::min(d.dp, per_node));
    launch.set("data-parallel-address", "$MASTER_ADDR");
    launch.set("data-parallel-rpc-port", "$MASTER_PORT");
    launch.set("data-parallel-start-rank", fmt::format("$((SLURM_NODEID*{}))", std::min(d.dp, per_node)));
  }
  if (d.ep > 1) {
    launch.set("enable-expert-parallel");
    launch.set("all2all-backend", input.framework.own_name(FrameworkDecision::AllToAlls, c.all_to_all.name()));
  }
  launch.set("max-num-batched-tokens", c.micro_batch * input.inputs.workload.sequence_length);
  if (c.placement != kContiguous) {
    launch.set("enable-eplb");
    launch.set("eplb-config", fmt::format(R"({{"num_redundant_experts":{}}})", redundant_experts(c)));
    launch.leave("the map of the experts: vLLM places them itself, from the loads that it records");
  }
  launch.command = "vllm serve \"${ARGUMENTS[@]}\" $([ \"$SLURM_NODEID\" = 0 ] || echo --headless)";
  return launch;
}

}  // namespace moeplan::planner
