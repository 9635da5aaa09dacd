#include "planner/long_pipeline.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>

#include "planner/lower.hpp"
#include "planner/stage_layout.hpp"
#include "tests/planner/random_pipelines.hpp"

using namespace moeplan;
using namespace moeplan::tests;

TEST_CASE("Long pipelines are priced from short ones, with bounds that hold") {
  rc::prop("estimates, bounds and memory of random pipelines with many microbatches", [] {
    Random random(*rc::gen::arbitrary<std::uint32_t>());
    RandomPipeline p = random_pipeline(random);
    Candidate& c = p.candidate;
    RC_PRE(c.degrees.pp > 1);
    const std::int64_t microbatches = c.degrees.pp * *rc::gen::inRange<std::int64_t>(5, 20);
    p.small.workload.global_batch = microbatches * c.degrees.dp * c.micro_batch;
    const std::int64_t per_node = p.small.cluster.ranks_per_node();
    RC_PRE(!obstacle(p.small.model, p.small.workload, c, per_node));
    INFO(dump(p.numbers, c) << " microbatches " << microbatches);
    const Program whole = lower_iteration(p.small.model, p.small.workload, c, per_node);
    const Iteration iteration(p.small.model, p.small.workload, c, per_node);
    StageMachines machines(p.small.cluster);
    const Estimate expected = estimate(whole, machines), priced = iteration.estimated(machines);
    for (const auto part : {&Estimate::compute, &Estimate::links}) {
      CHECK((priced.*part).value() <= (expected.*part).value() * (1 + 1e-9));
      CHECK((priced.*part).value() >= 0.95 * (expected.*part).value());
    }
    CHECK(priced.closed_form.value() == Approx(expected.closed_form.value()).epsilon(0.1));
    CHECK(priced.critical_path.value() <= expected.critical_path.value() * (1 + 1e-9));
    CHECK(priced.lower_bound.value() <= expected.lower_bound.value() * (1 + 1e-9));
    CHECK(priced.lower_bound.value() >= 0.4 * expected.lower_bound.value());
    CHECK(iteration.bounded_by_first_rank(machines).value() <=
          bound_by_first_rank(whole, machines).value() * (1 + 1e-9));
    const std::vector<StageParameters> parameters =
        stage_parameters(p.small.model, p.small.workload.sequence_length, c.degrees, c.virtual_stages);
    const auto memory = [&](const Program& q) {
      return memory_use(q, parameters, p.small.workload, c.degrees, p.small.cluster.gpu.runtime_memory).total();
    };
    CHECK(memory(iteration.filled()) == memory(whole));
  });
}
