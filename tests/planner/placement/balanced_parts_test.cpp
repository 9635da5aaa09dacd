#include "planner/placement/balanced_parts.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

namespace moeplan::tests::balanced_parts_test {

using namespace moeplan::planner;

namespace {

/// By Hall's condition: the worst set of machines, of the loads that it alone can serve.
std::int64_t least_by_sets(const std::vector<std::int64_t>& fixed, const std::vector<DivisibleLoad>& loads) {
  std::int64_t least = *std::max_element(fixed.begin(), fixed.end());
  for (unsigned set = 1; set < 1U << fixed.size(); ++set) {
    std::int64_t sum = 0, machines = 0;
    for (std::size_t m = 0; m < fixed.size(); ++m) {
      if (!(set >> m & 1U)) continue;
      sum += fixed[m];
      ++machines;
    }
    for (const DivisibleLoad& load : loads) {
      const bool inside = std::all_of(load.machines.begin(), load.machines.end(), [&](int m) { return set >> m & 1U; });
      if (inside) sum += load.amount;
    }
    least = std::max(least, (sum + machines - 1) / machines);
  }
  return least;
}

}  // namespace

TEST_CASE("Divisible loads are spread so that the largest sum is least") {
  SECTION("two machines share what both may serve") {
    const std::vector<DivisibleLoad> loads{{10, {0, 1}}};
    const std::vector<std::int64_t> fixed{7, 1};
    const BalancedParts b = balanced_parts(fixed, loads);
    CHECK(b.largest == (7 + 1 + 10) / 2);
    CHECK(b.parts == std::vector<std::vector<std::int64_t>>{{2, 8}});
  }
  SECTION("load moves on along chains of machines") {
    const std::vector<DivisibleLoad> loads{{10, {0, 1}}, {10, {1, 2}}, {10, {2, 3}}};
    const std::vector<std::int64_t> fixed{10, 0, 0, 0};
    CHECK(balanced_parts(fixed, loads).largest == 40 / 4);
  }
  rc::prop("no set of machines could do with less (Hall's condition), and every load is served in full", [] {
    const auto machines = *rc::gen::inRange<std::int32_t>(1, 7);
    std::vector<std::int64_t> fixed;
    for (int m = 0; m < machines; ++m) fixed.push_back(*rc::gen::inRange<std::int64_t>(0, 30));
    std::vector<DivisibleLoad> loads;
    for (int i = *rc::gen::inRange(0, 8); i > 0; --i) {
      DivisibleLoad load{*rc::gen::inRange<std::int64_t>(0, 40), {}};
      for (std::int32_t m = 0; m < machines; ++m) {
        if (*rc::gen::inRange(0, 3) == 0) load.machines.push_back(m);
      }
      if (load.machines.empty()) load.machines.push_back(0);
      loads.push_back(load);
    }
    const BalancedParts b = balanced_parts(fixed, loads);
    RC_ASSERT(b.largest == least_by_sets(fixed, loads));
    std::vector<std::int64_t> sums = fixed;
    for (std::size_t i = 0; i < loads.size(); ++i) {
      RC_ASSERT(std::accumulate(b.parts[i].begin(), b.parts[i].end(), std::int64_t{0}) == loads[i].amount);
      for (std::size_t k = 0; k < loads[i].machines.size(); ++k) {
        RC_ASSERT(b.parts[i][k] >= 0);
        sums[static_cast<std::size_t>(loads[i].machines[k])] += b.parts[i][k];
      }
    }
    RC_ASSERT(*std::max_element(sums.begin(), sums.end()) <= b.largest);
  });
}

}  // namespace moeplan::tests::balanced_parts_test
