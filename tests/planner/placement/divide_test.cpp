#include "planner/placement/divide.hpp"

#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>
#include <map>

#include "tests/support/placement_cases.hpp"

namespace moeplan::tests::divide_test {

using namespace moeplan::planner;

namespace {

using Column = std::vector<std::int64_t>;

std::vector<std::int64_t> by_rank(std::span<const TokenFlow> flows, std::size_t ranks) {
  std::vector<std::int64_t> sums(ranks, 0);
  for (const TokenFlow& f : flows) sums[f.rank.index()] += f.tokens;
  return sums;
}

}  // namespace

TEST_CASE("Counts by expert are the transposed counts") {
  const ExpertColumns columns(RoutingCounts::dense(2, 3, {1, 2, 3, 4, 5, 6}));
  CHECK(columns.experts() == 3);
  CHECK(Column(columns.column(1).begin(), columns.column(1).end()) == Column{2, 5});
  CHECK(columns.load(2) == 3 + 6);
}

TEST_CASE("Holders divide an expert's tokens") {
  // Four ranks in two nodes; ranks 1 and 2 hold the expert, with shares 1 and 3.
  TokenDivider divider(4, 2);
  const ExpertPlacement place{RankId(1), {{RankId(1), 1, 1}, {RankId(2), 3, 1}}};
  const Column column{40, 80, 16, 4};
  SECTION("by shares alone: every source's tokens") {
    CHECK(by_rank(divider.divide(column, place, Nearest::Off), 4) == Column{0, 140 / 4, 140 * 3 / 4, 0});
  }
  SECTION("nearest rank: a holder's own stay") {
    CHECK(by_rank(divider.divide(column, place, Nearest::Rank), 4) == Column{0, 80 + 44 / 4, 16 + 44 * 3 / 4, 0});
  }
  SECTION("nearest node: those of a node with a holder stay there") {
    CHECK(by_rank(divider.divide(column, place, Nearest::Node), 4) == Column{0, 80 + 40, 16 + 4, 0});
  }
  SECTION("a replica without a share serves its own rank alone, as a shadow does") {
    const ExpertPlacement shadowed{RankId(1), {{RankId(1), 1, 1}, {RankId(2), 0, 1}}};
    CHECK(by_rank(divider.divide(column, shadowed, Nearest::Rank), 4) == Column{0, 140 - 16, 16, 0});
    CHECK(by_rank(divider.divide(column, shadowed, Nearest::Node), 4) == Column{0, 120, 20, 0});
  }
  SECTION("what rounding withholds is owed: single tokens of many sources follow the shares") {
    CHECK(by_rank(divider.divide(Column{1, 1, 1, 1}, place, Nearest::Off), 4) == Column{0, 1, 3, 0});
  }
}

TEST_CASE("Every token reaches a holder of its expert, and none is lost") {
  rc::prop("for any placement, whatever its rule", [] {
    const RoutingCounts counts = tests::any_counts();
    const Placement placement = tests::any_placement(counts.sources(), counts.experts());
    const std::int64_t per_node = *rc::gen::inRange<std::int64_t>(1, counts.sources() + 1);
    const ExpertColumns columns(counts);
    TokenDivider divider(counts.sources(), per_node);
    for (std::size_t e = 0; e < placement.experts.size(); ++e) {
      const ExpertPlacement& place = placement.experts[e];
      std::map<std::int32_t, std::int64_t> sent;
      std::map<std::int32_t, double> served;
      for (const TokenFlow& flow : divider.divide(columns.column(e), place, placement.nearest)) {
        RC_ASSERT(flow.tokens > 0);
        RC_ASSERT(place.holder(flow.rank) != nullptr);
        sent[flow.source.value()] += flow.tokens;
        served[flow.rank.value()] += static_cast<double>(flow.tokens);
      }
      double shares = 0;
      for (const ExpertHolder& h : place.holders) shares += static_cast<double>(h.share);
      for (std::int32_t s = 0; s < counts.sources(); ++s) RC_ASSERT(sent[s] == counts.at(RankId(s), ExpertId(e)));
      if (placement.nearest != Nearest::Off) continue;
      for (const ExpertHolder& h : place.holders) {  // sums follow the shares, up to what is owed at the end
        const double exact = static_cast<double>(columns.load(e)) * static_cast<double>(h.share) / shares;
        RC_ASSERT(std::abs(served[h.rank.value()] - exact) <= static_cast<double>(place.holders.size()));
      }
    }
  });
}

}  // namespace moeplan::tests::divide_test
