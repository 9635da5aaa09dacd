#include "planner/evaluation/long_pipeline.hpp"

#include <algorithm>
#include <map>
#include <vector>

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
                     std::int64_t ranks_per_node, const std::function<Program(Program)>& change)
    : candidate_(candidate), microbatches_(workload.global_batch / (candidate.degrees.dp * candidate.micro_batch)) {
  const std::int64_t stages = candidate.degrees.pp;
  std::vector<std::int64_t> counts{microbatches_};
  if (is_long()) counts = {4 * stages, 3 * stages};
  LoweredIterations lowered = lower_iterations(model, workload, candidate, ranks_per_node, counts);
  filled_ = std::move(lowered.program);
  filled_.stages = std::move(lowered.stages.front());
  if (is_long()) three_ = std::move(lowered.stages.back());
  if (change) filled_ = change(std::move(filled_));
}

double Iteration::steps_beyond() const {
  return static_cast<double>(microbatches_) / static_cast<double>(candidate_.degrees.pp) - 4;
}

Seconds Iteration::longer_path(const PipelineEstimate& of_filled, PipelineEstimates& blocks) const {
  std::map<std::size_t, double> least_steps;  // of the ranks of each path
  double longest = 0;
  for (std::size_t s = 0; s < three_.size(); ++s) {
    BlockPricer& prices = blocks.prices(s);
    const std::vector<double> before = chains(block_counts(three_[s], filled_.blocks.size()), prices);
    const std::vector<double> chain = chains(block_counts(filled_, s), prices);
    const auto step = [&](std::size_t r) { return chain[r] - before[r]; };
    for (std::size_t r = 0; r < chain.size(); ++r) longest = std::max(longest, chain[r] + steps_beyond() * step(r));
    for (const auto& [rank, path] : of_filled.paths) {
      const double own = step(rank % chain.size());
      const auto [least, is_new] = least_steps.try_emplace(rank, own);
      least->second = std::min(least->second, own);
    }
  }
  Seconds out(longest);
  for (const auto& [rank, path] : of_filled.paths)
    out = std::max(out, path + Seconds(steps_beyond() * least_steps.at(rank)));
  return out;
}

Estimate Iteration::estimated(StageClusters& machines) const {
  if (!is_long()) return estimate(filled_, machines);
  PipelineEstimates blocks(filled_, machines);
  PipelineEstimate e = blocks.of(filled_.stages);
  const Estimate before = blocks.of(three_);
  const bool was_by_links = e.lower_bound == e.links;
  const auto go_on = [&](Seconds Estimate::*part) { e.*part = e.*part + steps_beyond() * (e.*part - before.*part); };
  e.critical_path = longer_path(e, blocks);
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
  if (!is_long()) return bound_by_first_rank(filled_, machines);
  PipelineEstimates blocks(filled_, machines, PricedRanks::First);
  return longer_path(blocks.of(filled_.stages), blocks);
}

}  // namespace moeplan::planner
