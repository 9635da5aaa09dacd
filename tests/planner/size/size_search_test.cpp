#include "planner/size/size_search.hpp"

#include <catch2/catch.hpp>

#include "planner/search/search.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::size_search_test {

using namespace moeplan::planner;

namespace {

const SearchSpace kQuick{
    .schedule = "baseline", .most_simulated = 2, .most_varied = 0, .most_ordered = 0, .threads = 1};

double reached(const Inputs& inputs, std::int64_t gpus) { return tried_size(inputs, kQuick, gpus).tokens_per_s; }

}  // namespace

TEST_CASE("A size's throughput is that of the plan that the search finds on as many GPUs", "[slow]") {
  const Inputs inputs = small_inputs({.nodes = 2, .global_batch = 32});
  const TriedSize size = tried_size(inputs, kQuick, 16);
  REQUIRE(size.best);
  const Cluster cluster = build_cluster(inputs.cluster, 16);
  const SearchResult found = search(Problem(inputs.model, inputs.workload, cluster), kQuick);
  CHECK(size.best->candidate == found.ranked.front().candidate);
  CHECK(size.tokens_per_s == Approx(32 * 128 / found.ranked.front().makespan->seconds().value()));
  CHECK(size.global_bound == found.global_bound);
  CHECK(size.no_plan.empty());
}

TEST_CASE("The fewest GPUs reach the throughput, and a node less does not", "[slow]") {
  const Inputs inputs = small_inputs({.nodes = 2, .global_batch = 64, .sequence = 1024});
  const double target = 0.9 * reached(inputs, 16);
  const Sizing sizing = fewest_gpus(inputs, kQuick, target, {.most_gpus = 64});
  REQUIRE(sizing.answer());
  CHECK(sizing.answer()->gpus == sizing.gpus);
  CHECK(sizing.answer()->tokens_per_s >= target);
  CHECK(*sizing.gpus <= 16);
  CHECK(reached(inputs, *sizing.gpus - 4) < target);
  for (std::size_t i = 1; i < sizing.tried.size(); ++i) CHECK(sizing.tried[i - 1].gpus < sizing.tried[i].gpus);
  SECTION("from another size on, too") {
    const Sizing again = fewest_gpus(inputs, kQuick, target, {.most_gpus = 64, .start = 16.0});
    CHECK(again.gpus == sizing.gpus);
    CHECK(again.tried.front().gpus <= 16);
  }
  SECTION("none is said where more are needed than allowed") {
    const Sizing none = fewest_gpus(inputs, kQuick, 1e12, {.most_gpus = 16});
    CHECK_FALSE(none.gpus);
    CHECK(none.answer() == nullptr);
    CHECK(none.tried.back().gpus == 16);
  }
}

TEST_CASE("A size without a plan says why") {
  const TriedSize small_memory = tried_size(small_inputs({.memory = "20 MB"}), kQuick, 4);
  CHECK_FALSE(small_memory.best);
  CHECK_THAT(small_memory.no_plan, Catch::StartsWith("lacks ") && Catch::Contains(" GiB per GPU"));
  const TriedSize indivisible = tried_size(small_inputs({.nodes = 2, .heads = 2, .global_batch = 5}), kQuick, 8);
  CHECK_FALSE(indivisible.best);
  CHECK(indivisible.no_plan == "dp does not divide the global batch");
}

TEST_CASE("Of GPUs at hand, whole nodes are used, and those that give most", "[slow]") {
  const Inputs inputs = small_inputs({.nodes = 2, .moe_layers = 4, .global_batch = 32, .sequence = 1024});
  const Sizing sizing = fastest_of(inputs, kQuick, 18);
  REQUIRE(sizing.answer());
  CHECK(sizing.tried.back().gpus == 16);
  for (const TriedSize& tried : sizing.tried) CHECK(tried.tokens_per_s <= sizing.answer()->tokens_per_s);
  CHECK(fastest_of(inputs, kQuick, 3).tried.empty());
}

}  // namespace moeplan::tests::size_search_test
