#include "model/program/program.hpp"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <set>

namespace moeplan::tests::program_test {

TEST_CASE("a group family splits ranks by size and stride") {
  const GroupFamily family{"ep", 4, 2};  // of 16 ranks: {0, 2, 4, 6}, {1, 3, 5, 7}, {8, ...}, {9, ...}
  SECTION("rank 13 is the third of {9, 11, 13, 15}, because 13 / 2 mod 4 = 2") {
    CHECK(family.position(RankId(13)) == 13 / 2 % 4);
    CHECK(family.base(RankId(13)) == RankId(9));
    CHECK(family.member(RankId(13), 3) == RankId(15));
  }
  SECTION("a group of one is the rank itself") {
    const GroupFamily alone{"none", 1, 7};
    CHECK(alone.position(RankId(5)) == 0);
    CHECK(alone.base(RankId(5)) == RankId(5));
  }
  SECTION("families of any size and stride that divide the world are partitions") {
    CHECK(rc::check("every rank is once the member of its own group", [] {
      const std::int64_t size = *rc::gen::inRange<std::int64_t>(1, 7), stride = *rc::gen::inRange<std::int64_t>(1, 7);
      const std::int64_t world = size * stride * *rc::gen::inRange<std::int64_t>(1, 4);
      const GroupFamily f{"f", size, stride};
      std::set<RankId> seen;
      for (std::int64_t r = 0; r < world; ++r) {
        const RankId rank(static_cast<std::int32_t>(r));
        RC_ASSERT(f.member(rank, f.position(rank)) == rank);
        if (f.base(rank) != rank) continue;
        for (std::int64_t p = 0; p < size; ++p) {
          const RankId m = f.member(rank, p);
          RC_ASSERT(f.base(m) == rank);
          RC_ASSERT(f.position(m) == p);
          RC_ASSERT(m.value() < world);
          RC_ASSERT(seen.insert(m).second);
        }
      }
      RC_ASSERT(seen.size() == static_cast<std::size_t>(world));
    }));
  }
}

TEST_CASE("blocks are counted through nested repeats") {
  Program p;
  p.blocks.resize(4);
  const Step a{.block = BlockId(0)}, b{.block = BlockId(1)}, c{.block = BlockId(2)};
  const Step inner{.block = {}, .count = 5, .body = {b, a}};
  const Step outer{.block = {}, .count = 3, .body = {a, inner, b}};
  p.stages.front() = {a, outer, c};
  CHECK(block_counts(p) == std::vector<std::int64_t>{1 + 3 * (1 + 5), 3 * (5 + 1), 1, 0});
}

TEST_CASE("every name stands at its enumerator, so that tables may be indexed") {
  for (std::size_t i = 0; i < kStreamNames.size(); ++i) CHECK(static_cast<std::size_t>(kStreamNames[i].first) == i);
  for (std::size_t i = 0; i < kOpClassNames.size(); ++i) CHECK(static_cast<std::size_t>(kOpClassNames[i].first) == i);
  for (std::size_t i = 0; i < kCollectiveNames.size(); ++i) {
    CHECK(static_cast<std::size_t>(kCollectiveNames[i].first) == i);
  }
}

}  // namespace moeplan::tests::program_test
