#include <fmt/format.h>

#include "planner/candidate/stage_layout.hpp"
#include "planner/launch/exporters.hpp"

namespace moeplan::planner {

namespace {

/// The layer is made by the model's code; DeepSpeed's configuration does not know it.
std::string moe_layer_call(const ModelSpec& model, const Workload& workload, const Moe& moe, const Degrees& d) {
  std::string call = fmt::format("deepspeed.moe.layer.MoE(hidden_size={}, num_experts={}, ep_size={}, k={}",
                                 model.hidden_size, moe.num_experts, d.ep, moe.top_k);
  if (d.esp > 1) call += ", enable_expert_tensor_parallelism=True";
  if (workload.capacity_factor) return call + fmt::format(", capacity_factor={})", *workload.capacity_factor);
  return call + ", drop_tokens=False)";
}

}  // namespace

Launch deepspeed_launch(const LaunchInput& input) {
  const Workload& w = input.inputs.workload;
  const Candidate& c = input.plan.candidate;
  const Degrees& d = c.degrees;
  Launch launch;
  launch.style = LaunchStyle::JsonFile;
  launch.config_file = "ds_config.json";
  launch.set("train_batch_size", w.global_batch);
  launch.set("train_micro_batch_size_per_gpu", c.micro_batch);
  launch.set("gradient_accumulation_steps", w.global_batch / d.dp / c.micro_batch);
  launch.set("bf16.enabled", w.dtype == Dtype::Bf16 ? "true" : "false");
  if (w.dtype == Dtype::Fp16) launch.set("fp16.enabled", "true");
  if (w.precision) launch.leave("products in " + precision_text(w));
  launch.set("zero_optimization.stage", w.zero_stage);
  launch.set("zero_optimization.overlap_comm", w.overlap_gradients ? "true" : "false");
  launch.set("communication_data_type", w.gradient_dtype == Dtype::Bf16 ? "bfp16" : "fp32");
  launch.set("optimizer.type", w.optimizer == Optimizer::Adam ? "Adam" : "SGD");
  launch.set("optimizer.params.lr", "1e-4");
  if (d.pp > 1) launch.leave("pipeline parallelism: DeepSpeed's pipelines take no MoE layers");
  if (d.cp > 1) launch.leave("context parallelism");
  if (c.sequence_parallel) launch.leave("sequence parallelism");
  if (w.optimizer_dtype != Dtype::Fp32) launch.leave("moments of the optimizer in 16 bits");
  if (w.main_weights == MainWeights::None) launch.leave("weights without fp32 copies");
  if (mtp_layers_of(w, c) > 0) launch.leave("multi-token prediction");
  if (w.cuda_graphs != CudaGraphs::None) launch.leave("CUDA graphs");
  if (w.fp8_activation_inputs) launch.leave("inputs of activation functions kept in fp8");
  if (w.fp8_modules != Fp8Modules::None) launch.leave("products in 8 bits of " + name_of(w.fp8_modules));
  if (w.offload != Offload::None) launch.leave("copies to host memory of " + name_of(w.offload));
  leave_moe_decisions(input, launch);
  leave_workload(input, launch);
  const UniformModel model = uniform_model(input.inputs.model);
  if (model.moe) launch.to_fill_in.push_back(moe_layer_call(input.inputs.model, w, *model.moe, d) + " in the model");
  if (d.tp > 1) launch.to_fill_in.push_back(fmt::format("an mpu with {} tensor-parallel ranks", d.tp));
  if (c.recompute.has(RecomputeModule::WholeLayer)) {
    launch.to_fill_in.emplace_back("deepspeed.checkpointing.checkpoint around every layer of the model");
  } else if (!(c.recompute == Recompute::None)) {
    launch.leave("recomputation of " + name_of(c.recompute));
  }
  launch.to_fill_in.push_back(
      fmt::format("TRAIN: the training script, with sequences of {} tokens", w.sequence_length));
  launch.command = "python \"${TRAIN:?the training script}\" --deepspeed --deepspeed_config \"$CONFIG\"";
  return launch;
}

}  // namespace moeplan::planner
