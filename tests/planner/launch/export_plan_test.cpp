#include "planner/launch/export_plan.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "planner/launch/launch_script.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::export_plan_test {

using namespace planner;

namespace {

/// A plan of a shipped model on eight nodes, with its inputs.
struct Example {
  explicit Example(const std::string& model, const std::vector<std::string>& overrides = {},
                   const std::string& machine = "dgx_h100")
      : documents(load_inputs(machine, model, "default", overrides)),
        inputs(read_inputs(documents)),
        cluster(build_cluster_of(machine, inputs.cluster, 64)) {
    plan.inputs = documents;
    plan.world_size = 64;
    plan.candidate.degrees = {.pp = 4, .dp = 16, .edp = 2, .ep = 8};
    plan.candidate.virtual_stages = 2;
    plan.candidate.recompute = inputs.workload.recompute.value_or(Recompute::None);
  }
  [[nodiscard]] Launch launch(const std::string& to) const { return launch_of({plan, inputs, cluster, framework(to)}); }
  [[nodiscard]] static Framework framework(const std::string& to) { return load_framework(to); }

  PlanInputs documents;
  Inputs inputs;
  Cluster cluster;
  Plan plan{};
};

std::string value(const Launch& launch, const std::string& name) {
  const auto it = std::find_if(launch.settings.begin(), launch.settings.end(),
                               [&](const LaunchSetting& s) { return s.name == name; });
  if (it == launch.settings.end()) return "absent";
  return it->values.empty() ? "on" : it->values.front();
}

bool is_left(const Launch& launch, const std::string& part) {
  return std::any_of(launch.untranslated.begin(), launch.untranslated.end(),
                     [&](const std::string& t) { return t.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("Every setting that is exported is one that the framework's parser takes, with a value of its type") {
  const auto model = GENERATE(as<std::string>{}, "deepseek_v3", "mixtral_8x7b", "qwen3_235b_a22b", "gpt_oss_120b",
                              "gpt2_moe", "kimi_k2", "deepseek_v2");
  const auto target = GENERATE(as<std::string>{}, "megatron@0.13", "megatron@0.16", "megatron-bridge", "deepspeed",
                               "torchtitan", "torchtitan@0.1", "sglang", "vllm");
  CAPTURE(model, target);
  const bool serves = target == "sglang" || target == "vllm";
  const Example e(model, serves
                             ? std::vector<std::string>{"workload.mode=forward"}
                             : std::vector<std::string>{"workload.precision=fp8_block", "workload.zero_stage=2",
                                                        "workload.gradient_dtype=bf16", "workload.optimizer_dtype=bf16",
                                                        "workload.cuda_graph=attn+moe_router"});
  const Launch launch = e.launch(target);
  CHECK(launch.settings.size() > 8);
  const Framework framework = Example::framework(target);
  for (const LaunchSetting& setting : launch.settings) CHECK(setting_error(framework, setting).empty());
  const std::string script = launch_script(launch, framework);
  CHECK(script.find("#SBATCH --nodes=8\n") != std::string::npos);
  for (const std::string& left : launch.untranslated) CHECK(script.find(left) != std::string::npos);
}

TEST_CASE("A value of another type, a choice that is none, and an unknown name are refused") {
  const Framework f = load_framework("megatron@0.15");
  CHECK(setting_error(f, {"num-layers", {"32"}}).empty());
  CHECK(setting_error(f, {"num-layers", {"many"}}) == "num-layers of Megatron-LM 0.15 takes int, not \"many\"");
  CHECK(setting_error(f, {"num-layers"}) == "num-layers of Megatron-LM 0.15 takes int, not \"\"");
  CHECK(setting_error(f, {"swiglu", {"1"}}) == "swiglu of Megatron-LM 0.15 takes switch, not \"1\"");
  CHECK_THAT(setting_error(f, {"fp8-recipe", {"fp8_block"}}), Catch::Contains("takes one of tensorwise, delayed"));
  CHECK(setting_error(f, {"moe-flex-dispatcher-backend", {"deepep"}}) ==
        "Megatron-LM 0.15 has no moe-flex-dispatcher-backend");
}

TEST_CASE("Megatron-LM's flags say the model, the degrees and the layout of a plan") {
  const Example e("deepseek_v3", {"workload.recompute=moe_act+mla_up_proj"});
  const Launch launch = e.launch("megatron");
  CHECK(value(launch, "moe-layer-freq") == "([0]*3+[1]*58)");
  CHECK(value(launch, "kv-lora-rank") == "512");
  CHECK(value(launch, "multi-latent-attention") == "on");
  CHECK(value(launch, "expert-model-parallel-size") == "8");
  CHECK(value(launch, "expert-tensor-parallel-size") == "1");
  CHECK(value(launch, "moe-token-dispatcher-type") == "flex");
  CHECK(value(launch, "moe-flex-dispatcher-backend") == "hybridep");  // rows merged by the exchange, inside a node
  const auto parsed = parse_layout(value(launch, "pipeline-model-parallel-layout"));
  REQUIRE(std::holds_alternative<PipelineLayout>(parsed));
  CHECK(std::get<PipelineLayout>(parsed).parts.size() == 8);
  CHECK(std::get<PipelineLayout>(parsed).layers() == 61);
  CHECK(is_left(launch, "multi-token prediction: the plan has 0 of 1 layers"));
  CHECK(is_left(launch, "gate weights applied at the tokens' sources"));
  CHECK(value(e.launch("megatron-bridge"), "model.moe_layer_freq") == "([0]*3+[1]*58)");
}

TEST_CASE("What a framework cannot do is listed, not lost") {
  Example e("mixtral_8x7b",
            {"workload.expert_layout=sorted", "workload.gate_weights=in_experts", "workload.recompute=selective"});
  CHECK(e.launch("megatron").untranslated == std::vector<std::string>{"recomputation of ffn_act"});
  e.plan.candidate.schedule = "opt_sche";
  e.plan.candidate.pipeline_degree = 2;
  e.plan.candidate.all_to_all = "2dh";
  e.plan.candidate.codec = *parse_codec_pair("int8");
  e.plan.candidate.order = OperationOrder::Searched;
  const Launch launch = e.launch("megatron");
  for (const char* part : {"schedule opt_sche with 2 chunks", "all-to-all 2dh", "codec int8", "order of operations"})
    CHECK(is_left(launch, part));
  CHECK(is_left(e.launch("deepspeed"), "pipeline parallelism"));
}

TEST_CASE("Attention that Megatron-LM has no flags for is listed, not exported as another one") {
  const Mamba2 mamba{.num_heads = 8, .head_dim = 64, .state_size = 64, .num_groups = 1};
  Example e("mixtral_8x7b");
  SECTION("token mixers of several kinds") {
    e.inputs.model.layers.front().repeat -= 1;
    e.inputs.model.layers.push_back({1, e.inputs.model.layers.front().pattern});
    e.inputs.model.layers.back().pattern.front().mixer = mamba;
    const Launch launch = e.launch("megatron");
    CHECK(is_left(launch, "token mixers of several kinds"));
    CHECK(value(launch, "num-attention-heads") == "absent");
  }
  SECTION("one of another kind") {
    e.inputs.model.attention = CompressedAttention{
        .num_heads = 8, .head_dim = 64, .rope_head_dim = 16, .q_lora_rank = 64, .output_groups = 2, .output_rank = 64};
    CHECK(is_left(e.launch("megatron"), "neither multi-head nor latent attention"));
    CHECK(is_left(e.launch("megatron-bridge"), "neither multi-head nor latent attention"));
  }
  SECTION("gated outputs, narrower values, several residual streams, experts on a latent") {
    auto& heads = std::get<HeadAttention>(e.inputs.model.attention);
    heads.output_gate = OutputGate::Heads;
    heads.v_head_dim = heads.head_dim / 2;
    e.inputs.model.residual_streams = 4;
    for (LayerSpec& layer : e.inputs.model.layers.front().pattern) std::get<Moe>(layer.ffn).latent_size = 512;
    const Launch launch = e.launch("megatron");
    for (const char* part : {"gate of attention's output", "values of another size than keys", "4 residual streams",
                             "experts on a latent of 512 columns"})
      CHECK(is_left(launch, part));
  }
  SECTION("an indexer") {
    Example deepseek("deepseek_v3");
    std::get<LatentAttention>(deepseek.inputs.model.attention).indexer =
        Indexer{.num_heads = 8, .head_dim = 64, .top_k = 128};
    CHECK(is_left(deepseek.launch("megatron"), "sparse attention and its indexer"));
  }
}

TEST_CASE("Gradients that are reduced after the backward pass are exported so") {
  const Example after("mixtral_8x7b", {"workload.overlap_gradients=false", "workload.zero_stage=1"});
  CHECK(value(after.launch("megatron"), "overlap-grad-reduce") == "absent");
  CHECK(value(after.launch("megatron"), "use-distributed-optimizer") == "on");
  CHECK(value(after.launch("deepspeed"), "zero_optimization.overlap_comm") == "false");
  const Example during("mixtral_8x7b", {"workload.zero_stage=1"});
  CHECK(value(during.launch("megatron"), "overlap-grad-reduce") == "on");
  CHECK(value(during.launch("deepspeed"), "zero_optimization.overlap_comm") == "true");
}

TEST_CASE("Fused permutations, and rows that the router pads, are exported as the workload has them") {
  const std::string padded = "workload.fusions=attention+router+padding+cross_entropy";
  const Example fused("mixtral_8x7b"), other("mixtral_8x7b", {padded});
  CHECK(value(fused.launch("megatron"), "moe-permute-fusion") == "on");
  CHECK(value(fused.launch("megatron"), "moe-router-padding-for-fp8") == "absent");
  CHECK(value(other.launch("megatron"), "moe-permute-fusion") == "absent");
  CHECK(value(other.launch("megatron"), "moe-router-padding-for-fp8") == "on");
  CHECK(value(other.launch("megatron-bridge"), "model.moe_permute_fusion") == "false");
  CHECK(value(other.launch("megatron-bridge"), "model.moe_router_padding_for_fp8") == "true");
}

TEST_CASE("What is in host memory is exported to frameworks that move it there") {
  const Example e("mixtral_8x7b", {"workload.offload=core_attn+expert_fc1+optimizer"});
  CHECK(value(e.launch("megatron"), "fine-grained-activation-offloading") == "on");
  const std::vector<LaunchSetting> settings = e.launch("megatron").settings;
  CHECK(std::ranges::count(settings, LaunchSetting{"offload-modules", {"core_attn", "expert_fc1"}}) == 1);
  CHECK(value(e.launch("megatron-bridge"), "model.fine_grained_activation_offloading") == "true");
  const auto leaves = [](const Launch& launch, const std::string& text) {
    return std::ranges::any_of(launch.untranslated, [&](const std::string& left) { return left.ends_with(text); });
  };
  CHECK(leaves(e.launch("megatron"), "has no offload-optimizer-states"));
  CHECK(leaves(e.launch("torchtitan"), "copies to host memory of core_attn+expert_fc1+optimizer"));
}

TEST_CASE("What is newer than the versions of a framework is left to its user") {
  const std::vector<std::string> overrides{"workload.precision=mxfp8", "workload.gate_weights=in_experts",
                                           "workload.fp8_modules=attention+output_head",
                                           "workload.fusions=attention+router+permute+grouped_mlp+cross_entropy"};
  const Launch launch = Example("mixtral_8x7b", overrides, "hgx_b200").launch("megatron");
  const auto leaves = [&](const std::string& text) {
    return std::ranges::any_of(launch.untranslated, [&](const std::string& left) { return left.ends_with(text); });
  };
  CHECK(leaves("has no moe-mlp-glu-interleave-size"));
  CHECK(leaves("has no fp8-dot-product-attention"));
  CHECK(leaves("has no fp8-output-proj"));
}

TEST_CASE("A plan is exported to frameworks that do what it is for") {
  const Example e("mixtral_8x7b");
  CHECK(error_of([&] { (void)e.launch("sglang"); }) == "workload.mode: the plan is for training; SGLang serves");
  const Example serving("mixtral_8x7b", {"workload.mode=forward"});
  CHECK(error_of([&] { (void)serving.launch("megatron"); }) ==
        "workload.mode: the plan is for a forward pass; Megatron-LM trains");
}

TEST_CASE("Gathered tokens are Megatron-LM's dispatcher allgather, in whatever order experts read rows") {
  for (const char* layout : {"sorted", "merged"}) {
    Example e("mixtral_8x7b", {std::string("workload.expert_layout=") + layout});
    e.plan.candidate.degrees.ep = 8;
    e.plan.candidate.all_to_all = "linear";
    CHECK(value(e.launch("megatron"), "moe-token-dispatcher-type") != "allgather");
    e.plan.candidate.all_to_all = "all_gather";
    CHECK(value(e.launch("megatron"), "moe-token-dispatcher-type") == "allgather");
  }
}

TEST_CASE("Servers count redundant experts in all, and GPUs of all attention replicas") {
  Example e("qwen3_235b_a22b", {"workload.mode=forward"});
  e.plan.candidate.degrees = {.dp = 64, .edp = 1, .ep = 64};
  e.plan.candidate.virtual_stages = 1;
  e.plan.candidate.all_to_all = "node_dedup";
  e.plan.candidate.placement = "eplb_global";
  e.plan.candidate.redundant_experts = 1;
  const Launch sglang = e.launch("sglang");
  CHECK(value(sglang, "tp-size") == "64");
  CHECK(value(sglang, "dp-size") == "64");
  CHECK(value(sglang, "ep-num-redundant-experts") == "64");
  CHECK(value(e.launch("vllm"), "eplb-config") == R"({"num_redundant_experts":64})");
  CHECK(value(e.launch("vllm"), "data-parallel-size-local") == "8");
}

}  // namespace moeplan::tests::export_plan_test
