#include <fmt/format.h>

#include "planner/candidate/stage_layout.hpp"
#include "planner/launch/exporters.hpp"

namespace moeplan::planner {

namespace {

/// The modules of each part of the pipeline by their names in TorchTitan's models: ["tok_embeddings", "layers.0"].
LaunchSetting modules_of_parts(const LaunchInput& input) {
  LaunchSetting out{"parallelism.module_fqns_per_model_part"};
  std::int64_t layer = 0;
  for (const LayoutPart& part : layout_of(input.inputs.model, input.inputs.workload, input.plan.candidate).parts) {
    std::vector<std::string> names;
    if (part.embedding) names.emplace_back("\"tok_embeddings\"");
    for (std::int64_t i = 0; i < part.layers; ++i) names.push_back(fmt::format("\"layers.{}\"", layer++));
    if (part.head) names.insert(names.end(), {"\"norm\"", "\"output\""});
    out.values.push_back(fmt::format("[{}]", fmt::join(names, ", ")));
  }
  return out;
}

/// Converters of the dense layers' and the experts' products.
void set_precision(const LaunchInput& input, Launch& launch) {
  const Workload& w = input.inputs.workload;
  const std::string converter = input.framework.own_name(
      FrameworkDecision::Precisions, std::string(name_of<Precision>(kPrecisionNames, *w.precision)));
  if (converter.empty()) return launch.leave("products in " + precision_text(w));
  launch.settings.push_back({"model.converters", {"quantize.linear." + converter, "quantize.grouped_mm." + converter}});
  launch.to_fill_in.push_back("quantize.grouped_mm." + converter + ".fqns: the names of the experts' modules");
}

/// FSDP2 keeps weights in fp32 and gathers them in 16 bits, or has all of them and of the states in 16 bits.
void set_state_formats(const Workload& w, Launch& launch) {
  const bool all_in_16_bits = w.main_weights == MainWeights::None && w.gradient_dtype == Dtype::Bf16 &&
                              w.optimizer_dtype == Dtype::Bf16 && w.dtype == Dtype::Bf16;
  if (all_in_16_bits) return launch.set("training.dtype", "bfloat16");
  if (w.gradient_dtype != Dtype::Fp32) launch.leave("gradients in 16 bits: FSDP2 reduces them in fp32");
  if (w.optimizer_dtype != Dtype::Fp32) launch.leave("moments of the optimizer in 16 bits");
  if (w.main_weights == MainWeights::None) launch.leave("weights without fp32 copies");
  if (w.main_weights == MainWeights::Separate && w.zero_stage == 3 && size_of(w.dtype) == 2)
    launch.leave("weights in 16 bits besides fp32 copies: FSDP2 keeps those in fp32 only");
}

}  // namespace

Launch torchtitan_launch(const LaunchInput& input) {
  const Workload& w = input.inputs.workload;
  const Candidate& c = input.plan.candidate;
  const Degrees& d = c.degrees;
  Launch launch;
  launch.style = LaunchStyle::TomlFile;
  launch.config_file = "train.toml";
  launch.set("training.local_batch_size", d.pp > 1 ? w.global_batch / d.dp : c.micro_batch);
  launch.set("training.global_batch_size", w.global_batch);
  launch.set("training.seq_len", w.sequence_length);
  launch.set("training.mixed_precision_param", w.dtype == Dtype::Bf16 ? "bfloat16" : "float32");
  launch.set("optimizer.name", "AdamW");
  if (w.optimizer != Optimizer::Adam) launch.leave("the optimizer: AdamW");
  launch.set("parallelism.data_parallel_replicate_degree", 1);
  launch.set("parallelism.data_parallel_shard_degree", d.dp);
  const std::string reshard = input.framework.own_name(FrameworkDecision::ZeroStages, fmt::format("{}", w.zero_stage));
  if (reshard.empty()) launch.leave(fmt::format("ZeRO stage {}: FSDP2 shards weights, too", w.zero_stage));
  launch.set("parallelism.fsdp_reshard_after_forward", reshard.empty() ? "never" : reshard);
  launch.set("parallelism.tensor_parallel_degree", d.tp);
  launch.set("parallelism.context_parallel_degree", d.cp);
  launch.set("parallelism.pipeline_parallel_degree", d.pp);
  if (d.pp > 1) {
    const std::string shape = input.framework.own_name(FrameworkDecision::Pipelines, name_of(c.pipeline));
    launch.set("parallelism.pipeline_parallel_schedule", !shape.empty()         ? shape
                                                         : c.virtual_stages > 1 ? "Interleaved1F1B"
                                                                                : "1F1B");
    launch.set("parallelism.pipeline_parallel_microbatch_size", c.micro_batch);
    launch.settings.push_back(modules_of_parts(input));
  }
  launch.set("parallelism.expert_parallel_degree", d.ep);
  if (d.ep > 1) {
    launch.set("parallelism.expert_tensor_parallel_degree", d.esp);
    const std::string backend = input.framework.own_name(FrameworkDecision::AllToAlls, c.all_to_all.name());
    if (!backend.empty() && backend != "standard") launch.set("parallelism.expert_parallel_comm_backend", backend);
  }
  const bool is_full = c.recompute.has(RecomputeModule::WholeLayer),
             by_operation = c.recompute == Recompute::PerOperation;
  launch.set("activation_checkpoint.mode", is_full ? "full" : by_operation ? "selective" : "none");
  if (!is_full && !by_operation && !(c.recompute == Recompute::None))
    launch.leave("recomputation of " + name_of(c.recompute) + ": TorchTitan's selective modes choose operations");
  if (w.precision) set_precision(input, launch);
  set_state_formats(w, launch);
  if (w.pytorch_modules == PyTorchModules::Compiled) launch.set("compile.enable", "true");
  if (w.pytorch_modules == PyTorchModules::None) launch.leave("a framework's fused modules (pytorch_modules: none)");
  if (w.loss_chunks > 1) launch.leave("a loss by chunks, which the model's configuration decides");
  if (mtp_layers_of(w, c) > 0) launch.leave("multi-token prediction");
  if (w.capacity_factor) launch.leave("a capacity factor: no rows are dropped");
  if (w.cuda_graphs != CudaGraphs::None) launch.leave("CUDA graphs");
  if (w.fp8_activation_inputs) launch.leave("inputs of activation functions kept in fp8");
  if (w.fp8_modules != Fp8Modules::None) launch.leave("products in 8 bits of " + name_of(w.fp8_modules));
  if (w.offload != Offload::None) launch.leave("copies to host memory of " + name_of(w.offload));
  leave_moe_decisions(input, launch);
  leave_workload(input, launch);
  launch.to_fill_in.emplace_back("model.name and model.flavor, data, tokenizer and checkpoints");
  launch.command = "python -m torchtitan.train --job.config_file \"$CONFIG\"";
  return launch;
}

}  // namespace moeplan::planner
