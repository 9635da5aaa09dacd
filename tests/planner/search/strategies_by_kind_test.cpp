#include "planner/search/strategies_by_kind.hpp"

#include <catch2/catch.hpp>

#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/search.hpp"
#include "sim/program/simulate.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::strategies_by_kind_test {

using namespace moeplan::sim;
using namespace moeplan::planner;

namespace {

constexpr std::int64_t kRanks = 8, kExperts = 16, kTokens = 1024;

/// Two nodes of four GPUs, and two MoE layers: in the first all experts get as many tokens, in the second one of them
/// gets one choice of every token.
Small two_layers(bool alike = false) {
  SmallCase c;
  c.nodes = 2;
  c.hidden = 1024;
  c.expert_hidden = 4096;
  c.experts = kExperts;
  c.sequence = kTokens;
  c.global_batch = kRanks;
  c.dense_layers = 0;
  c.recompute = "none";
  Small s = small(c);
  std::vector<std::uint32_t> counts;
  for (const bool is_even : {true, alike}) {
    for (std::int64_t source = 0; source < kRanks; ++source) {
      for (std::int64_t e = 0; e < kExperts; ++e) {
        const std::int64_t all = 2 * kTokens;
        const std::int64_t tokens = is_even ? all / kExperts : e == 0 ? all / 2 : all / 2 / (kExperts - 1);
        counts.push_back(static_cast<std::uint32_t>(tokens));
      }
    }
  }
  s.workload.recorded =
      RecordedRouting{.file = "f", .sha256 = "", .iteration = 0, .counts = {{0}, 2, kRanks, kExperts, counts}};
  return s;
}

Candidate wide() {
  Candidate c;
  c.degrees = {.dp = kRanks, .ep = kRanks};
  c.recompute = Recompute::None;
  return c;
}

SimTime makespan(const Small& s, const Candidate& c) {
  return simulate(lower_iteration(s.model, s.workload, c, s.cluster.ranks_per_node()), s.cluster, {.keep_spans = false})
      .makespan;
}

}  // namespace

TEST_CASE("MoE layers of different kinds run in the way that suits each", "[slow]") {
  const Small s = two_layers();
  const std::vector<LayerStrategy> runs = strategies_by_kind(s.model, s.workload, s.cluster, wide(), {}, 64, 1);
  REQUIRE(runs.size() == 2);
  CHECK_FALSE(runs[0] == runs[1]);
  SECTION("each is the fastest of all for its kind, layer alone") {
    const std::vector<LayerStrategy> all =
        layer_strategies(s.model.hidden_size, s.workload, wide(), s.cluster.ranks_per_node());
    const Moe& moe = std::get<Moe>(s.model.layers.front().pattern.front().ffn);
    const Candidate base = wide();
    for (std::size_t kind = 0; kind < 2; ++kind) {
      const auto time = [&](const std::vector<LayerStrategy>& of) {
        return fastest_strategies(of, {moe, s.model.hidden_size, kTokens, s.workload, base, s.cluster, 64, kind}, 1, 1)
            .fastest.front()
            .time;
      };
      CHECK(time({runs[kind]}) == time(all));
    }
  }
  SECTION("an iteration of them is faster than with either way for both") {
    Candidate apart = wide();
    apart.runs = runs;
    REQUIRE_FALSE(infeasibility(s.model, s.workload, apart, s.cluster.ranks_per_node()));
    for (const LayerStrategy& run : runs) CHECK(makespan(s, apart) < makespan(s, run.in(wide())));
  }
  SECTION("the search finds it, and its bound holds") {
    const SearchSpace space{.tp = 1, .cp = 1, .ep = kRanks, .pp = 1, .threads = 1};
    const SearchResult found = search({s.model, s.workload, s.cluster}, space);
    CHECK(found.ranked.front().candidate.runs.size() == 2);
    CHECK(found.global_bound <= found.ranked.front().makespan->seconds());
  }
  SECTION("the result does not depend on the number of threads") {
    CHECK(strategies_by_kind(s.model, s.workload, s.cluster, wide(), {}, 64, 3) == runs);
  }
  SECTION("ways for another number of kinds are refused") {
    Candidate wrong = wide();
    wrong.runs = {runs[0], runs[1], runs[0]};
    CHECK(infeasibility(s.model, s.workload, wrong, s.cluster.ranks_per_node()));
  }
}

TEST_CASE("Where all kinds run best in one way no layer runs apart") {
  const Small s = two_layers(/*alike=*/true);
  CHECK(strategies_by_kind(s.model, s.workload, s.cluster, wide(), {}, 64, 1).empty());
}

}  // namespace moeplan::tests::strategies_by_kind_test
