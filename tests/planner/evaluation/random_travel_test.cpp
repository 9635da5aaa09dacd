// What must be true of every plan, whichever way rows travel, on plans drawn at random.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "model/costs/codec.hpp"
#include "planner/layer/all_to_all.hpp"
#include "planner/layer/schedule.hpp"
#include "sim/program/simulate.hpp"
#include "tests/support/random_pipelines.hpp"

namespace moeplan::tests::random_travel_test {

using namespace moeplan::sim;
using namespace moeplan::planner;

namespace {

/// An MoE model on some nodes, whose workload allows every codec.
SmallCase random_nodes(Random& random) {
  SmallCase c = random_case(random);
  c.nodes = any_of(random, std::vector<std::int64_t>{1, 2, 3, 4});
  c.gpus_per_node = any_of(random, std::vector<std::int64_t>{2, 2, 4});
  return c;
}

/// All ranks hold experts; the rest is drawn.
Candidate random_travel(Random& random, const Small& s) {
  const std::int64_t world = s.cluster.world_size();
  Candidate c;
  c.degrees = {.pp = 1, .dp = world, .cp = 1, .tp = 1, .edp = 1, .ep = world, .esp = 1};
  if (random.below(3) == 0)
    c.degrees = {.pp = 1, .dp = world / 2, .cp = 1, .tp = 2, .edp = 1, .ep = world / 2, .esp = 2};
  std::vector<std::string> schedules_there, formats{"none"};
  for (const auto& schedule : schedules()) schedules_there.emplace_back(schedule->name());
  for (const CodecEntry& codec : codecs()) formats.emplace_back(codec.name);
  c.schedule = any_of(random, schedules_there);
  c.all_to_all = any_of(random, all_to_all_names());
  c.pipeline_degree = any_of(random, std::vector<std::int64_t>{1, 2, 3, 8});
  if (c.all_to_all->is_fused()) {  // orders the layer itself
    c.schedule = "baseline";
    c.pipeline_degree = 1;
  }
  c.codec = *parse_codec_pair(any_of(random, formats) + "/" + any_of(random, formats));
  return c;
}

}  // namespace

TEST_CASE("However rows travel, no plan is faster than its lower bound, and equal ranks may be simulated once",
          "[slow]") {
  constexpr int kPlans = 240;
  Random random(20261121);
  std::set<std::string> all_to_alls_unseen;
  for (const std::string& name : all_to_all_names()) all_to_alls_unseen.insert(name);
  for (int feasible = 0, drawn = 0; feasible < kPlans || !all_to_alls_unseen.empty(); ++drawn) {
    REQUIRE(drawn < 1000 * kPlans);
    const SmallCase c = random_nodes(random);
    Small s = small(c);
    s.workload.codecs.allowed = {WireFormat::Fp16, WireFormat::Int8, WireFormat::Fp8Block, WireFormat::Zfp};
    const Candidate candidate = random_travel(random, s);
    if (infeasibility(s.model, s.workload, candidate, s.cluster.ranks_per_node())) continue;
    ++feasible;
    all_to_alls_unseen.erase(candidate.all_to_all.name());
    const Program program = lower_iteration(s.model, s.workload, candidate, s.cluster.ranks_per_node());
    const std::string travel = " " + candidate.all_to_all.name() + " in " + std::to_string(candidate.pipeline_degree) +
                               " chunks by " + codec_pair_name(candidate.codec);
    const Estimate bound = estimate(program, s.cluster);
    const SimTime makespan = simulate(program, s.cluster, {.keep_spans = false}).makespan;
    if (makespan.seconds().value() < bound.lower_bound.value() * (1 - 1e-9)) {
      FAIL_CHECK(makespan.seconds().value()
                 << " s is below the bound " << bound.lower_bound.value() << " s by " << bound.bound_by << " of\n"
                 << dump(c, candidate) << travel);
    }
    const SimTime each = simulate(program, s.cluster, {.keep_spans = false, .use_symmetry = false}).makespan;
    if (std::abs(static_cast<double>((each - makespan).picoseconds())) >
        std::max(1000.0, 1e-9 * static_cast<double>(each.picoseconds()))) {
      FAIL_CHECK(makespan.seconds().value() << " s by one rank, " << each.seconds().value() << " s by all of\n"
                                            << dump(c, candidate) << travel);
    }
  }
}

}  // namespace moeplan::tests::random_travel_test
