#include "tests/support/rank_fronts.hpp"

#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>

#include "model/base/whole_numbers.hpp"

namespace moeplan::tests::rank_fronts_test {

using namespace moeplan::planner;

TEST_CASE("Of the divisions of a node's experts those are found of which none is worse in load and in traffic") {
  rc::prop("as by trying every division", [] {
    const auto count = *rc::gen::inRange<std::int64_t>(0, 7), ranks = *rc::gen::inRange<std::int64_t>(1, 4);
    const std::int64_t slots = ceil_div(count, ranks) + *rc::gen::inRange<std::int64_t>(0, 2);
    std::vector<ExpertWeights> experts;
    for (std::int64_t e = 0; e < count; ++e)
      experts.push_back({*rc::gen::inRange<std::int64_t>(0, 20), *rc::gen::inRange<std::int64_t>(0, 20)});
    const PriceFloor floor{.computes = 3,
                           .exchanges = 4,
                           .token_time = Seconds(1),
                           .far_time = Seconds(0.5),
                           .compute = Seconds(static_cast<double>(*rc::gen::inRange(0, 30))),
                           .exchange = Seconds(static_cast<double>(*rc::gen::inRange(0, 30)))};
    const Seconds limit(static_cast<double>(*rc::gen::inRange(1, 200)));

    SearchBudget budget{1'000'000};
    const RankFront front = rank_front(experts, ranks, slots, floor, limit, budget);
    RC_ASSERT(front.is_complete);
    const auto sums = [&](const std::vector<std::int64_t>& homes) {
      std::vector<ExpertWeights> rank(static_cast<std::size_t>(ranks));
      std::vector<std::int64_t> held(rank.size(), 0);
      for (std::size_t e = 0; e < homes.size(); ++e) {
        const auto r = static_cast<std::size_t>(homes[e]);
        rank[r].load += experts[e].load;
        rank[r].far += experts[e].far;
        ++held[r];
      }
      ExpertWeights most{0, 0};
      bool fits = true;
      for (std::size_t r = 0; r < rank.size(); ++r) {
        most = {std::max(most.load, rank[r].load), std::max(most.far, rank[r].far)};
        fits = fits && held[r] <= slots;
      }
      return std::pair(most, fits);
    };
    for (const RankFront::Point& p : front.points) {
      const auto [most, fits] = sums(p.ranks);
      RC_ASSERT(fits);
      RC_ASSERT(most.load == p.load);
      RC_ASSERT(most.far == p.far);
      RC_ASSERT(floor(p.load, p.far) < limit);
    }
    std::vector<std::int64_t> homes(experts.size(), 0);
    for (bool is_last = false; !is_last;) {
      const auto [most, fits] = sums(homes);
      if (fits && floor(most.load, most.far) < limit) {
        RC_ASSERT(std::any_of(front.points.begin(), front.points.end(),
                              [&most = most](const auto& p) { return p.load <= most.load && p.far <= most.far; }));
      }
      std::size_t e = 0;
      while (e < homes.size() && ++homes[e] == ranks) homes[e++] = 0;
      is_last = e == homes.size();
    }
  });
  SECTION("a budget that ends is told, since others may be missing") {
    const std::vector<ExpertWeights> experts(12, ExpertWeights{1, 1});
    const PriceFloor floor{.computes = 1, .exchanges = 1, .token_time = Seconds(1), .far_time = Seconds(1)};
    SearchBudget budget{2};
    CHECK_FALSE(rank_front(experts, 4, 3, floor, Seconds(1e9), budget).is_complete);
  }
}

}  // namespace moeplan::tests::rank_fronts_test
