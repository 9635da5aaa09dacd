#include "planner/lowering/blocks/launches.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "planner/lowering/lower.hpp"
#include "tests/support/small_layers.hpp"

namespace moeplan::tests::launches_test {

using namespace moeplan::planner;

namespace {

/// An MoE layer of 8 experts with a shared one, on two expert-parallel ranks.
Program lowered(CudaGraphs graphs, Mode mode = Mode::Train, std::optional<Precision> precision = {},
                std::optional<double> capacity_factor = {}) {
  ModelSpec model{};
  model.vocab_size = 128;
  model.hidden_size = 64;
  model.attention =
      HeadAttention{.num_heads = 2, .num_kv_heads = 2, .head_dim = 32, .bias = false, .qk_norm = false, .sinks = false};
  Moe moe = small_layers::moe(8, /*gated=*/true);
  moe.shared = {128, true, false};
  model.layers = {{1, {LayerSpec{.attention_window = 0, .ffn = moe}}}};
  Workload w = small_layers::workload(capacity_factor, mode);
  w.global_batch = 2;
  w.dtype = Dtype::Bf16;
  w.precision = precision;
  w.cuda_graphs = graphs;
  const Candidate c = small_layers::candidate("baseline", 2, 1, 2, 1);
  return lower_iteration(model, w, c, 2);
}

const Block& block(const Program& program, const std::string& name) {
  const auto it = std::find_if(program.blocks.begin(), program.blocks.end(),
                               [&](const Block& b) { return b.name.starts_with(name); });
  if (it == program.blocks.end()) FAIL("no block " << name);
  return *it;
}

/// By the host for a block; none without a host.
std::optional<std::int64_t> launched(const Block& block) {
  for (const Operation& operation : block.operations) {
    const auto* launches = std::get_if<Launches>(&operation.work);
    if (launches && operation.stream == Stream::Host) return launches->operations;
  }
  return std::nullopt;
}

std::int64_t count(const Block& block, OpClass op_class) {
  return std::count_if(block.operations.begin(), block.operations.end(),
                       [&](const Operation& operation) { return operation.op_class == op_class; });
}

}  // namespace

TEST_CASE("The host launches every operation of a block in training") {
  const Program p = lowered(CudaGraphs::None);
  for (const char* name : {"moe layer", "moe layer 0 backward", "output head"}) {
    CAPTURE(name);
    const Block& b = block(p, name);
    const auto others = std::count_if(b.operations.begin(), b.operations.end(), [](const Operation& operation) {
      return std::holds_alternative<Wait>(operation.work) || std::holds_alternative<Launches>(operation.work);
    });
    CHECK(launched(b) == static_cast<std::int64_t>(b.operations.size()) - others);
  }
  SECTION("but not those of a forward pass, which is served by other frameworks") {
    for (const Block& b : lowered(CudaGraphs::None, Mode::Forward).blocks) CHECK_FALSE(launched(b));
  }
  SECTION("casts too, with the scales of their tensors") {
    const auto more = [&](Precision precision) {
      const Program casts = lowered(CudaGraphs::None, Mode::Train, precision);
      return *launched(block(casts, "moe layer")) - *launched(block(p, "moe layer"));
    };
    CHECK(more(Precision::Mxfp8) == 6);  // attention's, the shared expert's and the experts' two products each
    CHECK(more(Precision::Fp8Current) == 6);
  }
}

TEST_CASE("A captured module launches nothing") {
  const Program none = lowered(CudaGraphs::None);
  const std::int64_t all = *launched(block(none, "moe layer"));
  const auto saved = [&](CudaGraphs graphs) { return all - launched(block(lowered(graphs), "moe layer")).value_or(0); };
  const Block& b = block(none, "moe layer");
  CHECK(saved({GraphModule::Attention}) ==
        count(b, OpClass::Attention) + count(b, OpClass::Norm) + count(b, OpClass::TensorParallel));
  CHECK(saved({GraphModule::MoeRouter}) == count(b, OpClass::Gate) + count(b, OpClass::SharedExpert));
  CHECK(saved({GraphModule::MoePreprocess}) == 1);  // encode
  CHECK(saved({GraphModule::Mlp}) == 0);            // the layer has no dense FFN
  CHECK(saved({GraphModule::Attention, GraphModule::Moe}) == all - 0 - count(b, OpClass::WeightGather));
  SECTION("and the graph of an iteration contains everything, the optimizer too") {
    for (const Block& captured : lowered(CudaGraphs::FullIteration).blocks) CHECK_FALSE(launched(captured));
  }
}

TEST_CASE("A module that is recomputed is an operation more in each direction, for its checkpoint") {
  ModelSpec model{};
  model.attention =
      HeadAttention{.num_heads = 2, .num_kv_heads = 2, .head_dim = 32, .bias = false, .qk_norm = false, .sinks = false};
  const LayerSpec moe{.attention_window = 0, .ffn = small_layers::moe(8, /*gated=*/true)};
  const LayerSpec dense{.attention_window = 0, .ffn = Ffn{128, true, false}};
  const Recompute norms_and_activation{RecomputeModule::Layernorm, RecomputeModule::MoeActivation};
  CHECK(checkpoints(model, moe, Recompute::None, CudaGraphs::None) == 0);
  CHECK(checkpoints(model, moe, norms_and_activation, CudaGraphs::None) == 3);
  CHECK(checkpoints(model, dense, norms_and_activation, CudaGraphs::None) == 2);
  CHECK(checkpoints(model, dense, {RecomputeModule::Mlp, RecomputeModule::Moe}, CudaGraphs::None) == 1);
  CHECK(checkpoints(model, moe, Recompute::Full, CudaGraphs::None) == 1);
  CHECK(checkpoints(model, moe, {RecomputeModule::MlaUpProjection}, CudaGraphs::None) == 0);  // no latents
  SECTION("but not where a graph captures it") {
    CHECK(checkpoints(model, moe, norms_and_activation, {GraphModule::Attention}) == 2);
    CHECK(checkpoints(model, moe, norms_and_activation, {GraphModule::Attention, GraphModule::MoeRouter}) == 1);
    CHECK(checkpoints(model, moe, norms_and_activation, CudaGraphs::FullIteration) == 0);
  }
}

TEST_CASE("The GPU waits until the host has read the loads and launched the dispatch") {
  const auto reading = [](const Program& p) {
    std::optional<std::size_t> at;
    const Block& b = block(p, "moe layer");
    for (std::size_t i = 0; i < b.operations.size(); ++i) {
      if (b.operations[i].name == "read loads") at = i;
    }
    if (at) {
      CHECK(b.operations[*at].stream == Stream::Compute);
      CHECK(b.operations[*at + 1].op_class == OpClass::Dispatch);
      CHECK(b.operations[*at + 1].after == std::vector<std::int32_t>{static_cast<std::int32_t>(*at)});
    }
    return at.has_value();
  };
  CHECK(reading(lowered(CudaGraphs::None)));
  CHECK(reading(lowered({GraphModule::MoeRouter, GraphModule::MoePreprocess})));
  CHECK_FALSE(reading(lowered(CudaGraphs::FullIteration)));
  CHECK_FALSE(reading(lowered(CudaGraphs::None, Mode::Forward)));
  CHECK_FALSE(reading(lowered(CudaGraphs::None, Mode::Train, {}, /*capacity_factor=*/1.0)));
}

TEST_CASE("The optimizer handles each weight tensor, of each local expert") {
  const Program p = lowered(CudaGraphs::None);
  // qkv, attention's output, gate; up (with the gate's half) and down of the shared expert and of 8 / 2 experts; head.
  const std::int64_t tensors = 3 + 2 + 2 * (8 / 2) + 1;
  CHECK(launched(block(p, "optimizer")) == tensors);
}

}  // namespace moeplan::tests::launches_test
