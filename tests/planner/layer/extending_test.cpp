// The examples of docs/extending.md: that they are what the page shows, and that they work.
#include <catch2/catch.hpp>
#include <filesystem>

#include "model/text/document.hpp"
#include "planner/lowering/collective_programs.hpp"
#include "sim/program/simulate.hpp"
#include "tests/planner/layer/examples/chunk_by_chunk_schedule.hpp"
#include "tests/planner/layer/examples/halves_all_to_all.hpp"
#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::extending_test {

using namespace moeplan::sim;
using namespace moeplan::planner;

namespace {

/// The forward and backward pass of an MoE layer on four ranks, in so many chunks.
Program layer_program(const Schedule& schedule, std::int64_t chunks) {
  Program p;
  p.world_size = 4;
  const Degrees degrees{.pp = 1, .dp = 4, .cp = 1, .tp = 1, .edp = 1, .ep = 4, .esp = 1};
  MoeLayer layer{.moe = {.num_experts = 8,
                         .top_k = 2,
                         .expert = {.hidden_size = 64, .gated = false, .bias = false},
                         .shared = {.hidden_size = 0, .gated = false, .bias = false},
                         .shared_gate = false,
                         .router_bias = false},
                 .hidden_size = 32,
                 .gate_columns = 32,
                 .tokens = 128,
                 .dtype = Dtype::Bf16,
                 .precision = std::nullopt,
                 .trains = true,
                 .recompute_activations = false,
                 .degrees = degrees,
                 .groups = add_groups(p, degrees),
                 .routing = RoutingId(0),
                 .all_to_all = find_all_to_all("linear"),
                 .codec = {},
                 .codec_options = {},
                 .chunks = {},
                 .encoding = Encoding::Sparse,
                 .expert_layout = ExpertLayout::Merged,
                 .during_dispatch = {}};
  p.routings.push_back({RoutingCounts::uniform(4, 8, 128 * 2 / 8), layer.groups.ep, 2});
  for (std::int64_t i = 0; i < chunks; ++i) layer.chunks.push_back({RowStep::Kind::Chunk, {}, i, chunks});
  BlockBuilder forward(p, "layer"), backward(p, "layer backward");
  schedule.lower_forward(layer, forward);
  schedule.lower_backward(layer, backward);
  const BlockId first = forward.finish();
  p.stages.front() = {{.block = first}, {.block = backward.finish(first)}};
  return p;
}

}  // namespace

TEST_CASE("docs/extending.md shows the examples as they are built here") {
  const std::filesystem::path source = MOEPLAN_SOURCE_DIR;
  const std::string page = read_text_file(source / "docs/extending.md");
  for (const char* example : {"halves_all_to_all.hpp", "chunk_by_chunk_schedule.hpp"}) {
    CAPTURE(example);
    const std::string code = read_text_file(source / "tests/planner/layer/examples" / example);
    CHECK(page.find("```cpp\n" + code + "```\n") != std::string::npos);
  }
}

TEST_CASE("The example all-to-all moves what a linear one does, in two steps") {
  const Halves halves;
  CHECK(halves.infeasibility({{"ep", 5, 1}, 1, 1})->text == "halves needs an even number of ranks");
  const CollectiveAlgorithm algorithm{
      .collective = Collective::AllToAll, .name = "halves", .summary = "", .all_to_all = &halves};
  const std::int64_t ranks = 8, size = 8'000'000;
  const Program p = collective_program(algorithm, ranks, size);
  const Program linear = collective_program(*find_algorithm(Collective::AllToAll, "linear"), ranks, size);
  CHECK(p.blocks.front().operations.size() == 2);
  const Cluster cluster = tests::toy_cluster(1, 8);
  // Seven messages of 1 MB leave each GPU at 10 GB/s.
  CHECK(simulate(linear, cluster).makespan.seconds().value() == Approx(7e6 / tests::kGpuRate));
  CHECK(simulate(p, cluster).makespan.seconds().value() == Approx(7e6 / tests::kGpuRate));
}

TEST_CASE("The example schedule is the baseline with one chunk, and gains nothing from more") {
  const ChunkByChunk schedule;
  CHECK(schedule.infeasibility({.esp = 2}, {}));
  CHECK(layer_program(schedule, 1) == layer_program(*find_schedule("baseline"), 1));
  const Cluster cluster = tests::toy_cluster(1, 4);
  const auto time = [&](std::int64_t chunks) {
    return simulate(layer_program(schedule, chunks), cluster).makespan.seconds().value();
  };
  CHECK(time(4) >= time(1) * (1 - 1e-9));
}

}  // namespace moeplan::tests::extending_test
