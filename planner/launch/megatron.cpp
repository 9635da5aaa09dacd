#include <fmt/format.h>

#include "model/text/reader.hpp"
#include "planner/launch/exporters.hpp"
#include "planner/layer/all_to_all.hpp"

namespace moeplan::planner {

namespace {

/// A pattern of layers as Megatron-LM evaluates it: "([0]*3+[1]*58)".
std::string pattern_text(const std::vector<bool>& layers) {
  std::string out;
  for (std::size_t i = 0, end = 0; i < layers.size(); i = end) {
    while (end < layers.size() && layers[end] == layers[i]) ++end;
    out += fmt::format("{}[{}]*{}", out.empty() ? "" : "+", layers[i] ? 1 : 0, end - i);
  }
  return '(' + out + ')';
}

bool all_of(const std::vector<bool>& values, bool value) {
  for (const bool v : values) {
    if (v != value) return false;
  }
  return true;
}

void set_kernels(const Workload& workload, Launch& out) {
  const Fusions& fusions = workload.fusions;
  if (!fusions.has(Fusion::Attention)) out.set("attention-backend", "unfused");
  if (workload.fp8_modules.has(Fp8Module::Attention)) out.set("fp8-dot-product-attention");
  if (workload.fp8_modules.has(Fp8Module::OutputHead)) out.set("fp8-output-proj");
  if (fusions.has(Fusion::GroupedMlp)) {
    out.set("use-transformer-engine-op-fuser");
    out.set("moe-mlp-glu-interleave-size", 32);
  }
  if (!fusions.has(Fusion::CrossEntropy)) return;
  out.set("cross-entropy-loss-fusion");
  out.set("cross-entropy-fusion-impl", "te");
}

void set_offload(const Offload& offload, Launch& out) {
  if (offload.has_activations()) {
    LaunchSetting modules{"offload-modules"};
    for (const auto& [module, name] : kOffloadModuleNames) {
      if (offload.has(module) && module != OffloadModule::OptimizerStates) modules.values.emplace_back(name);
    }
    out.set("fine-grained-activation-offloading");
    out.settings.push_back(std::move(modules));
    if (offload.has(OffloadModule::AttentionProj) && !offload.has(OffloadModule::CoreAttention))
      out.leave("attn_proj in host memory without core_attn");
  }
  if (offload.has(OffloadModule::OptimizerStates)) out.set("offload-optimizer-states");
}

/// What a plan does not know, and how the job starts.
void set_run(const Workload& workload, const Candidate& candidate, Launch& out) {
  out.set("mock-data");
  out.set("tokenizer-type", "NullTokenizer");
  out.set("train-iters", 50);
  out.set("lr", "1e-4");
  out.set("log-interval", 1);
  out.set("log-throughput");
  out.command = "python \"${MEGATRON:-Megatron-LM}/pretrain_gpt.py\" \"${ARGUMENTS[@]}\"";
  out.to_fill_in = {"data, tokenizer and checkpoints: --mock-data and NullTokenizer are placeholders",
                    "learning rate and number of iterations"};
  // Megatron-LM asks for 1 where kernels must wait for communication, and for more with overlap or sharded weights.
  const bool is_sharded = workload.zero_stage >= 2;
  out.environment.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", candidate.ep_overlap ? "32" : is_sharded ? "8" : "1");
  if (workload.cuda_graphs == CudaGraphs::None)
    out.environment.emplace_back("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True");
}

void set_hybridep_environment(const Cluster& cluster, std::int64_t ep, Launch& out) {
  const std::int64_t domain = cluster.ranks_per_node();
  out.environment.emplace_back("NVLINK_DOMAIN_SIZE", std::to_string(domain));
  out.environment.emplace_back("NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN", std::to_string(std::min(domain, ep)));
  out.environment.emplace_back("USE_MNNVL", domain > gpus_per_host(cluster) ? "1" : "0");
}

void set_latent(const LatentAttention& latent, Launch& out) {
  out.set("multi-latent-attention");
  out.set("num-attention-heads", latent.num_heads);
  if (latent.q_lora_rank > 0) out.set("q-lora-rank", latent.q_lora_rank);
  out.set("kv-lora-rank", latent.kv_lora_rank);
  out.set("qk-head-dim", latent.qk_nope_head_dim);
  out.set("qk-pos-emb-head-dim", latent.qk_rope_head_dim);
  out.set("v-head-dim", latent.v_head_dim);
  if (latent.indexer) out.leave("sparse attention and its indexer");
}

void set_heads(const HeadAttention& heads, Launch& out) {
  out.set("num-attention-heads", heads.num_heads);
  if (heads.num_kv_heads != heads.num_heads) {
    out.set("group-query-attention");
    out.set("num-query-groups", heads.num_kv_heads);
  }
  out.set("kv-channels", heads.head_dim);
  if (heads.value_dim() != heads.head_dim) out.leave("values of another size than keys");
  if (heads.output_gate != OutputGate::None) out.leave("the gate of attention's output");
  if (heads.bias && !heads.output_bias) out.set("add-qkv-bias");
  if (heads.qk_norm) out.set("qk-layernorm");
  if (heads.qk_norm_whole) out.leave("norms of queries and keys over all heads");
  if (heads.sinks) out.set("softmax-type", "learnable");
  if (heads.scaled_rotary) out.leave("YaRN's scaling of queries and keys");
}

void recompute_whole(const RecomputedLayers& layers, Launch& out) {
  out.set("recompute-granularity", "full");
  out.set("recompute-method", layers.first_of_part ? "block" : "uniform");
  out.set("recompute-num-layers", layers.first_of_part.value_or(1));
}

class MegatronExport {
 public:
  explicit MegatronExport(const LaunchInput& input)
      : input_(input),
        model_(input.inputs.model),
        workload_(input.inputs.workload),
        candidate_(input.plan.candidate),
        uniform_(uniform_model(model_)),
        layout_(layout_of(model_, workload_, candidate_)) {}

  Launch result() {
    write_model();
    write_attention();
    write_ffns();
    if (uniform_.moe) write_experts(*uniform_.moe);
    write_degrees();
    write_dispatch();
    write_batch();
    write_precision();
    set_kernels(workload_, out_);
    write_states();
    write_recompute();
    write_graphs();
    set_offload(workload_.offload, out_);
    set_run(workload_, candidate_, out_);
    leave_moe_decisions(input_, out_);
    leave_workload();
    for (const std::string& what : uniform_.left_out) out_.leave(what);
    return std::move(out_);
  }

 private:
  void write_model() {
    out_.set("num-layers", model_.num_layers());
    out_.set("hidden-size", model_.hidden_size);
    out_.set("vocab-size", model_.vocab_size);
    out_.set("make-vocab-size-divisible-by", 1);
    out_.set("max-position-embeddings", std::max(model_.position_embeddings, workload_.sequence_length));
    out_.set("position-embedding-type", model_.position_embeddings > 0 ? "learned_absolute" : "rope");
    out_.set("normalization", model_.norm == Norm::Rms ? "RMSNorm" : "LayerNorm");
    if (!model_.tied_embeddings) out_.set("untie-embeddings-and-output-weights");
    if (layout_.mtp_layers() > 0) out_.set("mtp-num-layers", layout_.mtp_layers());
    if (layout_.mtp_layers() < model_.num_mtp_layers)
      out_.leave(fmt::format("multi-token prediction: the plan has {} of {} layers", layout_.mtp_layers(),
                             model_.num_mtp_layers));
    if (model_.token_types > 0) out_.leave("token types");
    if (model_.embedding_norm) out_.leave("a norm after the embedding");
    if (!model_.causal) out_.leave("attention to later tokens");
    if (model_.norms_per_layer != 2) out_.leave(fmt::format("{} norms a layer", model_.norms_per_layer));
    if (!model_.final_norm) out_.leave("no norm before the output head");
    if (model_.lm_head_bias) out_.leave("a bias of the output head");
    if (model_.residual_streams > 1) out_.leave(fmt::format("{} residual streams", model_.residual_streams));
  }

  void write_attention() {
    if (!uniform_.mixer) return;  // listed by uniform_model()
    if (const auto* latent = std::get_if<LatentAttention>(uniform_.mixer)) {
      set_latent(*latent, out_);
    } else if (const auto* heads = std::get_if<HeadAttention>(uniform_.mixer)) {
      set_heads(*heads, out_);
    } else {
      out_.leave("a token mixer that is neither multi-head nor latent attention");
    }
    if (uniform_.window == 0) return;
    out_.set("window-size", fmt::format("{},0", uniform_.window));
    if (!all_of(uniform_.windows, true)) out_.set("window-attn-skip-freq", pattern_text(uniform_.windows));
  }

  /// All FFNs of a Megatron-LM model are gated, clamped and biased, or none is.
  void write_ffns() {
    const Ffn& any = uniform_.moe ? uniform_.moe->expert : uniform_.dense;
    const bool has_dense = uniform_.dense.hidden_size > 0;
    if (any.gated && any.clamped) {
      out_.set("quick-geglu");
      out_.set("activation-func-clamp-value", "7.0");
      out_.set("glu-linear-offset", "1.0");
    } else if (any.gated) {
      out_.set("swiglu");
    }
    const auto* heads = uniform_.mixer ? std::get_if<HeadAttention>(uniform_.mixer) : nullptr;
    if (!any.bias) out_.set("disable-bias-linear");
    if (heads && heads->output_bias != any.bias) out_.leave("biases of attention's output other than the FFNs'");
    if (has_dense && uniform_.moe && (uniform_.dense.gated != any.gated || uniform_.dense.bias != any.bias))
      out_.leave("dense FFNs with another activation or bias than the experts'");
    if (has_dense) out_.set("ffn-hidden-size", uniform_.dense.hidden_size);
    if (!has_dense && uniform_.moe) out_.set("ffn-hidden-size", uniform_.moe->expert.hidden_size);
  }

  void write_experts(const Moe& moe) {
    out_.set("num-experts", moe.num_experts);
    if (!all_of(uniform_.is_moe, true)) out_.set("moe-layer-freq", pattern_text(uniform_.is_moe));
    out_.set("moe-ffn-hidden-size", moe.expert.hidden_size);
    out_.set("moe-router-topk", moe.top_k);
    if (moe.shared.hidden_size > 0) out_.set("moe-shared-expert-intermediate-size", moe.shared.hidden_size);
    if (moe.shared_gate) out_.leave("the gate of the shared expert");
    if (moe.latent_size > 0) out_.leave(fmt::format("experts on a latent of {} columns", moe.latent_size));
    if (moe.expert_groups > 1) {
      out_.set("moe-router-num-groups", moe.expert_groups);
      out_.set("moe-router-group-topk", moe.groups_per_token);
    }
    if (moe.router_bias && moe.expert.bias) out_.leave("biases of the router");
    if (moe.router_bias && !moe.expert.bias) {  // of load balancing without a loss, which has sigmoid scores
      out_.set("moe-router-score-function", "sigmoid");
      out_.set("moe-router-enable-expert-bias");
    }
    out_.set("moe-grouped-gemm");
    if (workload_.fusions.has(Fusion::Permute)) out_.set("moe-permute-fusion");
    if (workload_.fusions.has(Fusion::Padding)) out_.set("moe-router-padding-for-fp8");
    if (!workload_.fusions.has(Fusion::Router)) return;
    if (input_.framework.has(FrameworkDecision::Fusions, "router")) {
      out_.set("moe-router-fusion");
    } else {
      out_.leave("the router's kernels fused");
    }
  }

  void write_degrees() {
    const Degrees& d = candidate_.degrees;
    out_.set("tensor-model-parallel-size", d.tp);
    if (candidate_.sequence_parallel) out_.set("sequence-parallel");
    out_.set("pipeline-model-parallel-size", d.pp);
    out_.set("context-parallel-size", d.cp);
    if (uniform_.moe) {
      out_.set("expert-model-parallel-size", d.ep);
      out_.set("expert-tensor-parallel-size", d.esp);
    }
    if (d.pp > 1) out_.set("pipeline-model-parallel-layout", layout_.text());
  }

  void write_dispatch() {
    if (!uniform_.moe) return;
    const Candidate& c = candidate_;
    const bool has_backends = input_.framework.arguments.contains("moe-flex-dispatcher-backend");
    const bool merges = workload_.expert_layout == ExpertLayout::Merged && c.degrees.ep > 1 && !c.all_to_all->gathers();
    const bool is_deduplicated = c.all_to_all == "node_dedup" || c.all_to_all == "deepep";
    const bool is_hybrid =
        has_backends &&
        (c.all_to_all == "hybridep" ||
         (merges && c.all_to_all != "deepep" && (is_deduplicated || c.degrees.ep <= input_.cluster.ranks_per_node())));
    if (is_hybrid) {
      out_.set("moe-token-dispatcher-type", "flex");
      out_.set("moe-flex-dispatcher-backend", "hybridep");
      set_hybridep_environment(input_.cluster, c.degrees.ep, out_);
    } else if (is_deduplicated) {
      out_.set("moe-token-dispatcher-type", "flex");
      if (has_backends) out_.set("moe-flex-dispatcher-backend", "deepep");
      if (!has_backends) out_.set("moe-enable-deepep");
    } else {
      out_.set("moe-token-dispatcher-type", c.all_to_all->gathers() ? "allgather" : "alltoall");
    }
    if (c.dispatcher_sms > 0) out_.set(is_hybrid ? "moe-hybridep-num-sms" : "moe-deepep-num-sms", c.dispatcher_sms);
    if (merges && !is_hybrid) out_.leave("rows merged by the exchange: Megatron-LM sorts them by expert");
    if (c.ep_overlap) out_.set("overlap-moe-expert-parallel-comm");
    if (c.delays_weight_gradients) out_.set("delay-wgrad-compute");
    if (!workload_.capacity_factor) return;
    out_.set("moe-expert-capacity-factor", fmt::format("{}", *workload_.capacity_factor));
    out_.set("moe-pad-expert-input-to-capacity");
  }

  void write_batch() {
    out_.set("micro-batch-size", candidate_.micro_batch);
    out_.set("global-batch-size", workload_.global_batch);
    out_.set("seq-length", workload_.sequence_length);
  }

  void write_precision() {
    if (workload_.dtype == Dtype::Bf16) out_.set("bf16");
    if (workload_.dtype == Dtype::Fp16) out_.set("fp16");
    if (workload_.dtype == Dtype::Tf32) out_.leave("products in tf32");
    if (!workload_.precision) return;
    const std::string recipe = input_.framework.own_name(
        FrameworkDecision::Precisions, std::string(name_of<Precision>(kPrecisionNames, *workload_.precision)));
    if (recipe.empty()) return out_.leave("products in " + precision_text(workload_));
    out_.set("fp8-format", *workload_.precision == Precision::Fp8Delayed ? "hybrid" : "e4m3");
    out_.set("fp8-recipe", recipe);
  }

  void write_states() {
    out_.set("optimizer", workload_.optimizer == Optimizer::Adam ? "adam" : "sgd");
    if (workload_.zero_stage >= 1) out_.set("use-distributed-optimizer");
    if (workload_.overlap_gradients) {
      out_.set("overlap-grad-reduce");
      if (workload_.zero_stage >= 1) out_.set("overlap-param-gather");
    }
    if (workload_.zero_stage >= 2) {
      out_.set("use-megatron-fsdp");
      out_.set("data-parallel-sharding-strategy",
               input_.framework.own_name(FrameworkDecision::ZeroStages, fmt::format("{}", workload_.zero_stage)));
      out_.set("ckpt-format", "fsdp_dtensor");
    }
    if (workload_.gradient_dtype == Dtype::Bf16) out_.set("grad-reduce-in-bf16");
    if (workload_.gradient_dtype == Dtype::Fp32) out_.set("accumulate-allreduce-grads-in-fp32");
    if (workload_.optimizer_dtype != Dtype::Bf16) return;
    out_.set("use-precision-aware-optimizer");
    out_.set("exp-avg-dtype", "bf16");
    out_.set("exp-avg-sq-dtype", "bf16");
  }

  void write_recompute() {
    const Recompute& recompute = candidate_.recompute;
    if (workload_.fp8_activation_inputs) out_.set("activation-func-fp8-input-store");
    if (recompute == Recompute::None) return;
    if (recompute.has(RecomputeModule::WholeLayer)) return recompute_whole(workload_.recompute_layers, out_);
    const Recompute there = recomputed_by(input_.framework, recompute);
    LaunchSetting modules{"recompute-modules"};
    for (const auto& [module, name] : kRecomputeModuleNames) {
      if (there.has(module)) modules.values.emplace_back(name);
      if (recompute.has(module) && !there.has(module)) out_.leave(fmt::format("recomputation of {}", name));
    }
    if (modules.values.empty()) return;
    out_.set("recompute-granularity", "selective");
    out_.settings.push_back(std::move(modules));
  }

  void write_graphs() {
    const CudaGraphs& graphs = workload_.cuda_graphs;
    if (graphs == CudaGraphs::None) return;
    const bool is_whole = graphs.has(GraphModule::WholeIteration);
    LaunchSetting scope{"cuda-graph-scope"};
    if (is_whole) scope.values.emplace_back("full_iteration");
    for (const auto& [module, name] : kGraphModuleNames) {
      if (!graphs.has(module)) continue;
      if (input_.framework.has(FrameworkDecision::GraphModules, name)) scope.values.emplace_back(name);
      if (!input_.framework.has(FrameworkDecision::GraphModules, name))
        out_.leave(fmt::format("a CUDA graph of {}", name));
    }
    if (scope.values.empty()) return;
    out_.set("cuda-graph-impl", is_whole ? "local" : "transformer_engine");
    out_.settings.push_back(std::move(scope));
  }

  void leave_workload() {
    if (workload_.gate_weights == GateWeights::AtSources && candidate_.degrees.esp == 1 && uniform_.moe)
      out_.leave("gate weights applied at the tokens' sources: Megatron-Core applies them in the experts");
    if (workload_.gate.kind != GateKind::TopK) out_.leave("the gate of the workload: Megatron-LM's is top-k");
    if (is_dense(workload_.encoding)) out_.leave("encoding by products with masks");
    if (workload_.expert_layout == ExpertLayout::BySource) out_.leave("one product of an expert for each source");
  }

  const LaunchInput& input_;
  const ModelSpec& model_;
  const Workload& workload_;
  const Candidate& candidate_;
  UniformModel uniform_;
  PipelineLayout layout_;
  Launch out_{};
};

}  // namespace

Launch megatron_launch(const LaunchInput& input) { return MegatronExport(input).result(); }

}  // namespace moeplan::planner
