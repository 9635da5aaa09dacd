#include "model/analysis/critical_path.hpp"

#include <catch2/catch.hpp>

#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::critical_path_test {

namespace {

constexpr std::int64_t kMicrosecond = 100'000;  // bytes that a kernel of the toy GPU moves in 1 us

SimTime us(std::int64_t t) { return SimTime(t * 1'000'000); }

TimelineSpan span(int rank, int operation, std::int64_t start, std::int64_t end, int repeat = -1, int block = 0) {
  return {RankId(rank), BlockId(block), operation, repeat, us(start), us(end)};
}

void add(Program& program, Operation operation) { program.blocks.back().operations.push_back(std::move(operation)); }

/// (rank, block, operation, start, duration) in microseconds, one a segment.
struct Stretch {
  int rank, block, operation;
  std::int64_t start, duration;
  bool operator==(const Stretch&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Stretch& s) {
  return out << "rank " << s.rank << " block " << s.block << " operation " << s.operation << " at " << s.start
             << " for " << s.duration;
}
std::vector<Stretch> stretches(const std::vector<PathSegment>& path) {
  std::vector<Stretch> out;
  for (const PathSegment& s : path) {
    out.push_back({s.rank.value(), s.block.value(), s.operation, s.start.picoseconds() / 1'000'000,
                   s.duration.picoseconds() / 1'000'000});
  }
  return out;
}

std::vector<Bottleneck> bottlenecks(const std::vector<PathSegment>& path) {
  std::vector<Bottleneck> out;
  for (const PathSegment& s : path) out.push_back(s.limited_by);
  return out;
}

SimTime length(const std::vector<PathSegment>& path) {
  SimTime sum;
  for (const PathSegment& s : path) sum += SimTime::scaled(s.duration, s.times);
  return sum;
}

}  // namespace

TEST_CASE("the path goes back along what ended when an operation began") {
  const Cluster cluster = tests::toy_cluster(1, 1);
  Program p = tests::one_block(1);
  Timeline t;
  SECTION("along the stream where the operation before was what it waited for, because streams are FIFO") {
    add(p, tests::kernel_of(p, 3 * kMicrosecond));
    add(p, tests::kernel_of(p, 1 * kMicrosecond, Stream::Copy));
    add(p, tests::kernel_of(p, 2 * kMicrosecond, Stream::Compute, {1}));
    t.spans = {span(0, 0, 0, 3), span(0, 1, 0, 1), span(0, 2, 3, 5)};
    t.makespan = us(5);
    CHECK(stretches(critical_path(p, t, cluster)) == std::vector<Stretch>{{0, 0, 0, 0, 3}, {0, 0, 2, 3, 2}});
  }
  SECTION("along a dependency where that ended last") {
    add(p, tests::kernel_of(p, 1 * kMicrosecond));
    add(p, tests::kernel_of(p, 3 * kMicrosecond, Stream::Copy));
    add(p, tests::kernel_of(p, 2 * kMicrosecond, Stream::Compute, {1}));
    t.spans = {span(0, 0, 0, 1), span(0, 1, 0, 3), span(0, 2, 3, 5)};
    t.makespan = us(5);
    CHECK(stretches(critical_path(p, t, cluster)) == std::vector<Stretch>{{0, 0, 1, 0, 3}, {0, 0, 2, 3, 2}});
  }
  SECTION("a dependency before the stream where both ended together, because it names a cause") {
    add(p, tests::kernel_of(p, 3 * kMicrosecond));
    add(p, tests::kernel_of(p, 3 * kMicrosecond, Stream::Copy));
    add(p, tests::kernel_of(p, 2 * kMicrosecond, Stream::Compute, {1}));
    t.spans = {span(0, 0, 0, 3), span(0, 1, 0, 3), span(0, 2, 3, 5)};
    t.makespan = us(5);
    CHECK(critical_path(p, t, cluster).front().operation == 1);
  }
  SECTION("over a block's end to what ended it, because the rank joins between blocks") {
    add(p, tests::kernel_of(p, 3 * kMicrosecond, Stream::Copy));
    add(p, tests::kernel_of(p, 1 * kMicrosecond));
    p.blocks.push_back({.name = "second", .operations = {}});
    p.stages.front().push_back({.block = BlockId(1)});
    add(p, tests::kernel_of(p, 2 * kMicrosecond));
    t.spans = {span(0, 0, 0, 3), span(0, 1, 0, 1), span(0, 0, 3, 5, -1, 1)};
    t.makespan = us(5);
    CHECK(stretches(critical_path(p, t, cluster)) == std::vector<Stretch>{{0, 0, 0, 0, 3}, {0, 1, 0, 3, 2}});
  }
  SECTION("past operations that take no time, because they hold nothing") {
    add(p, tests::kernel_of(p, 3 * kMicrosecond));
    add(p, tests::kernel_of(p, 0, Stream::Copy, {0}));
    add(p, tests::kernel_of(p, 2 * kMicrosecond, Stream::Compute, {1}));
    t.spans = {span(0, 0, 0, 3), span(0, 1, 3, 3), span(0, 2, 3, 5)};
    t.makespan = us(5);
    CHECK(stretches(critical_path(p, t, cluster)) == std::vector<Stretch>{{0, 0, 0, 0, 3}, {0, 0, 2, 3, 2}});
  }
  SECTION("time in which nothing recorded ran is said to be that, so that the sum stays the makespan") {
    add(p, tests::kernel_of(p, 2 * kMicrosecond));
    add(p, tests::kernel_of(p, 2 * kMicrosecond));
    t.spans = {span(0, 0, 1, 3), span(0, 1, 4, 6)};
    t.makespan = us(7);
    const std::vector<PathSegment> path = critical_path(p, t, cluster);
    CHECK(bottlenecks(path) == std::vector<Bottleneck>{Bottleneck::Unrecorded, Bottleneck::Memory,
                                                       Bottleneck::Unrecorded, Bottleneck::Memory,
                                                       Bottleneck::Unrecorded});
    CHECK(length(path) == t.makespan);
  }
  SECTION("a Timeline without spans has no path") { CHECK(critical_path(p, t, cluster).empty()); }
}

TEST_CASE("a communication leads to the peer that came last") {
  // An all-gather of 2 MB by two ranks: 1 MB each way at 10 GB/s, 100 us. Rank 1 computes for 50 us before.
  const Cluster cluster = tests::toy_cluster(1, 2);
  Program p = tests::one_block(2, {{"g", 2, 1}});
  add(p, tests::kernel_of(p, 50 * kMicrosecond));
  add(p, tests::collective_of(p, Collective::AllGather, GroupId(0), 2'000'000, Stream::Inter, {0}));
  Timeline t;
  t.makespan = us(150);
  SECTION("that rank's work is on the path, because the others stood waiting for it") {
    t.spans = {span(0, 0, 0, 20), span(1, 0, 0, 50), span(0, 1, 20, 150), span(1, 1, 50, 150)};
    const std::vector<PathSegment> path = critical_path(p, t, cluster);
    CHECK(stretches(path) == std::vector<Stretch>{{1, 0, 0, 0, 50}, {0, 0, 1, 50, 100}});
    CHECK(path[1].waited == us(50 - 20));
    const PathSummary s = summarise(p, cluster, path);
    CHECK(s.handovers == 1);
    CHECK(s.waited == us(30));
    CHECK(s.ranks == std::vector<RankId>{RankId(0), RankId(1)});
  }
  SECTION("it stays on the rank where all came together") {
    t.spans = {span(0, 0, 0, 50), span(1, 0, 0, 50), span(0, 1, 50, 150), span(1, 1, 50, 150)};
    CHECK(summarise(p, cluster, critical_path(p, t, cluster)).handovers == 0);
  }
  SECTION("a peer that came only after the end cannot have held it: clocks disagree, and it was waiting") {
    t.spans = {span(0, 0, 0, 50), span(1, 0, 0, 150), span(0, 1, 50, 150), span(1, 1, 150, 151)};
    t.makespan = us(150);
    t.spans.back().end = us(150);
    const std::vector<PathSegment> path = critical_path(p, t, cluster);
    CHECK(path.back().limited_by == Bottleneck::Waiting);
    CHECK(length(path) == t.makespan);
  }
}

TEST_CASE("iterations that are copies count as often as they are") {
  // [A, then 3 times (B, then 2 times C), then A]: 4 + 3 (5 + 2 x 6) + 4 = 59 us.
  const Cluster cluster = tests::toy_cluster(1, 2);
  Program p = tests::one_block(2);
  add(p, tests::kernel_of(p, 4 * kMicrosecond));
  for (const std::int64_t t : {5, 6}) {
    p.blocks.push_back({.name = "more", .operations = {}});
    add(p, tests::kernel_of(p, t * kMicrosecond));
  }
  const Sequence inner{{.block = BlockId(2)}};
  const Sequence outer{{.block = BlockId(1)}, {.block = {}, .count = 2, .body = inner}};
  p.stages.front() = {{.block = BlockId(0)}, {.block = {}, .count = 3, .body = outer}, {.block = BlockId(0)}};
  Timeline t;
  t.repeats = {{1, 2, us(9), us(6)}, {-1, 3, us(4), us(17)}};
  for (const int r : {0, 1}) {
    t.spans.push_back(span(r, 0, 0, 4));
    t.spans.push_back(span(r, 0, 4, 9, 1, 1));
    t.spans.push_back(span(r, 0, 9, 15, 0, 2));
    t.spans.push_back(span(r, 0, 55, 59));
  }
  t.makespan = us(59);
  const std::vector<PathSegment> path = critical_path(p, t, cluster);
  CHECK(stretches(path) == std::vector<Stretch>{{0, 0, 0, 0, 4}, {0, 1, 0, 4, 5}, {0, 2, 0, 9, 6}, {0, 0, 0, 55, 4}});
  CHECK(path[1].times == 3);
  CHECK(path[2].times == 3 * 2);
  CHECK(length(path) == t.makespan);
}

TEST_CASE("iterations that are copies, but that ranks begin at different times") {
  // Three iterations of an all-gather of 1 MB each way (100 us) and a kernel of 10 us on rank 0, 20 us on rank 1, which
  // begins 10 us later: 120 us each, recorded once.
  const Cluster cluster = tests::toy_cluster(1, 2);
  Program p = tests::one_block(2, {{"g", 2, 1}});
  add(p, tests::kernel_of(p, 40 * kMicrosecond));
  p.blocks.push_back({.name = "repeated", .operations = {}});
  add(p, tests::collective_of(p, Collective::AllGather, GroupId(0), 2'000'000));
  add(p, tests::kernel_of(p, 20 * kMicrosecond, Stream::Compute, {0}));
  p.stages.front().push_back({.block = {}, .count = 3, .body = {{.block = BlockId(1)}}});
  Timeline t;
  t.repeats = {{.count = 3, .start = us(10), .period = us(120), .in_step = false}};
  t.spans = {span(1, 0, 0, 10), span(0, 0, 0, 110, 0, 1), span(1, 0, 10, 110, 0, 1), span(0, 1, 110, 120, 0, 1),
             span(1, 1, 110, 130, 0, 1)};
  SECTION("the path is in all copies on the rank that ends last, because it begins there too") {
    t.makespan = us(370);
    const std::vector<PathSegment> path = critical_path(p, t, cluster);
    CHECK(stretches(path) == std::vector<Stretch>{{1, 0, 0, 0, 10}, {1, 1, 0, 10, 100}, {1, 1, 1, 110, 20}});
    CHECK(path[1].times == 3);
    CHECK(path[2].times == 3);
    CHECK(length(path) == t.makespan);
  }
  SECTION("it is on the other rank in the last copy if what follows is there, and changes over in it") {
    t.spans.push_back(span(0, 0, 360, 400));
    t.makespan = us(400);
    const std::vector<PathSegment> path = critical_path(p, t, cluster);
    CHECK(stretches(path) == std::vector<Stretch>{{1, 0, 0, 0, 10},
                                                  {1, 1, 0, 10, 100},
                                                  {1, 1, 1, 110, 20},
                                                  {0, 1, 0, 10, 100},
                                                  {0, 1, 1, 110, 10},
                                                  {0, 0, 0, 360, 40}});
    CHECK(path[1].times == 2);
    CHECK(path[3].times == 1);
    CHECK(length(path) == t.makespan);
  }
}

TEST_CASE("what held a computation") {
  Cluster cluster = tests::toy_cluster(1, 1);
  cluster.gpu.launch_overhead = Seconds(1e-6);
  cluster.gpu.slowdown_beside_communication = 1.5;
  Program p = tests::one_block(1);
  Timeline t;
  SECTION("launch first, then HBM, and what is longer than alone was slowed") {
    add(p, tests::kernel_of(p, 4 * kMicrosecond));
    t.spans = {span(0, 0, 0, 7)};
    t.makespan = us(7);
    const std::vector<PathSegment> path = critical_path(p, t, cluster);
    CHECK(bottlenecks(path) == std::vector<Bottleneck>{Bottleneck::Launch, Bottleneck::Memory, Bottleneck::Slowed});
    CHECK(stretches(path) == std::vector<Stretch>{{0, 0, 0, 0, 1}, {0, 0, 0, 1, 4}, {0, 0, 0, 5, 2}});
  }
  SECTION("the host, where launching takes longer than the operations") {
    add(p, tests::kernel_of(p, 4 * kMicrosecond));
    add(p, {.name = "launches",
            .op_class = OpClass::Host,
            .stream = Stream::Host,
            .work = Launches{2},
            .reads = {},
            .writes = {},
            .after = {}});
    t.spans = {span(0, 0, 0, 5), span(0, 1, 0, 9)};
    t.makespan = us(9);
    const std::vector<PathSegment> path = critical_path(p, t, cluster);
    CHECK(bottlenecks(path) == std::vector<Bottleneck>{Bottleneck::Host});
    CHECK(length(path) == t.makespan);
    CHECK(summarise(p, cluster, path).bottlenecks.front().first == "host CPU: launches of operations");
  }
  SECTION("tensor cores where a product's FLOPs take longer than its bytes") {
    // 1000^3 in fp32: 2e9 FLOP at 1e12 a second are 2 ms; 12 MB at 1e11 B/s only 120 us.
    p.buffers = {{"m", 1000, Dtype::Fp32}};
    const Slice m{BufferId(0), Rows::fixed(1000)};
    Operation gemm;
    gemm.work = Gemm{};
    gemm.reads = {m, m};
    gemm.writes = {m};
    add(p, gemm);
    t.spans = {span(0, 0, 0, 2001)};
    t.makespan = us(2001);
    const std::vector<PathSegment> path = critical_path(p, t, cluster);
    CHECK(bottlenecks(path) == std::vector<Bottleneck>{Bottleneck::Launch, Bottleneck::TensorCores});
    CHECK(path[1].flops == 2e9);
    const PathSummary s = summarise(p, cluster, path);
    CHECK(s.classes.front().flops / s.classes.front().possible_flops == Approx(2000.0 / 2001.0));
  }
}

TEST_CASE("what held a communication") {
  // An all-to-all of 4 MB by 4 ranks on 2 nodes of 2: each sends 1 MB to each other one. A node's link carries 4 of the
  // flows: 4 MB at 2 GB/s take 2000 us; a rank's own link 3 MB at 10 GB/s, 300 us.
  Cluster cluster = tests::toy_cluster(2, 2, Seconds(1e-6));
  Program p = tests::one_block(4, {{"g", 4, 1}, {"half", 2, 2}});
  const auto path_of = [&](GroupId group, std::int64_t n, std::int64_t duration) {
    add(p, tests::collective_of(p, Collective::AllToAll, group, n));
    Timeline t;
    for (int r = 0; r < 4; ++r) t.spans.push_back(span(r, 0, 0, duration));
    t.makespan = us(duration);
    return critical_path(p, t, cluster);
  };
  SECTION("start-up and the latency of the route, 4 hops, then the most loaded link") {
    cluster.collective_startup = Seconds(6e-6);
    const std::vector<PathSegment> path = path_of(GroupId(0), 4'000'000, 10 + 2000);
    CHECK(bottlenecks(path) == std::vector<Bottleneck>{Bottleneck::StartUp, Bottleneck::Link});
    CHECK(path[0].duration == us(6 + 4));
    CHECK(bottleneck_name(p, cluster.topology, path[1]) == "link switch 0 -> core");
  }
  SECTION("all groups of the family load the link, because they run at the same time") {
    // Two groups of 2 across the nodes: each rank sends 1 MB, so 2 MB leave a node: 1000 us.
    const std::vector<PathSegment> path = path_of(GroupId(1), 2'000'000, 4 + 1000);
    CHECK(bottlenecks(path) == std::vector<Bottleneck>{Bottleneck::StartUp, Bottleneck::Link});
    CHECK(path[1].duration == us(1000));
  }
  SECTION("the measured rate where that is slower than the links; alpha holds the latency") {
    // alpha + n beta: 20 us + 4 MB x 1 ns/B = 4020 us.
    cluster.collectives[{Collective::AllToAll, Span::InterNode}] = {Seconds(20e-6), SecondsPerByte(1e-9)};
    const std::vector<PathSegment> path = path_of(GroupId(0), 4'000'000, 4020);
    CHECK(bottlenecks(path) == std::vector<Bottleneck>{Bottleneck::StartUp, Bottleneck::MeasuredRate});
    CHECK(path[0].duration == us(20));
    CHECK(bottleneck_name(p, cluster.topology, path[1]) == "measured rate of all_to_all (beta)");
  }
  SECTION("what the GPU's computation can add to the measured rate, then what was shared") {
    cluster.gpu.slowdown_beside_computation = 1.25;
    cluster.collectives[{Collective::AllToAll, Span::InterNode}] = {Seconds(20e-6), SecondsPerByte(1e-9)};
    const std::vector<PathSegment> path = path_of(GroupId(0), 4'000'000, 20 + 4000 + 1000 + 300);
    CHECK(bottlenecks(path) == std::vector<Bottleneck>{Bottleneck::StartUp, Bottleneck::MeasuredRate,
                                                       Bottleneck::SlowedTransfer, Bottleneck::SharedLinks});
    CHECK(path[2].duration == us(1000));
    CHECK(path[3].duration == us(300));
  }
  SECTION("what is longer than the link alone explains was shared with other traffic") {
    const std::vector<PathSegment> path = path_of(GroupId(0), 4'000'000, 4 + 2000 + 500);
    CHECK(bottlenecks(path) == std::vector<Bottleneck>{Bottleneck::StartUp, Bottleneck::Link, Bottleneck::SharedLinks});
    CHECK(path[2].duration == us(500));
  }
}

}  // namespace moeplan::tests::critical_path_test
