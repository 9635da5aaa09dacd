#include "model/costs/memory.hpp"

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/toy_cluster.hpp"

using namespace moeplan;

namespace {

ModelSpec mixtral() {
  return read_model(
      load_document(std::filesystem::path(MOEPLAN_SOURCE_DIR) / "configs" / "models" / "mixtral_8x7b.yaml"));
}

Workload training() {
  Workload w{};
  w.name = "test";
  w.mode = Mode::Train;
  w.dtype = Dtype::Bf16;
  w.recompute = Recompute::None;
  w.optimizer = Optimizer::Adam;
  return w;
}

// Mixtral 8x7B by hand: 32 layers, hidden size 4096, 8 gated experts of 14336, 32 heads of 128 with 8 for keys and
// values, vocabulary 32000, embeddings not tied.
constexpr double kLayers = 32, kHidden = 4096;
constexpr double kExpert = 3 * kHidden * 14336;
constexpr double kAttention = kHidden * 4096 * 2 + kHidden * 1024 * 2;
constexpr double kDense = kLayers * (kAttention + 8 * kHidden + 2 * kHidden) + 2 * 32000 * kHidden + kHidden;

}  // namespace

TEST_CASE("a rank's parameters of Mixtral 8x7B") {
  SECTION("one GPU would hold all 46.7 billion") {
    const RankParameters p = rank_parameters(mixtral(), {});
    CHECK(p.dense == kDense);
    CHECK(p.expert == kLayers * 8 * kExpert);
    CHECK(p.dense + p.expert == Approx(46.7e9).epsilon(1e-3));
  }
  SECTION("tensor parallelism cuts the dense part, expert parallelism and sharding the experts") {
    const RankParameters p = rank_parameters(mixtral(), {.dp = 4, .tp = 2, .ep = 4, .esp = 2});
    CHECK(p.dense == kDense / 2);
    CHECK(p.expert == kLayers * 2 * kExpert / 2);
  }
  SECTION("where ranks do not divide the experts, of the rank that holds most") {
    CHECK(rank_parameters(mixtral(), {.dp = 3, .ep = 3}).expert == kLayers * 3 * kExpert);
  }
}

TEST_CASE("weights, gradients and optimizer states") {
  const Degrees degrees{.dp = 8, .tp = 2, .edp = 2, .ep = 8};
  const double dense = kDense / 2, expert = kLayers * kExpert;
  Workload w = training();
  SECTION("mixed precision Adam: 2 bytes of weights, 4 of gradients, 3 fp32 states a parameter") {
    const MemoryUse m = state_memory(mixtral(), w, degrees);
    CHECK(m.weights.value() == 2 * (dense + expert));
    CHECK(m.gradients.value() == 4 * (dense + expert));
    CHECK(m.optimizer.value() == 12 * (dense + expert));
    CHECK(m.total().value() == 18 * (dense + expert));
  }
  SECTION("ZeRO stage 1 divides the optimizer's states over the replicas of each part, and nothing else") {
    w.zero_stage = 1;
    const MemoryUse m = state_memory(mixtral(), w, degrees);
    CHECK(m.weights.value() == 2 * (dense + expert));
    CHECK(m.gradients.value() == 4 * (dense + expert));
    CHECK(m.optimizer.value() == Approx(12 * (dense / 8 + expert / 2)));
  }
  SECTION("in fp32 there is no master copy, and SGD has one moment") {
    w.dtype = Dtype::Fp32;
    CHECK(optimizer_states(w) == 2);
    w.optimizer = Optimizer::Sgd;
    CHECK(optimizer_states(w) == 1);
    CHECK(state_memory(mixtral(), w, degrees).weights.value() == 4 * (dense + expert));
  }
  SECTION("a prefill needs the weights alone") {
    w.mode = Mode::Forward;
    CHECK(state_memory(mixtral(), w, degrees).total().value() == 2 * (dense + expert));
  }
}

TEST_CASE("activations are what a forward block writes and its backward block reads first") {
  // forward: a -> kept, kept -> scratch. backward: reads kept; writes and then reads gradient.
  Program p = test::one_block(1);
  p.buffers = {
      {"a", 1, Dtype::Int8}, {"kept", 1, Dtype::Int8}, {"scratch", 1, Dtype::Int8}, {"gradient", 1, Dtype::Int8}};
  const auto slice = [](std::int32_t buffer, std::int64_t rows) { return Slice{BufferId(buffer), Rows::fixed(rows)}; };
  const auto step = [](Slice from, Slice to) {
    return Operation{.name = "step",
                     .op_class = OpClass::Norm,
                     .stream = Stream::Compute,
                     .work = Kernel::Norm,
                     .reads = {std::move(from)},
                     .writes = {std::move(to)},
                     .after = {}};
  };
  p.blocks.front().operations = {step(slice(0, 7), slice(1, 1000)), step(slice(1, 1000), slice(2, 300))};
  p.blocks.push_back({.name = "backward",
                      .operations = {step(slice(1, 1000), slice(3, 50)), step(slice(3, 50), slice(3, 50))},
                      .backward_of = BlockId(0)});
  // Two microbatches of five layers.
  const Sequence layers{{.block = {}, .count = 5, .body = {{.block = BlockId(0)}}},
                        {.block = {}, .count = 5, .body = {{.block = BlockId(1)}}}};
  p.stages.front() = {{.block = {}, .count = 2, .body = layers}};
  const MemoryUse m = memory_use(p, mixtral(), training(), {}, 2);
  CHECK(m.activations.value() == 5 * 1000);  // of one microbatch
  CHECK(m.working.value() == 300);           // of the largest block
  CHECK(m.weights == state_memory(mixtral(), training(), {}).weights);
}
