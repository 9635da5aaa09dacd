// Distinct rows: how many of a source's tokens select any expert of a set.
#include "model/program/row_sets.hpp"

#include <bit>
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "model/program/resolve.hpp"
#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::row_sets_test {

namespace {

constexpr std::int64_t kTokens = 100'000;

/// One source in a group of `ranks` that share `experts` evenly; each token selects top_k of them.
Program gated(std::int64_t ranks, std::int64_t experts, std::int64_t top_k, ExpertGroups groups) {
  Program p = tests::one_block(ranks, {{"ep", ranks, 1}});
  p.routings.push_back(
      {RoutingCounts::uniform(ranks, experts, kTokens * top_k / experts), GroupId(0), top_k, {}, groups});
  return p;
}

double distinct(const Program& p, std::int64_t rank, Rows::Experts experts = Rows::Experts::Local) {
  Rows rows = Rows::routed(RoutingId(0), experts, {});
  rows.distinct = true;
  return static_cast<double>(row_count(p, rows, RankId(static_cast<std::int32_t>(rank))));
}

/// C(n, k)
double choose(std::int64_t n, std::int64_t k) {
  double out = 1;
  for (std::int64_t i = 0; i < k; ++i) out *= static_cast<double>(n - i) / static_cast<double>(k - i);
  return n < k ? 0 : out;
}

/// Over every choice of groups, and then of top_k experts in them: the share of tokens with one in a set that has
/// `in_set` experts of each group.
double share_by_enumeration(const std::vector<std::int64_t>& in_set, std::int64_t group_size, std::int64_t per_token,
                            std::int64_t top_k) {
  double found = 0, choices = 0;
  for (unsigned chosen = 0; chosen < 1U << in_set.size(); ++chosen) {
    if (std::popcount(chosen) != per_token) continue;
    std::int64_t reached = 0;
    for (std::size_t g = 0; g < in_set.size(); ++g) reached += chosen >> g & 1U ? in_set[g] : 0;
    const std::int64_t all = per_token * group_size;
    found += 1 - choose(all - reached, top_k) / choose(all, top_k);
    choices += 1;
  }
  return found / choices;
}

/// 24 ranks in groups of different sizes and strides.
Program in_groups() { return tests::one_block(24, {{"pair", 2, 1}, {"four", 4, 3}, {"six", 6, 4}, {"all", 24, 1}}); }

/// All paths over these groups of at most three steps.
std::vector<std::vector<RowStep>> all_paths() {
  using Kind = RowStep::Kind;
  const std::vector<RowStep> steps{{Kind::Union, GroupId(2)},       {Kind::Union, GroupId(3)},
                                   {Kind::Union, GroupId(3), 1, 2}, {Kind::Share, GroupId(0)},
                                   {Kind::Share, GroupId(1)},       {Kind::Leader, GroupId(1)},
                                   {Kind::Copies, GroupId(0)},      {Kind::Chunk, GroupId(0), 1, 3}};
  std::vector<std::vector<RowStep>> paths{{}};
  for (std::size_t length = 0, first = 0; length < 3; ++length) {
    const std::size_t last = paths.size();
    for (; first < last; ++first) {
      for (const RowStep& step : steps) {
        paths.push_back(paths[first]);
        paths.back().push_back(step);
      }
    }
  }
  return paths;
}

}  // namespace

TEST_CASE("A group-limited gate sends a token to fewer ranks") {
  // DeepSeek-V3: 256 experts in 8 groups, of which a token's 8 experts are in 4.
  const ExpertGroups limited{8, 4};
  SECTION("a group on each of 8 nodes: a token goes to 4 of these at most") {
    const Program with = gated(8, 256, 8, limited), without = gated(8, 256, 8, {});
    const double share = 0.5 * (1 - choose(96, 8) / choose(128, 8));
    CHECK(distinct(with, 3) == Approx(share * kTokens).margin(0.5));
    CHECK(distinct(without, 3) == Approx((1 - choose(224, 8) / choose(256, 8)) * kTokens).margin(0.5));
    double nodes = 0;
    for (std::int64_t r = 0; r < 8; ++r) nodes += distinct(with, r) / kTokens;
    CHECK(nodes <= 4);
    CHECK(8 * distinct(without, 0) / kTokens > 5);
  }
  SECTION("a set of parts of groups, or of several: as every choice of groups and experts gives") {
    for (const auto& [ranks, in_set] :
         std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>>{{64, {4, 0, 0, 0, 0, 0, 0, 0}},
                                                                         {16, {16, 0, 0, 0, 0, 0, 0, 0}},
                                                                         {4, {32, 32, 0, 0, 0, 0, 0, 0}},
                                                                         {2, {32, 32, 32, 32, 0, 0, 0, 0}}}) {
      CAPTURE(ranks);
      const Program p = gated(ranks, 256, 8, limited);
      const double expected = share_by_enumeration(in_set, 32, 4, 8) * kTokens;
      for (const std::int64_t rank : {std::int64_t{0}, ranks - 1})
        CHECK(distinct(p, rank) == Approx(expected).margin(0.5));
    }
  }
  SECTION("every token has a row where all experts are") { CHECK(distinct(gated(1, 256, 8, limited), 0) == kTokens); }
  SECTION("as many groups as there are is no limit") {
    CHECK(distinct(gated(8, 256, 8, {8, 8}), 0) == distinct(gated(8, 256, 8, {}), 0));
  }
  SECTION("rows of experts are as before: the gate's counts hold") {
    const Rows rows = Rows::routed(RoutingId(0), Rows::Experts::Local, {});
    CHECK(row_count(gated(8, 256, 8, limited), rows, RankId(0)) == row_count(gated(8, 256, 8, {}), rows, RankId(0)));
  }
}

TEST_CASE("Groups that are chosen unequally often") {
  // Two groups of two experts, one of them a token, and both experts of it: a token is on one rank or on the other.
  Program p = gated(2, 4, 2, {2, 1});
  p.routings[0].counts = RoutingCounts::by_expert(2, {300, 300, 100, 100});
  CHECK(distinct(p, 0) == 300);
  CHECK(distinct(p, 1) == 100);
  SECTION("with placed experts it is the experts of the slots that are in groups") {
    p.routings[0].counts = RoutingCounts::by_expert(2, {300, 100, 300, 100});
    p.routings[0].slots = {ExpertSlot{ExpertId(0)}, ExpertSlot{ExpertId(2)}, ExpertSlot{ExpertId(1)},
                           ExpertSlot{ExpertId(3)}};
    // Each rank has an expert of each group: every token has a row on both.
    CHECK(distinct(p, 0) == 400);
    CHECK(distinct(p, 1) == 400);
  }
}

TEST_CASE("Rows of all ranks are those of one after the other") {
  // 11 experts with another count at every source; holders are the six, so the first five have two experts each.
  Program p = in_groups();
  std::vector<std::int64_t> counts;
  for (std::int64_t i = 0; i < 24L * 11; ++i) counts.push_back(i * i % 101);
  p.routings.push_back({RoutingCounts::dense(24, 11, counts), GroupId(2), 2});
  for (const std::vector<RowStep>& path : all_paths()) {
    for (const Rows::Experts experts : {Rows::Experts::All, Rows::Experts::Local, Rows::Experts::Held}) {
      Rows rows = Rows::routed(RoutingId(0), experts, path);
      rows.holders = GroupId(2);
      std::vector<std::int64_t> of_rank;
      for (std::int32_t r = 0; r < 24; ++r) of_rank.push_back(row_count(p, rows, RankId(r)));
      REQUIRE(row_counts(p, rows) == of_rank);
    }
  }
}

TEST_CASE("Equal experts and members at equal positions are counted once") {
  // Every source has the counts 5, 7, 5, 9, 7, 5. The reference has a 25th source with other counts, which no rank is:
  // its rows are added up one by one.
  const std::vector<std::int64_t> counts{5, 7, 5, 9, 7, 5};
  std::vector<std::int64_t> by_source;
  for (int source = 0; source < 24; ++source) by_source.insert(by_source.end(), counts.begin(), counts.end());
  by_source.insert(by_source.end(), {1, 2, 3, 4, 5, 6});
  Program equal = in_groups();
  Program reference = equal;
  equal.routings.push_back({RoutingCounts::by_expert(24, counts), GroupId(2), 2});
  reference.routings.push_back({RoutingCounts::dense(25, 6, by_source), GroupId(2), 2});
  REQUIRE(equal.routings.front().counts.same_for_all_sources());
  REQUIRE_FALSE(reference.routings.front().counts.same_for_all_sources());

  for (const std::vector<RowStep>& path : all_paths()) {
    for (const Rows::Experts experts : {Rows::Experts::All, Rows::Experts::Local}) {
      const Rows rows = Rows::routed(RoutingId(0), experts, path);
      std::vector<std::int64_t> of_rank;
      for (std::int32_t r = 0; r < 24; ++r) {
        of_rank.push_back(row_count(equal, rows, RankId(r)));
        REQUIRE(of_rank.back() == row_count(reference, rows, RankId(r)));
        REQUIRE(rows_by_expert(equal, rows, RankId(r)) == rows_by_expert(reference, rows, RankId(r)));
      }
      REQUIRE(row_counts(equal, rows) == of_rank);
      if (equal_on_all_ranks(equal, rows)) REQUIRE(of_rank == std::vector<std::int64_t>(24, of_rank.front()));
    }
  }
}

}  // namespace moeplan::tests::row_sets_test
