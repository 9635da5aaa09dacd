// Predicted training iterations against published ones.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <limits>

#include "model/transformer/hf_config.hpp"
#include "planner/plan/plan.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::end_to_end_test {

using namespace moeplan::planner;

namespace {

constexpr std::int64_t kSequence = 4096;

/// A training run that somebody published: bf16, dropless, 4096 tokens a sequence, Adam with Megatron's distributed
/// optimizer (ZeRO 1), on nodes of 8 H100 with NVLink and 8 NICs of 400 Gb/s.
struct PublishedRun {
  std::string name;
  std::filesystem::path model;
  Candidate candidate;
  std::int64_t global_batch;
  double tokens_per_s_per_gpu;
  Recompute recompute = Recompute::None;  // assumed where the source names none
  GateWeights gate_weights = GateWeights::AtSources;
  Dtype gradient_dtype = Dtype::Fp32;
};

/// The training FLOPs of a token by Megatron-LM's num_floating_point_operations as of Megatron-Core 0.9: every matrix
/// three times, attention over all pairs of tokens although half of them are masked, no recomputation. Of models whose
/// layers are all alike.
double megatron_flops_per_token(const ModelSpec& m, std::int64_t sequence_length) {
  const auto& a = std::get<HeadAttention>(m.attention);
  const auto& moe = std::get<Moe>(m.layers.front().pattern.front().ffn);
  const double h = static_cast<double>(m.hidden_size), layers = static_cast<double>(m.num_layers());
  const double queries_to_hidden = static_cast<double>(a.num_heads * a.head_dim) / h;
  const double attention = (1 + static_cast<double>(a.num_kv_heads) / static_cast<double>(a.num_heads) +
                            static_cast<double>(sequence_length) / h) *
                           queries_to_hidden;
  const double mlp =
      static_cast<double>(moe.expert.hidden_size) / h * static_cast<double>(moe.top_k) * (moe.expert.gated ? 1.5 : 1);
  const double logits = static_cast<double>(m.vocab_size) / (2 * layers * h);
  return 12 * layers * h * h * (attention + mlp + logits);
}

ModelSpec model_at(const std::filesystem::path& path) {
  const Node document = load_document(path);
  return is_hf_config(document) ? model_from_hf_config(document, path.stem()) : read_model(document);
}

Workload workload_of(const PublishedRun& run) {
  Workload w = read_workload(load_document(tests::kConfigs / "workloads/default.yaml"));
  w.global_batch = run.global_batch;
  w.sequence_length = kSequence;
  w.micro_batch = run.candidate.micro_batch;
  w.recompute = run.recompute;
  w.gate_weights = run.gate_weights;
  w.gradient_dtype = run.gradient_dtype;
  w.expert_layout = ExpertLayout::Sorted;  // Megatron-Core's all-to-all dispatcher
  return w;
}

/// By Megatron-Core's own formula, as it was published.
constexpr double kMixtralFlopsPerS = 468e12;

PublishedRun mixtral() {
  // Megatron-Core, megatron/core/transformer/moe/README.md at 022bcb5: 468 TFLOP/s with v0.9, and the mapping for which
  // it is given: 64 GPUs, TP 1 EP 8 PP 4 VP 8, micro batch 1, global batch 256, 4096 tokens, dropless, all-to-all,
  // distributed optimizer, gradient reduction and weight gathering beside computation.
  const std::filesystem::path model = tests::kConfigs / "models/mixtral_8x7b.yaml";
  return {.name = "Mixtral 8x7B",
          .model = model,
          .candidate = {.degrees = {.pp = 4, .dp = 16, .edp = 2, .ep = 8}, .micro_batch = 1, .virtual_stages = 8},
          .global_batch = 256,
          .tokens_per_s_per_gpu = kMixtralFlopsPerS / megatron_flops_per_token(model_at(model), kSequence)};
}

PublishedRun gpt_oss() {
  // Megatron-Bridge, docs/performance-summary-archive.md at 0a25f91, container 26.02, DGX-H100: 64 GPUs, TP 1 EP 8 PP
  // 4, micro batch 1, global batch 1280, 4096 tokens, BF16, dropless with forced balance. The recipe of that release:
  // all-to-all dispatcher, layernorm and moe_act recomputed, gradients in bf16; Megatron-Core 0.16 weighs in experts.
  return {.name = "GPT-OSS 120B",
          .model = MOEPLAN_SOURCE_DIR "/../shared/data/hf_configs/openai--gpt-oss-120b_config.json",
          .candidate = {.degrees = {.pp = 4, .dp = 16, .edp = 2, .ep = 8},
                        .micro_batch = 1,
                        .virtual_stages = 1,
                        .layout = even_layout(36, 0, 4)},
          .global_batch = 1280,
          .tokens_per_s_per_gpu = 5993,
          .recompute = {RecomputeModule::Layernorm, RecomputeModule::MoeActivation},
          .gate_weights = GateWeights::InExperts,
          .gradient_dtype = Dtype::Bf16};
}

Prediction predicted(const PublishedRun& run, const ClusterSpec& machine, const Workload& workload) {
  return predict({model_at(run.model), workload, build_cluster(machine, run.candidate.degrees.world())}, run.candidate);
}

/// Of predicted tokens/s over published ones; 0.1: predicted 10% too fast.
double error_of(const PublishedRun& run, const Prediction& p) {
  return p.tokens_per_s_per_gpu / run.tokens_per_s_per_gpu - 1;
}

/// What docs/published_cases.md shows of a prediction: with the option -s, or where a check fails.
std::string described(const PublishedRun& run, const Prediction& p) {
  std::string out = fmt::format(
      "{}: {:.0f} tokens/s a GPU predicted, {:.0f} published: {:+.1f}%; {:.3f} s an iteration", run.name,
      p.tokens_per_s_per_gpu, run.tokens_per_s_per_gpu, 100 * error_of(run, p), p.makespan.seconds().value());
  out += fmt::format("; ms on rank {}:", p.binding.rank.value());
  for (const ClassTime& c : p.binding.classes) {
    out += fmt::format(" {} {:.1f}", name_of<OpClass>(kOpClassNames, c.op_class), 1e3 * c.visible.value());
  }
  return out + fmt::format(" idle {:.1f}", 1e3 * p.binding.idle.value());
}

}  // namespace

TEST_CASE("Megatron's FLOPs of a token are the published formula's") {
  // Mixtral 8x7B by hand: 12 32 4096^2 (1 + 8/32 + 4096/4096 + 3.5 2 1.5 + 32000 / (2 32 4096)).
  const double expected = 12.0 * 32 * 4096 * 4096 * (1 + 0.25 + 1 + 10.5 + 32000.0 / (2 * 32 * 4096));
  const ModelSpec model = model_at(mixtral().model);
  CHECK(megatron_flops_per_token(model, kSequence) == Approx(expected));
}

// The ceilings below are what is reached, rounded up, so that no change makes the predictions worse unnoticed: a better
// model passes, whichever side of the published number it errs on, and then lowers its ceiling.
// docs/published_cases.md says what is known of the rest.

TEST_CASE("Mixtral 8x7B on 64 H100, as published for Megatron-Core") {
  constexpr double kCeiling = 0.15;
  const PublishedRun run = mixtral();
  const ClusterSpec machine = tests::load_cluster(tests::cluster_path("dgx_h100"));
  Workload workload = workload_of(run);
  workload.fusions =
      *parse_fusions("attention+router+cross_entropy");  // Megatron-Core 0.9 permutes by PyTorch's kernels
  const Prediction base = predicted(run, machine, workload);
  const double error = error_of(run, base);
  INFO(described(run, base));
  CHECK(std::abs(error) < kCeiling);

  // What may be missing makes iterations longer, and more of it even longer.
  const auto error_if = [&](const std::string& what, const ClusterSpec& m, const Workload& w) {
    const Prediction p = predicted(run, m, w);
    UNSCOPED_INFO(what << ": " << described(run, p));
    return error_of(run, p);
  };
  SECTION("if every GEMM reached the same share of the peak, the less the slower") {
    double last = std::numeric_limits<double>::infinity();
    for (const double efficiency : {0.7, 0.65, 0.6}) {
      ClusterSpec slower = machine;
      slower.gpu.operators.reset();  // shares of the peak price what kernels do not
      slower.gpu.gemm_efficiency = {{1, efficiency}};
      slower.gpu.grouped_gemm_efficiency.reset();
      const double now = error_if(fmt::format("every GEMM at {} of the peak", efficiency), slower, workload);
      CHECK(now < last);
      last = now;
    }
  }
  SECTION("if loads were unequal, the same for all layers") {
    double last = error;
    for (const double sigma : {0.1, 0.2}) {
      Workload skewed = workload;
      skewed.routing.shape = RoutingShape::Lognormal;
      skewed.routing.lognormal_sigma = sigma;
      const double now = error_if(fmt::format("lognormal loads, sigma {}", sigma), machine, skewed);
      CHECK(now < last);
      last = now;
    }
  }
  SECTION("if launches took longer") {
    ClusterSpec launches = machine;
    launches.gpu.launch_overhead = Seconds(10e-6);
    CHECK(error_if("10 us a kernel launch", launches, workload) < error);
  }
  SECTION("if attention reached less of the peak") {
    ClusterSpec shares = machine, slow_attention;
    shares.gpu.operators.reset();
    slow_attention = shares;
    slow_attention.gpu.attention_efficiency = 0.45;
    CHECK(error_if("attention at 0.45 of the peak", slow_attention, workload) <
          error_if("every kernel by its share of the peak", shares, workload));
  }
}

TEST_CASE("GPT-OSS 120B on 64 H100, as published for Megatron-Bridge") {
  const PublishedRun run = gpt_oss();
  if (!std::filesystem::exists(run.model)) {
    WARN("skipped: no configurations at ../shared/data/hf_configs");
    return;
  }
  constexpr double kCeiling = 0.05;
  const Prediction p = predicted(run, tests::load_cluster(tests::cluster_path("dgx_h100")), workload_of(run));
  INFO(described(run, p));
  CHECK(std::abs(error_of(run, p)) < kCeiling);
}

TEST_CASE("DeepSeek-V3 on 2,048 H800, as published: GPU hours of a trillion tokens") {
  // DeepSeek-V3 Technical Report, sec. 1: 180,000 H800 hours for each trillion tokens; sec. 2.2: one layer of
  // multi-token prediction; sec. 3.2: 2,048 GPUs, PP 16, EP 64 over 8 nodes with at most 4 a token, ZeRO 1, DualPipe,
  // the first and the last layers on one stage, norms, up-projections and SwiGLU recomputed; sec. 3.3: fp8 in blocks,
  // inputs of SwiGLU in fp8, moments in bf16, rows dispatched in fp8, combined in bf16; sec. 4.2: 15,360 sequences. Two
  // parts of a V with overlap represent DualPipe. assumed: at most two layers a part, the operations of a pair of
  // microbatches in the order that the search finds, the host launches fast enough, micro batch 1.
  constexpr double kCeiling = 0.07,
                   kExposedCeiling = 0.08;  // 0.03 in their recorded trace of four layers, which has no pipeline
  PublishedRun run{.name = "DeepSeek-V3",
                   .model = tests::kConfigs / "models/deepseek_v3.yaml",
                   .candidate = {.degrees = {.pp = 16, .dp = 128, .edp = 2, .ep = 64},
                                 .all_to_all = "deepep",
                                 .codec = {.dispatch = WireFormat::Fp8Block, .combine = std::nullopt},
                                 .order = OperationOrder::Searched,
                                 .micro_batch = 1,
                                 .virtual_stages = kPartsOfV,
                                 .pipeline = PipelineShape::V,
                                 .layout = std::get<PipelineLayout>(parse_layout("Et|(tt|)*30mL")),
                                 .ep_overlap = true,
                                 .delays_weight_gradients = true},
                   .global_batch = 15360,
                   .tokens_per_s_per_gpu = 1e12 / (180e3 * 3600),
                   .gate_weights = GateWeights::InExperts};
  Workload w = workload_of(run);
  w.recompute = run.candidate.recompute = *parse_recompute("layernorm+mla_up_proj+moe_act");
  w.precision = Precision::Fp8Block;
  w.fp8_activation_inputs = true;
  w.codecs.allowed = {WireFormat::Fp8Block};
  w.optimizer_dtype = Dtype::Bf16;
  w.cuda_graphs = CudaGraphs::FullIteration;
  const ClusterSpec machine = tests::load_cluster(tests::cluster_path("dgx_h800"));
  const Prediction p = predicted(run, machine, w);
  INFO(described(run, p) << fmt::format("; {:.0f} GPU hours a trillion tokens", 1e12 / p.tokens_per_s_per_gpu / 3600));
  CHECK(std::abs(error_of(run, p)) < kCeiling);
  CHECK(p.memory.total() <= machine.gpu.memory);
  for (const RankTime& stage : p.stages) {
    // Of the time in which the stage does not wait for others.
    const double exposed =
        (stage.exposed(OpClass::Dispatch) + stage.exposed(OpClass::Combine)) / (p.makespan.seconds() - stage.waiting);
    UNSCOPED_INFO(fmt::format("rank {}: {:.1f}% exposed exchanges", stage.rank.value(), 100 * exposed));
    CHECK(exposed < kExposedCeiling);
  }
}

TEST_CASE("DeepSeek-V3 on 256 GB200, optimised step by step, as published") {
  // NVIDIA, docs/discussions/deepseek-v3-gb200-optimization in Megatron-LM eb0783b, section 3: TFLOP/s of a GPU after
  // each of 13 cumulative steps, at 249.812 GFLOP a token. Step 2 also made a kernel faster that permutes rows. Its
  // steps 8 and 12 bind processes to processors, by how much is not published: 20% here. Step 10, that graphs capture
  // the shared expert, cannot be said: moe_router always does.
  struct Step {
    std::string all_to_all, recompute, graphs, fusions;
    double host;      // of the time of an operation on the host
    double measured;  // TFLOP/s of a GPU
  };
  const std::string graphs = "attn+moe_router+moe_preprocess", first = "mlp+mla_up_proj", later = "mlp+moe_act";
  const std::string one = "attention+permute+cross_entropy", two = one + "+router+scale_buffers";
  const std::string three = two + "+scale_swizzle", all = three + "+norm_quantise";
  const std::vector<Step> steps{{"linear", first, "none", one, 1, 494.46},
                                {"linear", first, "none", one + "+scale_buffers", 1, 529.55},
                                {"linear", first, "none", two, 1, 540.00},
                                {"deepep", first, "none", two, 1, 566.07},
                                {"deepep", later, "none", two, 1, 610.71},
                                {"deepep", later, graphs, two, 1, 691.49},  // and DeepEP tuned
                                {"deepep", later, graphs, two, 0.8, 762.12},
                                {"deepep", later, graphs, three, 0.8, 829.93},  // and the shared expert captured
                                {"hybridep", later, graphs, three, 0.8, 943.56},
                                {"hybridep", later, graphs, three, 0.64, 956.21},
                                {"hybridep", later, graphs, all, 0.64, 970.01}};
  constexpr double kFlopsPerToken = 249.812e9, kCeiling = 0.24;
  ClusterSpec machine = tests::load_cluster(tests::cluster_path("gb200_nvl72"));
  // Of a rack's 72 GPUs, 64 are used.
  auto& rack = std::get<ClusterTemplate>(machine.machine);
  rack.gpus_per_node = rack.fabric->nics_per_node = 64;
  double before = std::numeric_limits<double>::infinity();
  for (const Step& step : steps) {
    PublishedRun run{.name = step.all_to_all + " " + step.recompute + " " + step.graphs + " " + step.fusions,
                     .model = tests::kConfigs / "models/deepseek_v3.yaml",
                     .candidate = {.degrees = {.pp = 8, .dp = 32, .edp = 1, .ep = 32},
                                   .all_to_all = step.all_to_all,
                                   .micro_batch = 1,
                                   .virtual_stages = 4,
                                   .layout = std::get<PipelineLayout>(parse_layout("Et|(tt|)*30L"))},
                     .global_batch = 2048,
                     .tokens_per_s_per_gpu = step.measured * 1e12 / kFlopsPerToken,
                     .recompute = *parse_recompute(step.recompute),
                     .gate_weights = GateWeights::InExperts};
    run.candidate.recompute = run.recompute;
    Workload w = workload_of(run);
    if (step.all_to_all == "hybridep") w.expert_layout = ExpertLayout::Merged;
    w.precision = Precision::Mxfp8;
    w.optimizer_dtype = Dtype::Bf16;
    w.cuda_graphs = *parse_cuda_graphs(step.graphs);
    w.fusions = *parse_fusions(step.fusions);
    ModelSpec model = model_at(run.model);
    model.num_mtp_layers = 0;
    ClusterSpec host = machine;
    host.gpu.host_time_per_operation = host.gpu.host_time_per_operation * step.host;
    const Prediction p = predict({model, w, build_cluster(host, run.candidate.degrees.world())}, run.candidate);
    INFO(described(run, p));
    CHECK(p.makespan.seconds().value() < before);
    CHECK(std::abs(error_of(run, p)) < kCeiling);
    before = p.makespan.seconds().value();
  }
}

}  // namespace moeplan::tests::end_to_end_test
