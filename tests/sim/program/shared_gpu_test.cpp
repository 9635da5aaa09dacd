// Ranks that share a GPU: its speed, its memory's bandwidth, its slowdown beside communication.
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "model/costs/estimate.hpp"
#include "sim/program/simulate.hpp"
#include "tests/support/random_programs.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::shared_gpu_test {

using namespace moeplan::sim;

namespace {

constexpr double kCopies = 2e12 * 0.9 / 2;  // bytes/s: the toy GPU's HBM as kernels reach it, read and written

/// A node of GPUs, so many ranks on each; kernels start at once and move 0.9 x 2 TB/s.
Cluster machine(std::int64_t gpus, std::int64_t ranks_per_gpu, double slowdown = 1) {
  ClusterSpec spec = tests::cluster_from("ranks_per_gpu: " + std::to_string(ranks_per_gpu) +
                                         "\ntemplate:\n  nodes: 1\n  gpus_per_node: " + std::to_string(gpus) +
                                         "\n  intra_node: {kind: nvswitch, bandwidth: 100 GB/s, latency: 1 us}");
  spec.gpu.launch_overhead = Seconds(0);
  spec.gpu.slowdown_beside_communication = slowdown;
  spec.collective_startup = Seconds(0);
  return build_cluster(spec, std::nullopt);
}

/// Rank r computes for us[r] microseconds: its row of the routing, read by one kernel.
Program kernels(const std::vector<std::int64_t>& us) {
  const auto world = static_cast<std::int64_t>(us.size());
  Program p = tests::one_block(world, {{"all", world, 1}});
  std::vector<std::int64_t> counts;
  for (const std::int64_t t : us) {
    for (std::int64_t e = 0; e < world; ++e) counts.push_back(e == 0 ? t * 1'800'000 : 0);
  }
  p.routings.push_back({RoutingCounts::dense(world, world, counts), GroupId(0)});
  Operation k = tests::kernel_of(p, 0);
  k.reads.front().rows = Rows::routed(RoutingId(0), Rows::Experts::All, {});
  p.blocks.front().operations.push_back(std::move(k));
  return p;
}

std::vector<double> ends_us(const Timeline& t, std::int32_t operation = 0) {
  std::vector<double> ends;
  for (const TimelineSpan& s : t.spans) {
    if (s.operation != operation) continue;
    ends.resize(std::max(ends.size(), s.rank.index() + 1));
    ends[s.rank.index()] = static_cast<double>(s.end.picoseconds()) * 1e-6;
  }
  return ends;
}

}  // namespace

TEST_CASE("ranks on one GPU share its speed equally") {
  SECTION("two equal kernels: 5 us on a GPU each, 10 us together") {
    const Program p = kernels({5, 5});
    CHECK(ends_us(simulate(p, machine(2, 1))) == std::vector<double>{5, 5});
    CHECK(ends_us(simulate(p, machine(1, 2))) == std::vector<double>{10, 10});
  }
  SECTION("3 and 5 us: at half speed up to 6 us, then the longer one's last 2 us alone") {
    CHECK(ends_us(simulate(kernels({3, 5}), machine(1, 2))) == std::vector<double>{6, 8});
  }
  SECTION("a rank ends when it and each other one have had what it needs: the sum of min(own, theirs)") {
    const std::vector<std::int64_t> us{4, 1, 2, 7};
    const Program p = kernels(us);
    const std::vector<double> ends = ends_us(simulate(p, machine(1, 4)));
    for (std::size_t r = 0; r < us.size(); ++r) {
      std::int64_t expected = 0;
      for (const std::int64_t other : us) expected += std::min(us[r], other);
      CHECK(ends[r] == Approx(static_cast<double>(expected)).margin(4e-6));
    }
    const Estimate e = estimate(p, machine(1, 4));
    CHECK(e.closed_form.value() == Approx(14e-6));
    CHECK(e.compute.value() == Approx(14e-6));
    CHECK(e.critical_path.value() == Approx(7e-6));
  }
  SECTION("ranks 0 and 1 share the first GPU, 2 and 3 the second") {
    CHECK(ends_us(simulate(kernels({5, 5, 3, 0}), machine(2, 2))) == std::vector<double>{10, 10, 3, 0});
  }
}

TEST_CASE("transfers between ranks of one GPU are copies in its memory") {
  const std::int64_t n = 9'000'000;
  const auto exchange = [&](std::int64_t world, const Cluster& cluster) {
    Program p = tests::one_block(world, {{"all", world, 1}});
    p.blocks.front().operations = {tests::collective_of(p, Collective::AllToAll, GroupId(0), n)};
    const Timeline t = simulate(p, cluster);
    const Estimate e = estimate(p, cluster);
    CHECK(e.lower_bound.value() <= t.makespan.seconds().value() * (1 + 1e-9) + 1e-12);
    return std::pair(t, e);
  };
  SECTION("4 ranks each send 3 / 4 of n: together 3 n bytes, each read and written") {
    const auto [t, e] = exchange(4, machine(1, 4));
    CHECK(t.makespan.seconds().value() == Approx(3.0 * static_cast<double>(n) / kCopies).epsilon(1e-6));
    CHECK(e.closed_form.value() == Approx(t.makespan.seconds().value()));
    CHECK(e.bound_by == "link memory of node0.gpu0");
    REQUIRE(t.links.size() == 1);
    CHECK(t.links.front().bytes == Approx(3.0 * static_cast<double>(n)));
  }
  SECTION("2 GPUs of 2 ranks: half of what a rank sends to others crosses both GPUs' links, beside the copies") {
    const auto [t, e] = exchange(4, machine(2, 2));
    // Two ranks of a GPU send 2 n / 4 each to the other GPU.
    CHECK(t.makespan.seconds().value() == Approx(2e-6 + static_cast<double>(n) / 100e9).epsilon(1e-6));
    double copied = 0;
    const Topology topology = machine(2, 2).topology;
    for (const LinkUse& u : t.links) {
      const Link& l = topology.links[u.link.index()];
      if (l.from == l.to) copied += u.bytes;
    }
    CHECK(copied == Approx(static_cast<double>(n)));  // in each GPU n / 4 both ways
  }
  SECTION("a tree over ranks of one GPU has no latency to pay") {
    const Cluster cluster = machine(1, 4);
    Program p = tests::one_block(4, {{"all", 4, 1}});
    p.ranks_per_node = 4;
    Operation op = tests::collective_of(p, Collective::AllReduce, GroupId(0), n);
    std::get<Communication>(op.work).pattern = Pattern::Tree;
    p.blocks.front().operations = {op};
    CHECK(simulate(p, cluster).makespan.seconds().value() ==
          Approx(2 * 3.0 * static_cast<double>(n) / kCopies).epsilon(1e-6));
  }
}

TEST_CASE("communication of any rank slows all that compute on its GPU") {
  // Rank 0 copies to rank 1 for 10 us; ranks 2 and 3 have nothing to send, and compute.
  const Cluster cluster = machine(1, 4, 1.5);
  Program p = kernels({0, 0, 8, 8});
  p.groups.push_back({"pair", 2, 1});
  p.routings.push_back(
      {RoutingCounts::dense(4, 4, {0, 0, 9'000'000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}), GroupId(1)});
  Operation op = tests::collective_of(p, Collective::AllToAll, GroupId(1), 0);
  op.reads.front().rows = Rows::routed(RoutingId(1), Rows::Experts::All, {});
  p.blocks.front().operations.push_back(op);
  const Timeline t = simulate(p, cluster);
  // Rank 0 sends the rows of experts 2 and 3 to rank 1, which holds them.
  const double copying = ends_us(t, 1)[0];
  CHECK(copying == Approx(9e6 / kCopies * 1e6));
  // Until then at 1 / (2 x 1.5) of the speed, then at half.
  const double done = copying / 3;
  CHECK(ends_us(t)[2] == Approx(copying + 2 * (8 - done)).margin(1e-4));
  CHECK(ends_us(t)[3] == ends_us(t)[2]);
}

TEST_CASE("random programs on shared GPUs: no bound is beaten, and repeats are as if simulated") {
  CHECK(rc::check("1, 2 or 4 ranks a GPU", [] {
    const std::int64_t shared = *rc::gen::element<std::int64_t>(1, 2, 4);
    const Cluster cluster = machine(4 / shared, shared, tests::pick(0, 1) == 0 ? 1.0 : 1.2);
    const Program p = tests::random_program(4, *rc::gen::arbitrary<bool>(), cluster.ranks_per_node());
    const Timeline t = simulate(p, cluster);
    RC_ASSERT(t == simulate(p, cluster));
    const Timeline full = simulate(p, cluster, {.skip_repeats = false});
    RC_ASSERT(std::abs((t.makespan - full.makespan).picoseconds()) <= 4 * tests::operations_of(p));
    RC_ASSERT(static_cast<double>(t.makespan.picoseconds()) >=
              estimate(p, cluster).lower_bound.value() * 1e12 * (1 - 1e-9) - 1);
    const Timeline plain = simulate(p, cluster, {.network = make_plain_network});
    RC_ASSERT(std::abs((t.makespan - plain.makespan).picoseconds()) <= 4 * tests::operations_of(p));
  }));
}

}  // namespace moeplan::tests::shared_gpu_test
