#include "planner/plan/layer_case.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

namespace moeplan::tests::layer_case_test {

using namespace moeplan::planner;

namespace {

ModelSpec model() {
  ModelSpec m{};
  m.name = "m";
  m.hidden_size = 1000;
  const Ffn none{0, false, false};
  m.layers = {{2, {{0, Ffn{64, true, false}}}}, {3, {{0, Moe{64, 8, {512, true, false}, none, false, false}}}}};
  return m;
}

Workload workload() {
  Workload w{};
  w.name = "w";
  w.global_batch = 64;
  w.sequence_length = 100;
  w.mode = Mode::Train;
  w.dtype = Dtype::Bf16;
  w.recompute = Recompute::None;
  w.optimizer = Optimizer::Adam;
  return w;
}

Candidate candidate() {
  Candidate c;
  c.degrees = {.pp = 4, .dp = 16, .cp = 1, .tp = 2, .edp = 1, .ep = 16, .esp = 2};
  c.micro_batch = 2;
  c.virtual_stages = 2;
  return c;
}

LayerCase layer(std::optional<std::int64_t> index = {}) {
  return layer_case(model(), workload(), candidate(), 8, index);
}

}  // namespace

TEST_CASE("The layer of a plan that is executed") {
  SECTION("is the first one with experts, on one stage, because pipelines and replicas are not what is compared") {
    const LayerCase c = layer();
    CHECK(c.ranks() == 32);  // lcm(tp 2, ep 16 x esp 2)
    CHECK(c.candidate.degrees == Degrees{.pp = 1, .dp = 16, .cp = 1, .tp = 2, .edp = 1, .ep = 16, .esp = 2});
    CHECK(c.tokens == 2 * 100);
    CHECK(c.tokens_of_source() == 100);
    CHECK(c.moe.num_experts == 64);
    CHECK(c.candidate.virtual_stages == 1);
  }
  SECTION("has as many ranks as tensor-parallel groups need to be whole") {
    Candidate c = candidate();
    c.degrees = {.pp = 1, .dp = 1, .cp = 1, .tp = 4, .edp = 2, .ep = 2, .esp = 1};
    CHECK(layer_case(model(), workload(), c, 8, std::nullopt).ranks() == 4);
  }
  SECTION("may be chosen") {
    CHECK(layer(4).moe.num_experts == 64);
    CHECK_THROWS_WITH(layer(1), Catch::Contains("layer 1 of m has no experts"));
    CHECK_THROWS_WITH(layer(5), Catch::Contains("m has layers 0 to 4, not 5"));
    ModelSpec dense = model();
    dense.layers.pop_back();
    CHECK_THROWS_WITH(layer_case(dense, workload(), candidate(), 8, std::nullopt),
                      Catch::Contains("m has no layer with experts"));
  }
  SECTION("is shrunk with as many experts a rank as before") {
    const LayerCase c = scaled(layer(), 8);
    CHECK(c.ranks() == 4);
    CHECK(c.candidate.degrees.ep == 2);
    CHECK(c.moe.num_experts == 8);
    CHECK(c.moe.top_k == 8);
    CHECK(c.hidden_size == 128);  // 125, rounded up to zfp's blocks of 4
    CHECK(c.moe.expert.hidden_size == 64);
    CHECK(c.tokens == 26);  // 25, rounded up to the tensor-parallel ranks
    CHECK(scaled(layer(), 1) == layer());
    CHECK_THROWS_WITH(scaled(layer(), 3), Catch::Contains("3 does not divide the plan's expert-parallel size 16"));
  }
  SECTION("reads back as it was written") {
    CHECK(read_layer_case(layer_case_document(layer())) == layer());
    Node broken = layer_case_document(layer());
    broken.set("surprise", Node::integer(1));
    CHECK_THROWS_WITH(read_layer_case(broken), Catch::Contains("surprise"));
  }
  SECTION("is refused where it cannot be lowered") {
    LayerCase c = layer();
    c.candidate.codec = *parse_codec_pair("int8");
    CHECK_THROWS_WITH(lower(c), Catch::Contains("cannot be lowered"));
  }
}

TEST_CASE("Hosts receive an expert's rows of all sources together; on GPUs a kernel puts them in order") {
  const auto layout = GENERATE(ExpertLayout::Merged, ExpertLayout::Sorted);
  Workload planned = workload();
  planned.expert_layout = layout;
  const LayerCase as_planned = layer_case(model(), planned, candidate(), 8, {});
  const auto sorts = [](const LayerCase& layer) {
    const Program program = lower(as_executed(layer, true));
    std::int64_t count = 0;
    for (const Block& block : program.blocks) {
      count += std::count_if(block.operations.begin(), block.operations.end(), [](const Operation& o) {
        const auto* kernel = std::get_if<Kernel>(&o.work);
        return kernel != nullptr && *kernel == Kernel::SortRows;
      });
    }
    return count;
  };
  CHECK(lower(as_executed(as_planned, /*on_gpus=*/false)) == lower(layer()));
  CHECK(sorts(as_planned) == 4);  // before and after the experts, forward and backward
  planned.expert_layout = ExpertLayout::BySource;
  CHECK(as_executed(layer_case(model(), planned, candidate(), 8, {}), true).workload.expert_layout ==
        ExpertLayout::BySource);
}

TEST_CASE("A training step of a plan's layer") {
  ModelSpec m = model();
  std::get<Moe>(m.layers[1].pattern[0].ffn).shared = {256, true, false};
  std::get<Moe>(m.layers[1].pattern[0].ffn).shared_gate = true;
  Workload w = workload();
  Candidate c = candidate();
  c.degrees.dp = 32, c.degrees.edp = 2;
  const auto step = [&] { return layer_step_case(m, w, c, 8, {}); };
  SECTION("is on all ranks of a pipeline stage, and has the shared experts that the layer alone has not") {
    const LayerCase s = step();
    CHECK(s.is_step);
    CHECK(s.ranks() == 64);
    CHECK(s.candidate.degrees == Degrees{.pp = 1, .dp = 32, .cp = 1, .tp = 2, .edp = 2, .ep = 16, .esp = 2});
    CHECK(s.moe.shared.hidden_size == 256);
    CHECK(s.norm == Norm::Rms);
    CHECK(layer_case(m, w, c, 8, {}).norm == std::nullopt);
    CHECK(layer_case(m, w, c, 8, {}).moe.shared.hidden_size == 0);
    CHECK(read_layer_case(layer_case_document(s)) == s);
    CHECK(layer_text(s) == "64 experts, 8 per token, 1000 x 512 gated, shared expert of 256, 100 tokens per rank");
  }
  SECTION("has the model's norm, unless it is not that of the rows of experts") {
    m.norm = Norm::Layer;
    CHECK(step().norm == Norm::Layer);
    CHECK(read_layer_case(layer_case_document(step())) == step());
    m.residual_streams = 4;
    CHECK(step().norm == std::nullopt);
    CHECK(left_out(m, step(), {}).at(1) == "norms");
    m.residual_streams = 1;
    std::get<Moe>(m.layers[1].pattern[0].ffn).latent_size = 500;
    CHECK(step().norm == std::nullopt);
  }
  SECTION("counts ranks of one sequence as replicas") {
    c.degrees = {.pp = 1, .dp = 16, .cp = 4, .tp = 2, .edp = 4, .ep = 16, .esp = 2};
    CHECK(step().candidate.degrees.dp == 64);
  }
  SECTION("is shrunk with as many replicas as before") {
    const LayerCase s = scaled(step(), 8);
    CHECK(s.candidate.degrees == Degrees{.pp = 1, .dp = 4, .cp = 1, .tp = 2, .edp = 2, .ep = 2, .esp = 2});
    CHECK(s.moe.shared.hidden_size == 32);
  }
  SECTION("is refused where executors compute something else, or where it is not there") {
    w.dtype = Dtype::Fp32, w.gradient_dtype = Dtype::Bf16;
    CHECK_THROWS_WITH(step(), Catch::Contains("--step: gradients in bf16 of weights in fp32 are not executed; try -C "
                                              "workload.gradient_dtype=fp32"));
    w.dtype = Dtype::Bf16;
    w.optimizer_dtype = Dtype::Bf16;
    CHECK_THROWS_WITH(step(), Catch::Contains("moments in 16 bits are not executed"));
    w.optimizer_dtype = Dtype::Fp32;
    w.fp8_activation_inputs = true;
    CHECK_THROWS_WITH(step(), Catch::Contains("inputs of activation functions in fp8 are not executed"));
    w.fp8_activation_inputs = false;
    w.mode = Mode::Forward;
    CHECK_THROWS_WITH(step(), Catch::Contains("needs a workload that trains"));
    w.mode = Mode::Train;
    c.expert_places.resize(1);
    CHECK_THROWS_WITH(step(), Catch::Contains("does not go with placed experts"));
    c.expert_places.clear();
    c.degrees = {.pp = 1, .dp = 1, .cp = 1, .tp = 4, .edp = 1, .ep = 2, .esp = 1};
    CHECK_THROWS_WITH(step(), Catch::Contains("2 ranks are no multiple of tp 4"));
  }
  SECTION("leaves out by name what is not executed") {
    CHECK(left_out(m, step(), {}) ==
          std::vector<std::string>{"attention with its norm and weights", "gate of the shared experts"});
    CHECK(left_out(m, layer_case(m, w, c, 8, {}), {}) ==
          std::vector<std::string>{"attention and its weights", "norms", "residual stream", "shared experts",
                                   "gate of the shared experts", "reduction of gradients", "optimizer"});
  }
}

TEST_CASE("What tokens ask for before a gate drops any") {
  LayerCase c = scaled(layer(), 8);
  SECTION("is spread evenly behind a capacity factor, because its routing is not known") {
    c.workload.capacity_factor = 1.5;
    const Program program = lower(c);
    const RoutingCounts asked = asked_counts(c, program);
    std::int64_t sum = 0;
    for (std::int32_t e = 0; e < 8; ++e) {
      sum += asked.at(RankId(0), ExpertId(e));
      CHECK(asked.at(RankId(0), ExpertId(e)) <= program.routings.front().counts.at(RankId(0), ExpertId(e)));
    }
    CHECK(sum == c.moe.top_k * c.tokens_of_source());
  }
  SECTION("is the scenario's counts else") {
    const Program program = lower(c);
    CHECK(asked_counts(c, program) == program.routings.front().counts);
  }
}

}  // namespace moeplan::tests::layer_case_test
