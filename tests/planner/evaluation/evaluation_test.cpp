#include "planner/evaluation/evaluation.hpp"

#include <catch2/catch.hpp>

#include "model/program/stage_segments.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/program/simulate.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::evaluation_test {

using namespace moeplan::planner;

namespace {

Candidate pipeline() {
  Candidate c;
  c.degrees = {.pp = 2, .dp = 2, .edp = 1, .ep = 2};
  c.recompute = Recompute::Selective;
  return c;
}

}  // namespace

TEST_CASE("Each depth of an evaluation agrees with the deeper ones") {
  // Four microbatches on two stages: no extrapolation, so even the estimates are the same.
  const Small s = small({.global_batch = 8});
  const Problem problem(s.model, s.workload, s.cluster);
  const Candidate c = pipeline();
  const Evaluation whole = evaluate(problem, c, Depth::Timeline);
  REQUIRE_FALSE(whole.infeasibility);
  CHECK(whole.evaluated.makespan == whole.timeline.makespan);
  CHECK_FALSE(whole.program.blocks.empty());
  CHECK_FALSE(evaluate(problem, c, Depth::Feasibility).infeasibility);
  CHECK(evaluate(problem, c, Depth::Memory).evaluated.memory.total() == whole.evaluated.memory.total());
  for (const Depth depth : {Depth::Extrapolation, Depth::Estimate, Depth::Makespan}) {
    const Evaluated e = evaluate(problem, c, depth).evaluated;
    CHECK(e.memory.total() == whole.evaluated.memory.total());
    CHECK(e.estimate.closed_form == whole.evaluated.estimate.closed_form);
    CHECK(e.estimate.lower_bound == whole.evaluated.estimate.lower_bound);
    CHECK(e.makespan.has_value() == (depth == Depth::Makespan));
  }
  CHECK(evaluate(problem, c, Depth::Makespan).evaluated.makespan == whole.evaluated.makespan);
  CHECK(simulated_makespan(problem, c) == *whole.evaluated.makespan);
}

TEST_CASE("A pipeline's bubble is the part of the makespan that its stages wait, in the mean") {
  const auto waiting = [](double seconds) {
    RankTime t{};
    t.waiting = Seconds(seconds);
    return t;
  };
  Prediction p{};
  p.makespan = SimTime::from_seconds(Seconds(10));
  CHECK(p.bubble() == 0);  // nothing was simulated
  p.stages = {waiting(1), waiting(4)};
  CHECK(p.bubble() == Approx((1 + 4) / 2.0 / 10));
}

TEST_CASE("An infeasible candidate names the violated constraint, with its numbers") {
  const Small s = small({.hidden = 192, .heads = 6});
  const Problem problem(s.model, s.workload, s.cluster);
  Candidate c;
  SECTION("6 attention heads are no multiple of 4 tensor-parallel ranks") {
    c.degrees = {.tp = 4, .edp = 4};
    const Evaluation e = evaluate(problem, c, Depth::Timeline);
    REQUIRE(e.infeasibility);
    CHECK(e.infeasibility->constraint == Constraint::Multiple);
    CHECK(e.infeasibility->text == "tp does not divide the attention heads");
    CHECK(e.infeasibility->has == 6.0);
    CHECK(e.infeasibility->needs == 4.0);
    CHECK(e.program.blocks.empty());
  }
  SECTION("16 ranks share 8 experts") {
    const Small wide = small({.nodes = 4});
    c.degrees = {.dp = 16, .ep = 16};
    c.micro_batch = 1;
    Workload batch = wide.workload;
    batch.global_batch = 16;
    const Evaluation e = evaluate({wide.model, batch, wide.cluster}, c, Depth::Memory);
    REQUIRE(e.infeasibility);
    CHECK(e.infeasibility->constraint == Constraint::Limit);
    CHECK(e.infeasibility->has == 8.0);
    CHECK(e.infeasibility->needs == 16.0);
  }
}

TEST_CASE("What does not fit in memory is evaluated only on request") {
  const Small s = small({.memory = "1 MB"});
  const Problem problem(s.model, s.workload, s.cluster);
  const Candidate c = pipeline();
  const Evaluation refused = evaluate(problem, c, Depth::Makespan);
  REQUIRE(refused.infeasibility);
  CHECK(refused.infeasibility->constraint == Constraint::Memory);
  CHECK(refused.infeasibility->text == "memory");
  CHECK(refused.infeasibility->has == s.cluster.memory_per_rank().value());
  CHECK(refused.infeasibility->needs == refused.evaluated.memory.total().value());
  CHECK_FALSE(refused.evaluated.makespan);
  const Evaluation anyway = evaluate(problem, c, Depth::Makespan, {.checks = Checks::AllButMemory});
  CHECK_FALSE(anyway.infeasibility);
  CHECK(anyway.evaluated.makespan == predict(problem, c).makespan);
}

TEST_CASE("Stages that straddle nodes are simulated once for each of their positions on nodes") {
  const SmallCase small_case{.nodes = 8, .gpus_per_node = 3, .moe_layers = 5, .global_batch = 24, .micro_batch = "1"};
  const Small s = small(small_case);
  Candidate c;
  c.degrees = {.pp = 6, .dp = 4, .cp = 1, .tp = 1, .edp = 1, .ep = 4, .esp = 1};
  const Program program = lower_iteration(s.model, s.workload, c, s.cluster.ranks_per_node());
  StageClusters machines(s.cluster);
  REQUIRE(machines.period(6) == 3);
  const Timeline with_spans = simulated(program, machines, true);
  CHECK(simulated(program, machines, false).makespan == with_spans.makespan);

  Small apart = small(small_case);
  apart.cluster.natural_boundaries.clear();  // no symmetry is known
  StageClusters all_machines(apart.cluster);
  REQUIRE(all_machines.period(6) == 6);
  REQUIRE(all_machines.equivalent(6, 3).stage == 0);  // stages are compared link by link
  Program segment = stage_program(program);
  for (const Segment& of_stages : stage_segments(program).segments) {
    segment.stages = {of_stages.steps};
    const auto makespan = [&](std::int64_t stage) {
      return sim::simulate(segment, all_machines.of(6, stage).cluster).makespan;
    };
    CHECK(makespan(3) == makespan(0));
  }
  const Timeline each = simulated(program, all_machines, true);
  CHECK(each.makespan == with_spans.makespan);
  REQUIRE(each.spans.size() == with_spans.spans.size());
  for (std::size_t i = 0; i < each.spans.size(); ++i) CHECK(each.spans[i].end == with_spans.spans[i].end);
  REQUIRE(each.links.size() == with_spans.links.size());
  for (std::size_t l = 0; l < each.links.size(); ++l) {
    CHECK(each.links[l].link == with_spans.links[l].link);
    CHECK(each.links[l].bytes == Approx(with_spans.links[l].bytes));
  }
}

}  // namespace moeplan::tests::evaluation_test
