#include "planner/evaluation/long_pipeline.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "model/program/stage_segments.hpp"
#include "planner/lowering/lower.hpp"

namespace moeplan::planner {

namespace {

/// The chain of each rank's blocks on a stage, with every operation taking the time that it takes alone.
std::vector<double> chains(const std::vector<std::int64_t>& counts, BlockPricer& pricer) {
  std::vector<double> out(pricer.ranks(), 0.0);
  for (std::size_t b = 0; b < counts.size(); ++b) {
    if (counts[b] == 0) continue;
    const BlockPrice& price = pricer.price(BlockId(b));
    for (std::size_t r = 0; r < out.size(); ++r) out[r] += static_cast<double>(counts[b]) * price.alone[r];
  }
  return out;
}

}  // namespace

Iteration::Iteration(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                     std::int64_t ranks_per_node, std::function<Program(Program)> change)
    : model_(model),
      workload_(workload),
      candidate_(candidate),
      ranks_per_node_(ranks_per_node),
      microbatches_(workload.global_batch / (candidate.degrees.dp * candidate.micro_batch)),
      change_(std::move(change)),
      filled_(with_microbatches(is_long() ? 4 * candidate.degrees.pp : microbatches_)) {}

Program Iteration::with_microbatches(std::int64_t count) const {
  Workload shorter = workload_;
  shorter.global_batch = count * candidate_.degrees.dp * candidate_.micro_batch;
  Program program = lower_iteration(model_, shorter, candidate_, ranks_per_node_);
  return change_ ? change_(std::move(program)) : program;
}

double Iteration::steps_beyond() const {
  return static_cast<double>(microbatches_) / static_cast<double>(candidate_.degrees.pp) - 4;
}

Seconds Iteration::longer_path(Seconds of_filled, const Program& three, StageClusters& machines,
                               PricedRanks ranks) const {
  const std::int64_t stages = candidate_.degrees.pp;
  const Program local = stage_program(filled_);
  const bool are_equivalent = machines.are_equivalent(stages);
  std::unique_ptr<BlockPricer> pricer;
  double least_step = std::numeric_limits<double>::infinity(), longest = 0;
  for (std::int64_t s = 0; s < stages; ++s) {
    if (s == 0 || !are_equivalent) pricer = std::make_unique<BlockPricer>(local, machines.of(stages, s).cluster, ranks);
    const auto stage = static_cast<std::size_t>(s);
    const std::vector<double> before = chains(block_counts(three, stage), *pricer);
    const std::vector<double> chain = chains(block_counts(filled_, stage), *pricer);
    for (std::size_t r = 0; r < chain.size(); ++r) {
      const double step = chain[r] - before[r];
      least_step = std::min(least_step, step);
      longest = std::max(longest, chain[r] + steps_beyond() * step);
    }
  }
  return std::max(of_filled + Seconds(steps_beyond() * least_step), Seconds(longest));
}

Estimate Iteration::estimated(StageClusters& machines) const {
  Estimate e = estimate(filled_, machines);
  if (!is_long()) return e;
  const Program three = with_microbatches(3 * candidate_.degrees.pp);
  const Estimate before = estimate(three, machines);
  const bool was_by_links = e.lower_bound == e.links;
  const auto go_on = [&](Seconds Estimate::*part) { e.*part = e.*part + steps_beyond() * (e.*part - before.*part); };
  e.critical_path = longer_path(e.critical_path, three, machines, PricedRanks::All);
  go_on(&Estimate::closed_form);
  go_on(&Estimate::compute);
  go_on(&Estimate::links);
  e.lower_bound = std::max({e.critical_path, e.compute, e.links});
  if (e.lower_bound == e.links) {
    if (!was_by_links) e.bound_by = "links";  // the link's name would require the Program of the whole iteration
  } else {
    e.bound_by = e.lower_bound == e.compute ? "compute" : "critical path";
  }
  return e;
}

Seconds Iteration::bounded_by_first_rank(StageClusters& machines) const {
  const Seconds bound = bound_by_first_rank(filled_, machines);
  if (!is_long()) return bound;
  return longer_path(bound, with_microbatches(3 * candidate_.degrees.pp), machines, PricedRanks::First);
}

}  // namespace moeplan::planner
