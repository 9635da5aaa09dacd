#include "model/costs/memory.hpp"

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::memory_test {

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

/// All of the model on one stage.
StageParameters whole(const Degrees& degrees) {
  const ModelSpec model = mixtral();
  StageParameters stage;
  stage.all = embedding_parameters(model, degrees);
  for (const RepeatedLayers& run : model.layers) {
    for (std::int64_t i = 0; i < run.repeat; ++i) {
      for (const LayerSpec& layer : run.pattern) stage.all += layer_parameters(model, layer, degrees);
    }
  }
  stage.all += head_parameters(model, degrees, /*has_embedding=*/true);
  stage.largest = layer_parameters(model, model.layers.front().pattern.front(), degrees);
  return stage;
}

MemoryUse states(const Workload& workload, const Degrees& degrees) {
  return state_memory(whole(degrees), workload, degrees);
}

/// One byte a row.
Slice rows_of(std::int32_t buffer, std::int64_t rows) { return {BufferId(buffer), Rows::fixed(rows)}; }

Operation step(Slice from, Slice to) {
  return {.name = "step",
          .op_class = OpClass::Norm,
          .stream = Stream::Compute,
          .work = Kernel::Norm,
          .reads = {std::move(from)},
          .writes = {std::move(to)},
          .after = {}};
}

/// Forward: a -> kept (1000 bytes), kept -> scratch (300). Backward: reads kept; writes and then reads gradient.
Program forward_and_backward() {
  Program p = tests::one_block(1);
  p.buffers = {
      {"a", 1, Dtype::Int8}, {"kept", 1, Dtype::Int8}, {"scratch", 1, Dtype::Int8}, {"gradient", 1, Dtype::Int8}};
  p.blocks.front().operations = {step(rows_of(0, 7), rows_of(1, 1000)), step(rows_of(1, 1000), rows_of(2, 300))};
  p.blocks.push_back({.name = "backward",
                      .operations = {step(rows_of(1, 1000), rows_of(3, 50)), step(rows_of(3, 50), rows_of(3, 50))},
                      .backward_of = BlockId(0)});
  p.stages.front().clear();
  return p;
}

MemoryUse blocks_alone(const Program& p) {
  return memory_use(p, std::vector<StageParameters>(p.stages.size()), training(), {});
}

Step repeat(std::int64_t count, Sequence body) { return {.block = {}, .count = count, .body = std::move(body)}; }

const Step kForward{.block = BlockId(0)}, kBackward{.block = BlockId(1)};

}  // namespace

TEST_CASE("a rank's parameters of Mixtral 8x7B") {
  SECTION("one GPU would hold all 46.7 billion") {
    const UnitParameters p = whole({}).all;
    CHECK(p.dense == kDense);
    CHECK(p.expert == kLayers * 8 * kExpert);
    CHECK(p.dense + p.expert == Approx(46.7e9).epsilon(1e-3));
  }
  SECTION("tensor parallelism cuts the dense part, expert parallelism and sharding the experts") {
    const UnitParameters p = whole({.dp = 4, .tp = 2, .ep = 4, .esp = 2}).all;
    CHECK(p.dense == kDense / 2);
    CHECK(p.expert == kLayers * 2 * kExpert / 2);
  }
  SECTION("where ranks do not divide the experts, of the rank that holds most") {
    CHECK(whole({.dp = 3, .ep = 3}).all.expert == kLayers * 3 * kExpert);
  }
  SECTION("the embedding and the output head are units of their own") {
    CHECK(head_parameters(mixtral(), {.dp = 4, .tp = 2, .ep = 8}, true).dense == 32000 * kHidden / 2);
    // With the final norm.
    CHECK(embedding_parameters(mixtral(), {}).dense == 32000 * kHidden + kHidden);
  }
}

TEST_CASE("weights, gradients and optimizer states") {
  const Degrees degrees{.dp = 8, .tp = 2, .edp = 2, .ep = 8};
  const double dense = kDense / 2, expert = kLayers * kExpert;
  // The shares of a replica; every replica holds the same dense parameters on dp ranks, the same experts on edp.
  const double shares = dense / 8 + expert / 2;
  Workload w = training();
  SECTION("mixed precision Adam: 2 bytes of weights, 4 of gradients, 3 fp32 states a parameter") {
    const MemoryUse m = states(w, degrees);
    CHECK(m.weights.value() == 2 * (dense + expert));
    CHECK(m.gradients.value() == 4 * (dense + expert));
    CHECK(m.optimizer.value() == 12 * (dense + expert));
    CHECK(m.total().value() == 18 * (dense + expert));
  }
  SECTION("ZeRO stage 1 divides the optimizer's states over the replicas of each part, and nothing else") {
    w.zero_stage = 1;
    const MemoryUse m = states(w, degrees);
    CHECK(m.weights.value() == 2 * (dense + expert));
    CHECK(m.gradients.value() == 4 * (dense + expert));
    CHECK(m.optimizer.value() == Approx(12 * shares));
  }
  SECTION("ZeRO stage 2 divides the gradients too") {
    w.zero_stage = 2;
    const MemoryUse m = states(w, degrees);
    CHECK(m.weights.value() == 2 * (dense + expert));
    CHECK(m.gradients.value() == Approx(4 * shares));
    CHECK(m.optimizer.value() == Approx(12 * shares));
  }
  const double layer = (kAttention + 8 * kHidden + 2 * kHidden) / 2 * 7 / 8 + kExpert / 2;  // the others' shares of it
  SECTION("ZeRO stage 3 divides the weights too, but for two layers that are gathered, and gradients of one") {
    w.zero_stage = 3;
    const MemoryUse m = states(w, degrees);
    CHECK(m.weights.value() == Approx(2 * (shares + 2 * layer)));
    CHECK(m.gradients.value() == Approx(4 * (shares + layer)));
    CHECK(m.optimizer.value() == Approx(12 * shares));
  }
  SECTION("FSDP2: weights in fp32 only, a layer copied out of two buffers, its gradients into one") {
    w.zero_stage = 3;
    w.main_weights = MainWeights::Only;
    const MemoryUse m = states(w, degrees);
    CHECK(m.weights.value() == Approx(4 * shares + 2 * 3 * layer));
    CHECK(m.gradients.value() == Approx(4 * shares + (4 + 2) * layer));
    CHECK(m.optimizer.value() == Approx(8 * shares));
  }
  SECTION("all in 16 bits, without main weights") {
    w.main_weights = MainWeights::None;
    w.gradient_dtype = w.optimizer_dtype = Dtype::Bf16;
    const MemoryUse m = states(w, degrees);
    CHECK(m.total().value() == (2 + 2 + 2 * 2) * (dense + expert));
  }
  SECTION("context-parallel ranks are replicas of the dense part") {
    w.zero_stage = 2;
    const Degrees cut{.dp = 4, .cp = 2, .tp = 2, .edp = 2, .ep = 8};
    CHECK(states(w, cut).gradients == states(w, degrees).gradients);
  }
  SECTION("moments in 16 bits: the master copy has the 2 bytes that weights lack, all 4 with products in 8 bits") {
    w.optimizer_dtype = Dtype::Bf16;
    CHECK(states(w, degrees).optimizer.value() == (2 + 2 * 2) * (dense + expert));
    w.dtype = Dtype::Fp16;  // whose bits are none of an fp32 value's
    CHECK(states(w, degrees).optimizer.value() == (4 + 2 * 2) * (dense + expert));
    w.dtype = Dtype::Bf16;
    w.precision = Precision::Mxfp8;
    CHECK(states(w, degrees).optimizer.value() == (4 + 2 * 2) * (dense + expert));
    w.dtype = Dtype::Fp32;
    CHECK(optimizer_bytes(w) == 2 * 2);
  }
  SECTION("in fp32 there is no master copy, and SGD has one moment") {
    w.dtype = Dtype::Fp32;
    CHECK(optimizer_bytes(w) == 2 * 4);
    w.optimizer = Optimizer::Sgd;
    CHECK(optimizer_bytes(w) == 1 * 4);
    CHECK(states(w, degrees).weights.value() == 4 * (dense + expert));
  }
  SECTION("a prefill needs the weights alone") {
    w.mode = Mode::Forward;
    w.zero_stage = 3;
    CHECK(states(w, degrees).total().value() == 2 * (dense + expert));
  }
}

TEST_CASE("activations are what a forward block writes and its backward block reads first") {
  Program p = forward_and_backward();
  SECTION("of the microbatch in between") {
    const Sequence layers{repeat(5, {kForward}), repeat(5, {kBackward})};
    p.stages.front() = {repeat(2, layers)};
    const MemoryUse m = blocks_alone(p);
    CHECK(m.activations.value() == 5 * 1000);
    CHECK(m.working.value() == 300);  // of the largest block
    CHECK(m.total() == m.activations + m.working);
  }
  SECTION("of all microbatches in between") {
    p.stages.front() = {repeat(3, {kForward}), repeat(4, {kForward, kBackward}), repeat(3, {kBackward})};
    CHECK(blocks_alone(p).activations.value() == 4 * 1000);
  }
  SECTION("of the stage that keeps most") {
    p.world_size = 3;
    p.stages = {{kForward, kBackward}, {kForward, kForward, kBackward, kBackward}, {kForward, kBackward}};
    const MemoryUse m = blocks_alone(p);
    CHECK(m.activations.value() == 2 * 1000);
    CHECK(m.stage == 1);
  }
  SECTION("a variant of a block keeps what the block does") {
    p.blocks.push_back(p.blocks.front());
    p.blocks.back().name = "forward, gathering weights";
    p.blocks.back().variant_of = BlockId(0);
    p.blocks.push_back(p.blocks[1]);
    p.blocks.back().name = "backward, reducing gradients";
    p.stages.front() = {{.block = BlockId(2)}, repeat(3, {kForward}), repeat(3, {kBackward}), {.block = BlockId(3)}};
    CHECK(blocks_alone(p).activations.value() == 4 * 1000);
  }
}

TEST_CASE("The buffers in use at the peak are those that the bytes are of") {
  Program p = forward_and_backward();
  const auto sum = [&] {
    double bytes = 0;
    for (const BufferUse& u : buffers_at_peak(p, 0)) bytes += u.bytes.value() * static_cast<double>(u.count);
    return bytes;
  };
  const auto all = [&] {
    const MemoryUse m = blocks_alone(p);
    return (m.activations + m.working).value();
  };
  SECTION("of repeated layers") {
    const Sequence layers{repeat(5, {kForward}), repeat(5, {kBackward})};
    p.stages.front() = {repeat(2, layers)};
    CHECK(sum() == all());
    const std::vector<BufferUse> buffers = buffers_at_peak(p, 0);
    const auto kept = std::find_if(buffers.begin(), buffers.end(), [](const BufferUse& u) { return u.count > 1; });
    REQUIRE(kept != buffers.end());
    CHECK(kept->buffer == "kept");
    CHECK(kept->count == 5);
  }
  SECTION("of several microbatches") {
    p.stages.front() = {repeat(3, {kForward}), repeat(4, {kForward, kBackward}), repeat(3, {kBackward})};
    CHECK(sum() == all());
  }
}

TEST_CASE("Weights are no buffers in use, unless they are gathered") {
  Program p = forward_and_backward();
  p.stages.front() = {kForward, kBackward};
  const MemoryUse before = blocks_alone(p);
  for (const char* name : {"w.head", "w.head.gathered"}) {
    p.buffers.push_back({.name = name, .columns = 1 << 20});
    const auto id = BufferId(p.buffers.size() - 1);
    p.blocks.front().operations.front().reads.push_back({id, Rows::fixed(1)});
    CHECK((blocks_alone(p).working == before.working) == (std::string(name) == "w.head"));
  }
}

TEST_CASE("A head that is tied to the embedding has a copy of it on another stage") {
  ModelSpec model = mixtral();
  const Degrees degrees{.dp = 4, .tp = 2, .ep = 8};
  model.tied_embeddings = true;
  CHECK(head_parameters(model, degrees, /*has_embedding=*/true).dense == 0);
  CHECK(head_parameters(model, degrees, /*has_embedding=*/false).dense == 32000 * kHidden / 2);
}

TEST_CASE("The runtime's reserve is a context, communicators, and a share of what comes and goes") {
  Program p = forward_and_backward();
  p.stages.front() = {kForward, kBackward};
  const std::vector<StageParameters> stages(1);
  const RuntimeMemory runtime{.context = Bytes(1e6), .communicator = Bytes(1e3), .fragmentation = 0.25};
  RuntimeMemory more = runtime;
  more.workspaces = Bytes(4e3);
  const MemoryUse without = memory_use(p, stages, training(), {}),
                  with = memory_use(p, stages, training(), {}, runtime);
  CHECK(without.runtime.value() == 0);
  SECTION("without communication there is no communicator") {
    CHECK(with.runtime.value() == 1e6 + 0.25 * (1000 + 300));
    CHECK(with.total() == without.total() + with.runtime);
  }
  SECTION("workspaces of libraries are the allocator's") {
    const MemoryUse use = memory_use(p, stages, training(), {}, more);
    CHECK(use.allocated() == with.allocated() + Bytes(4e3));
    CHECK(use.runtime.value() == 1e6 + 0.25 * (1000 + 300));
  }
  SECTION("a family of groups is one communicator however often it is used, and none where groups have one rank") {
    p.world_size = 2;
    p.groups = {{"all", 2, 1}, {"unused", 2, 1}, {"own", 1, 1}};
    for (const std::int32_t group : {0, 0, 2}) {
      Operation sum = step(rows_of(1, 10), rows_of(1, 10));
      sum.stream = Stream::Inter;
      sum.work = Communication{.collective = Collective::AllReduce, .group = GroupId(group)};
      p.blocks.front().operations.push_back(std::move(sum));
    }
    CHECK(memory_use(p, stages, training(), {}, runtime).runtime.value() == 1e6 + 1e3 + 0.25 * (1000 + 300));
  }
}

}  // namespace moeplan::tests::memory_test
