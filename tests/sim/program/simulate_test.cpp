#include "sim/program/simulate.hpp"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <tuple>

#include "model/base/diagnostics.hpp"
#include "model/costs/estimate.hpp"
#include "model/program/resolve.hpp"
#include "tests/support/random_programs.hpp"
#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::simulate_test {

using namespace moeplan::sim;

namespace {

constexpr std::int64_t kMicrosecond = 100'000;  // bytes that a kernel of the toy GPU moves in 1 us

SimTime us(double t) { return SimTime(static_cast<std::int64_t>(std::llround(t * 1e6))); }

/// Start and end of an operation of the first block on a rank.
std::pair<SimTime, SimTime> span(const Timeline& timeline, std::int32_t rank, std::int32_t operation) {
  for (const TimelineSpan& s : timeline.spans) {
    if (s.rank == RankId(rank) && s.operation == operation) return {s.start, s.end};
  }
  FAIL("no such span");
  return {};
}

void add(Program& program, Operation operation) { program.blocks.back().operations.push_back(std::move(operation)); }

/// Whether a simulated time is a closed form up to `operations` picoseconds and 1e-9.
bool agrees(SimTime simulated, Seconds closed_form, std::int64_t operations) {
  const double difference = std::abs(static_cast<double>(simulated.picoseconds()) - closed_form.value() * 1e12);
  return difference <= std::max(1e-9 * closed_form.value() * 1e12, static_cast<double>(operations));
}

}  // namespace

TEST_CASE("a block takes at least as long as the host needs to launch its operations") {
  Cluster cluster = tests::toy_cluster(1, 1);
  Program p = tests::one_block(1);
  add(p, tests::kernel_of(p, 3 * kMicrosecond));
  add(p, {.name = "launches",
          .op_class = OpClass::Host,
          .stream = Stream::Host,
          .work = Launches{4},
          .reads = {},
          .writes = {},
          .after = {}});
  const auto makespan = [&](double host_us) {
    cluster.gpu.host_time_per_operation = Seconds(host_us * 1e-6);
    const Timeline t = simulate(p, cluster);
    CHECK(agrees(t.makespan, estimate(p, cluster).closed_form, 2));
    CHECK(t.spans.size() == (host_us > 0 ? 2 : 1));  // without a figure of the host nothing is recorded
    return t.makespan;
  };
  CHECK(makespan(0) == us(3));
  CHECK(makespan(0.5) == us(3));  // 4 launches of 0.5 us are hidden
  CHECK(makespan(1) == us(4));    // 4 of 1 us are not
  CHECK(makespan(2.5) == us(10));
}

TEST_CASE("copies to and from the host's memory take turns beside computations, which they do not slow down") {
  Cluster cluster = tests::toy_cluster(1, 1);
  cluster.gpu.host_bandwidth = BytesPerSecond(1e9);
  Program p = tests::one_block(1);
  p.buffers.push_back({"rows", 1000, Dtype::Int8});
  const Slice rows{BufferId(p.buffers.size() - 1), Rows::fixed(2)};
  add(p, tests::kernel_of(p, 3 * kMicrosecond));
  const auto copy = [&](std::vector<Slice> reads, std::vector<Slice> writes, std::int64_t kernels) {
    add(p, {.name = "copy",
            .op_class = OpClass::Offload,
            .stream = Stream::HostMemory,
            .work = HostCopy{},
            .reads = std::move(reads),
            .writes = std::move(writes),
            .after = {},
            .kernels = kernels});
  };
  copy({rows}, {}, 1);
  copy({}, {rows}, 0);  // done before
  copy({}, {rows}, 1);
  const Timeline t = simulate(p, cluster);
  CHECK(span(t, 0, 0) == std::pair(us(0), us(3)));
  CHECK(span(t, 0, 1) == std::pair(us(0), us(2)));
  CHECK(span(t, 0, 3) == std::pair(us(2), us(4)));
  CHECK(t.makespan == us(4));
  CHECK(agrees(t.makespan, estimate(p, cluster).closed_form, 3));
}

TEST_CASE("streams are FIFO and operations wait for their dependencies") {
  const Cluster cluster = tests::toy_cluster(1, 1);
  Program p = tests::one_block(1);
  SECTION("one stream runs in the order listed") {
    add(p, tests::kernel_of(p, 3 * kMicrosecond));
    add(p, tests::kernel_of(p, 2 * kMicrosecond));
    const Timeline t = simulate(p, cluster);
    CHECK(span(t, 0, 0) == std::pair(us(0), us(3)));
    CHECK(span(t, 0, 1) == std::pair(us(3), us(5)));
    CHECK(t.makespan == us(5));
  }
  SECTION("two streams overlap") {
    add(p, tests::kernel_of(p, 3 * kMicrosecond));
    add(p, tests::kernel_of(p, 2 * kMicrosecond, Stream::Copy));
    CHECK(simulate(p, cluster).makespan == us(3));
  }
  SECTION("a dependency across streams holds back, also what stands behind it in its stream") {
    add(p, tests::kernel_of(p, 3 * kMicrosecond));
    add(p, tests::kernel_of(p, 2 * kMicrosecond, Stream::Copy, {0}));
    add(p, tests::kernel_of(p, 1 * kMicrosecond, Stream::Copy));
    const Timeline t = simulate(p, cluster);
    CHECK(span(t, 0, 1) == std::pair(us(3), us(5)));
    CHECK(span(t, 0, 2) == std::pair(us(5), us(6)));
  }
  SECTION("the next block waits for all streams of the one before") {
    add(p, tests::kernel_of(p, 3 * kMicrosecond));
    add(p, tests::kernel_of(p, 2 * kMicrosecond, Stream::Copy));
    p.blocks.push_back({.name = "second", .operations = {}});
    p.stages.front().push_back({.block = BlockId(1)});
    add(p, tests::kernel_of(p, 1 * kMicrosecond, Stream::Copy));
    CHECK(simulate(p, cluster).makespan == us(4));
  }
  SECTION("a block without operations takes no time") { CHECK(simulate(p, cluster).makespan == us(0)); }
}

TEST_CASE("a collective waits for its peers, pair by pair") {
  // Rank 1 computes first. 2 MB of rank 0's 4 MB go to rank 1, at 10 GB/s: 200 us.
  const Cluster cluster = tests::toy_cluster(1, 2);
  Program p = tests::one_block(2, {{"g", 2, 1}});
  p.routings.push_back({RoutingCounts::dense(2, 2, {0, 0, 0, 50 * kMicrosecond}), GroupId(0)});
  Operation first = tests::kernel_of(p, 0);
  first.reads.front().rows =
      Rows::routed(RoutingId(0), Rows::Experts::Local, {RowStep{RowStep::Kind::Union, GroupId(0)}});
  add(p, first);
  add(p, tests::collective_of(p, Collective::AllToAll, GroupId(0), 4'000'000, Stream::Inter, {0}));
  const Timeline t = simulate(p, cluster);
  CHECK(span(t, 0, 1) == std::pair(us(0), us(250)));
  CHECK(span(t, 1, 0) == std::pair(us(0), us(50)));
  CHECK(span(t, 1, 1) == std::pair(us(50), us(250)));
}

TEST_CASE("two collectives at once share the links") {
  // Each alone needs 100 us on the GPU's link; both together 200.
  const Cluster cluster = tests::toy_cluster(1, 2);
  Program p = tests::one_block(2, {{"g", 2, 1}});
  add(p, tests::collective_of(p, Collective::AllToAll, GroupId(0), 2'000'000, Stream::Inter));
  add(p, tests::collective_of(p, Collective::AllGather, GroupId(0), 2'000'000, Stream::Intra));
  const Timeline t = simulate(p, cluster);
  CHECK(t.makespan == us(200));
  SECTION("and the counters hold the bytes of both") {
    REQUIRE(t.links.size() == 4);
    for (const LinkUse& use : t.links) CHECK(use.bytes == Approx(2e6));
  }
}

TEST_CASE("computation is slower beside communication, and only then") {
  Cluster cluster = tests::toy_cluster(1, 2);
  cluster.gpu.slowdown_beside_communication = 1.25;
  Program p = tests::one_block(2, {{"g", 2, 1}});
  add(p, tests::collective_of(p, Collective::AllToAll, GroupId(0), 2'000'000));  // 100 us
  SECTION("a computation that ends before the communication takes 1.25 times as long") {
    add(p, tests::kernel_of(p, 40 * kMicrosecond));
    CHECK(span(simulate(p, cluster), 0, 1) == std::pair(us(0), us(50)));
  }
  SECTION("a longer one runs at full speed afterwards: 100 us do 80, then 40 more") {
    add(p, tests::kernel_of(p, 120 * kMicrosecond));
    const Timeline t = simulate(p, cluster);
    CHECK(span(t, 0, 1) == std::pair(us(0), us(140)));
    CHECK(t.makespan == us(140));  // not the 150 us expected at first
  }
  SECTION("products of persistent kernels take twice as long, other kernels do not") {
    p.has_persistent_products = true;
    const auto time_of = [&](Operation operation) {
      Program one = p;
      add(one, std::move(operation));
      const auto [begin, end] = span(simulate(one, cluster), 0, 1);
      return end - begin;
    };
    Operation product = tests::kernel_of(p, 20 * kMicrosecond);
    product.work = Gemm{};
    p.buffers.push_back({"square", 256, Dtype::Bf16});
    const Slice square{BufferId(p.buffers.size() - 1), Rows::fixed(256)};
    product.reads = {square, square};
    product.writes = {square};
    const SimTime twice = time_of(product);
    CHECK(time_of(tests::kernel_of(p, 40 * kMicrosecond)) == us(50));
    p.has_persistent_products = false;
    const SimTime once = time_of(product);
    CHECK(static_cast<double>(twice.picoseconds()) / static_cast<double>(once.picoseconds()) == Approx(2 / 1.25));
  }
  SECTION("a communication that begins later slows what is left") {
    // A kernel on the copy stream (also computation) holds the exchange back by 20 us.
    p.blocks.back().operations.clear();
    add(p, tests::kernel_of(p, 20 * kMicrosecond, Stream::Copy));
    add(p, tests::kernel_of(p, 60 * kMicrosecond));
    add(p, tests::collective_of(p, Collective::AllToAll, GroupId(0), 2'000'000, Stream::Inter, {0}));
    CHECK(span(simulate(p, cluster), 0, 1) == std::pair(us(0), us(70)));
  }
}

TEST_CASE("a communication at a measured rate is slower while the GPU computes, and only then") {
  Cluster cluster = tests::toy_cluster(1, 2);
  cluster.gpu.slowdown_beside_computation = 1.25;
  cluster.collectives[{Collective::AllToAll, Span::IntraNode}] = {Seconds(20e-6), SecondsPerByte(1e-10)};
  Program p = tests::one_block(2, {{"g", 2, 1}});
  add(p, tests::collective_of(p, Collective::AllToAll, GroupId(0), 1'000'000));  // 20 us, then 100 us
  SECTION("alone it takes what was measured") { CHECK(simulate(p, cluster).makespan == us(120)); }
  SECTION("beside a longer computation its transfer takes 1.25 times as long, its start-up does not") {
    add(p, tests::kernel_of(p, 200 * kMicrosecond));
    CHECK(span(simulate(p, cluster), 0, 0) == std::pair(us(0), us(145)));
  }
  SECTION("50 us beside a computation move what 40 us do alone") {
    add(p, tests::kernel_of(p, 70 * kMicrosecond));
    CHECK(span(simulate(p, cluster), 0, 0) == std::pair(us(0), us(130)));
  }
  SECTION("a computation without a pause between two kernels is one") {
    add(p, tests::kernel_of(p, 30 * kMicrosecond));
    add(p, tests::kernel_of(p, 40 * kMicrosecond));
    CHECK(span(simulate(p, cluster), 0, 0) == std::pair(us(0), us(130)));
  }
  SECTION("links that bind are no slower: the GPU drives them with ease") {
    cluster.collectives.clear();
    add(p, tests::kernel_of(p, 200 * kMicrosecond));
    CHECK(span(simulate(p, cluster), 0, 0) == std::pair(us(0), us(50)));
  }
}

TEST_CASE("one collective at a time takes exactly what the closed form says") {
  for (const bool measured : {false, true}) {
    for (const int nodes : {1, 2, 4}) {
      const int gpus = 16 / nodes;
      Cluster cluster = tests::toy_cluster(nodes, gpus, Seconds(1.5e-6));
      cluster.collective_startup = Seconds(7e-6);
      cluster.message_overhead = Seconds(1e-7);
      // Slow enough that the links carry it: a node's 2 GB/s are shared by all its GPUs.
      const AlphaBeta inter{Seconds(175e-6), SecondsPerByte(6e-8)}, intra{Seconds(32e-6), SecondsPerByte(1.68e-9)};
      for (const auto& [collective, name] : kCollectiveNames) {
        if (!measured || collective == Collective::SendReceive) continue;
        cluster.collectives[{collective, Span::InterNode}] = inter;
        cluster.collectives[{collective, Span::IntraNode}] = intra;
      }
      for (const auto& [collective, name] : kCollectiveNames) {
        if (collective == Collective::SendReceive) continue;
        for (const std::int64_t size : {2, 4, 8, 16}) {
          for (std::int64_t stride = 1; size * stride <= 16; stride *= 2) {
            const std::int64_t n = 16 * 4099;
            Program p = tests::one_block(16, {{"g", size, stride}});
            add(p, tests::collective_of(p, collective, GroupId(0), n));
            const Timeline t = simulate(p, cluster);
            const Seconds closed = estimate(p, cluster).closed_form;
            CAPTURE(measured, nodes, name, size, stride, t.makespan.picoseconds(), closed.value());
            // A broadcast is a chain: its links have unequal loads, and its closed form is a bound.
            if (!agrees(t.makespan, closed, 1)) CHECK(agrees(t.makespan, closed, 1));
            if (!measured) continue;
            const bool crosses = gpus < size * stride;
            const AlphaBeta& cost = crosses ? inter : intra;
            const Seconds exact = cost.alpha + Bytes(static_cast<double>(n)) * cost.beta;
            if (!agrees(t.makespan, exact, 1)) CHECK(agrees(t.makespan, exact, 1));
          }
        }
      }
    }
  }
}

TEST_CASE("random programs: skipped repeats, conservation, determinism and bounds") {
  const auto check = [](bool skewed) {
    const Program p = tests::random_program(4, skewed);
    const Cluster cluster = tests::random_toy_cluster();
    const Timeline t = simulate(p, cluster);

    // The same run twice is the same timeline.
    RC_ASSERT(t == simulate(p, cluster));

    // Iterations that were skipped are as if they had been simulated, up to 1 ps an operation.
    const Timeline full = simulate(p, cluster, {.skip_repeats = false});
    const std::int64_t operations = tests::operations_of(p);
    RC_ASSERT(std::abs((t.makespan - full.makespan).picoseconds()) <= operations);
    RC_ASSERT(full.repeats.empty());
    const tests::Totals short_run = tests::totals(t), long_run = tests::totals(full);
    RC_ASSERT(short_run.size() == long_run.size());
    for (const auto& [key, value] : short_run) {
      RC_ASSERT(value.first == long_run.at(key).first);
      RC_ASSERT(std::abs(value.second - long_run.at(key).second) <= operations * value.first);
    }
    RC_ASSERT(t.links.size() == full.links.size());
    for (std::size_t i = 0; i < t.links.size(); ++i) {
      RC_ASSERT(t.links[i].link == full.links[i].link);
      RC_ASSERT(std::abs(t.links[i].bytes - full.links[i].bytes) <= 1e-6 + 1e-9 * t.links[i].bytes);
    }

    // The plain network, by definition right, tells the same story: each operation lasts as long.
    const Timeline plain = simulate(p, cluster, {.network = make_plain_network});
    RC_ASSERT(std::abs((t.makespan - plain.makespan).picoseconds()) <= operations);
    const tests::Totals plain_run = tests::totals(plain);
    RC_ASSERT(plain_run.size() == short_run.size());
    for (const auto& [key, value] : short_run) {
      RC_ASSERT(value.first == plain_run.at(key).first);
      RC_ASSERT(std::abs(value.second - plain_run.at(key).second) <= operations * value.first);
    }

    // What the ranks send is what the links count.
    std::vector<double> bytes(cluster.topology.links.size(), 0.0);
    const std::vector<std::int64_t> counts = block_counts(p);
    for (std::size_t b = 0; b < p.blocks.size(); ++b) {
      for (const Operation& op : p.blocks[b].operations) {
        if (!op.communication()) continue;
        for (std::int32_t r = 0; r < 4; ++r) {
          if (p.group(op.communication()->group).base(RankId(r)) != RankId(r)) continue;
          for (const Flow& flow : group_flows(p, op, RankId(r))) {
            const Route route =
                cluster.routes.between(cluster.gpu_of_rank[flow.from.index()], cluster.gpu_of_rank[flow.to.index()]);
            for (const RouteLink& l : route.links) {
              bytes[l.link.index()] += l.share * static_cast<double>(flow.bytes * counts[b]);
            }
          }
        }
      }
    }
    for (const LinkUse& use : t.links) bytes[use.link.index()] -= use.bytes;
    for (const double left : bytes) RC_ASSERT(std::abs(left) <= 1e-3);

    // No bound is beaten.
    const Estimate e = estimate(p, cluster);
    RC_ASSERT(static_cast<double>(t.makespan.picoseconds()) >= e.lower_bound.value() * 1e12 * (1 - 1e-9) - 1);
  };
  SECTION("ranks that are equal") {
    CHECK(rc::check("equal ranks", [&] { check(false); }));
  }
  SECTION("ranks that differ, so that they drift apart") {
    CHECK(rc::check("skewed ranks", [&] { check(true); }));
  }
}

TEST_CASE("equal iterations are simulated once") {
  const Cluster cluster = tests::toy_cluster(1, 2);
  Program p = tests::one_block(2, {{"g", 2, 1}});
  add(p, tests::kernel_of(p, 3 * kMicrosecond));
  add(p, tests::collective_of(p, Collective::AllToAll, GroupId(0), 2'000'000, Stream::Inter, {0}));
  p.stages.front() = {Step{.block = {}, .count = 1'000'000'000, .body = {{.block = BlockId(0)}}}};
  const Timeline t = simulate(p, cluster);
  CHECK(t.makespan.picoseconds() == 1'000'000'000 * us(103).picoseconds());
  CHECK(t.spans.size() == 2);  // of one rank, which represents both
  CHECK(t.occurrences(t.spans.front()) == 1'000'000'000);
  SECTION("a run beyond simulated time is refused, not wrapped around") {
    p.stages.front().front().count = std::int64_t{1} << 62;
    CHECK_THROWS_AS(simulate(p, cluster), InputError);
  }
}

}  // namespace moeplan::tests::simulate_test
