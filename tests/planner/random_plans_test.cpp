// What must be true of every plan, on plans drawn at random.
#include <catch2/catch.hpp>

#include "planner/lower.hpp"
#include "planner/schedule.hpp"
#include "sim/simulate.hpp"
#include "tests/planner/small_cases.hpp"

using namespace moeplan;
using namespace moeplan::tests;

namespace {

Candidate random_candidate(Random& random, std::int64_t world, std::int64_t batch) {
  const auto divisor = [&](std::int64_t n) {
    std::vector<std::int64_t> all;
    for (std::int64_t d = 1; d <= n; ++d) {
      if (n % d == 0) all.push_back(d);
    }
    return any_of(random, all);
  };
  Candidate c;
  c.degrees.tp = divisor(world);
  c.degrees.dp = world / c.degrees.tp;
  c.degrees.ep = divisor(world);
  c.degrees.esp = divisor(world / c.degrees.ep);
  c.degrees.edp = world / c.degrees.ep / c.degrees.esp;
  c.schedule = schedules()[random.below(schedules().size())]->name();
  c.micro_batch = batch % c.degrees.dp == 0 ? divisor(batch / c.degrees.dp) : 1;
  return c;
}

std::string dump(const SmallCase& c, const Candidate& p) {
  const Degrees& d = p.degrees;
  return to_yaml(cluster_document(c)) + to_yaml(model_text_document(c)) + to_yaml(workload_text_document(c)) +
         p.schedule + " tp " + std::to_string(d.tp) + " dp " + std::to_string(d.dp) + " ep " + std::to_string(d.ep) +
         " esp " + std::to_string(d.esp) + " micro batch " + std::to_string(p.micro_batch);
}

}  // namespace

TEST_CASE("No plan of a thousand random ones is faster than its lower bound") {
  constexpr int kPlans = 1000;
  Random random(20261121);
  int drawn = 0, feasible = 0;
  while (feasible < kPlans) {
    ++drawn;
    REQUIRE(drawn < 100 * kPlans);
    const SmallCase c = random_case(random);
    const Small s = small(c);
    const Candidate candidate = random_candidate(random, s.cluster.world_size(), s.workload.global_batch);
    if (obstacle(s.model, s.workload, candidate)) continue;
    ++feasible;
    const Program program = lower_iteration(s.model, s.workload, candidate, s.cluster.ranks_per_node());
    const Estimate bound = estimate(program, s.cluster);
    const auto network = feasible % 2 == 0 ? make_plain_network : make_fast_network;
    const SimTime makespan = simulate(program, s.cluster, {.keep_spans = false, .network = network}).makespan;
    if (makespan.seconds().value() < bound.lower_bound.value() * (1 - 1e-9)) {
      FAIL_CHECK(makespan.seconds().value()
                 << " s is below the bound " << bound.lower_bound.value() << " s by " << bound.bound_by << " of\n"
                 << dump(c, candidate));
    }
    if (makespan.picoseconds() <= 0 || !(bound.closed_form.value() > 0))
      FAIL_CHECK("no time at all:\n" << dump(c, candidate));
  }
  WARN(feasible << " of " << drawn << " random plans were feasible, and all of them were simulated");
}
