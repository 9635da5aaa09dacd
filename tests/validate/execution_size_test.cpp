#include "cuda_runtime/validate/execution_size.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "cuda_runtime/layer_values.hpp"
#include "cuda_runtime/layout.hpp"
#include "cuda_runtime/validate/rank_progress.hpp"

namespace moeplan::tests::execution_size_test {

using namespace moeplan::planner;
using namespace moeplan::runtime;
using namespace moeplan::validate;

namespace {

/// Eight experts of 3 x 64 x 128 weights on four ranks, 32 tokens each.
LayerCase layer(Mode mode = Mode::Train) {
  LayerCase out{};
  out.moe = {.num_experts = 8,
             .top_k = 2,
             .expert = {.hidden_size = 128, .gated = true, .bias = false},
             .shared = {},
             .shared_gate = false,
             .router_bias = false};
  out.hidden_size = 64;
  out.tokens = 32;
  out.workload.name = "w";
  out.workload.global_batch = 4;
  out.workload.sequence_length = 32;
  out.workload.micro_batch = 1;
  out.workload.mode = mode;
  out.workload.dtype = Dtype::Fp32;
  out.workload.recompute = Recompute::None;
  out.workload.optimizer = Optimizer::Adam;
  out.candidate.degrees = {.pp = 1, .dp = 4, .cp = 1, .tp = 1, .edp = 1, .ep = 4, .esp = 1};
  out.ranks_per_node = 4;
  return out;
}

constexpr double kParameters = 8.0 * 3 * 64 * 128;

HostCapacity vast() { return {.memory = Bytes(1e12), .cores = 4, .limit = Seconds(100), .runs = 4}; }

}  // namespace

TEST_CASE("What executing a layer takes at least") {
  SECTION("the reference's weights of all experts on every rank, with gradients once and in training twice") {
    CHECK(execution_size(layer()).reference.value() == 4 * 3 * 8 * kParameters);
    CHECK(execution_size(layer(Mode::Forward)).reference.value() == 4 * 2 * 8 * kParameters);
  }
  SECTION("of more weights than it stores, what it stores") {
    LayerCase c = layer();
    c.moe.num_experts = 4096;  // 805 MB in double
    CHECK(execution_size(c).reference.value() == 4 * 3 * kMostReferenceBytes);
  }
  SECTION("products of every selection with two or three weight matrices, thrice in training, and the gate's") {
    const double selections = 4.0 * 32 * 2, gate = 2.0 * 4 * 32 * 64 * 8;
    CHECK(execution_size(layer(Mode::Forward)).flops == selections * 2 * 3 * 64 * 128 + gate);
    CHECK(execution_size(layer()).flops == 3 * (selections * 2 * 3 * 64 * 128 + gate));
  }
  SECTION("buffers: no more than ranks allocate, and most of it") {
    const LayerCase c = layer();
    const Program program = lower(c);
    const SyntheticLayer made = with_choices({.shape = {64, 128, 8, 2, true}, .asked = asked_counts(c, program)},
                                             program.routings.front(), c.tokens_of_source());
    std::vector<BlockId> blocks;
    for (const Step& step : program.stages.front()) blocks.push_back(step.block);
    double allocated = 0;
    for (std::int32_t r = 0; r < 4; ++r) {
      const Layout layout(program, RankId(r), blocks, made.kept);
      for (std::size_t b = 0; b < program.buffers.size(); ++b) {
        const Buffer& buffer = program.buffers[b];
        allocated += static_cast<double>(layout.rows(BufferId(b)) * buffer.columns * size_of(buffer.dtype));
      }
    }
    CHECK(execution_size(c).buffers.value() <= allocated);
    CHECK(execution_size(c).buffers.value() > allocated / 2);
  }
}

TEST_CASE("A layer that cannot fit is refused with figures and the least scale that helps") {
  const LayerCase c = layer();
  CHECK_FALSE(why_too_large(c, vast()));
  SECTION("for its memory") {
    HostCapacity host = vast();
    host.memory = execution_size(scaled(c, 2)).memory();
    const std::string why = why_too_large(c, host).value();
    CHECK_THAT(why, Catch::StartsWith("the layer is too large for this machine: its 4 ranks take at least "));
    CHECK_THAT(why, Catch::EndsWith("are available; --scale 2 makes it small enough"));
    host.memory = Bytes(1);
    CHECK_THAT(why_too_large(c, host).value(), Catch::Contains("no --scale makes it small enough"));
  }
  SECTION("for its time, were cores as fast as any is") {
    HostCapacity host = vast();
    const double least = host.runs * execution_size(c).flops / (4 * kMostFlopsOfCore);
    host.limit = Seconds(least * 1.01);
    CHECK_FALSE(why_too_large(c, host));
    host.limit = Seconds(least * 0.99);
    CHECK_THAT(why_too_large(c, host).value(), Catch::Contains("4 runs of ") && Catch::Contains("on 4 cores") &&
                                                   Catch::EndsWith("--scale 2 makes it small enough"));
  }
  CHECK(available_memory().value() > Bytes(0));
}

TEST_CASE("How far ranks are is said of the first one, with what it is a part of") {
  CHECK(progress_text(Seconds(12.3), {{7, "moe layer: dispatch", "run 3"}, {8, "done", ""}}) ==
        "12 s: run 3, rank 0: moe layer: dispatch");
  CHECK(progress_text(Seconds(2), {{0, "", ""}}) == "2 s: rank 0: not started");
  CHECK(progress_text(Seconds(20), {}) == "20 s: ranks are at work");
}

}  // namespace moeplan::tests::execution_size_test
