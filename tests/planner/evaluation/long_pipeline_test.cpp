#include "planner/evaluation/long_pipeline.hpp"

#include <catch2/catch.hpp>

#include "planner/candidate/stage_layout.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/lower.hpp"
#include "tests/support/random_pipelines.hpp"

namespace moeplan::tests::long_pipeline_test {

using namespace moeplan::planner;

TEST_CASE("Long pipelines are priced from short ones, with bounds that hold", "[slow]") {
  std::int64_t long_ones = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    Random random(seed);
    RandomPipeline p = random_pipeline(random);
    Candidate& c = p.candidate;
    if (c.degrees.pp == 1) continue;
    const std::int64_t microbatches = c.degrees.pp * (5 + static_cast<std::int64_t>(random.below(15)));
    p.small.workload.global_batch = microbatches * c.degrees.dp * c.micro_batch;
    const std::int64_t per_node = p.small.cluster.ranks_per_node();
    if (infeasibility(p.small.model, p.small.workload, c, per_node)) continue;
    c = with_overlap(p.small, with_shape(p.small, c));
    ++long_ones;
    INFO(dump(p.numbers, c) << " microbatches " << microbatches);
    const Program whole = lower_iteration(p.small.model, p.small.workload, c, per_node);
    const Iteration iteration(p.small.model, p.small.workload, c, per_node);
    StageClusters machines(p.small.cluster);
    const Estimate expected = estimate(whole, machines), priced = iteration.estimated(machines);
    CHECK(priced.compute.value() <= expected.compute.value() * (1 + 1e-9));
    CHECK(priced.links.value() <= expected.links.value() * (1 + 1e-9));
    CHECK(priced.closed_form.value() == Approx(expected.closed_form.value()).epsilon(0.1));
    CHECK(priced.critical_path.value() <= expected.critical_path.value() * (1 + 1e-9));
    CHECK(priced.lower_bound.value() <= expected.lower_bound.value() * (1 + 1e-9));
    CHECK(priced.lower_bound.value() >= 0.3 * expected.lower_bound.value());
    CHECK(iteration.bounded_by_first_rank(machines).value() <=
          bound_by_first_rank(whole, machines).value() * (1 + 1e-9));
    const std::vector<StageParameters> parameters = stage_parameters(p.small.model, p.small.workload, c);
    const auto memory = [&](const Program& q) {
      return memory_use(q, parameters, p.small.workload, c.degrees, p.small.cluster.gpu.runtime_memory).total();
    };
    if (!c.ep_overlap) CHECK(memory(iteration.filled()) == memory(whole));
  }
  CHECK(long_ones > 50);
}

TEST_CASE("Iterations that are lowered and priced together are those lowered and priced one by one") {
  std::int64_t pipelines = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    RandomPipeline p = random_pipeline(random);
    Candidate& c = p.candidate;
    const std::int64_t per_node = p.small.cluster.ranks_per_node();
    const std::vector<std::int64_t> counts{5 * c.degrees.pp, 2 * c.degrees.pp};
    const auto workload_of = [&](std::int64_t microbatches) {
      Workload w = p.small.workload;
      w.global_batch = microbatches * c.degrees.dp * c.micro_batch;
      return w;
    };
    if (infeasibility(p.small.model, workload_of(counts[0]), c, per_node)) continue;
    c = with_overlap(p.small, with_shape(p.small, c));
    INFO(dump(p.numbers, c));
    LoweredIterations together = lower_iterations(p.small.model, p.small.workload, c, per_node, counts);
    StageClusters machines(p.small.cluster);
    std::vector<Estimate> estimates;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const Program one = lower_iteration(p.small.model, workload_of(counts[i]), c, per_node);
      estimates.push_back(estimate(one, machines));
      Program other = together.program;
      other.stages = together.stages[i];
      CHECK(estimate(other, machines).closed_form == estimates.back().closed_form);
      if (i == 0) CHECK(other == one);
    }
    if (c.degrees.pp == 1) continue;
    ++pipelines;
    together.program.stages = together.stages[0];
    PipelineEstimates blocks(together.program, machines);
    for (const std::size_t i : {0U, 1U, 0U}) {
      const Estimate e = blocks.of(together.stages[i]);
      CHECK(e.closed_form == estimates[i].closed_form);
      CHECK(e.lower_bound == estimates[i].lower_bound);
      CHECK(e.bound_by == estimates[i].bound_by);
    }
  }
  CHECK(pipelines > 20);
}

}  // namespace moeplan::tests::long_pipeline_test
