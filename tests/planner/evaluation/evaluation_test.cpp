#include "planner/evaluation/evaluation.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "model/costs/model_flops.hpp"
#include "model/program/stage_segments.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/program/simulate_stages.hpp"
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

TEST_CASE("The utilization counts layers of multi-token prediction that are trained along") {
  Small s = small({.dense_layers = 0, .moe_layers = 3});
  s.model.num_mtp_layers = 1;
  const double head = 2.0 * (1000 * 256 + 256), input = 2.0 * 2 * 256 * 256;
  const double all = forward_flops_per_token(s.model, 128), of_mtp = mtp_flops_per_token(s.model, 128);
  CHECK(of_mtp == Approx(input + (all - head) / 3 + head));
  const Candidate c = pipeline();
  const auto utilization = [&](const Candidate& candidate) {
    const Problem problem(s.model, s.workload, s.cluster);
    return throughput(problem, candidate, SimTime::from_seconds(Seconds(1))).model_flops_utilization;
  };
  const double without = utilization(c);
  s.workload.mtp_layers = 1;
  CHECK(utilization(c) == Approx(without * (all + of_mtp) / all));
  Candidate with_layout = c;
  with_layout.layout = even_layout(3, /*mtp_layers=*/0, 1);
  CHECK(utilization(with_layout) == Approx(without));
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

TEST_CASE("The fullest rank is among those that no other exceeds in every buffer") {
  const Small s = small({.routing = "{shape: zipf, sampled: true, seed: 2}"});
  const Problem problem(s.model, s.workload, s.cluster);
  Candidate c = pipeline();
  SECTION("with a pipeline") {}
  SECTION("with experts on all ranks") { c.degrees = {.dp = 4, .edp = 1, .ep = 4}; }
  const Program program = lower_iteration(s.model, s.workload, c, s.cluster.ranks_per_node());
  Bytes most;
  for (std::int32_t r = 0; r < program.ranks_per_stage(); ++r)
    most = std::max(most, iteration_memory(problem, c, program, {RankId(r)}).total());
  CHECK(iteration_memory(problem, c, program).total() == most);
  CHECK(iteration_memory(problem, c, program, {RankId(0)}).total() < most);
}

TEST_CASE("A candidate may be rejected by its first rank, but is not accepted by it") {
  const Small unlimited = small({.routing = "{shape: zipf, sampled: true, seed: 2}"});
  const Candidate c = pipeline();
  const Program program = lower_iteration(unlimited.model, unlimited.workload, c, unlimited.cluster.ranks_per_node());
  const Problem problem(unlimited.model, unlimited.workload, unlimited.cluster);
  const Bytes of_first = iteration_memory(problem, c, program, {RankId(0)}).total(),
              of_all = iteration_memory(problem, c, program).total();
  REQUIRE(of_first < of_all);
  const auto evaluated_with = [&](Bytes memory) {
    Small s = small({.routing = "{shape: zipf, sampled: true, seed: 2}"});
    s.cluster.gpu.memory = memory;
    return evaluate({s.model, s.workload, s.cluster}, c, Depth::Memory, {.is_rejected_by_first_rank = true});
  };
  CHECK(evaluated_with(of_first - Bytes(1)).evaluated.memory.total() == of_first);
  CHECK(evaluated_with(of_first - Bytes(1)).infeasibility);
  CHECK(evaluated_with(of_first).evaluated.memory.total() == of_all);
  CHECK(evaluated_with(of_first).infeasibility);
  CHECK_FALSE(evaluated_with(of_all).infeasibility);
}

TEST_CASE("Timelines are kept of the fastest candidates, and predict the same as new ones") {
  const Small s = small({.global_batch = 8});
  const Problem problem(s.model, s.workload, s.cluster), keeps(s.model, s.workload, s.cluster);
  keeps.kept_timelines().keep(2);
  std::vector<std::pair<SimTime, Candidate>> simulated;
  for (const std::int64_t micro_batch : {1, 2, 4}) {
    Candidate c = pipeline();
    c.micro_batch = micro_batch;
    simulated.emplace_back(simulated_makespan(keeps, c), c);
    CHECK(simulated.back().first == simulated_makespan(problem, c));
    CHECK_FALSE(problem.kept_timelines().take(c));
  }
  std::sort(simulated.begin(), simulated.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  REQUIRE(simulated[1].first < simulated[2].first);
  CHECK_FALSE(keeps.kept_timelines().take(simulated[2].second));
  const std::optional<Timeline> kept = keeps.kept_timelines().take(simulated[1].second);
  REQUIRE(kept);
  CHECK(*kept == predict(problem, simulated[1].second).timeline);
  CHECK_FALSE(keeps.kept_timelines().take(simulated[1].second));
  const Prediction of_kept = predict(keeps, simulated[0].second), of_new = predict(problem, simulated[0].second);
  CHECK(of_kept.timeline == of_new.timeline);
  CHECK(of_kept.makespan == simulated[0].first);
  CHECK(of_kept.estimate.lower_bound == of_new.estimate.lower_bound);
  (void)simulated_makespan(keeps, simulated[0].second);
  keeps.kept_timelines().keep(2);
  CHECK_FALSE(keeps.kept_timelines().take(simulated[0].second));
}

TEST_CASE("Stages that straddle nodes are simulated once for each of their positions on nodes") {
  const SmallCase small_case{.nodes = 8, .gpus_per_node = 3, .moe_layers = 5, .global_batch = 24, .micro_batch = "1"};
  const Small s = small(small_case);
  Candidate c;
  c.degrees = {.pp = 6, .dp = 4, .cp = 1, .tp = 1, .edp = 1, .ep = 4, .esp = 1};
  const Program program = lower_iteration(s.model, s.workload, c, s.cluster.ranks_per_node());
  StageClusters machines(s.cluster);
  REQUIRE(machines.period(6) == 3);
  const Timeline with_spans = sim::simulate(program, machines);
  CHECK(sim::simulate(program, machines, {.keep_spans = false}).makespan == with_spans.makespan);

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
  const Timeline each = sim::simulate(program, all_machines);
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
