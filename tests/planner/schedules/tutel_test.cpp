// Tutel's switchable parallelism: planner/schedules/tutel.cpp.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "model/costs/memory.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/lowering/feasibility.hpp"
#include "tests/support/layer_cases.hpp"

namespace moeplan::tests::tutel_test {

using namespace moeplan::planner;

namespace {

/// What a rank gives to the collectives of a forward pass with W / E shards an expert.
struct Volume {
  double rows;     // dispatched
  double weights;  // gathered, the whole of it
};

Volume volume(std::int64_t r, double capacity, std::int64_t hidden, std::int64_t shards = 4) {
  Workload w = layer_workload(Mode::Forward);
  w.capacity_factor = capacity;
  Moe moe = layer_moe(2);
  moe.expert.hidden_size = hidden;
  Candidate c = layer_candidate("tutel_r" + std::to_string(r), 1, 2, 4);
  c.degrees = {.dp = 2 * shards, .ep = 2, .esp = shards};
  const Program p = lower_moe_layer(moe, kLayerM, kLayerTokens, w, c, kLayerPerNode);
  Volume out{0, 0};
  for (const Operation& op : p.blocks[0].operations) {
    if (op.op_class == OpClass::Dispatch && p.group(op.communication()->group).size > 1)
      out.rows += static_cast<double>(message_size(p, op, RankId(0)));
    if (op.op_class == OpClass::WeightGather) out.weights += static_cast<double>(message_size(p, op, RankId(0)));
  }
  return out;
}

}  // namespace

TEST_CASE("Tutel's r moves what table 4 says") {
  const double parameters = 2 * 2.0 * kLayerM * kLayerH * 4;  // P: of both experts, in bytes
  const double rows = 2 * 2.0 * kLayerTokens * kLayerM * 4;   // C_g: of all experts from one rank
  SECTION("r = 0: O(P), whatever the capacity") {
    CHECK(volume(0, 2, kLayerH).rows == 0);
    CHECK(volume(0, 2, kLayerH).weights == parameters);
    CHECK(volume(0, 4, kLayerH).weights == parameters);
  }
  SECTION("1 <= r < W/E: O(C_g r + P / E / r)") {
    for (const std::int64_t r : {1, 2}) {
      const auto factor = static_cast<double>(r);
      CHECK(volume(r, 2, kLayerH).rows == rows * factor);
      CHECK(volume(r, 4, kLayerH).rows == 2 * rows * factor);
      CHECK(volume(r, 2, kLayerH).weights == parameters / 2 / factor);
      CHECK(volume(r, 2, 2 * kLayerH).weights == 2 * parameters / 2 / factor);
    }
  }
  SECTION("r = W/E: O(C_g W/E), no weights") {
    CHECK(volume(4, 2, kLayerH).rows == 4 * rows);
    CHECK(volume(4, 2, kLayerH).weights == 0);
  }
}

TEST_CASE("Tutel's r is any number that divides an expert's shards") {
  constexpr std::int64_t kShards = 6, kHidden = 192;
  const double parameters = 2 * 2.0 * kLayerM * kHidden * 4;  // P: of both experts, in bytes
  const double rows = 2 * 2.0 * kLayerTokens * kLayerM * 4;   // C_g
  for (const std::int64_t r : {1, 2, 3, 6}) {
    CAPTURE(r);
    CHECK(volume(r, 2, kHidden, kShards).rows == rows * static_cast<double>(r));
    CHECK(volume(r, 2, kHidden, kShards).weights == (r == kShards ? 0 : parameters / 2 / static_cast<double>(r)));
  }
  SECTION("by its name, though the table has few") {
    REQUIRE(find_schedule("tutel_r3"));
    CHECK(find_schedule("tutel_r3")->tutel_r() == 3);
    CHECK(find_schedule("tutel_r3") == find_schedule("tutel_r3"));
    for (const char* none : {"tutel_r", "tutel_r03", "tutel_r-1", "tutel_r3x", "tutel_r4097"}) {
      CAPTURE(none);
      CHECK(find_schedule(none) == nullptr);
    }
  }
  SECTION("in searches, where it divides") {
    const std::vector<const Schedule*> six = schedules_for(6);
    CHECK(six.size() == schedules().size() + 2);
    for (const char* name : {"tutel_r3", "tutel_r6"}) {
      CHECK(std::count(six.begin(), six.end(), find_schedule(name)) == 1);
    }
    CHECK(schedules_for(8).size() == schedules().size());
    Candidate c = layer_candidate("tutel_r3", 1, 2, 4);
    CHECK(infeasibility(layer_model(2), layer_workload(), c, kLayerPerNode).value_or("").text ==
          "tutel's r does not divide an expert's shards");
  }
}

TEST_CASE("Tutel's gradients of weights go back to their owners") {
  for (const std::int64_t r : {0, 1, 2, 4}) {
    CAPTURE(r);
    const Program p = layer_program(layer_candidate("tutel_r" + std::to_string(r), 1, 2, 4), layer_workload(), 2);
    // Reduce-scatter's n is what goes in, all-gather's what comes out; weights are gathered once.
    CHECK(sent(p, 1, OpClass::Gradient) == sent(p, 0, OpClass::WeightGather));
    CHECK(sent(p, 1, OpClass::WeightGather) == 0);
  }
}

TEST_CASE("Weights that are gathered for a layer are kept from forward to backward") {
  const ModelSpec model = layer_model(2);
  const Workload w = layer_workload();
  const auto use = [&](std::int64_t r) {
    const Candidate c = layer_candidate("tutel_r" + std::to_string(r), 1, 2, 4);
    REQUIRE_FALSE(infeasibility(model, w, c, kLayerPerNode));
    const Program p = lower_iteration(model, w, c, kLayerPerNode);
    return memory_use(p, stage_parameters(model, w.sequence_length, c.degrees, 1), w, c.degrees);
  };
  // Of one expert in full (r = 1) or of all (r = 0); and while they are computed, the gradients of a matrix, which
  // leave before those of the next one are there.
  const double expert = 2.0 * kLayerM * kLayerH * 4;
  CHECK(use(1).activations.value() > expert);
  CHECK(use(0).activations.value() > 2 * expert);
  CHECK(use(1).working.value() > expert / 2);
  CHECK(use(0).working.value() > 2 * expert / 2);
}

}  // namespace moeplan::tests::tutel_test
