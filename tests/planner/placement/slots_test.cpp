// Placements as Programs have them: slots, whose tokens and weights add up.
#include "planner/placement/slots.hpp"

#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>

#include "model/program/resolve.hpp"
#include "model/program/row_keys.hpp"
#include "model/program/row_sets.hpp"
#include "tests/support/placement_cases.hpp"
#include "tests/support/programs.hpp"

namespace moeplan::tests::slots_test {

using namespace moeplan::planner;

namespace {

RankId rank(std::int64_t r) { return RankId(static_cast<std::int32_t>(r)); }

/// A Program of one operation: weights of 3 rows of 8 bytes to the copies, or gradients back.
Program transfer(PlacedRouting table, std::int64_t world, GroupFamily holders, std::int64_t per_node, bool home) {
  Program p;
  p.world_size = world;
  p.ranks_per_node = per_node;
  p.groups = {std::move(holders)};
  p.routings = {{std::move(table.counts), GroupId(0), 1, std::move(table.slots)}};
  p.buffers = {{"w", 8, Dtype::Int8}};
  Operation op;
  op.work = Communication{.collective = Collective::Broadcast, .group = GroupId(0), .reduces = home};
  const Slice homes{BufferId(0), Rows::per_expert(RoutingId(0), 3, Rows::Experts::Homes)};
  const Slice copies{BufferId(0), Rows::per_expert(RoutingId(0), 3, Rows::Experts::Copies)};
  op.reads = {home ? copies : homes};
  op.writes = {home ? homes : copies};
  p.blocks = {{"b", {op}}};
  p.stages.front() = {{.block = BlockId(0)}};
  return p;
}

const Operation& only(const Program& p) { return p.blocks[0].operations[0]; }

}  // namespace

TEST_CASE("A placement becomes slots, as many on every rank") {
  // Expert 0 at home on rank 1 with a copy on rank 0; expert 1 on rank 0; rank 2 holds nothing.
  Placement placement = placement_of_homes({1, 0});
  add_holder(placement.experts[0], rank(0), 1);
  placement.nearest = Nearest::Rank;
  const RoutingCounts counts = RoutingCounts::dense(3, 2, {10, 1, 20, 2, 31, 3});
  const PlacedRouting table = placed(counts, placement, {"ep", 3, 1}, 3);
  REQUIRE(table.slots.size() == 3 * 2);
  CHECK(table.slots[0] == ExpertSlot{ExpertId(0), false});
  CHECK(table.slots[1] == ExpertSlot{ExpertId(1), true});
  CHECK(table.slots[2] == ExpertSlot{ExpertId(0), true});
  CHECK(!table.slots[3].has_value());
  CHECK(!table.slots[4].has_value());
  SECTION("sources with a slot of the expert keep its tokens, others divide them") {
    const auto row = [&](std::int64_t s) {
      std::vector<std::int64_t> out;
      for (std::int32_t i = 0; i < 6; ++i) out.push_back(table.counts.at(rank(s), ExpertId(i)));
      return out;
    };
    CHECK(row(0) == std::vector<std::int64_t>{10, 1, 0, 0, 0, 0});
    CHECK(row(1) == std::vector<std::int64_t>{0, 2, 20, 0, 0, 0});
    CHECK(row(2)[0] + row(2)[2] == 31);
    CHECK(std::abs(row(2)[0] - row(2)[2]) == 1);
  }
  SECTION("an expert is selected as often as its slots together") {
    const RoutingTable whole{table.counts, GroupId(0), 1, table.slots};
    for (std::int64_t s = 0; s < 3; ++s) {
      CHECK(selections_by_expert(whole, rank(s)) ==
            std::vector<std::int64_t>{counts.at(rank(s), ExpertId(0)), counts.at(rank(s), ExpertId(1))});
    }
  }
  SECTION("an empty slot has no weights") {
    const Program p = transfer(table, 3, {"ep", 3, 1}, 3, false);
    const auto weights = [&](Rows::Experts experts, std::int64_t r) {
      return row_count(p, Rows::per_expert(RoutingId(0), 3, experts), rank(r)) / 3;
    };
    CHECK(weights(Rows::Experts::Local, 0) == 2);
    CHECK(weights(Rows::Experts::Local, 1) == 1);
    CHECK(weights(Rows::Experts::Local, 2) == 0);
    CHECK(weights(Rows::Experts::Homes, 0) == 1);
    CHECK(weights(Rows::Experts::Copies, 0) == 1);
    CHECK(weights(Rows::Experts::Copies, 1) == 0);
    CHECK(weights(Rows::Experts::All, 0) == 3);
  }
  SECTION("a rank's homes and copies") {
    CHECK(slot_use(placement, 3) == std::vector<SlotUse>{{1, 1}, {1, 0}, {0, 0}});
    add_holder(placement.experts[0], rank(0), 1);  // a second copy on one rank serves nobody, but fills a slot
    CHECK(slot_use(placement, 3)[0] == SlotUse{1, 2});
    CHECK(placed(counts, placement, {"ep", 3, 1}, 3).slots.size() == 3 * 3);
  }
}

TEST_CASE("Weights go to copies along a chain that enters every node once, and gradients come back") {
  // Six ranks in nodes of two. Home 2; copies on 0, 3, 5: the own node first (3), then 0, then 5.
  Placement placement = placement_of_homes({2});
  for (const int r : {0, 3, 5}) add_holder(placement.experts[0], rank(r), 1);
  const PlacedRouting table = placed(RoutingCounts::uniform(6, 1, 4), placement, {"ep", 6, 1}, 2);
  const std::int64_t bytes = 3 * 8;
  const Program there = transfer(table, 6, {"ep", 6, 1}, 2, false), back = transfer(table, 6, {"ep", 6, 1}, 2, true);
  CHECK(group_flows(there, only(there), rank(0)) ==
        std::vector<Flow>{{rank(0), rank(5), bytes}, {rank(2), rank(3), bytes}, {rank(3), rank(0), bytes}});
  CHECK(group_flows(back, only(back), rank(0)) ==
        std::vector<Flow>{{rank(0), rank(3), bytes}, {rank(3), rank(2), bytes}, {rank(5), rank(0), bytes}});
  CHECK(flows_from(there, only(there), rank(3)) == std::vector<Flow>{{rank(3), rank(0), bytes}});
  CHECK(flows_to(there, only(there), rank(3)) == std::vector<Flow>{{rank(2), rank(3), bytes}});
}

TEST_CASE("What is placed anyhow is conserved") {
  rc::prop("every token has a slot of its expert, in its own group; every copy gets its weights once", [] {
    const RoutingCounts one = any_counts();
    const std::int64_t ranks = one.sources(), groups = *rc::gen::inRange<std::int64_t>(1, 4);
    // Several groups: neighbours, or interleaved.
    const GroupFamily holders{"ep", ranks, *rc::gen::element<std::int64_t>(1, groups)};
    std::vector<std::int64_t> all;
    for (std::int64_t s = 0; s < ranks * groups; ++s) {
      for (std::int32_t e = 0; e < one.experts(); ++e) all.push_back(one.at(rank(s % ranks), ExpertId(e)) + s);
    }
    const RoutingCounts counts = RoutingCounts::dense(ranks * groups, one.experts(), std::move(all));
    const Placement placement = any_placement(ranks, one.experts());
    const std::int64_t near = *rc::gen::inRange<std::int64_t>(1, ranks + 1);
    const PlacedRouting table = placed(counts, placement, holders, near);
    const Program p = transfer(table, ranks * groups, holders, near * holders.stride, false);
    RC_ASSERT(p.routings.front().num_experts() == one.experts());
    const RoutingCounts folded = expert_counts(p.routings.front());
    std::int64_t slots_of_experts = 0;
    for (std::int64_t s = 0; s < ranks * groups; ++s) {
      for (std::int32_t e = 0; e < one.experts(); ++e)
        RC_ASSERT(folded.at(rank(s), ExpertId(e)) == counts.at(rank(s), ExpertId(e)));
    }
    for (std::size_t slot = 0; slot < table.slots.size(); ++slot) {
      for (std::int64_t s = 0; s < ranks * groups && !table.slots[slot]; ++s)
        RC_ASSERT(table.counts.at(rank(s), ExpertId(slot)) == 0);
      slots_of_experts += table.slots[slot] ? 1 : 0;
    }
    for (std::int64_t r = 0; r < ranks * groups; ++r) {
      std::int64_t received = 0, returned = 0;
      for (const Flow& f : flows_to(p, only(p), rank(r))) received += f.bytes;
      Program back = p;
      back.blocks[0].operations[0].work =
          Communication{.collective = Collective::Broadcast, .group = GroupId(0), .reduces = true};
      std::swap(back.blocks[0].operations[0].reads, back.blocks[0].operations[0].writes);
      for (const Flow& f : flows_from(back, only(back), rank(r))) returned += f.bytes;
      RC_ASSERT(received == byte_count(p, only(p).writes.front(), rank(r)));
      RC_ASSERT(returned == received);
    }
    std::int64_t holders_of_experts = 0;
    for (const ExpertPlacement& e : placement.experts) holders_of_experts += std::ssize(e.holders);
    RC_ASSERT(slots_of_experts == holders_of_experts);
  });
}

TEST_CASE("Placements are planned for the tokens of all groups together") {
  const RoutingCounts counts = RoutingCounts::dense(4, 2, {1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(counts_by_position(counts, {"ep", 2, 1}) == RoutingCounts::dense(2, 2, {1 + 5, 2 + 6, 3 + 7, 4 + 8}));
  CHECK(counts_by_position(counts, {"ep", 2, 2}) == RoutingCounts::dense(2, 2, {1 + 3, 2 + 4, 5 + 7, 6 + 8}));
}

}  // namespace moeplan::tests::slots_test
