#include "planner/lowering/migration_program.hpp"

#include <catch2/catch.hpp>

#include "planner/placement/layer_time.hpp"
#include "sim/program/simulate_stages.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::migration_program_test {

using namespace moeplan::planner;

namespace {

/// Two nodes of four GPUs of 200 GB/s with a NIC of 25 GB/s a node; two MoE layers.
SmallCase sizes() {
  SmallCase c;
  c.nodes = 2;
  c.expert_hidden = 2048;
  c.dense_layers = 0;
  c.zero_stage = 0;
  c.intra_node = "{kind: nvswitch, bandwidth: 200 GB/s, latency: 0 us}";
  c.startup = c.message_overhead = c.fabric_latency = "0 us";
  return c;
}

Candidate placed(const Degrees& degrees, std::vector<std::int64_t> homes) {
  Candidate c;
  c.degrees = degrees;
  c.micro_batch = 1;
  c.placement = "auto";
  c.expert_places = {placement_of_homes(homes)};
  return c;
}

Seconds time_of(const Small& s, const Candidate& c, const std::vector<Placement>& from = {}) {
  StageClusters machines(s.cluster);
  return sim::simulate(migration_program(s.model, s.workload, c, from, 4), machines, {.keep_spans = false})
      .makespan.seconds();
}

constexpr double kParameters = 3.0 * 256 * 2048;       // of an expert: gated
constexpr double kStates = kParameters * (2 + 3 * 4);  // bf16, and three fp32 states of it

}  // namespace

TEST_CASE("Moving experts is simulated as a Program") {
  const Small s = small(sizes());
  const Degrees wide{.dp = 8, .ep = 8};
  SECTION("nothing where nothing moves") {
    CHECK(migration_program(s.model, s.workload, placed(wide, {0, 1, 2, 3, 4, 5, 6, 7}), {}, 4).blocks.empty());
    const Candidate c = placed(wide, {1, 0, 2, 3, 4, 5, 6, 7});
    CHECK(migration_program(s.model, s.workload, c, c.expert_places, 4).blocks.empty());
  }
  SECTION(
      "two experts that change places take their weights and states through the ports between them, in each layer") {
    CHECK(time_of(s, placed(wide, {1, 0, 2, 3, 4, 5, 6, 7})).value() == Approx(2 * kStates / 200e9).epsilon(1e-6));
    CHECK(time_of(s, placed(wide, {4, 1, 2, 3, 0, 5, 6, 7})).value() == Approx(2 * kStates / 25e9).epsilon(1e-6));
    // Two a node share its NIC.
    CHECK(time_of(s, placed(wide, {4, 5, 2, 3, 0, 1, 6, 7})).value() == Approx(4 * kStates / 25e9).epsilon(1e-6));
  }
  SECTION("from where they are to where they shall be") {
    const Candidate c = placed(wide, {4, 1, 2, 3, 0, 5, 6, 7});
    const std::vector<Placement> near = {placement_of_homes({5, 1, 2, 3, 0, 4, 6, 7})};
    CHECK(time_of(s, c, near).value() == Approx(2 * kStates / 200e9).epsilon(1e-6));
  }
  SECTION("replicas move theirs alike, with ZeRO a part of the states each") {
    const Degrees twice{.dp = 8, .edp = 2, .ep = 4};
    const Candidate c = placed(twice, {1, 1, 0, 0, 2, 2, 3, 3});  // in each node: two experts a rank
    CHECK(time_of(s, c).value() == Approx(2 * 2 * kStates / 200e9).epsilon(1e-6));
    SmallCase zero = sizes();
    zero.zero_stage = 1;
    CHECK(time_of(small(zero), c).value() == Approx(2 * 2 * kParameters * (2 + 12.0 / 2) / 200e9).epsilon(1e-6));
  }
  SECTION("stages of a pipeline move their own layers, at once") {
    const Degrees piped{.pp = 2, .dp = 4, .ep = 4};
    CHECK(time_of(s, placed(piped, {1, 1, 0, 0, 2, 2, 3, 3})).value() == Approx(2 * kStates / 200e9).epsilon(1e-6));
  }
  SECTION("where nothing trains copies get their weights") {
    SmallCase forward = sizes();
    forward.mode = "forward";
    Candidate c = placed(wide, {0, 1, 2, 3, 4, 5, 6, 7});
    add_holder(c.expert_places[0].experts[0], RankId(7), 1);
    CHECK(time_of(small(forward), c).value() == Approx(2 * kParameters * 2 / 25e9).epsilon(1e-6));
  }
}

}  // namespace moeplan::tests::migration_program_test
