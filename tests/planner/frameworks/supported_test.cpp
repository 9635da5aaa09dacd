#include "planner/frameworks/supported.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>

#include "planner/plan/inputs.hpp"
#include "planner/search/enumeration.hpp"
#include "planner/search/search.hpp"

namespace moeplan::tests::supported_test {

using namespace planner;

namespace {

Candidate candidate() {
  Candidate c;
  c.degrees = {.dp = 8, .edp = 1, .ep = 8};
  return c;
}

std::string reason(const std::string& framework, const Candidate& c, std::int64_t ranks_per_node = 8) {
  return unsupported(load_framework(framework), c, ranks_per_node).value_or("");
}

}  // namespace

TEST_CASE("Megatron-LM runs its own schedule, dispatchers, order and placement, and nothing else") {
  CHECK(reason("megatron", candidate()).empty());
  const auto with = [](auto change) {
    Candidate c = candidate();
    change(c);
    return reason("megatron@0.14", c);
  };
  CHECK(with([](Candidate& c) { c.schedule = "opt_sche"; }) == "Megatron-LM 0.14 has no schedule opt_sche");
  CHECK(with([](Candidate& c) { c.all_to_all = "2dh"; }) == "Megatron-LM 0.14 has no all-to-all 2dh");
  CHECK(with([](Candidate& c) { c.codec = *parse_codec_pair("int8"); }) == "Megatron-LM 0.14 has no codec int8");
  CHECK(with([](Candidate& c) { c.order = OperationOrder::Searched; }) ==
        "Megatron-LM 0.14 has no order of operations searched");
  CHECK(with([](Candidate& c) { c.placement = "eplb_global"; }) == "Megatron-LM 0.14 has no placement eplb_global");
  CHECK(with([](Candidate& c) { c.rank_order = RankOrder::ReplicasInner; }) ==
        "Megatron-LM 0.14 has no rank order tp-cp-dp-ep-pp");
  CHECK(with([](Candidate& c) { c.recompute = Recompute::Selective; }) ==
        "Megatron-LM 0.14 has no recomputation of selective");
  CHECK(with([](Candidate& c) { c.degrees = {.dp = 4, .tp = 2, .ep = 8}; }) ==
        "Megatron-LM 0.14 needs sequence parallelism for tp > 1 with experts");
}

TEST_CASE("Levels of recomputation are of modules that the model and the framework have, from less to more") {
  using Names = std::vector<std::string>;
  const auto levels = [](const char* model, const char* framework, std::vector<std::string> overrides = {}) {
    SearchSpace space;
    if (*framework) space.framework = load_framework(framework);
    if (*framework) std::ranges::copy(space.framework->overrides, std::back_inserter(overrides));
    const Inputs inputs = read_inputs(load_inputs("dgx_h100", model, "default", overrides));
    const Cluster cluster = build_cluster_of("dgx_h100", inputs.cluster, 16);
    Names names;
    for (const Recompute& level : recompute_levels({inputs.model, inputs.workload, cluster}, space))
      names.push_back(name_of(level));
    return names;
  };
  const std::string deepseek = "mla_up_proj+mlp+layernorm+moe+shared_experts";
  CHECK(levels("qwen3_30b_a3b", "") ==
        Names{"none", "selective", "layernorm+moe", "layernorm+moe+projections", "full"});
  CHECK(levels("moonlight_16b_a3b", "") == Names{"none", "selective", "layernorm+moe+ffn_act", deepseek, "full"});
  CHECK(levels("moonlight_16b_a3b", "megatron") ==
        Names{"none", "layernorm+moe_act", "layernorm+moe", deepseek, "full"});
  CHECK(levels("qwen3_30b_a3b", "megatron") == Names{"none", "layernorm+moe_act", "layernorm+moe", "full"});
  CHECK(levels("qwen3_30b_a3b", "torchtitan") == Names{"none", "layernorm+moe+projections", "full"});
  CHECK(levels("qwen3_30b_a3b", "deepspeed") == Names{"none", "full"});
  SECTION("and of what CUDA graphs leave") {
    CHECK(levels("qwen3_30b_a3b", "megatron", {"workload.cuda_graph=attn"}) ==
          Names{"none", "layernorm+moe_act", "layernorm+moe"});
    CHECK(levels("qwen3_30b_a3b", "megatron", {"workload.cuda_graph=attn+moe_router"}) ==
          Names{"none", "layernorm+moe_act"});
  }
}

TEST_CASE("Megatron-LM gathers the rows of expert shards, DeepSpeed has none") {
  Candidate c = candidate();
  c.degrees = {.dp = 4, .tp = 2, .edp = 1, .ep = 4, .esp = 2};
  c.sequence_parallel = true;
  for (const char* framework : {"megatron", "megatron-bridge"}) {
    CAPTURE(framework);
    c.schedule = "megatron_etp";
    CHECK(reason(framework, c).empty());
    c.schedule = "baseline";
    CHECK(reason(framework, c).find("shards experts by schedule megatron_etp") != std::string::npos);
  }
  c.schedule = "megatron_etp";
  CHECK(reason("deepspeed", c) == "DeepSpeed 0.17 has no schedule megatron_etp");
}

TEST_CASE("What a version does not have yet is refused") {
  Candidate c = candidate();
  c.ep_overlap = true;
  CHECK(reason("megatron@0.14", c).empty());
  c.delays_weight_gradients = true;
  CHECK(reason("megatron@0.14", c).empty());
  c.delays_weight_gradients = false;
  CHECK(reason("megatron@0.13", c) == "Megatron-LM 0.13 has no overlap of exchanges with a neighbouring microbatch");
}

TEST_CASE("Megatron-LM overlaps microbatches whose MoE layers are not recomputed") {
  Candidate c = candidate();
  c.ep_overlap = true;
  for (const char* recompute : {"none", "layernorm+moe_act"}) {
    c.recompute = *parse_recompute(recompute);
    CHECK(reason("megatron", c).empty());
  }
  for (const char* recompute : {"full", "moe", "layernorm+moe"}) {
    c.recompute = *parse_recompute(recompute);
    CHECK(reason("megatron", c) == "Megatron-LM 0.16 overlaps microbatches only without recomputation of MoE layers");
    c.ep_overlap = false;
    CHECK(reason("megatron", c).empty());
    c.ep_overlap = true;
  }
}

TEST_CASE("Only TorchTitan has stages in a V") {
  Candidate c = candidate();
  c.degrees.pp = 2;
  c.virtual_stages = 2;
  c.pipeline = PipelineShape::V;
  CHECK(reason("megatron", c) == "Megatron-LM 0.16 has no stages in a V");
  CHECK(reason("torchtitan", c).find("stages in a V") == std::string::npos);
  CHECK(reason("torchtitan@0.1", c) == "TorchTitan 0.1 has no stages in a V");
}

TEST_CASE("Servers divide experts over all GPUs of a stage, and deduplicate between nodes") {
  CHECK(reason("sglang", candidate()).empty());
  CHECK(reason("sglang", candidate(), 4) == "SGLang 0.5 deduplicates rows between nodes");
  Candidate c = candidate();
  c.degrees = {.dp = 8, .edp = 2, .ep = 4};
  CHECK(reason("vllm", c) == "vLLM 0.19 divides experts over all tp x dp GPUs, or shards them as tp");
  c.degrees = {.dp = 4, .tp = 2, .edp = 4, .ep = 1, .esp = 2};
  CHECK(reason("vllm", c).empty());
}

TEST_CASE("DeepSpeed has no pipelines with experts; TorchTitan places experts on the dense mesh") {
  Candidate c = candidate();
  c.degrees = {.pp = 2, .dp = 4, .edp = 1, .ep = 4};
  CHECK(reason("deepspeed", c) == "DeepSpeed 0.17 has no pp > 1");
  CHECK(reason("torchtitan", c).empty());
  c.degrees = {.dp = 4, .cp = 2, .edp = 8, .ep = 1};
  CHECK(reason("torchtitan", c).empty());
  c.degrees = {.dp = 2, .cp = 4, .edp = 4, .ep = 2};
  CHECK(reason("torchtitan", c) == "TorchTitan 0.2 divides experts over whole groups of ranks that share a sequence");
}

TEST_CASE("Every plan of a search with a framework is one that the framework runs", "[slow]") {
  const auto name = GENERATE(as<std::string>{}, "megatron", "torchtitan", "deepspeed", "sglang");
  CAPTURE(name);
  const Framework framework = load_framework(name);
  PlanInputs documents = load_inputs("dgx_h100", "moonlight_16b_a3b", "default", framework.overrides);
  Inputs inputs = read_inputs(documents);
  settle_for_framework(framework, documents, inputs);
  const Cluster cluster = build_cluster_of("dgx_h100", inputs.cluster, 16);
  const Problem problem(inputs.model, inputs.workload, cluster);
  SearchSpace space{.framework = framework, .most_simulated = 8};
  space.placements = PlacementSpace{};
  const SearchResult result = search(problem, space);
  REQUIRE_FALSE(result.ranked.empty());
  for (const Evaluated& e : result.ranked)
    CHECK(unsupported(framework, e.candidate, cluster.ranks_per_node()).value_or("").empty());
}

}  // namespace moeplan::tests::supported_test
