#include "model/program/rank_classes.hpp"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <map>
#include <tuple>

#include "model/program/analysis.hpp"
#include "sim/simulate.hpp"
#include "tests/model/programs.hpp"
#include "tests/model/spec_files.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

Cluster cluster(std::int64_t world, bool rails) {
  const std::string fabric = rails ? "kind: rail_optimised, nics_per_node: 4, nodes_per_leaf: 2, oversubscription: 2"
                                   : "kind: single_switch, nics_per_node: 1";
  const std::string text = cluster_text(
      "template:\n  nodes: 1\n  gpus_per_node: 4\n"
      "  intra_node: {kind: nvswitch, bandwidth: 100 GB/s, latency: 0.5 us}\n  fabric: {" +
      fabric + ", nic_bandwidth: 100 Gbps, latency: 1 us}");
  return build_cluster(read_cluster(parse_yaml(text, "t.yaml")), world);
}

/// Spans of a rank as (block, operation, start, end), in the order in which they stand.
std::vector<std::tuple<BlockId, std::int32_t, std::int64_t, std::int64_t>> spans_of(const Timeline& t, RankId rank) {
  std::vector<std::tuple<BlockId, std::int32_t, std::int64_t, std::int64_t>> out;
  for (const TimelineSpan& s : t.spans) {
    if (s.rank == t.recorded(rank)) out.emplace_back(s.block, s.operation, s.start.picoseconds(), s.end.picoseconds());
  }
  return out;
}

}  // namespace

TEST_CASE("ranks of one class are simulated alike") {
  CHECK(rc::check("spans of members differ by rounding only", [] {
    const std::int64_t world = *rc::gen::element<std::int64_t>(4, 8, 16);
    const std::int64_t ep = *rc::gen::element<std::int64_t>(2, 4);
    const std::int64_t experts = ep * *rc::gen::inRange<std::int64_t>(1, 3);
    // Few different loads, so that classes have several members.
    std::vector<std::int64_t> row;
    for (std::int64_t e = 0; e < experts; ++e) row.push_back(1000 * *rc::gen::inRange<std::int64_t>(0, 3));
    std::vector<std::int64_t> counts;
    const bool same = *rc::gen::arbitrary<bool>();
    for (std::int64_t s = 0; s < world; ++s) {
      const std::int64_t factor = same ? 1 : *rc::gen::inRange<std::int64_t>(1, 3);
      for (const std::int64_t n : row) counts.push_back(n * factor);
    }
    const Program p = moe_program(world, ep, RoutingCounts::dense(world, experts, counts), 3);
    const Cluster c = cluster(world, *rc::gen::arbitrary<bool>());
    const Timeline t = simulate(p, c);
    std::size_t seen = 0;
    for (const RankClass& k : rank_classes(p, c)) {
      const auto expected = spans_of(t, k.representative);
      for (const RankId r : k.members) {
        ++seen;
        const auto got = spans_of(t, r);
        RC_ASSERT(got.size() == expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          RC_ASSERT(std::get<1>(got[i]) == std::get<1>(expected[i]));
          RC_ASSERT(std::abs(std::get<2>(got[i]) - std::get<2>(expected[i])) <= 20);
          RC_ASSERT(std::abs(std::get<3>(got[i]) - std::get<3>(expected[i])) <= 20);
        }
      }
    }
    RC_ASSERT(seen == static_cast<std::size_t>(world));
  }));
}

TEST_CASE("a simulated run adds up") {
  const Program p = moe_program(8, 4, RoutingCounts::uniform(8, 8, 1000), 5);
  const Cluster c = cluster(8, true);
  const Timeline t = simulate(p, c);
  SECTION("5 layers that are copies are recorded once and counted 5 times") {
    const Timeline all = simulate(p, c, {.keep_spans = true, .skip_repeats = false});
    const auto short_times = rank_times(p, t), long_times = rank_times(p, all);
    CHECK(t.spans.size() < all.spans.size());
    REQUIRE(short_times.size() == long_times.size());
    for (std::size_t r = 0; r < short_times.size(); ++r) {
      CHECK(short_times[r].compute.value() == Approx(long_times[r].compute.value()));
      CHECK(short_times[r].exposed_communication.value() == Approx(long_times[r].exposed_communication.value()));
      CHECK(short_times[r].idle.value() == Approx(long_times[r].idle.value()).margin(1e-11));
    }
  }
  SECTION("nothing overlaps here, so that computing, exposed and idle time are the makespan") {
    for (const RankTime& r : rank_times(p, t)) {
      CHECK(r.compute.value() + r.exposed_communication.value() + r.idle.value() ==
            Approx(t.makespan.seconds().value()));
      CHECK(r.exposed_communication.value() == Approx(r.communication.value()));
    }
  }
  SECTION("no link is used beyond its bandwidth") {
    for (const LinkUtilisation& l : link_utilisation(t, c.topology)) CHECK(l.utilisation <= 1 + 1e-9);
  }
}
