// Random small pipelines, small enough to simulate all of their ranks at once.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "planner/layer/schedule.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/lower.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests {

using namespace planner;

/// A random candidate on `world` ranks, with pipeline parallelism of degree `pp` if given, else without.
inline Candidate random_candidate(Random& random, std::int64_t world, std::int64_t batch,
                                  std::optional<std::int64_t> pp = std::nullopt) {
  const auto divisor = [&](std::int64_t n) {
    std::vector<std::int64_t> all;
    for (std::int64_t d = 1; d <= n; ++d) {
      if (n % d == 0) all.push_back(d);
    }
    return any_of(random, all);
  };
  Candidate c;
  c.degrees.pp = pp.value_or(1);
  const std::int64_t stage = world / c.degrees.pp;
  c.degrees.tp = divisor(stage);
  c.degrees.cp = pp ? divisor(stage / c.degrees.tp) : 1;
  c.degrees.dp = stage / c.degrees.tp / c.degrees.cp;
  c.degrees.ep = divisor(stage);
  c.degrees.esp = divisor(stage / c.degrees.ep);
  c.degrees.edp = stage / c.degrees.ep / c.degrees.esp;
  c.schedule = schedules()[random.below(schedules().size())]->name();
  c.micro_batch = batch % c.degrees.dp == 0 ? divisor(batch / c.degrees.dp) : 1;
  // Chosen without a random draw, so that the rest of the candidate does not depend on rank orders.
  if (c.degrees.esp == 1 && (c.degrees.ep + c.micro_batch) % 2 == 0) c.rank_order = RankOrder::ReplicasInner;
  if (!pp) return c;
  c.sequence_parallel = c.degrees.tp > 1 && random.below(2) == 0;
  c.virtual_stages = any_of<std::int64_t>(random, {1, 1, 2});
  return c;
}

/// The candidate with its stages in a V, where that is feasible and its degrees say so: without a random draw, as rank
/// orders.
inline Candidate with_shape(const Small& s, Candidate c) {
  Candidate folded = c;
  folded.pipeline = PipelineShape::V;
  const bool is_wanted = (c.degrees.dp + c.degrees.ep) % 2 == 0;
  return is_wanted && !infeasibility(s.model, s.workload, folded, 1) ? folded : c;
}

/// The candidate with the exchanges of tokens beside the neighbouring microbatch, and perhaps delayed weight gradients,
/// where that is feasible and its degrees say so: without a random draw, as rank orders.
inline Candidate with_overlap(const Small& s, Candidate c) {
  Candidate overlapped = c;
  overlapped.ep_overlap = true;
  overlapped.delays_weight_gradients = (c.degrees.ep + c.micro_batch) % 2 == 0;
  const bool is_wanted = (c.degrees.dp + c.micro_batch + c.virtual_stages) % 2 == 0;
  return is_wanted && !infeasibility(s.model, s.workload, overlapped, 1) ? overlapped : c;
}

/// A random pipeline and the values it was made from.
struct RandomPipeline {
  SmallCase numbers;
  Small small;
  Candidate candidate;
  Program program;
};

/// A feasible random pipeline: 2 to 8 layers on up to 4 nodes of up to 4 GPUs, in 1 to 4 stages.
inline RandomPipeline random_pipeline(Random& random) {
  for (;;) {
    SmallCase c = random_case(random);
    c.nodes = any_of<std::int64_t>(random, {1, 2, 2, 3, 4});
    c.moe_layers = 2 + static_cast<std::int64_t>(random.below(6));
    c.zero_stage = static_cast<std::int64_t>(random.below(4));
    const std::int64_t world = c.nodes * c.gpus_per_node;
    const std::int64_t pp = any_of<std::int64_t>(random, {1, 2, 2, 3, 4, 4});
    if (world % pp != 0) continue;
    Small s = small(c);
    Candidate candidate = random_candidate(random, world, s.workload.global_batch, pp);
    if (infeasibility(s.model, s.workload, candidate, 1)) continue;
    candidate = with_overlap(s, with_shape(s, candidate));
    Program program = lower_iteration(s.model, s.workload, candidate, s.cluster.ranks_per_node());
    return {c, std::move(s), candidate, std::move(program)};
  }
}

/// The documents of a case and its candidate as text, to reproduce a failure.
inline std::string dump(const SmallCase& c, const Candidate& p) {
  const Degrees& d = p.degrees;
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  return to_yaml(cluster_document(c)) + to_yaml(model_text_document(c)) + to_yaml(workload_text_document(c)) +
         p.schedule.name() + " pp " + number(d.pp) + " cp " + number(d.cp) + " tp " + number(d.tp) + " dp " +
         number(d.dp) + " ep " + number(d.ep) + " esp " + number(d.esp) + " micro batch " + number(p.micro_batch) +
         " parts of the model a stage " + number(p.virtual_stages) + " " + name_of(p.pipeline) +
         (p.sequence_parallel ? " sequence parallel" : "") + (p.ep_overlap ? " overlap" : "") +
         (p.delays_weight_gradients ? " delay" : "") + " ranks " + name_of(p.rank_order);
}

}  // namespace moeplan::tests
