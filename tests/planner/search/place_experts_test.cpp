// Placements of candidates: the machine as strategies see it, and what a search makes of them.
#include "planner/search/place_experts.hpp"

#include <catch2/catch.hpp>

#include "planner/candidate/stage_layout.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/search.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::place_experts_test {

using namespace moeplan::planner;

namespace {

/// Two nodes of four GPUs, 16 experts, of which two take most tokens.
SmallCase skewed() {
  SmallCase c;
  c.nodes = 2;
  c.hidden = 512;
  c.expert_hidden = 2048;
  c.experts = 16;
  c.sequence = 1024;
  c.global_batch = 16;
  c.dense_layers = 0;
  c.routing = "{shape: hot_expert, hot_factor: 20, hot_fraction: 0.1, sampled: true}";
  return c;
}

Candidate wide(std::int64_t micro_batch = 1) {
  Candidate c;
  c.degrees = {.dp = 8, .ep = 8};
  c.micro_batch = micro_batch;
  c.recompute = Recompute::Selective;
  return c;
}

SearchResult found(const Small& s, std::optional<std::string> placement = {}) {
  return search({s.model, s.workload, s.cluster}, {.schedule = "baseline",
                                                   .tp = 1,
                                                   .ep = 8,
                                                   .pp = 1,
                                                   .threads = 1,
                                                   .placements = PlacementSpace{.placement = std::move(placement)}});
}

}  // namespace

TEST_CASE("Strategies see the machine's ports and the layer's sizes") {
  const Small s = small(skewed());
  const std::vector<PlacedLayer> layers = placed_layers(s.model, s.workload, s.cluster, wide(2), 3);
  REQUIRE(layers.size() == 1);
  CHECK(layers[0].layers == 2);
  const PlacementDevices& d = layers[0].devices;
  CHECK(d.ranks == 8);
  CHECK(d.ranks_per_node == 4);
  CHECK(d.slots == 16 / 8 + 3);
  CHECK(d.rank_bandwidth.value() == Approx(200e9));
  CHECK(d.nic_bandwidth.value() == Approx(25e9));
  CHECK(d.node_bandwidth.value() == Approx(25e9));  // one NIC a node
  const double parameters = 3.0 * 512 * 2048;
  CHECK(d.token_bytes.value() == Approx(512 * 2));
  CHECK(d.parameter_bytes.value() == Approx(parameters * 2 / (16.0 / (8 * 2))));  // one microbatch of two sequences
  CHECK(d.state_bytes.value() == Approx(parameters * (2 + 12)));
  CHECK(d.token_time.value() == Approx(2 * parameters / (100e12 * 0.8)));
  CHECK(layers[0].counts.sources() == 8);
  CHECK(imbalance(layers) > 2);
  SECTION("transfers, once an iteration, count by microbatch") {
    SmallCase more = skewed();
    more.global_batch = 64;
    const Small many = small(more);
    const PlacementDevices of_many = placed_layers(many.model, many.workload, many.cluster, wide(2), 3)[0].devices;
    CHECK(of_many.parameter_bytes.value() == Approx(d.parameter_bytes.value() / 4));
  }
  SECTION("groups of replicas add up their tokens, and each has its part") {
    Candidate c = wide(2);
    c.degrees = {.dp = 8, .edp = 2, .ep = 4};
    const PlacedLayer layer = placed_layers(s.model, s.workload, s.cluster, c, 0)[0];
    CHECK(layer.counts.sources() == 4);
    CHECK(layer.devices.token_bytes.value() == Approx(512 * 2 / 2.0));
  }
}

TEST_CASE("auto, by simulated layer time, is never above another strategy") {
  const Small s = small(skewed());
  const Candidate base = wide();
  const Moe moe = moe_layers(s.model).front();
  const auto time = [&](const Candidate& c) {
    return simulated_layer_time(moe, s.model.hidden_size, 1024, s.workload, c, s.cluster, 2);
  };
  for (const std::int64_t redundant : {0, 2}) {
    const Seconds ours = time(
        with_placement(s.model, s.workload, s.cluster, base, "auto", redundant, PlacementGoal::Simulated).candidate);
    CHECK(ours < time(base));
    for (const std::string& name : placement_names()) {
      const PlacedCandidate other =
          with_placement(s.model, s.workload, s.cluster, base, name, redundant, PlacementGoal::Simulated);
      INFO(name << " with " << redundant << " redundant experts");
      if (!other.infeasibility) CHECK(ours.value() <= time(other.candidate).value() * (1 + 1e-9));
    }
  }
}

TEST_CASE("A search places experts where loads are uneven", "[slow]") {
  const Small s = small(skewed());
  const SearchResult plain = found(s, "contiguous"), best = found(s);
  REQUIRE(!plain.ranked.empty());
  CHECK(*best.ranked.front().makespan < *plain.ranked.front().makespan);
  CHECK(best.ranked.front().candidate.placement == "auto");
  CHECK(best.ranked.front().memory.total() <= s.cluster.memory_per_rank());
  CHECK(best.global_bound <= best.ranked.front().makespan->seconds());
  SECTION("by the strategy asked for alone") {
    const SearchResult eplb = found(s, "eplb_distinct");
    REQUIRE(!eplb.ranked.empty());
    for (const Evaluated& e : eplb.ranked) CHECK(e.candidate.placement == "eplb_distinct");
  }
  SECTION("where they are even it does not") {
    SmallCase even = skewed();
    even.routing = "{shape: uniform}";
    const Small u = small(even);
    for (const Evaluated& e : found(u).ranked) CHECK(e.candidate.placement == "contiguous");
  }
  SECTION("a strategy that has no answer is a reason") {
    SmallCase few = skewed();
    few.experts = 6;
    const Small f = small(few);
    const SearchSpace four{
        .schedule = "baseline", .tp = 1, .ep = 4, .pp = 1, .placements = PlacementSpace{.placement = "lplb_cube"}};
    const SearchResult none = search({f.model, f.workload, f.cluster}, four);
    CHECK((none.ranked.empty() || none.ranked.front().candidate.placement == "lplb_cube"));
    if (none.ranked.empty()) CHECK(!none.rejected.empty());
  }
}

}  // namespace moeplan::tests::place_experts_test
