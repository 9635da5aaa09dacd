#include "planner/search/layer_search.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "model/costs/estimate.hpp"
#include "planner/evaluation/least_exchange.hpp"
#include "tests/support/layer_cases.hpp"
#include "tests/support/published_systems.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::layer_search_test {

using namespace moeplan::sim;
using namespace moeplan::planner;

namespace {

/// A layer, its machine and all ways to run it.
struct Case {
  Workload workload = layer_workload();
  Moe moe = layer_moe();
  std::int64_t hidden_size = kLayerM, tokens = kLayerTokens;
  Candidate candidate = layer_candidate("baseline", 1, kLayerWorld, 1);
  Cluster cluster = tests::toy_cluster(2, 4, Seconds(1e-6));

  [[nodiscard]] std::vector<LayerStrategy> runs() const {
    return layer_strategies(hidden_size, workload, candidate, cluster.ranks_per_node());
  }
  [[nodiscard]] LayerProblem problem() const { return {moe, hidden_size, tokens, workload, candidate, cluster}; }
  [[nodiscard]] std::vector<PricedStrategy> all_simulated() const {
    return priced_strategies(runs(), moe, hidden_size, tokens, workload, candidate, cluster, 1);
  }
};

/// [ScheMoE] table 4's layer on parm_testbed_b.
Case schemoe_layer(std::int64_t tokens, std::int64_t H, std::int64_t M, double capacity_factor) {
  constexpr std::int64_t kRanks = 32;
  Case c{.cluster = tests::built_cluster("parm_testbed_b", kRanks)};
  c.workload.capacity_factor = capacity_factor;
  c.moe.num_experts = kRanks;
  c.moe.expert.hidden_size = H;
  c.hidden_size = M;
  c.tokens = tokens;
  c.candidate.degrees = {.dp = kRanks, .ep = kRanks};
  return c;
}

}  // namespace

TEST_CASE("The fastest ways to run a layer are those of all simulated", "[slow]") {
  Case c;
  c.workload.codecs.allowed = {WireFormat::Zfp, WireFormat::Int8};
  SECTION("experts alone") {}
  SECTION("with shards of experts and tensor parallelism") { c.candidate = layer_candidate("baseline", 2, 4, 2); }
  SECTION("forward, slow experts") {
    c.workload.mode = Mode::Forward;
    c.moe.expert.hidden_size = 4096;
  }
  SECTION("uneven loads") { c.workload.routing = RoutingScenario{.shape = RoutingShape::Zipf, .sampled = true}; }
  const std::vector<PricedStrategy> all = c.all_simulated();
  REQUIRE(all.size() > 100);
  for (const std::size_t count : {std::size_t{1}, std::size_t{3}}) {
    CAPTURE(count);
    const FastestStrategies found = fastest_strategies(c.runs(), c.problem(), count, 1);
    REQUIRE(found.fastest.size() == count);
    for (std::size_t i = 0; i < found.fastest.size(); ++i) {
      CAPTURE(i);
      CHECK(found.fastest[i].time == all[i].time);
    }
    CHECK(found.undecided == 0);
    if (count > 1) continue;
    CHECK(found.simulated < std::ssize(all) / 2);
    CHECK(found.estimated < std::ssize(all));
    const FastestStrategies again = fastest_strategies(c.runs(), c.problem(), count, 3);
    CHECK(again.estimated == found.estimated);
    CHECK(again.simulated == found.simulated);
    for (std::size_t i = 0; i < found.fastest.size(); ++i) CHECK(again.fastest[i].run == found.fastest[i].run);
  }
}

TEST_CASE("Ways on which many ranks differ are left open, with a bound, not simulated", "[slow]") {
  Case c;
  c.workload.routing = RoutingScenario{.shape = RoutingShape::Zipf, .sampled = true};
  const std::vector<LayerStrategy> runs = c.runs();
  const LayerProblem many{c.moe, c.hidden_size, c.tokens, c.workload, c.candidate, c.cluster, 2};
  const FastestStrategies found = fastest_strategies(runs, many, 1, 1);
  CHECK(found.fastest.empty());
  CHECK(found.simulated == 0);
  CHECK(found.undecided == found.estimated);
}

TEST_CASE("Published systems choose among schedules and all-to-alls that there are") {
  for (const PublishedSystem& system : published_systems()) {
    CAPTURE(std::string(system.name));
    for (const std::string_view name : system.schedules) {
      CAPTURE(std::string(name));
      CHECK(find_schedule(name) != nullptr);
    }
    for (const std::string_view name : system.all_to_alls) {
      CAPTURE(std::string(name));
      CHECK(find_all_to_all(name) != nullptr);
    }
    CHECK(system.offers({"baseline", "linear"}));
    CHECK_FALSE(system.offers({"s1_deferred", "linear"}));
    CHECK_FALSE(system.offers({"baseline", "3dh"}));
    CHECK_FALSE(system.offers({"baseline", "linear", 1, *parse_codec_pair("int8/none")}));
    CHECK(system.offers({"baseline", "linear", 1, *parse_codec_pair("int8")}) == (system.name == "ScheMoE"));
  }
}

TEST_CASE("Tutel's adaptive parallelism is Tutel's, whatever its r, and no other system's") {
  for (const auto& schedule : schedules()) {
    for (const PublishedSystem& system : published_systems()) {
      if (!schedule->tutel_r()) continue;
      CAPTURE(std::string(schedule->name()), std::string(system.name));
      CHECK(system.offers({std::string(schedule->name()), "linear"}) == (system.name == "Tutel"));
    }
  }
}

TEST_CASE("The best mix is never worse than what any published system offers", "[slow]") {
  const auto [tokens, H, M, capacity_factor] = GENERATE(table<std::int64_t, std::int64_t, std::int64_t, double>(
      {{1024, 8192, 512, 1.0}, {4096, 512, 8192, 1.1}, {16384, 2048, 1024, 1.2}}));
  const Case c = schemoe_layer(tokens, H, M, capacity_factor);
  const FastestStrategies mix = fastest_strategies(c.runs(), c.problem(), 1, 2);
  for (const PublishedSystem& system : published_systems()) {
    CAPTURE(std::string(system.name), c.hidden_size);
    std::vector<LayerStrategy> offered = c.runs();
    std::erase_if(offered, [&](const LayerStrategy& r) { return !system.offers(r); });
    REQUIRE_FALSE(offered.empty());
    CHECK(mix.fastest.front().time <= fastest_strategies(offered, c.problem(), 1, 2).fastest.front().time);
  }
}

TEST_CASE("Whatever way rows travel, the layer takes no less than its work without the exchange", "[slow]") {
  Case c;
  c.workload.codecs.allowed = {WireFormat::Zfp};
  c.moe.expert.hidden_size = GENERATE(128, 4096);
  c.cluster.gpu.num_sms = 1;  // no waves of tiles that chunks could fill better
  for (const PricedStrategy& p : c.all_simulated()) {
    CAPTURE(strategy_text(p.run));
    Candidate least = c.candidate;
    least.schedule = p.run.schedule;
    least.pipeline_degree = p.run.schedule->pipeline_degrees(c.candidate.degrees, 4).front();
    const Program program =
        without_exchange(lower_moe_layer(c.moe, c.hidden_size, c.tokens, c.workload, least, kLayerPerNode), c.workload);
    for (const Block& block : program.blocks) {
      for (const Operation& operation : block.operations) {
        CHECK(operation.op_class != OpClass::Dispatch);
        CHECK(operation.op_class != OpClass::Codec);
      }
    }
    CHECK(estimate(program, c.cluster).lower_bound.value() <= p.time.seconds().value() * (1 + 1e-9));
  }
}

}  // namespace moeplan::tests::layer_search_test
