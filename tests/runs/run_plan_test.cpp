#include "planner/runs/run_plan.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "planner/layer/all_to_all.hpp"

namespace moeplan::tests::run_plan_test {

using namespace moeplan::runs;
using profiler::RunRow;

namespace {

/// A row with all its flags.
RunRow row() {
  RunRow r;
  r.cluster = "dgx_h100";
  r.world = 64;
  r.model = "openai/gpt-oss-120b";
  r.precision = "bf16";
  r.tp = r.cp = r.vp = r.etp = r.zero = 1;
  r.sp = 0;
  r.pp = 4;
  r.ep = 8;
  r.micro_batch = 2;
  r.global_batch = 512;
  r.sequence_length = 4096;
  r.routing = "forced";
  r.dispatcher = "nccl";
  r.ep_overlap = "0";
  r.recompute = "layernorm+moe_act";
  r.gradient_dtype = "bf16";
  r.optimizer_dtype = "fp32";
  r.cuda_graph = "none";
  r.stack = "Megatron-Bridge 26.04";
  return r;
}

RunPlan planned(const RunRow& r) {
  RunPlanner planner;
  auto result = planner.plan(r);
  if (const auto* refusal = std::get_if<Refusal>(&result)) FAIL(refusal->reason);
  return std::get<RunPlan>(std::move(result));
}

std::string refusal(const RunRow& r) {
  RunPlanner planner;
  const auto result = planner.plan(r);
  const auto* refused = std::get_if<Refusal>(&result);
  return refused ? refused->reason : "";
}

bool has(const std::vector<std::string>& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

}  // namespace

TEST_CASE("Expert shards are Megatron's if the stack is") {
  RunRow r = row();
  CHECK(planned(r).candidate.schedule == "baseline");
  r.etp = 2;
  r.tp = 2;
  CHECK(planned(r).candidate.schedule == "megatron_etp");
  CHECK(planned(r).space.schedule == planned(r).candidate.schedule);
  r.stack = "DeepSpeed";
  CHECK(planned(r).candidate.schedule == "baseline");
}

TEST_CASE("An old Megatron-Core fuses less") {
  const auto fusions = [](const std::string& stack) {
    RunRow r = row();
    r.stack = stack;
    return planned(r).workload.fusions;
  };
  for (const char* stack : {"Megatron-Core 0.10", "Megatron-LM (MCore v0.9)"}) {
    CAPTURE(stack);
    CHECK_FALSE(fusions(stack).has(Fusion::Permute));
    CHECK_FALSE(fusions(stack).has(Fusion::Router));
  }
  CHECK(fusions("Megatron-Core 0.11").has(Fusion::Permute));
  CHECK_FALSE(fusions("Megatron-Core 0.13.1").has(Fusion::Router));
  CHECK(fusions("Megatron-Core 0.14") == fusions("Megatron-Core dev 2025-11"));
  CHECK(fusions("Megatron-Core").has(Fusion::Router));
}

TEST_CASE("A container of NeMo has its release of Megatron-Core") {
  const auto workload = [](const std::string& stack, std::int64_t zero = 1) {
    RunRow r = row();
    r.stack = stack;
    r.zero = zero;
    r.gradient_dtype.clear();
    return planned(r).workload;
  };
  CHECK_FALSE(workload("NeMo 24.12").fusions.has(Fusion::Permute));
  CHECK_FALSE(workload("NeMo 24.12").fusions.has(Fusion::CrossEntropy));
  CHECK_FALSE(workload("NeMo 24.01").fusions.has(Fusion::Permute));
  CHECK(workload("NeMo 25.02").fusions.has(Fusion::Permute));
  CHECK_FALSE(workload("NeMo 25.08, dev").fusions.has(Fusion::Router));
  CHECK(workload("NeMo 25.09").fusions.has(Fusion::Router));
  CHECK(workload("NeMo AutoModel 2026-07").fusions.has(Fusion::Router));
  CHECK(workload("NeMo 2025").fusions.has(Fusion::Router));
  CHECK(workload("Megatron-Core 0.10", 3).gradient_dtype == Dtype::Fp32);
  CHECK(workload("NeMo 25.04", 3).gradient_dtype == Dtype::Bf16);
  RunRow r = row();
  r.stack = "NeMo 25.04";
  const std::vector<std::string> weighs = planned(r).approximations;
  CHECK(std::count_if(weighs.begin(), weighs.end(), [](const std::string& a) { return a.starts_with("gate w"); }) == 1);
  r.stack = "NeMo 25.07";
  CHECK(planned(r).approximations.empty());
}

TEST_CASE("torchtitan's rows have FSDP2's weights, and the fusions of eager or compiled modules") {
  RunRow r = row();
  r.stack = "torchtitan 2026-08";
  r.zero = 3;
  CHECK(planned(r).workload.main_weights == MainWeights::Only);
  r.main_weights = "none";
  r.pytorch_modules = "eager";
  r.loss_chunks = 8;
  r.memory_counts = "reserved";
  r.peak_memory = Bytes(1e9);
  const RunPlan eager = planned(r);
  CHECK(eager.workload.main_weights == MainWeights::None);
  CHECK(eager.workload.pytorch_modules == PyTorchModules::Eager);
  CHECK(eager.workload.fusions == usual_fusions(PyTorchModules::Eager));
  CHECK_FALSE(eager.workload.fusions.has(Fusion::CrossEntropy));
  CHECK(eager.workload.loss_chunks == 8);
  CHECK(eager.memory_counts == MemoryCounts::Reserved);
  r.pytorch_modules = "compiled";
  CHECK(planned(r).workload.fusions == usual_fusions(PyTorchModules::Compiled));
  CHECK(planned(r).workload.fusions.has(Fusion::CrossEntropy));
  r.zero = 1;
  r.main_weights = "";
  CHECK(planned(r).workload.main_weights == MainWeights::Separate);
}

TEST_CASE("A graph of an iteration whose experts drop no tokens has their fused products") {
  RunRow r = row();
  r.stack = "Megatron-Bridge 26.08";
  r.precision = "mxfp8";
  r.cuda_graph = "full_iteration";
  const auto fuses = [&] { return planned(r).workload.fusions.has(Fusion::GroupedMlp); };
  CHECK(fuses());
  CHECK(planned(r).workload.fp8_modules == Fp8Modules{Fp8Module::Attention});
  r.offload = "core_attn+optimizer";
  CHECK(planned(r).workload.offload == Offload{OffloadModule::CoreAttention, OffloadModule::OptimizerStates});
  r.offload = "none";
  CHECK(planned(r).workload.offload == Offload::None);
  r.fp8_modules = "output_head";
  CHECK(planned(r).workload.fp8_modules == Fp8Modules{Fp8Module::OutputHead});
  r.fp8_modules = "";
  SECTION("not with other graphs") {
    r.cuda_graph = "attn+moe_router";
    CHECK_FALSE(fuses());
    CHECK(planned(r).workload.fp8_modules == Fp8Modules::None);
  }
  SECTION("nor where rows are padded") {
    r.routing = "padded:1.0";
    CHECK_FALSE(fuses());
  }
  SECTION("nor in other formats") {
    r.precision = "fp8_current";
    CHECK_FALSE(fuses());
  }
  SECTION("nor where the row says which are fused") {
    r.fusions = "attention+router+permute";
    CHECK_FALSE(fuses());
  }
}

TEST_CASE("Megatron-FSDP reduces gradients in bf16 unless the row says otherwise") {
  RunRow r = row();
  r.stack = "Megatron-Core dev";
  r.gradient_dtype = "";
  CHECK(planned(r).workload.gradient_dtype == Dtype::Fp32);
  r.zero = 3;
  CHECK(planned(r).workload.gradient_dtype == Dtype::Bf16);
  r.gradient_dtype = "fp32";
  CHECK(planned(r).workload.gradient_dtype == Dtype::Fp32);
}

TEST_CASE("A row with all its flags becomes one pinned candidate") {
  const RunPlan p = planned(row());
  CHECK_FALSE(p.is_searched);
  CHECK(p.defaults == std::vector<std::string>{"layout with equal numbers of layers"});
  CHECK(p.approximations.empty());
  const Degrees& d = p.candidate.degrees;
  CHECK(d.pp == 4);
  CHECK(d.ep == 8);
  CHECK(d.dp == 64 / 4);
  CHECK(d.edp == 64 / 4 / 8);
  CHECK(p.candidate.micro_batch == 2);
  CHECK(p.microbatches(p.candidate) == 512 / (16 * 2));
  CHECK(p.candidate.layout.text() == "Ettttttttt|ttttttttt|ttttttttt|tttttttttL");
  CHECK(p.workload.gradient_dtype == Dtype::Bf16);
  CHECK(p.workload.optimizer_dtype == Dtype::Fp32);
  CHECK(p.workload.recompute == parse_recompute("layernorm+moe_act"));
  CHECK(p.candidate.all_to_all == "linear");
  CHECK(p.tokens() == 512.0 * 4096);
  CHECK(p.workload.expert_layout == ExpertLayout::Sorted);
}

TEST_CASE("A row may reduce gradients after the backward pass") {
  RunRow r = row();
  CHECK(planned(r).workload.overlap_gradients);
  r.overlap_gradients = 0;
  CHECK_FALSE(planned(r).workload.overlap_gradients);
  r.overlap_gradients = 1;
  CHECK(planned(r).workload.overlap_gradients);
  r.overlap_gradients.reset();
  r.stack = "Megatron-LM dev 2026-07";  // unless it is told --overlap-grad-reduce
  CHECK_FALSE(planned(r).workload.overlap_gradients);
  CHECK(has(planned(r).defaults, "overlap_gradients 0"));
  r.zero = 3;
  CHECK(planned(r).workload.overlap_gradients);
}

TEST_CASE("What a row leaves empty is its stack's default, and said") {
  RunRow r = row();
  r.zero.reset();
  r.tp.reset();
  r.gradient_dtype = r.recompute = r.dispatcher = "";
  const RunPlan p = planned(r);
  CHECK_FALSE(p.is_searched);
  for (const char* text : {"zero 1", "tp 1", "gradient_dtype bf16", "recompute none", "dispatcher nccl"}) {
    CAPTURE(text);
    CHECK(has(p.defaults, text));
  }
  SECTION("or what the planner chooses, where the stack has none") {
    r.micro_batch.reset();
    const RunPlan open = planned(r);
    CHECK(open.is_searched);
    CHECK(has(open.defaults, "micro_batch chosen by the planner"));
    CHECK(open.space.ep == 8);
  }
  SECTION("of an unknown stack every degree is open") {
    r.stack = "homemade";
    CHECK(has(planned(r).defaults, "tp chosen by the planner"));
  }
}

TEST_CASE("A dispatcher fixes the all-to-all of the plan and of its search") {
  RunRow r = row();
  for (const char* name : {"nccl", "allgather", "deepep", "hybridep", "mori", "fused"}) {
    CAPTURE(name);
    r.dispatcher = name;
    const RunPlan p = planned(r);
    CHECK(p.space.all_to_all == p.candidate.all_to_all);
    CHECK((p.candidate.all_to_all == "all_gather") == (r.dispatcher == "allgather"));
  }
}

TEST_CASE("A pipeline layout, padded routing and an MTP layer are taken as they are") {
  RunRow r = row();
  r.model = "deepseek-ai/DeepSeek-V3";
  r.pp = 2;
  r.vp = 8;
  r.layout = "Et*4|(t*4|)*14tmL";
  r.routing = "padded:1.5";
  const RunPlan p = planned(r);
  CHECK(p.workload.cuda_graphs == CudaGraphs::None);  // as the row says
  CHECK(p.candidate.virtual_stages == 8);
  CHECK(p.candidate.layout.mtp_layers() == 1);
  CHECK(p.workload.capacity_factor == 1.5);
}

TEST_CASE("CUDA graphs are those of the row; padded routing is for graphs of whole iterations") {
  RunRow r = row();
  r.cuda_graph = "attn+moe_router";
  CHECK(name_of(planned(r).workload.cuda_graphs) == "attn+moe_router");
  r.cuda_graph = "";
  CHECK(planned(r).workload.cuda_graphs == CudaGraphs::None);
  CHECK(has(planned(r).defaults, "cuda_graph none"));
  r.routing = "padded:1.0";
  CHECK(planned(r).workload.cuda_graphs == CudaGraphs::FullIteration);
  CHECK(has(planned(r).defaults, "cuda_graph full_iteration"));
  r.cuda_graph = "attn+moe_ruter";
  CHECK(refusal(r) == "cuda_graph: \"moe_ruter\" is not known; did you mean \"moe_router\"?");
}

TEST_CASE("Overlap of microbatches is pinned where the pipeline allows it") {
  RunRow r = row();
  r.ep_overlap = "1";
  CHECK_FALSE(planned(r).candidate.ep_overlap);
  CHECK(has(planned(r).approximations, "ep_overlap: none without interleaved pipeline stages"));
  r.pp = 1;
  CHECK(planned(r).candidate.ep_overlap);
  CHECK_FALSE(planned(r).candidate.delays_weight_gradients);
  CHECK(planned(r).approximations.empty());
  r.ep_overlap = "wgrad";
  CHECK(planned(r).candidate.delays_weight_gradients);
  r.ep_overlap = "all";
  CHECK(refusal(r) == "ep_overlap: \"all\" is not known; one of 0, 1, wgrad");
}

TEST_CASE("Natural routing has the loads that the row says") {
  RunRow r = row();
  r.routing = "natural:auxiliary_loss";
  const RunPlan by_stage = planned(r);
  CHECK(by_stage.workload.routing == RoutingScenario{.shape = RoutingShape::Lognormal, .lognormal_sigma = 0.19});
  CHECK(by_stage.approximations.empty());
  r.routing = "natural:1.7";
  CHECK(planned(r).workload.routing == RoutingScenario{.shape = RoutingShape::Lognormal, .max_load = 1.7});
  r.routing = "natural";
  CHECK(planned(r).workload.routing == RoutingScenario{});
  CHECK(planned(r).approximations == std::vector<std::string>{"routing natural: balanced, no loads are given"});
}

TEST_CASE("What cannot be expressed is refused with the column and the value") {
  const auto with = [](auto change) {
    RunRow r = row();
    change(r);
    return refusal(r);
  };
  CHECK(with([](RunRow& r) { r.dispatcher = "deepepp"; }) ==
        "dispatcher: \"deepepp\" is not known; did you mean \"deepep\"?");
  CHECK(with([](RunRow& r) { r.precision = "int4"; }).rfind("precision: \"int4\" is no", 0) == 0);
  CHECK(with([](RunRow& r) { r.routing = "padded"; }) ==
        "routing: \"padded\" is not known; one of forced, natural, natural:STAGE, natural:MAX_LOAD, padded:FACTOR");
  CHECK(with([](RunRow& r) { r.routing = "natural:aux_loss"; }) ==
        "routing.stage: \"aux_loss\" is not known; one of first_iteration, auxiliary_loss, loss_free");
  CHECK(with([](RunRow& r) { r.routing = "natural:0.5"; }) ==
        "routing.max_load: 0.5 is out of range; expected 1 to 1000000");
  CHECK(with([](RunRow& r) { r.routing = "padded:x"; }) ==
        "routing: \"padded:x\" has no capacity factor; expected e.g. padded:1.0");
  CHECK(with([](RunRow& r) { r.offload = "core_attn+expert_fc"; }) ==
        "offload: \"expert_fc\" is not known; did you mean \"expert_fc1\"?");
  CHECK(with([](RunRow& r) { r.ep_overlap = "2"; }) == "ep_overlap: \"2\" is not known; one of 0, 1, wgrad");
  CHECK(with([](RunRow& r) { r.recompute = "core_atn"; }) ==
        "recompute: \"core_atn\" is not known; did you mean \"core_attn\"?");
  CHECK(with([](RunRow& r) { r.layout = "Et|tL"; }) == "layout: 2 layers, the model has 36");
  CHECK(with([](RunRow& r) { r.ep = 48; }) == "ep, etp, pp: 48 x 1 x 4 does not divide the 64 GPUs");
  CHECK(with([](RunRow& r) { r.gradient_dtype = "fp8"; }).rfind("gradient_dtype: \"fp8\" is not known", 0) == 0);
  CHECK(with([](RunRow& r) { r.model = "nobody/nothing"; }) ==
        "model: \"nobody/nothing\" is no file and no Hugging Face id of configs/models");
}

}  // namespace moeplan::tests::run_plan_test
