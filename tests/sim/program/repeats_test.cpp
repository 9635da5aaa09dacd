#include "sim/program/repeats.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "sim/program/simulate.hpp"
#include "tests/support/random_programs.hpp"
#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::repeats_test {

using namespace moeplan::sim;

namespace {

constexpr std::int64_t kMicrosecond = 100'000;  // bytes that a kernel of the toy GPU moves in 1 us

SimTime us(std::int64_t t) { return SimTime(t * 1'000'000); }

/// `iterations` of an all-gather in groups of two ranks, of 1 MB each way (100 us at 10 GB/s), then a kernel of
/// 1, 3, 7 and 2 us on ranks 0 to 3.
Program uneven(std::int64_t iterations, std::int64_t stride) {
  Program p = tests::one_block(4, {{"pairs", 2, stride}, {"all", 4, 1}});
  std::vector<std::int64_t> counts(16, 0);
  counts[0] = 1, counts[5] = 3, counts[10] = 7, counts[15] = 2;  // rank r to its own expert
  p.routings.push_back({RoutingCounts::dense(4, 4, counts), GroupId(1)});
  std::vector<Operation>& operations = p.blocks.front().operations;
  operations.push_back(tests::collective_of(p, Collective::AllGather, GroupId(0), 2'000'000));
  Operation kernel = tests::kernel_of(p, 1, Stream::Compute, {0});
  p.buffers.push_back({"rows", kMicrosecond, Dtype::Int8});
  kernel.reads = {{BufferId(p.buffers.size() - 1),
                   Rows::routed(RoutingId(0), Rows::Experts::Local, {{RowStep::Kind::Union, GroupId(1)}})}};
  operations.push_back(kernel);
  p.stages.front() = {Step{.block = {}, .count = iterations, .body = {{.block = BlockId(0)}}}};
  return p;
}

/// Whether a Timeline is that of a simulation of every iteration, up to 1 ps an operation.
bool agree(const Program& p, const Timeline& t, const Timeline& every) {
  const std::int64_t operations = tests::operations_of(p);
  const auto near = [](SimTime a, SimTime b, std::int64_t most) { return std::abs((a - b).picoseconds()) <= most; };
  if (!near(t.makespan, every.makespan, operations) || !near(t.joined_end, every.joined_end, operations)) return false;
  const tests::Totals some = tests::totals(t), all = tests::totals(every);
  if (some.size() != all.size() || t.links.size() != every.links.size()) return false;
  for (const auto& [key, value] : some) {
    const auto& [number, time] = all.at(key);
    if (value.first != number || std::abs(value.second - time) > operations * number) return false;
  }
  for (std::size_t i = 0; i < t.links.size(); ++i) {
    if (t.links[i].link != every.links[i].link) return false;
    if (std::abs(t.links[i].bytes - every.links[i].bytes) > 1e-6 + 1e-9 * t.links[i].bytes) return false;
  }
  return true;
}

bool skips_out_of_step(const Timeline& t) {
  return std::any_of(t.repeats.begin(), t.repeats.end(), [](const TimelineRepeat& r) { return !r.in_step; });
}

/// A random Program in nested repeats with enough iterations for delays to recur, and at times with background traffic.
Program repeated_program() {
  Program p = tests::random_program(4, /*skewed=*/true);
  for (Block& block : p.blocks) {
    if (tests::pick(0, 4) > 0) continue;
    const GroupId group(static_cast<std::int32_t>(tests::pick(0, 3)));
    block.operations.push_back(
        tests::collective_of(p, Collective::AllGather, group, tests::pick(0, 100'000) * 4, Stream::Replicas));
  }
  Step& outer = p.stages.front()[1];
  outer.count = tests::pick(0, 12);
  for (Step& step : outer.body) {
    if (!step.is_block()) step.count = tests::pick(1, 12);
  }
  return p;
}

}  // namespace

TEST_CASE("iterations that ranks begin with the same delays against each other are simulated once") {
  const Cluster cluster = tests::toy_cluster(1, 4);
  const Program p = uneven(100, 1);
  const Timeline t = simulate(p, cluster);
  SECTION("each group goes on after its slower rank, so that it takes 100 + 3 or 100 + 7 us for an iteration") {
    CHECK(t.makespan == us(100 * 107));
    REQUIRE(t.repeats.size() == 2);
    CHECK(t.repeats[0].period == us(103));
    CHECK(t.repeats[1].period == us(107));
  }
  SECTION("four iterations: in the first ranks begin in step, after the second the delays recur, and the last") {
    CHECK(t.spans.size() == 4 * 2 * 4);
    for (const TimelineRepeat& r : t.repeats) CHECK(r.count == 97);
    CHECK(t.repeats[0].start == us(2 * 103));  // of the slower rank
    for (const auto& [key, value] : tests::totals(t)) CHECK(value.first == 100);
  }
  SECTION("a rank begins the recorded iteration at its own time") {
    const auto first = std::find_if(t.spans.begin(), t.spans.end(),
                                    [](const TimelineSpan& s) { return s.repeat >= 0 && s.rank == RankId(0); });
    REQUIRE(first != t.spans.end());
    CHECK(first->start == us(103 + 100 + 1));
  }
  SECTION("links carry what all iterations send") {
    for (const LinkUse& use : t.links) CHECK(use.bytes == Approx(100 * 1e6));
  }
  SECTION("the Timeline agrees with that of every iteration") {
    const Timeline every = simulate(p, cluster, {.skip_repeats = false});
    CHECK(every.spans.size() == 4 * 2 * 100);
    CHECK(agree(p, t, every));
  }
  SECTION("a history of links, too: one iteration and its copies") {
    std::vector<LinkId> watch;
    for (const LinkUse& use : t.links) watch.push_back(use.link);
    const Timeline watched = simulate(p, cluster, {.watch = watch});
    for (const LinkHistory& h : watched.link_history) {
      double bytes = 0;
      for (const LinkSegment& s : h.segments) {
        bytes +=
            s.bytes * static_cast<double>(s.repeat < 0 ? 1 : watched.repeats[static_cast<std::size_t>(s.repeat)].count);
      }
      CHECK(bytes == Approx(100 * 1e6));
    }
  }
}

TEST_CASE("iterations are simulated where sets of ranks share a link, since their periods differ") {
  // Pairs of ranks of different nodes, whose switches share one link for both.
  const Cluster cluster = tests::toy_cluster(2, 2);
  const Program p = uneven(20, 2);
  const Timeline t = simulate(p, cluster);
  CHECK(t.repeats.empty());
  CHECK(t == simulate(p, cluster, {.skip_repeats = false}));
}

TEST_CASE("iterations are simulated where ranks share a GPU") {
  Cluster cluster = tests::toy_cluster(1, 4);
  const Program p = uneven(20, 1);
  CHECK(skips_out_of_step(simulate(p, cluster)));
  cluster.ranks_per_gpu = 2;
  CHECK_FALSE(skips_out_of_step(simulate(p, cluster)));
}

TEST_CASE("the last iteration is no copy where ranks that have ended it send beside those that have not") {
  // After an exchange of all, ranks 1 and 3 exchange before 0 and 2, over the same link, and again after the repeat.
  Program p = uneven(20, 2);
  std::vector<Operation>& operations = p.blocks.front().operations;
  operations.front() = tests::collective_of(p, Collective::AllGather, GroupId(1), 1'000'000);
  operations[1].after = {0};
  operations.push_back(tests::collective_of(p, Collective::AllGather, GroupId(0), 2'000'000));
  operations[2].after = {1};
  p.blocks.push_back({.name = "after", .operations = {operations.back()}});
  p.blocks.back().operations.front().after = {};
  p.stages.front().push_back({.block = BlockId(1)});
  const Cluster cluster = tests::toy_cluster(2, 2);
  const Timeline t = simulate(p, cluster), every = simulate(p, cluster, {.skip_repeats = false});
  REQUIRE(t.repeats.size() == 1);
  CHECK(t.repeats.front().count == 17);  // the third to the last but one
  CHECK(agree(p, t, every));
}

TEST_CASE("random programs: skipped iterations are as if they had been simulated") {
  int skipping = 0, nested = 0;
  CHECK(rc::check("with delays that recur", [&] {
    const Program p = repeated_program();
    const Cluster cluster = tests::random_toy_cluster();
    const Timeline t = simulate(p, cluster);
    RC_ASSERT(t == simulate(p, cluster));
    RC_ASSERT(agree(p, t, simulate(p, cluster, {.skip_repeats = false})));
    const Timeline bare = simulate(p, cluster, {.keep_spans = false});
    RC_ASSERT(bare.makespan == t.makespan);
    skipping += skips_out_of_step(t) ? 1 : 0;
    nested += std::any_of(t.repeats.begin(), t.repeats.end(),
                          [](const TimelineRepeat& r) { return !r.in_step && r.parent >= 0; })
                  ? 1
                  : 0;
  }));
  INFO(skipping << " programs with skipped iterations, " << nested << " with nested ones");
  CHECK(skipping > 0);
  CHECK(nested > 0);
}

}  // namespace moeplan::tests::repeats_test
