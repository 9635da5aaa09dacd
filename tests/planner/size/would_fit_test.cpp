#include "planner/size/would_fit.hpp"

#include <catch2/catch.hpp>

#include "planner/search/search.hpp"
#include "planner/size/job_sizes.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::would_fit_test {

using namespace moeplan::planner;

namespace {

const SearchSpace kAll{.most_simulated = 1, .most_varied = 0, .most_ordered = 0, .threads = 1};

bool search_finds(const Inputs& inputs, std::int64_t gpus) {
  const Cluster cluster = build_cluster(inputs.cluster, gpus);
  return !search(Problem(inputs.model, inputs.workload, cluster), kAll).ranked.empty();
}

/// A model of 8.6 GB of weights and states on 4 GPUs of 2 GB.
const SmallCase kLarge{
    .nodes = 2, .memory = "2 GB", .hidden = 1024, .experts = 32, .expert_hidden = 4096, .global_batch = 64};

}  // namespace

TEST_CASE("There is a plan where the search finds one", "[slow]") {
  for (const char* memory : {"1 GB", "2 GB", "6 GB", "80 GB"}) {
    SmallCase c = kLarge;
    c.memory = memory;
    const Inputs inputs = small_inputs(c);
    CAPTURE(memory);
    const Cluster cluster = build_cluster(inputs.cluster, 8);
    CHECK(has_plan(Problem(inputs.model, inputs.workload, cluster), kAll) == search_finds(inputs, 8));
  }
}

TEST_CASE("Where memory lacks, the fewest GPUs are named with which a plan fits", "[slow]") {
  const Inputs inputs = small_inputs(kLarge);
  REQUIRE_FALSE(search_finds(inputs, 4));
  const WouldFit w = what_would_fit(inputs, kAll, 4);
  REQUIRE(w.more);
  CHECK(search_finds(inputs, *w.more));
  CHECK_FALSE(search_finds(inputs, *w.more - 4));
  CHECK_FALSE(w.fewer);
  CHECK_FALSE(w.global_batch);
  SECTION("or none, and how many were tried, where no number helps") {
    SmallCase none = kLarge;
    none.memory = "100 MB";
    const WouldFit without = what_would_fit(small_inputs(none), kAll, 4);
    CHECK_FALSE(without.more);
    CHECK(without.most_tried_gpus == 64);
  }
}

TEST_CASE("Where the batch does not divide, other GPUs and a larger batch are named", "[slow]") {
  const Inputs inputs = small_inputs({.nodes = 2, .dense_layers = 0, .moe_layers = 2, .global_batch = 32});
  REQUIRE_FALSE(divides_job(inputs, kAll, 12));
  REQUIRE_FALSE(search_finds(inputs, 12));
  const WouldFit w = what_would_fit(inputs, kAll, 12);
  CHECK(w.more == 16);
  CHECK(w.fewer == 8);
  CHECK(w.global_batch == 36);  // of the multiples of divisors of 12 up to 40, that of the largest
  Inputs other = inputs;
  other.workload.global_batch = 36;
  CHECK(search_finds(other, 12));
}

}  // namespace moeplan::tests::would_fit_test
