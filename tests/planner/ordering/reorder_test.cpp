#include "planner/ordering/reorder.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "model/costs/compute.hpp"
#include "planner/layer/chunk_order.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/program/simulate.hpp"
#include "tests/support/small_cases.hpp"
#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::reorder_test {

using namespace moeplan::sim;
using namespace moeplan::planner;

namespace {

constexpr double kMicrosecond = 1e-6;

Slice named(Program& program, const std::string& name, std::int64_t bytes) {
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    if (program.buffers[b].name == name) return {BufferId(b), Rows::fixed(bytes)};
  }
  program.buffers.push_back({name, 1, Dtype::Int8});
  return {BufferId(program.buffers.size() - 1), Rows::fixed(bytes)};
}

/// An MoE layer in OptSche's order on two ranks; times of a chunk's seven tasks in whole microseconds.
Program opt_sche_program(std::int64_t chunks, const std::array<int, kChunkTasks>& microseconds) {
  Program program = one_block(2, {{"all", 2, 1}});
  std::vector<Operation>& operations = program.blocks.front().operations;
  std::vector<std::int32_t> last(static_cast<std::size_t>(chunks));
  for (const ChunkStep& step : opt_sche(chunks)) {
    const double time = microseconds[static_cast<std::size_t>(step.task)] * kMicrosecond;
    std::int32_t& before = last[static_cast<std::size_t>(step.chunk)];
    const std::vector<std::int32_t> after =
        step.task == ChunkTask::Encode ? std::vector<std::int32_t>{} : std::vector{before};
    // Half of an all-to-all of two ranks goes to the other.
    operations.push_back(
        communicates(step.task)
            ? collective_of(program, Collective::AllToAll, GroupId(0),
                            static_cast<std::int64_t>(time * kGpuRate * 2 + 0.5), Stream::Inter, after)
            : kernel_of(program, static_cast<std::int64_t>(time * kMemoryRate + 0.5), Stream::Compute, after));
    before = static_cast<std::int32_t>(operations.size()) - 1;
  }
  return program;
}

/// Two GPUs behind one switch, which the machine's makers would say are alike.
Cluster two_alike() {
  Cluster cluster = toy_cluster(1, 2);
  cluster.natural_boundaries = {2};
  return cluster;
}

/// By operation: those that have ended when it starts.
std::vector<std::vector<bool>> ended_before(const Block& block) {
  const std::size_t n = block.operations.size();
  std::vector<std::vector<bool>> out(n, std::vector<bool>(n, false));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t b = 0; b < i; ++b) {
      const auto& after = block.operations[i].after;
      const bool is_needed = std::find(after.begin(), after.end(), static_cast<std::int32_t>(b)) != after.end();
      if (!is_needed && block.operations[i].stream != block.operations[b].stream) continue;
      out[i][b] = true;
      for (std::size_t a = 0; a < b; ++a) out[i][a] = out[i][a] || out[b][a];
    }
  }
  return out;
}

}  // namespace

TEST_CASE("A block is reordered where OptSche is not the best order") {
  const Cluster cluster = two_alike();
  const Program program = opt_sche_program(2, {18, 0, 0, 3, 0, 14, 11});
  const Reordering offer = reordered(program, cluster);
  REQUIRE(offer.blocks.size() == 1);
  SECTION("expect 78 us before and 67 us after, proved") {
    CHECK(offer.blocks.front().listed == SimTime::from_seconds(Seconds(78e-6)));
    CHECK(offer.blocks.front().best == SimTime::from_seconds(Seconds(67e-6)));
    CHECK(offer.blocks.front().lower_bound == offer.blocks.front().best);
    CHECK(offer.is_changed());
    CHECK(offer.answered_by() == "exact");
  }
  SECTION("simulation agrees, because one all-to-all at a time has the links for itself") {
    CHECK(simulate(program, cluster).makespan == offer.blocks.front().listed);
    CHECK(simulate(offer.program, cluster).makespan == offer.blocks.front().best);
  }
  SECTION("an order that is the best already stays as it is") {
    const Program best = opt_sche_program(3, {5, 20, 7, 9, 5, 20, 7});
    const Reordering same = reordered(best, cluster);
    CHECK_FALSE(same.is_changed());
    CHECK(same.program == best);
    CHECK(same.answered_by() == "exact");
  }
  SECTION("without a budget the answer is a heuristic and never worse") {
    const Reordering none = reordered(program, cluster, 0);
    CHECK(none.answered_by() == "heuristic");
    CHECK(none.program == program);
  }
}

TEST_CASE("Operations take in the search what they take alone") {
  const Cluster cluster = two_alike();
  const Program program = opt_sche_program(1, {18, 40, 0, 3, 0, 14, 11});
  const Block& block = program.blocks.front();
  const std::vector<SimTime> alone = durations_alone(program, BlockId(0), cluster);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    const Operation& operation = block.operations[i];
    // Half of what a rank has goes to the other, over its own link.
    const Seconds expected =
        operation.computes()
            ? compute_time(program, operation, RankId(0), cluster.gpu)
            : Seconds(static_cast<double>(byte_count(program, operation.reads.front(), RankId(0))) / 2 / kGpuRate);
    CHECK(alone[i] == SimTime::from_seconds(expected));
  }
}

TEST_CASE("Shared data keeps its order") {
  Program program = one_block(2, {{"all", 2, 1}});
  SECTION("a buffer that two chunks use in turn, because the second would overwrite the first") {
    const Slice shared = named(program, "shared", 8);
    Block block{"block", {}, {}};
    for (int chunk = 0; chunk < 2; ++chunk) {
      Operation write = kernel_of(program, 8), read = kernel_of(program, 8);
      write.writes = {shared};
      read.reads = {shared};
      read.after = {2 * chunk};
      block.operations.push_back(write);
      block.operations.push_back(read);
    }
    const OrderProblem problem = order_problem(block, std::vector<SimTime>(4));
    CHECK(problem[2].after == std::vector<std::int32_t>{0, 1});  // written by 0, read by 1
    CHECK(problem[3].after == std::vector<std::int32_t>{0, 2});
  }
  SECTION("what the order of a stream made sure of becomes a dependency where it no longer does") {
    Operation writer = kernel_of(program, 8), middle = kernel_of(program, 8);
    Operation reader = kernel_of(program, 8, Stream::Copy, {1});
    writer.writes = reader.reads = {named(program, "shared", 8)};
    const Block block{"block", {writer, middle, reader}, {}};
    const Block changed = with_order(block, std::vector<std::int32_t>{1, 0, 2});
    CHECK(changed.operations[2].after == std::vector<std::int32_t>{0, 1});
  }
  SECTION("what a stream runs after a wait stays after it, because it may use what was waited for") {
    Operation wait = kernel_of(program, 0);
    wait.work = Wait{Stream::Replicas};
    const Block block{"block", {kernel_of(program, 8), wait, kernel_of(program, 8)}, {}};
    const OrderProblem problem = order_problem(block, std::vector<SimTime>(3));
    CHECK(problem[1].after == std::vector<std::int32_t>{0});
    CHECK(problem[2].after == std::vector<std::int32_t>{1});
  }
  SECTION("chunks of one buffer are told apart, other slices of it are not") {
    const auto chunk = [](std::int64_t index, std::int64_t count) {
      return Slice{BufferId(0),
                   Rows::routed(RoutingId(0), Rows::Experts::All, {{RowStep::Kind::Chunk, GroupId(0), index, count}})};
    };
    CHECK(may_overlap(chunk(0, 2), chunk(0, 2)));
    CHECK_FALSE(may_overlap(chunk(0, 2), chunk(1, 2)));
    CHECK(may_overlap(chunk(0, 2), chunk(1, 3)));
    const Slice whole{BufferId(0), Rows::routed(RoutingId(0), Rows::Experts::All, {})};
    CHECK(may_overlap(chunk(0, 2), whole));
    CHECK_FALSE(may_overlap(whole, {BufferId(1), whole.rows}));
    Slice behind = whole, further = whole;
    behind.rows.experts = further.rows.experts = Rows::Experts::Behind;
    further.rows.behind = 1;
    CHECK_FALSE(may_overlap(behind, further));
    CHECK(may_overlap(behind, behind));
    CHECK(may_overlap({BufferId(0), Rows::fixed(1)}, {BufferId(0), Rows::fixed(2)}));
  }
}

TEST_CASE("Any reordered block does with its data what the listed one did") {
  rc::prop("random operations on few buffers", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>());
    Program program = one_block(2, {{"all", 2, 1}});
    Block block{"block", {}, {}};
    const std::size_t operations = 2 + random.below(8);
    const std::uint64_t buffers = 1 + random.below(8);
    std::vector<SimTime> durations;
    for (std::size_t i = 0; i < operations; ++i) {
      Operation operation = kernel_of(program, 8, static_cast<Stream>(random.below(4)));
      const auto any_buffer = [&] { return named(program, std::to_string(random.below(buffers)), 8); };
      operation.reads = {any_buffer()};
      operation.writes = {any_buffer()};
      for (std::size_t a = 0; a < i; ++a) {
        if (random.below(4) == 0) operation.after.push_back(static_cast<std::int32_t>(a));
      }
      block.operations.push_back(operation);
      durations.push_back(SimTime(static_cast<std::int64_t>(random.below(9))));
    }
    const OrderResult best = exact_order(order_problem(block, durations));
    const Block changed = with_order(block, best.order);
    const auto was = ended_before(block), is = ended_before(changed);
    std::vector<SimTime> moved;
    std::vector<std::size_t> place(operations);
    for (std::size_t i = 0; i < operations; ++i) {
      place[static_cast<std::size_t>(best.order[i])] = i;
      moved.push_back(durations[static_cast<std::size_t>(best.order[i])]);
    }
    for (std::size_t i = 0; i < operations; ++i) {
      const Operation& later = block.operations[i];
      for (std::size_t b = 0; b < i; ++b) {
        const Operation& earlier = block.operations[b];
        const bool is_shared =
            earlier.writes == later.reads || earlier.writes == later.writes || earlier.reads == later.writes;
        if (was[i][b] && is_shared) RC_ASSERT(is[place[i]][place[b]]);
      }
      for (const std::int32_t a : later.after) RC_ASSERT(is[place[i]][place[static_cast<std::size_t>(a)]]);
    }
    // The changed block, as listed, takes what was promised.
    std::vector<std::int32_t> listed(operations);
    std::iota(listed.begin(), listed.end(), 0);
    RC_ASSERT(order_makespan(order_problem(changed, moved), listed) == best.makespan);
  });
}

TEST_CASE("Schedules of an MoE layer can be reordered") {
  tests::SmallCase c;
  c.nodes = 2;
  c.capacity = "1.0";
  const tests::Small small = tests::small(c);
  const Moe& moe = std::get<Moe>(small.model.layers.back().pattern.back().ffn);
  for (const char* schedule : {"baseline", "parm_s1", "parm_s2"}) {
    Candidate candidate;
    candidate.schedule = schedule;
    candidate.degrees = {.pp = 1, .dp = 4, .cp = 1, .tp = 2, .edp = 1, .ep = 4, .esp = 2};
    const Program program =
        lower_moe_layer(moe, c.hidden, 1024, small.workload, candidate, small.cluster.ranks_per_node());
    INFO(schedule);
    const Reordering offer = reordered(program, small.cluster);
    CHECK(offer.left.empty());
    CHECK(offer.answered_by() == (offer.equal_ranks || offer.blocks.empty() ? "exact" : "heuristic"));
    for (const BlockOrder& block : offer.blocks) {
      CHECK(block.best <= block.listed);
      CHECK(block.best == block.lower_bound);
    }
    if (!offer.is_changed()) CHECK(offer.program == program);
    // Without anything beside it, every operation of the baseline waits for the one before.
    if (std::string(schedule) == "baseline") {
      CHECK(offer.fixed == std::vector{BlockId(0), BlockId(1)});
      CHECK(offer.answered_by() == "exact");
    }
  }
}

TEST_CASE("A block whose order reaches beyond it is left as it is") {
  Program program = opt_sche_program(2, {18, 0, 0, 3, 0, 14, 11});
  const Cluster cluster = two_alike();
  SECTION("with a message to receive") {
    program.blocks.front().operations.back().work = Receive{GroupId(0)};
    CHECK(order_infeasibility(program.blocks.front())->text == "receives");
  }
  SECTION("with a wait for an operation of its own") {
    std::vector<Operation>& operations = program.blocks.front().operations;
    operations.push_back(collective_of(program, Collective::AllReduce, GroupId(0), 8, Stream::Replicas));
    CHECK_FALSE(order_infeasibility(program.blocks.front()));
    Operation wait = kernel_of(program, 0);
    wait.work = Wait{Stream::Replicas};
    operations.push_back(wait);
    CHECK(order_infeasibility(program.blocks.front())->text == "waits for its own operations");
    const Reordering offer = reordered(program, cluster);
    CHECK(offer.program == program);
    CHECK(offer.left.size() == 1);
    CHECK(offer.answered_by() == "heuristic");
  }
  SECTION("with more operations than the search takes") {
    const Operation last = program.blocks.front().operations.back();
    program.blocks.front().operations.resize(kMostOrderTasks + 1, last);
    CHECK(order_infeasibility(program.blocks.front())->text == "too many operations");
  }
}

TEST_CASE("Where ranks differ, operations count with their slowest rank") {
  const Program program = opt_sche_program(2, {18, 0, 0, 3, 0, 14, 11});
  Cluster cluster = two_alike();
  // The second GPU receives at half the rate, so its all-to-all takes 28 us.
  for (Link& link : cluster.topology.links) {
    if (link.to == cluster.gpu_of_rank.back()) link.bandwidth = link.bandwidth / 2;
  }
  cluster.routes = Routes(cluster.topology);
  const Reordering offer = reordered(program, cluster);
  const std::vector<ChunkStep> opt_sche_steps = opt_sche(2);
  const auto combine = static_cast<std::size_t>(
      std::find(opt_sche_steps.begin(), opt_sche_steps.end(), ChunkStep{0, ChunkTask::Combine}) -
      opt_sche_steps.begin());
  CHECK(durations_alone(program, BlockId(0), cluster)[combine] == SimTime::from_seconds(Seconds(28e-6)));
  CHECK_FALSE(offer.equal_ranks);
  CHECK(offer.answered_by() == "heuristic");
  CHECK(offer.blocks.front().proved);
}

TEST_CASE("A block of a pipeline stage is run by the ranks of that stage") {
  Program program = one_block(2);
  program.blocks.front().operations = {kernel_of(program, 1000), kernel_of(program, 0)};
  program.blocks.push_back(
      {.name = "second", .operations = {kernel_of(program, 3000), kernel_of(program, 0)}, .backward_of = {}});
  program.stages = {{{.block = BlockId(0)}}, {{.block = BlockId(1)}}};
  const Reordering offer = reordered(program, two_alike());
  REQUIRE(offer.blocks.size() == 2);
  CHECK(offer.blocks[0].best == SimTime::from_seconds(Seconds(1000 / kMemoryRate)));
  CHECK(offer.blocks[1].best == SimTime::from_seconds(Seconds(3000 / kMemoryRate)));
}

TEST_CASE("Background operations hold up nobody") {
  // OptSche's counterexample, with two long all-reduces after the first C1 and the first D2, and a wait for those of
  // earlier blocks listed before them.
  Program program = opt_sche_program(2, {18, 0, 0, 3, 0, 14, 11});
  std::vector<Operation>& operations = program.blocks.front().operations;
  const auto first_decode = static_cast<std::int32_t>(operations.size()) - 2;
  Operation wait = kernel_of(program, 0);
  wait.work = Wait{Stream::Replicas};
  operations.push_back(wait);
  for (const std::int32_t after : {0, first_decode}) {
    operations.push_back(
        collective_of(program, Collective::AllReduce, GroupId(0), 1'000'000, Stream::Replicas, {after}));
  }
  const Cluster cluster = two_alike();
  const Reordering offer = reordered(program, cluster);
  SECTION("expect 67 us for the block as without them") {
    REQUIRE(offer.blocks.size() == 1);
    CHECK(offer.blocks.front().listed == SimTime::from_seconds(Seconds(78e-6)));
    CHECK(offer.blocks.front().best == SimTime::from_seconds(Seconds(67e-6)));
    CHECK(offer.answered_by() == "exact");
  }
  SECTION("they keep their order, behind the wait, each after its own dependency alone") {
    const std::vector<Operation>& changed = offer.program.blocks.front().operations;
    std::vector<std::size_t> background, waits;
    for (std::size_t i = 0; i < changed.size(); ++i) {
      if (changed[i].stream == Stream::Replicas) background.push_back(i);
      if (std::holds_alternative<Wait>(changed[i].work)) waits.push_back(i);
    }
    REQUIRE(background.size() == 2);
    REQUIRE(waits.size() == 1);
    CHECK(waits.front() < background.front());
    for (std::size_t k = 0; k < 2; ++k) {
      const Operation& operation = changed[background[k]];
      REQUIRE(operation.after.size() == 1);
      const std::int32_t needed = k == 0 ? 0 : first_decode;
      CHECK(changed[static_cast<std::size_t>(operation.after.front())].reads ==
            operations[static_cast<std::size_t>(needed)].reads);
    }
  }
}

}  // namespace moeplan::tests::reorder_test
