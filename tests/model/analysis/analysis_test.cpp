#include "model/analysis/analysis.hpp"

#include <catch2/catch.hpp>

namespace moeplan::tests::analysis_test {

namespace {

Operation operation(OpClass op_class, Stream stream, bool communication) {
  Operation op;
  op.op_class = op_class;
  op.stream = stream;
  if (communication) {
    op.work = Communication{.group = GroupId(0)};
  } else {
    op.work = Kernel::Add;
  }
  return op;
}

/// One block: 0 an expert's computation, 1 a dispatch, 2 a tensor-parallel exchange, 3 attention; communications are
/// among all ranks.
Program program(std::int64_t world) {
  Program p;
  p.world_size = world;
  p.groups = {{"all", world, 1}};
  p.blocks.push_back(
      {"block",
       {operation(OpClass::Expert, Stream::Compute, false), operation(OpClass::Dispatch, Stream::Inter, true),
        operation(OpClass::TensorParallel, Stream::Intra, true),
        operation(OpClass::Attention, Stream::Compute, false)}});
  p.stages.front().push_back({.block = BlockId(0)});
  return p;
}

TimelineSpan span(int rank, int op, std::int64_t start, std::int64_t end, int repeat = -1) {
  return {RankId(rank), BlockId(0), op, repeat, SimTime(start), SimTime(end)};
}

double ps(Seconds t) { return t.value() * 1e12; }

/// The makespan, if every instant of it is one class's or idle.
double accounted_ps(const RankTime& t) {
  double sum = ps(t.idle);
  for (const ClassTime& c : t.classes) sum += ps(c.visible);
  return sum;
}

RankTime rank_time(const Program& program, const Timeline& timeline, RankId rank) {
  return rank_times(program, timeline)[timeline.place(rank)];
}

}  // namespace

TEST_CASE("time on a rank is computation, communication that it hides, communication that is exposed, and idling") {
  Timeline t;
  t.makespan = SimTime(100);
  SECTION("a dispatch of [10, 50) beside a computation of [0, 30) is exposed for 50 - 30 because the rest is hidden") {
    t.spans = {span(0, 0, 0, 30), span(0, 1, 10, 50)};
    const RankTime r = rank_time(program(1), t, RankId(0));
    CHECK(ps(r.compute) == Approx(30));
    CHECK(ps(r.communication) == Approx(50 - 10));
    CHECK(ps(r.exposed_communication) == Approx(50 - 30));
    CHECK(ps(r.busy) == Approx(50));
    CHECK(ps(r.idle) == Approx(100 - 50));
    CHECK(ps(r.total(OpClass::Expert)) == Approx(30));
    CHECK(ps(r.total(OpClass::Dispatch)) == Approx(40));
    CHECK(ps(r.exposed(OpClass::Dispatch)) == Approx(20));
    CHECK(ps(r.total(OpClass::Attention)) == 0);
    CHECK(r.classes.size() == 2);
  }
  SECTION("two communications exposed at once share the time equally because neither alone is to blame") {
    t.spans = {span(0, 1, 0, 40), span(0, 2, 20, 60)};
    const RankTime r = rank_time(program(1), t, RankId(0));
    CHECK(ps(r.communication) == Approx(40 + 40));
    CHECK(ps(r.exposed_communication) == Approx(60));
    CHECK(ps(r.exposed(OpClass::Dispatch)) == Approx(20 + 20 / 2.0));
    CHECK(ps(r.exposed(OpClass::TensorParallel)) == Approx(20 / 2.0 + 20));
  }
  SECTION("only what neither computation nor communication covers of the host's time is the host's") {
    Program with_host = program(1);
    with_host.blocks.front().operations.push_back({.name = "launches",
                                                   .op_class = OpClass::Host,
                                                   .stream = Stream::Host,
                                                   .work = Launches{1},
                                                   .reads = {},
                                                   .writes = {},
                                                   .after = {}});
    t.spans = {span(0, 0, 0, 30), span(0, 1, 10, 50), span(0, 4, 0, 80)};
    const RankTime r = rank_time(with_host, t, RankId(0));
    CHECK(ps(r.visible(OpClass::Host)) == Approx(80 - 50));
    CHECK(ps(r.total(OpClass::Host)) == Approx(80));
    CHECK(ps(r.compute) == Approx(30));
    CHECK(ps(r.communication) == Approx(40));
    CHECK(ps(r.exposed_communication) == Approx(50 - 30));
    CHECK(ps(r.busy) == Approx(80));
    CHECK(accounted_ps(r) == Approx(100));
  }
  SECTION("what classes add to the makespan sums to it, because an instant is shared by what runs in it") {
    // [0, 20) expert, [20, 30) expert and attention, [30, 50) attention beside a dispatch, [50, 60) dispatch.
    t.spans = {span(0, 0, 0, 30), span(0, 3, 20, 50), span(0, 1, 30, 60)};
    const RankTime r = rank_time(program(1), t, RankId(0));
    CHECK(ps(r.visible(OpClass::Expert)) == Approx(20 + 10 / 2.0));
    CHECK(ps(r.visible(OpClass::Attention)) == Approx(10 / 2.0 + 20));
    CHECK(ps(r.visible(OpClass::Dispatch)) == Approx(10));
    CHECK(ps(r.visible(OpClass::Dispatch)) == ps(r.exposed(OpClass::Dispatch)));
    CHECK(accounted_ps(r) == Approx(100));
  }
  SECTION("back to back operations leave no gap because an end and a start at one instant meet") {
    t.spans = {span(0, 1, 0, 40), span(0, 0, 40, 70), span(0, 3, 70, 100)};
    const RankTime r = rank_time(program(1), t, RankId(0));
    CHECK(ps(r.idle) == Approx(0).margin(1e-9));
    CHECK(ps(r.exposed_communication) == Approx(40));
  }
  SECTION("operations without duration add nothing, but their class occurs") {
    t.spans = {span(0, 1, 5, 5)};
    const RankTime r = rank_time(program(1), t, RankId(0));
    CHECK(ps(r.busy) == 0);
    REQUIRE(r.classes.size() == 1);
    CHECK(r.classes[0].op_class == OpClass::Dispatch);
  }
  SECTION("a rank without spans idles all the time") {
    const RankTime r = rank_time(program(2), t, RankId(1));
    CHECK(ps(r.idle) == Approx(100));
    CHECK(r.classes.empty());
  }
}

TEST_CASE("what stands for many iterations counts as often") {
  // Outer repeat of 3 iterations of 30 ps: [0, 10) attention, then an inner repeat of 2 iterations of 10 ps in which a
  // computation of 4 ps is followed by 6 ps of dispatch. Then 10 ps of attention outside.
  Timeline t;
  t.makespan = SimTime(3 * 30 + 10);
  t.repeats = {{1, 2, SimTime(10), SimTime(10)}, {-1, 3, SimTime(0), SimTime(30)}};
  t.spans = {span(0, 3, 0, 10, 1), span(0, 0, 10, 14, 0), span(0, 1, 14, 20, 0), span(0, 3, 90, 100)};
  const RankTime r = rank_time(program(1), t, RankId(0));
  CHECK(ps(r.total(OpClass::Attention)) == Approx(3 * 10 + 10));
  CHECK(ps(r.total(OpClass::Expert)) == Approx(3 * 2 * 4));
  CHECK(ps(r.exposed_communication) == Approx(3 * 2 * 6));
  CHECK(ps(r.busy) == Approx(100));
  CHECK(ps(r.idle) == Approx(0).margin(1e-9));

  const std::vector<StreamUse> use = stream_use(program(1), t);
  REQUIRE(use.size() == 2);
  CHECK(use[0].stream == Stream::Compute);
  CHECK(use[0].busy.mean * 1e12 == Approx(3 * 10 + 10 + 3 * 2 * 4));
  CHECK(use[1].stream == Stream::Inter);
  CHECK(use[1].utilisation.max == Approx(3 * 2 * 6 / 100.0));
}

TEST_CASE("ranks are summed up") {
  Timeline t;
  t.makespan = SimTime(50);
  t.spans = {span(0, 0, 0, 10), span(1, 0, 0, 30), span(2, 0, 0, 20), span(2, 1, 20, 30), span(3, 0, 0, 30)};
  const Program p = program(4);
  SECTION("a stream has its least, mean and most busy rank") {
    const std::vector<StreamUse> use = stream_use(p, t);
    REQUIRE(use.size() == 2);
    CHECK(use[0].busy.min * 1e12 == Approx(10));
    CHECK(use[0].busy.mean * 1e12 == Approx((10 + 30 + 20 + 30) / 4.0));
    CHECK(use[0].busy.max * 1e12 == Approx(30));
    CHECK(use[0].utilisation.max == Approx(30.0 / 50));
    CHECK(use[1].busy.min == 0);
    CHECK(use[1].utilisation.mean == Approx(10 / 4.0 / 50));
  }
  SECTION("the binding one is rank 1 because 1, 2 and 3 wait for 20 ps, 1 and 3 compute longest, and 1 is lowest") {
    CHECK(binding_rank(rank_times(p, t)).rank == RankId(1));
  }
  SECTION("ranks are in order") {
    const std::vector<RankTime> all = rank_times(p, t);
    REQUIRE(all.size() == 4);
    for (std::size_t r = 0; r < all.size(); ++r) CHECK(all[r].rank == RankId(r));
  }
  SECTION("an empty run has no utilisation to divide by") {
    Timeline empty;
    CHECK(stream_use(p, empty).empty());
    CHECK(ps(rank_times(p, empty)[0].idle) == 0);
  }
}

TEST_CASE("a rank waits for others where it is idle or stands in communication before they come") {
  Program p = program(2);
  Timeline t;
  t.makespan = SimTime(100);
  SECTION("of a collective the time before its last member, so that the rank that comes last is the binding one") {
    // Rank 0 dispatches from 20 on, rank 1 from 60 on, and both until 90.
    t.spans = {span(0, 0, 0, 20), span(1, 0, 0, 60), span(0, 1, 20, 90), span(1, 1, 60, 90)};
    const std::vector<RankTime> times = rank_times(p, t);
    CHECK(ps(times[0].waiting) == Approx(60 - 20 + 10));
    CHECK(ps(times[1].waiting) == Approx(10));
    CHECK(binding_rank(times).rank == RankId(1));
    for (const RankTime& r : times) CHECK(accounted_ps(r) == Approx(100));
  }
  SECTION("not for those that came after its own part had ended, because it did not need them") {
    t.spans = {span(0, 1, 0, 30), span(1, 0, 0, 60), span(1, 1, 60, 90)};
    CHECK(ps(rank_time(p, t, RankId(0)).waiting) == Approx(100 - 30));
    CHECK(ps(rank_time(p, t, RankId(1)).waiting) == Approx(10));
  }
  SECTION("not while it computes, because then nothing is lost") {
    t.spans = {span(0, 0, 0, 50), span(0, 1, 0, 90), span(1, 0, 0, 70), span(1, 1, 70, 90)};
    CHECK(ps(rank_time(p, t, RankId(0)).waiting) == Approx(70 - 50 + 10));
  }
  SECTION("run by run, because a rank may lead in one and lag in the next") {
    t.spans = {span(0, 1, 0, 30), span(1, 1, 10, 30), span(0, 1, 50, 80), span(1, 1, 40, 80)};
    CHECK(ps(rank_time(p, t, RankId(0)).waiting) == Approx(10 + (100 - 30 - 30)));
    CHECK(ps(rank_time(p, t, RankId(1)).waiting) == Approx(10 + (100 - 20 - 40)));
  }
  SECTION("of a Receive all, because what comes is another rank's work: a longer busy rank need not bind") {
    // Rank 0 computes 80 of 95 ps, rank 1 receives for 70 of 100: it is busy longer, and waits.
    Operation receive = operation(OpClass::Pipeline, Stream::Compute, false);
    receive.work = Receive{GroupId(0), 1, 0};
    p.blocks[0].operations.push_back(receive);
    t.spans = {span(0, 0, 0, 80), span(0, 1, 80, 95), span(1, 4, 0, 70), span(1, 0, 70, 100)};
    const std::vector<RankTime> times = rank_times(p, t);
    CHECK(times[1].busy > times[0].busy);
    CHECK(ps(times[0].waiting) == Approx(100 - 95));
    CHECK(ps(times[1].waiting) == Approx(70));
    CHECK(binding_rank(times).rank == RankId(0));
  }
  SECTION("of a Wait while what it waits for on a background stream waits") {
    // Gradients of rank 0 are ready at 10, of rank 1 at 60; rank 0 waits for their sum from 40 until 80.
    Operation sum = operation(OpClass::Gradient, Stream::Replicas, true);
    Operation wait = operation(OpClass::Gradient, Stream::Compute, false);
    wait.work = Wait{Stream::Replicas};
    p.blocks[0].operations.push_back(sum);
    p.blocks[0].operations.push_back(wait);
    t.spans = {span(0, 0, 0, 40), span(0, 4, 10, 80), span(0, 5, 40, 80), span(1, 0, 0, 60), span(1, 4, 60, 80)};
    CHECK(ps(rank_time(p, t, RankId(0)).waiting) == Approx(60 - 40 + 20));
  }
}

TEST_CASE("a link's utilisation is what it carried over what it could have") {
  Topology topology;
  topology.vertices = {{"a", VertexKind::Gpu, 0}, {"b", VertexKind::Gpu, 0}};
  const auto link = [](int from, int to, double bandwidth) {
    return Link{VertexId(from), VertexId(to), BytesPerSecond(bandwidth), Seconds(0), LinkTier::IntraNode};
  };
  topology.links = {link(0, 1, 1e12), link(1, 0, 2e12), link(0, 1, 1e12)};
  Timeline t;
  t.makespan = SimTime(100);  // so that 1e12 B/s carry 100 bytes
  t.links = {{LinkId(0), 50}, {LinkId(1), 180}, {LinkId(2), 50}};
  const std::vector<LinkUtilisation> use = link_utilisation(t, topology);
  REQUIRE(use.size() == 3);
  CHECK(use[0].link == LinkId(1));
  CHECK(use[0].name == "b -> a");
  CHECK(use[0].utilisation == Approx(180 / 200.0));
  CHECK(use[1].link == LinkId(0));
  CHECK(use[2].link == LinkId(2));
  CHECK(use[2].bytes.value() == 50);
}

TEST_CASE("each stage of a pipeline has a binding rank, the one of its ranks that waits least") {
  Program p = program(4);
  p.stages.push_back(p.stages.front());  // ranks 0 and 1, then 2 and 3
  const auto waiting = [](int rank, double seconds) {
    RankTime t{};
    t.rank = RankId(rank);
    t.waiting = Seconds(seconds);
    return t;
  };
  const std::vector<RankTime> times{waiting(0, 3), waiting(1, 2), waiting(2, 5), waiting(3, 7)};
  const std::vector<RankTime> stages = binding_ranks_by_stage(p, times);
  REQUIRE(stages.size() == 2);
  CHECK(stages[0].rank == RankId(1));
  CHECK(stages[1].rank == RankId(2));
}

}  // namespace moeplan::tests::analysis_test
