#include "planner/placement/strategies/eplb.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

namespace moeplan::tests::eplb_test {

using namespace moeplan::planner;

namespace {

using Numbers = std::vector<std::int64_t>;

// MODELS section 10: two layers of 12 experts in 4 groups, 16 slots on 8 GPUs of 2 nodes.
const Numbers kFirst{90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86};
const Numbers kSecond{20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27};

}  // namespace

TEST_CASE("EPLB's published example comes out exactly") {
  const std::vector<EplbLayer> layers{eplb_rebalance(kFirst, 16, 4, 2, 8), eplb_rebalance(kSecond, 16, 4, 2, 8)};
  CHECK(layers[0].phy2log == Numbers{5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1});
  CHECK(layers[1].phy2log == Numbers{7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1});
  SECTION("with the tables of the released code") {
    const EplbTables tables = eplb_tables(layers);
    for (std::size_t l = 0; l < 2; ++l) {
      CHECK(std::accumulate(tables.logcnt[l].begin(), tables.logcnt[l].end(), std::int64_t{0}) == 16);
      for (std::size_t e = 0; e < 12; ++e) {
        REQUIRE(tables.log2phy[l][e].size() == 2);  // no expert of either layer has more than two replicas
        for (std::int64_t k = 0; k < 2; ++k) {
          const std::int64_t p = tables.log2phy[l][e][static_cast<std::size_t>(k)];
          if (k < tables.logcnt[l][e]) {
            CHECK(tables.phy2log[l][static_cast<std::size_t>(p)] == static_cast<std::int64_t>(e));
          } else {
            CHECK(p == -1);
          }
        }
      }
    }
  }
  SECTION("globally where the nodes do not divide the groups, as if there were one group on one node") {
    CHECK(eplb_rebalance(kFirst, 16, 3, 2, 8) == eplb_rebalance(kFirst, 16, 1, 1, 8));
    CHECK_FALSE(eplb_rebalance(kFirst, 16, 1, 1, 8) == layers[0]);
  }
}

TEST_CASE("Things are packed into equally many a bin") {
  const std::vector<double> weights{5, 9, 1, 3};
  CHECK(balanced_packing(weights, 2).bin == Numbers{1, 0, 0, 1});  // 9 | 5, 3 to the lighter, 1 where there is room
  SECTION("one a bin stay in order, because there is nothing to choose") {
    CHECK(balanced_packing(weights, 4).bin == Numbers{0, 1, 2, 3});
  }
}

TEST_CASE("The released packing may put two replicas of an expert on one GPU, ours never does") {
  const Numbers loads{100, 1, 1, 1};  // five more replicas, all of expert 0: eight slots on two GPUs
  const EplbLayer released = eplb_rebalance(loads, 8, 1, 1, 2);
  CHECK(released.logcnt[0] == 5);
  const auto held = distinct_rebalance(loads, 8, 2);
  for (const Numbers& gpu : held) CHECK(std::count(gpu.begin(), gpu.end(), 0) == 1);
  rc::prop("no GPU holds an expert twice, every expert is held, slots are respected", [] {
    const auto gpus = *rc::gen::inRange<std::int64_t>(1, 9), experts = *rc::gen::inRange<std::int64_t>(1, 20);
    const std::int64_t slots = (experts + gpus - 1) / gpus + *rc::gen::inRange<std::int64_t>(0, 4);
    Numbers random;
    for (std::int64_t e = 0; e < experts; ++e) random.push_back(*rc::gen::inRange<std::int64_t>(0, 1000));
    std::set<std::int64_t> seen;
    std::int64_t all = 0;
    for (const Numbers& gpu : distinct_rebalance(random, gpus * slots, gpus)) {
      RC_ASSERT(static_cast<std::int64_t>(gpu.size()) <= slots);
      RC_ASSERT(std::set<std::int64_t>(gpu.begin(), gpu.end()).size() == gpu.size());
      seen.insert(gpu.begin(), gpu.end());
      all += static_cast<std::int64_t>(gpu.size());
    }
    RC_ASSERT(static_cast<std::int64_t>(seen.size()) == experts);
    RC_ASSERT(all == std::min(gpus * slots, gpus * experts));
  });
}

}  // namespace moeplan::tests::eplb_test
