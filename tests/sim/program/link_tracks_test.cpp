// What links carry over time: the histories of the simulator and the curves of the trace.
#include "sim/program/link_tracks.hpp"

#include <rapidcheck.h>

#include <catch2/catch.hpp>

#include "sim/program/simulate.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/random_programs.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::link_tracks_test {

using namespace moeplan::sim;

namespace {

double integral(const std::vector<RatePoint>& rates) {
  double sum = 0;
  for (std::size_t i = 0; i + 1 < rates.size(); ++i) {
    sum += rates[i].rate.value() * (rates[i + 1].time - rates[i].time).seconds().value();
  }
  return sum;
}

std::vector<LinkId> all_links(const Cluster& cluster) {
  std::vector<LinkId> links;
  for (std::size_t l = 0; l < cluster.topology.links.size(); ++l) links.emplace_back(l);
  return links;
}

double bytes_on(const Timeline& t, LinkId link) {
  for (const LinkUse& u : t.links) {
    if (u.link == link) return u.bytes;
  }
  return 0;
}

SimTime us(std::int64_t t) { return SimTime(t * 1'000'000); }

/// Curves that hold for every run.
template <class Check>
void check_curves(const Timeline& t, const Cluster& cluster, Check&& check) {
  for (const LinkHistory& h : t.link_history) {
    const std::vector<RatePoint> rates = link_rates(t, h);
    const double bytes = bytes_on(t, h.link);
    check(std::abs(integral(rates) - bytes) <= 1e-6 + 1e-9 * bytes);
    check(rates.empty() == (bytes == 0));
    check(rates.empty() || rates.back().rate == BytesPerSecond(0));
    for (std::size_t i = 0; i < rates.size(); ++i) {
      check(i == 0 || rates[i - 1].time < rates[i].time);
      check(rates[i].time <= t.makespan);
    }
    // A whole picosecond more or less is what an event's time is known by.
    const double capacity = cluster.topology.links[h.link.index()].bandwidth.value();
    for (const LinkSegment& s : h.segments) {
      const auto length = static_cast<double>((s.end - s.start).picoseconds());
      check(s.bytes <= capacity * (length + 2) * 1e-12 * (1 + 1e-9));
    }
  }
}

}  // namespace

TEST_CASE("a link's history says when it carried how much") {
  // Two transfers of 20 kB and 10 kB each way between GPUs with links of 10 GB/s of their own.
  const Cluster cluster = tests::toy_cluster(1, 2);
  Program p = tests::one_block(2, {{"pair", 2, 1}});
  const auto transfer = [&](std::int64_t bytes, Stream stream) {
    return tests::collective_of(p, Collective::AllToAll, GroupId(0), 2 * bytes, stream);
  };
  p.blocks[0].operations = {transfer(20'000, Stream::Inter), transfer(10'000, Stream::Intra)};
  p.blocks[0].operations.push_back(tests::kernel_of(p, 700'000));  // 7 us
  SECTION("both share the link in full for 2 us; then the longer one has it for 1 us: one stretch of 10 GB/s") {
    const Timeline t = simulate(p, cluster, {.watch = all_links(cluster)});
    const LinkHistory& h = t.link_history[2];  // the first GPU's: the core's two links come before
    REQUIRE(h.segments.size() == 1);
    CHECK(h.segments[0].start == us(0));
    CHECK(h.segments[0].end == us(3));
    CHECK(h.segments[0].bytes == Approx(30'000));
    CHECK(link_rates(t, h) ==
          std::vector<RatePoint>{{us(0), BytesPerSecond(h.segments[0].bytes / 3e-6)}, {us(3), BytesPerSecond(0)}});
  }
  SECTION("5 times: the first as it is, then 30 kB in each 7 us") {
    p.stages.front() = {Step{.block = {}, .count = 5, .body = {{.block = BlockId(0)}}}};
    const Timeline t = simulate(p, cluster, {.watch = all_links(cluster)});
    const std::vector<RatePoint> rates = link_rates(t, t.link_history[2]);
    REQUIRE(rates.size() == 4);
    CHECK(rates[0].rate.value() == Approx(10e9));
    CHECK(rates[1] == RatePoint{us(3), BytesPerSecond(0)});
    CHECK(rates[2].time == us(7));
    CHECK(rates[2].rate.value() == Approx(30e3 / 7e-6));
    CHECK(rates[3] == RatePoint{us(35), BytesPerSecond(0)});
  }
}

TEST_CASE("the integral of what a link carries is what it carried") {
  CHECK(rc::check("random programs, with repeats skipped and not", [] {
    const Program p = tests::random_program(4, *rc::gen::arbitrary<bool>());
    const Cluster cluster = tests::random_toy_cluster();
    for (const bool skip : {true, false}) {
      const Timeline t = simulate(p, cluster, {.skip_repeats = skip, .watch = all_links(cluster)});
      check_curves(t, cluster, [](bool ok) { RC_ASSERT(ok); });
      Timeline unwatched = t;
      unwatched.link_history.clear();
      RC_ASSERT(unwatched == simulate(p, cluster, {.skip_repeats = skip}));
    }
  }));
}

TEST_CASE("where one rank is simulated for all, links have the same history") {
  const Cluster cluster = build_cluster(
      tests::cluster_from("template:\n  nodes: 2\n  gpus_per_node: 4\n"
                          "  intra_node: {kind: nvswitch, bandwidth: 100 GB/s, latency: 0.5 us}\n"
                          "  fabric: {kind: rail_optimised, nics_per_node: 4, nic_bandwidth: 100 Gbps, latency: 1 us, "
                          "oversubscription: 1, nodes_per_leaf: 2}"),
      8);
  Program p = tests::moe_program(8, 8, RoutingCounts::uniform(8, 8, 5000), 3);
  const Timeline one = simulate(p, cluster, {.watch = all_links(cluster)});
  const Timeline all = simulate(p, cluster, {.use_symmetry = false, .watch = all_links(cluster)});
  check_curves(one, cluster, [](bool ok) { CHECK(ok); });
  REQUIRE(one.link_history.size() == all.link_history.size());
  for (std::size_t l = 0; l < one.link_history.size(); ++l) {
    const auto a = link_rates(one, one.link_history[l]), b = link_rates(all, all.link_history[l]);
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      CHECK(std::abs((a[i].time - b[i].time).picoseconds()) <= 10);
      CHECK(a[i].rate.value() == Approx(b[i].rate.value()).epsilon(1e-5));
    }
  }
  SECTION("the busiest links represent equivalent ones") {
    const std::vector<BusyLink> busiest = busiest_links(one, cluster.topology, 8);
    REQUIRE_FALSE(busiest.empty());
    CHECK(busiest.size() <= 8);
    // Each rank's NIC has a link out of the GPU, into the switch, and both back.
    CHECK(busiest[0].equivalent % 8 == 0);
    StageClusters machines(cluster);
    const std::vector<LinkTrack> tracks = busiest_link_tracks(p, machines, one);
    REQUIRE(tracks.size() == busiest.size());
    INFO(tracks[0].name);
    CHECK(tracks[0].name.find("12.50 GB/s, ") != std::string::npos);
    CHECK(tracks[0].name.find("equivalent links)") != std::string::npos);
    CHECK(integral(tracks[0].rates) == Approx(bytes_on(one, busiest[0].link)));
    CHECK(busiest_link_tracks(p, machines, one, 1).size() == 1);
    CHECK(busiest_link_tracks(p, machines, Timeline{}).empty());
  }
}

}  // namespace moeplan::tests::link_tracks_test
