#include "planner/placement/migration.hpp"

#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>

#include "tests/support/placement_cases.hpp"

namespace moeplan::tests::migration_test {

using namespace moeplan::planner;

namespace {

ExpertMove move(int expert, int from, int to) { return {ExpertId(expert), RankId(from), RankId(to)}; }

}  // namespace

TEST_CASE("Experts move from who has them to who holds them from now on") {
  const Placement before = contiguous_placement(4, 4);
  SECTION("in training a home with its states, and no copy, since those get their weights every iteration") {
    Placement after = placement_of_homes({2, 1, 0, 3});
    add_holder(after.experts[1], RankId(3), 1);
    CHECK(expert_moves(before, after, 2, true) == std::vector{move(0, 0, 2), move(2, 2, 0)});
    CHECK(expert_moves(after, after, 2, true).empty());
  }
  SECTION("where nothing trains from the nearest holder, of equal ones from that with the fewest to send") {
    Placement held = before;
    add_holder(held.experts[0], RankId(2), 1);
    Placement wider = held;
    add_holder(wider.experts[0], RankId(1), 1);
    add_holder(wider.experts[0], RankId(3), 1);
    CHECK(expert_moves(held, wider, 2, false) == std::vector{move(0, 0, 1), move(0, 2, 3)});
    CHECK(expert_moves(held, wider, 4, false) == std::vector{move(0, 0, 1), move(0, 2, 3)});  // one node: in turn
    CHECK(expert_moves(held, wider, 1, false) == std::vector{move(0, 0, 1), move(0, 2, 3)});
    CHECK(expert_moves(wider, before, 2, false).empty());
  }
  rc::prop("whoever lacks an expert gets it once, from one who had it, and nobody else gets anything", [] {
    const auto ranks = *rc::gen::inRange<std::int64_t>(1, 9), experts = *rc::gen::inRange<std::int64_t>(1, 13);
    const Placement from = tests::any_placement(ranks, experts), to = tests::any_placement(ranks, experts);
    const auto per_node = *rc::gen::inRange<std::int64_t>(1, ranks + 1);
    for (const bool trains : {true, false}) {
      const std::vector<ExpertMove> moves = expert_moves(from, to, per_node, trains);
      std::size_t expected = 0;
      for (std::size_t e = 0; e < to.experts.size(); ++e) {
        const ExpertPlacement &old = from.experts[e], &now = to.experts[e];
        std::vector<RankId> wanting;
        for (const ExpertHolder& h : now.holders) {
          if (trains ? h.rank == now.home && old.home != h.rank : !old.holder(h.rank)) wanting.push_back(h.rank);
        }
        for (const RankId rank : wanting) {
          const auto of = [&](const ExpertMove& m) { return m.expert.index() == e && m.to == rank; };
          RC_ASSERT(std::count_if(moves.begin(), moves.end(), of) == 1);
          const ExpertMove& m = *std::find_if(moves.begin(), moves.end(), of);
          RC_ASSERT((trains ? m.from == old.home : old.holder(m.from) != nullptr));
          if (trains) continue;
          const auto is_near = [&](RankId other) { return other.value() / per_node == rank.value() / per_node; };
          const bool has_near = std::any_of(old.holders.begin(), old.holders.end(),
                                            [&](const ExpertHolder& h) { return is_near(h.rank); });
          RC_ASSERT(is_near(m.from) == has_near);
        }
        expected += wanting.size();
      }
      RC_ASSERT(moves.size() == expected);
    }
  });
}

}  // namespace moeplan::tests::migration_test
