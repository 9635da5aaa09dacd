// What a training step does once: with its gradients, and to gather weights.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "model/costs/memory.hpp"
#include "model/program/resolve.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/lower.hpp"
#include "tests/support/small_layers.hpp"

namespace moeplan::tests::step_end_test {

using namespace moeplan::planner;
using namespace small_layers;

namespace {

const ModelSpec& three_layers() {
  static const ModelSpec model = small_layers::model(8, {{3, {{0, moe(4)}}}});
  return model;
}

Workload sharded_states() {
  Workload w = workload(std::nullopt);
  w.routing.shape = RoutingShape::Uniform;
  w.zero_stage = 1;
  return w;
}

Program lowered(const Workload& w, std::int64_t ep) {
  const Candidate c = candidate("baseline", 4, 1, ep, 1);
  REQUIRE_FALSE(infeasibility(three_layers(), w, c, 1));
  return lower_iteration(three_layers(), w, c, 1);
}

const Block& optimizer(const Program& p) {
  return *std::find_if(p.blocks.begin(), p.blocks.end(), [](const Block& b) { return b.name == "optimizer"; });
}

/// The optimizer's operations but for what the host launches.
std::vector<std::string> names(const Program& p) {
  std::vector<std::string> out;
  for (const Operation& op : optimizer(p).operations) {
    if (op.op_class != OpClass::Host) out.push_back(op.name);
  }
  return out;
}

std::int64_t bytes(const Program& p, const std::string& name) {
  std::int64_t out = 0;
  for (const Operation& op : optimizer(p).operations) {
    if (op.name != name) continue;
    for (const Slice& s : op.reads) out += byte_count(p, s, RankId(0));
    for (const Slice& s : op.writes) out += byte_count(p, s, RankId(0));
  }
  return out;
}

bool has(const Program& p, const std::string& name) {
  return std::any_of(p.blocks.begin(), p.blocks.end(), [&](const Block& b) {
    return b.name != "optimizer" &&
           std::any_of(b.operations.begin(), b.operations.end(), [&](const Operation& op) { return op.name == name; });
  });
}

}  // namespace

TEST_CASE("A step ends with passes over gradients: averaged, their norm, clipped, cleared") {
  Workload w = sharded_states();
  SECTION("beside the last backward pass they are averaged and reduced by unit") {
    const Program p = lowered(w, 2);
    CHECK(names(p) == std::vector<std::string>{"wait for gradients", "dense gradient norm", "expert gradient norm",
                                               "dense gradients clipped", "expert gradients clipped", "dense optimizer",
                                               "expert optimizer", "dense gradients cleared",
                                               "expert gradients cleared"});
    CHECK(has(p, "dense gradients averaged"));
    CHECK(has(p, "expert gradients averaged"));
    CHECK(has(p, "dense weight all-gather"));
  }
  SECTION("without overlap all at once, and weights are gathered then") {
    w.overlap_gradients = false;
    const Program p = lowered(w, 2);
    const std::vector<std::string> all = names(p);
    const std::vector<std::string> first(all.begin(), all.begin() + 5), last(all.end() - 3, all.end());
    CHECK(first == std::vector<std::string>{"dense gradients averaged", "expert gradients averaged",
                                            "dense gradient reduce-scatter", "expert gradient reduce-scatter",
                                            "wait for gradients"});
    CHECK(last == std::vector<std::string>{"dense weight all-gather", "expert weight all-gather", "wait for weights"});
    CHECK_FALSE(has(p, "dense gradients averaged"));
    CHECK_FALSE(has(p, "dense weight all-gather"));
    // Four replicas of dense weights, two of experts': all gradients are read and written, then set to zero; of its own
    // shard a rank takes the norm.
    for (const auto& [kind, replicas] : {std::pair("dense", 4), std::pair("expert", 2)}) {
      CAPTURE(kind);
      const std::string name = kind;
      const std::int64_t cleared = bytes(p, name + " gradients cleared");
      CHECK(cleared > 0);
      CHECK(bytes(p, name + " gradients averaged") == 2 * cleared);
      CHECK(bytes(p, name + " gradient norm") * replicas == cleared);
      CHECK(bytes(p, name + " gradients clipped") == 2 * bytes(p, name + " gradient norm"));
    }
  }
  SECTION("gradients that PyTorch frees, or that are sharded, are only clipped") {
    SECTION("PyTorch's modules") { w.pytorch_modules = PyTorchModules::Compiled; }
    SECTION("sharded") { w.zero_stage = 2; }
    const Program p = lowered(w, 2);
    for (const std::string& name : names(p)) {
      CAPTURE(name);
      CHECK(name.find("cleared") == std::string::npos);
    }
    CHECK(bytes(p, "dense gradients clipped") > 0);
    CHECK_FALSE(has(p, "dense gradients averaged"));
  }
}

TEST_CASE("Where gradients are kept in buffers, autograd is handed one tensor more of each shape of weights") {
  Workload w = sharded_states();
  // Queries, keys and values; attention's result; the gate; both products of an expert; the output head.
  constexpr std::int64_t kElements = kM * 3 * kM + kM * kM + kM * 4 + kM * kH + kH * kM + kM * 8;
  const Program p = lowered(w, 1);
  CHECK(bytes_of_shapes(p, 0, Dtype::Fp32) == Bytes(4.0 * kElements));
  const Candidate c = candidate("baseline", 4, 1, 1, 1);
  const StageParameters of_stage{.all = {.dense = 1000, .expert = 2000}, .largest = {}};
  const auto gradients = [&](const Workload& of) {
    return memory_by_stage(p, {of_stage}, of, c.degrees).front().gradients.value();
  };
  CHECK(gradients(w) == 4 * 3000 + 4 * kElements);
  w.pytorch_modules = PyTorchModules::Compiled;
  CHECK(gradients(w) == 4 * 3000);
}

}  // namespace moeplan::tests::step_end_test
