#include <algorithm>
#include <array>

#include "planner/launch/exporters.hpp"

namespace moeplan::planner {

namespace {

/// Megatron-LM's arguments under the keys of Megatron-Bridge's configuration. A value replaces a switch; "" leaves the
/// argument out, because the configuration says it elsewhere.
struct BridgeKey {
  std::string_view argument, key;
  std::string_view value = "";
};
constexpr std::array kBridgeKeys{
    BridgeKey{"swiglu", "model.gated_linear_unit", "true"},
    BridgeKey{"disable-bias-linear", "model.add_bias_linear", "false"},
    BridgeKey{"untie-embeddings-and-output-weights", "model.share_embeddings_and_output_weights", "false"},
    BridgeKey{"num-experts", "model.num_moe_experts"},
    BridgeKey{"num-virtual-stages-per-pipeline-rank", "model.virtual_pipeline_model_parallel_size"},
    BridgeKey{"max-position-embeddings", ""},
    BridgeKey{"group-query-attention", ""},
    BridgeKey{"micro-batch-size", "train.micro_batch_size"},
    BridgeKey{"global-batch-size", "train.global_batch_size"},
    BridgeKey{"train-iters", "train.train_iters"},
    BridgeKey{"seq-length", "model.seq_length"},
    BridgeKey{"bf16", ""},
    BridgeKey{"fp16", ""},
    BridgeKey{"fp8-format", ""},
    BridgeKey{"fp8-recipe", ""},
    BridgeKey{"optimizer", "optimizer.optimizer"},
    BridgeKey{"lr", "optimizer.lr"},
    BridgeKey{"use-distributed-optimizer", "ddp.use_distributed_optimizer", "true"},
    BridgeKey{"overlap-grad-reduce", "ddp.overlap_grad_reduce", "true"},
    BridgeKey{"overlap-param-gather", "ddp.overlap_param_gather", "true"},
    BridgeKey{"use-megatron-fsdp", "ddp.use_megatron_fsdp", "true"},
    BridgeKey{"data-parallel-sharding-strategy", "ddp.data_parallel_sharding_strategy"},
    BridgeKey{"ckpt-format", "checkpoint.ckpt_format"},
    BridgeKey{"grad-reduce-in-bf16", "ddp.grad_reduce_in_fp32", "false"},
    BridgeKey{"accumulate-allreduce-grads-in-fp32", "ddp.grad_reduce_in_fp32", "true"},
    BridgeKey{"use-precision-aware-optimizer", "optimizer.use_precision_aware_optimizer", "true"},
    BridgeKey{"exp-avg-dtype", "optimizer.exp_avg_dtype"},
    BridgeKey{"exp-avg-sq-dtype", "optimizer.exp_avg_sq_dtype"},
    BridgeKey{"fine-grained-activation-offloading", "model.fine_grained_activation_offloading", "true"},
    BridgeKey{"offload-optimizer-states", "optimizer.offload_optimizer_states", "true"},
    BridgeKey{"overlap-moe-expert-parallel-comm", "comm_overlap.overlap_moe_expert_parallel_comm", "true"},
    BridgeKey{"delay-wgrad-compute", "comm_overlap.delay_wgrad_compute", "true"},
    BridgeKey{"mock-data", ""},
    BridgeKey{"tokenizer-type", "tokenizer.tokenizer_type"},
    BridgeKey{"log-interval", "logger.log_interval"},
    BridgeKey{"log-throughput", "logger.log_throughput", "true"}};

/// "model.kv_channels" of "kv-channels".
std::string model_key(std::string argument) {
  std::replace(argument.begin(), argument.end(), '-', '_');
  return "model." + argument;
}

LaunchSetting bridge_setting(const LaunchSetting& megatron) {
  const auto known = std::find_if(kBridgeKeys.begin(), kBridgeKeys.end(),
                                  [&](const BridgeKey& k) { return k.argument == megatron.name; });
  LaunchSetting out{known == kBridgeKeys.end() ? model_key(megatron.name) : std::string(known->key), megatron.values};
  if (known != kBridgeKeys.end() && !known->value.empty()) out.values = {std::string(known->value)};
  if (out.values.empty()) out.values = {"true"};
  return out;
}

std::string mixed_precision(const LaunchInput& input) {
  const Workload& w = input.inputs.workload;
  if (w.precision) {
    return input.framework.own_name(FrameworkDecision::Precisions,
                                    std::string(name_of<Precision>(kPrecisionNames, *w.precision)));
  }
  return w.dtype == Dtype::Bf16 ? "bf16_mixed" : w.dtype == Dtype::Fp16 ? "16_mixed" : "32";
}

}  // namespace

Launch megatron_bridge_launch(const LaunchInput& input) {
  Framework core = input.framework;  // Megatron-Core's arguments, of which Megatron-Bridge has other names
  core.arguments["moe-flex-dispatcher-backend"] = {};
  Launch launch = megatron_launch({input.plan, input.inputs, input.cluster, core});
  std::vector<LaunchSetting> settings;
  for (const LaunchSetting& megatron : launch.settings) {
    LaunchSetting setting = bridge_setting(megatron);
    if (!setting.name.empty()) settings.push_back(std::move(setting));
  }
  settings.push_back({"mixed_precision", {mixed_precision(input)}});
  settings.push_back({"dataset.sequence_length", {std::to_string(input.inputs.workload.sequence_length)}});
  if (!input.inputs.workload.fusions.has(Fusion::Permute)) settings.push_back({"model.moe_permute_fusion", {"false"}});
  launch.settings = std::move(settings);
  launch.style = LaunchStyle::YamlFile;
  launch.config_file = "overrides.yaml";
  launch.command = "python \"${RECIPE:?the training script of a recipe}\" --config-file \"$CONFIG\"";
  launch.to_fill_in = {"RECIPE: the script of the model's recipe, whose configuration the file overrides",
                       "data, tokenizer and checkpoints: the recipe's"};
  return launch;
}

}  // namespace moeplan::planner
