#include <catch2/catch.hpp>
#include <cmath>

#include "model/analysis/analysis.hpp"
#include "model/analysis/critical_path.hpp"
#include "sim/program/simulate.hpp"
#include "sim/program/simulate_stages.hpp"
#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::pipeline_test {

using namespace moeplan::sim;

namespace {

constexpr std::int64_t kMicrosecond = 100'000;  // bytes that a kernel of the toy GPU moves in 1 us
constexpr std::int64_t kMessage = 10'000;       // bytes that a link inside a node moves in 1 us

SimTime us(double t) { return SimTime(static_cast<std::int64_t>(std::llround(t * 1e6))); }

Operation of(decltype(Operation::work) work, Stream stream, std::vector<Slice> reads,
             std::vector<std::int32_t> after = {}) {
  return {.name = "message",
          .op_class = OpClass::Pipeline,
          .stream = stream,
          .work = work,
          .reads = std::move(reads),
          .writes = {},
          .after = std::move(after)};
}

BlockId add_block(Program& p, const std::string& name, std::vector<Operation> operations) {
  p.blocks.push_back({.name = name, .operations = std::move(operations)});
  return BlockId(p.blocks.size() - 1);
}

SimTime start(const Timeline& t, std::int32_t rank, BlockId block, std::int32_t operation) {
  for (const TimelineSpan& s : t.spans) {
    if (s.rank == RankId(rank) && s.block == block && s.operation == operation) return s.start;
  }
  FAIL("no such span");
  return {};
}

/// Two stages of one rank; forward takes 3 us and the message 1 us; `microbatches` of them.
Program forward_only(int microbatches) {
  Program p;
  p.world_size = 2;
  p.groups = {{"stages", 2, 1}};
  p.stages.assign(2, {});
  const Slice message = tests::bytes_of(p, kMessage);
  const Send send{GroupId(0), 1, 0};
  const Receive receive{GroupId(0), 1, 0};
  const BlockId first =
      add_block(p, "first", {tests::kernel_of(p, 3 * kMicrosecond), of(send, Stream::Pipeline, {message}, {0})});
  const BlockId second =
      add_block(p, "second", {of(receive, Stream::Compute, {}), tests::kernel_of(p, 3 * kMicrosecond)});
  for (int i = 0; i < microbatches; ++i) {
    p.stages[0].push_back({.block = first});
    p.stages[1].push_back({.block = second});
  }
  return p;
}

}  // namespace

TEST_CASE("stages meet through messages") {
  const Cluster cluster = tests::toy_cluster(1, 2);
  StageClusters machines(cluster);
  const Program p = forward_only(4);
  const Timeline whole = simulate(p, cluster);
  SECTION("a stage goes on while its message is under way, the next begins when it is there") {
    // 3 + 1 until the first message is there, then four forwards of 3 us without a gap.
    CHECK(whole.makespan == us(16));
    CHECK(start(whole, 1, BlockId(1), 1) == us(4));
  }
  SECTION("composed from segments it is the same") {
    const Timeline composed = simulate_stages(p, machines);
    CHECK(composed.makespan == whole.makespan);
    CHECK(composed.spans == whole.spans);
    CHECK(composed.links == whole.links);
  }
  SECTION("its critical path goes from stage to stage with the message, and leaves nothing unexplained") {
    for (const Timeline& t : {whole, simulate_stages(p, machines)}) {
      const std::vector<PathSegment> path = critical_path(p, t, cluster);
      REQUIRE(path.size() == 6);
      CHECK((path[0].rank == RankId(0) && path[0].duration == us(3)));
      CHECK((path[1].rank == RankId(0) && path[1].duration == us(1) && path[1].limited_by == Bottleneck::Link));
      for (std::size_t i = 2; i < 6; ++i) CHECK((path[i].rank == RankId(1) && path[i].duration == us(3)));
      CHECK(path[1].waited == us(4));
    }
  }
  SECTION("a stage that stands in a Receive is not busy") {
    const std::vector<StreamUse> use = stream_use(p, whole);
    REQUIRE(use.size() == 2);
    CHECK(use[0].busy.min == Approx(12e-6));
    CHECK(use[0].busy.max == Approx(12e-6));
    CHECK(use[1].stream == Stream::Pipeline);
    CHECK(use[1].busy.max == Approx(4e-6));
  }
  SECTION("a Program whose stages wait for each other in a circle is refused, not simulated for ever") {
    Program q = p;
    std::swap(q.stages[0], q.stages[1]);
    q.blocks[1].operations[0].work = Receive{GroupId(0), 1, 7};
    CHECK_THROWS_AS(simulate(q, cluster), std::logic_error);
    CHECK_THROWS_AS(simulate_stages(q, machines), std::logic_error);
  }
}

TEST_CASE("background operations hold up only who waits for them") {
  const Cluster cluster = tests::toy_cluster(1, 2);
  Program p;
  p.world_size = 2;
  p.groups = {{"replicas", 2, 1}};
  // A ring of two moves half of 80 kB twice: 40 kB a step at 10 kB/us, both steps at once.
  Operation reduce = tests::collective_of(p, Collective::AllReduce, GroupId(0), 8 * kMessage, Stream::Replicas, {0});
  const BlockId work = add_block(p, "work", {tests::kernel_of(p, 3 * kMicrosecond), reduce});
  const BlockId more = add_block(p, "more", {tests::kernel_of(p, 2 * kMicrosecond)});
  const BlockId end =
      add_block(p, "end", {of(Wait{Stream::Replicas}, Stream::Compute, {}), tests::kernel_of(p, 1 * kMicrosecond)});
  p.stages[0] = {{.block = work}, {.block = more}, {.block = end}};
  const Timeline t = simulate(p, cluster);
  SECTION("the next block begins at once, the Wait ends with the collective") {
    CHECK(start(t, 0, more, 0) == us(3));
    CHECK(start(t, 0, end, 0) == us(5));
    CHECK(start(t, 0, end, 1) == us(3 + 8));
    CHECK(t.makespan == us(3 + 8 + 1));
  }
  SECTION("composed from segments it is the same") {
    StageClusters machines(cluster);
    CHECK(simulate_stages(p, machines).makespan == t.makespan);
  }
  SECTION("a repeat that begins with the Wait waits once, because its other iterations find the collective ended") {
    const BlockId layer =
        add_block(p, "layer", {of(Wait{Stream::Replicas}, Stream::Compute, {}), tests::kernel_of(p, 1 * kMicrosecond)});
    Program q = p;
    q.stages[0] = {{.block = work}, {.block = {}, .count = 3, .body = {{.block = layer}}}};
    StageClusters machines(cluster);
    const Timeline composed = simulate_stages(q, machines);
    CHECK(composed.makespan == us(3 + 8 + 3 * 1));
    const RankTime r = rank_times(q, composed)[composed.place(RankId(0))];
    CHECK(r.idle.value() == Approx(0).margin(1e-15));
    CHECK(r.exposed(OpClass::Pipeline).value() == Approx(8e-6));
    CHECK(r.compute.value() == Approx((3 + 3 * 1) * 1e-6));
  }
  SECTION("on the critical path the Wait is what it waits for") {
    SimTime background;
    for (const PathSegment& s : critical_path(p, t, cluster)) {
      CHECK(s.limited_by != Bottleneck::Waiting);
      CHECK(s.limited_by != Bottleneck::Unrecorded);
      const Operation& op = p.blocks[s.block.index()].operations[static_cast<std::size_t>(s.operation)];
      if (op.stream == Stream::Replicas) background += s.duration;
    }
    CHECK(background == us(8));
  }
  SECTION("without a Wait the run lasts until the background has ended") {
    Program q = p;
    q.stages[0].pop_back();
    const Timeline u = simulate(q, cluster);
    CHECK(u.joined_end == us(5));
    CHECK(u.makespan == us(11));
  }
  SECTION("iterations whose background is in flight are not taken for copies") {
    Program q = p;
    q.stages[0] = {{.block = {}, .count = 3, .body = {{.block = work}}}, {.block = end}};
    // Three all-reduces of 8 us after each other, the first from 3 us on.
    CHECK(simulate(q, cluster).makespan == us(3 + 24 + 1));
  }
}

}  // namespace moeplan::tests::pipeline_test
