#include "planner/size/would_fit.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "model/base/in_parallel.hpp"
#include "model/base/whole_numbers.hpp"
#include "planner/evaluation/evaluation.hpp"
#include "planner/search/enumeration.hpp"
#include "planner/size/job_sizes.hpp"

namespace moeplan::planner {

namespace {

bool has_plan_on(const Inputs& inputs, const SearchSpace& space, std::int64_t gpus) {
  const Cluster cluster = build_cluster(inputs.cluster, gpus);
  return has_plan(Problem(inputs.model, inputs.workload, cluster), space);
}

/// Batches up to a quarter larger that the GPUs can be divided for, those first that leave most choice: multiples of
/// large divisors of the GPUs.
std::vector<std::int64_t> larger_batches(std::int64_t batch, std::int64_t gpus) {
  std::vector<std::int64_t> out;
  for (std::int64_t divisor = gpus; divisor >= 2; --divisor) {
    if (gpus % divisor != 0) continue;
    const std::int64_t larger = ceil_div(batch, divisor) * divisor;
    if (larger > batch && 4 * larger <= 5 * batch && std::find(out.begin(), out.end(), larger) == out.end())
      out.push_back(larger);
  }
  return out;
}

}  // namespace

bool has_plan(const Problem& problem, const SearchSpace& any_schedule) {
  SearchSpace space = any_schedule;
  if (!space.schedule) space.schedule = "baseline";
  const std::vector<Candidate> feasible = enumerated(problem, space).feasible;
  const Recompute most = recompute_levels(problem, space).back();
  constexpr std::size_t kAtOnce = 32;
  std::atomic<bool> fits = false;
  for (std::size_t from = 0; from < feasible.size() && !fits; from += kAtOnce) {
    in_parallel(std::min(kAtOnce, feasible.size() - from), space.thread_count(), [&](std::size_t i) {
      Candidate c = feasible[from + i];
      if (c.degrees.pp == 1) c.micro_batch = micro_batches(problem.workload(), c.degrees).back();
      c.recompute = most;
      if (!fits && !evaluate(problem, c, Depth::Memory).infeasibility) fits = true;
    });
  }
  return fits;
}

WouldFit what_would_fit(const Inputs& inputs, const SearchSpace& space, std::int64_t gpus) {
  constexpr std::int64_t kTimes = 16, kLargest = 16'384, kTried = 10, kFewer = 3, kBatches = 5;
  WouldFit out;
  const std::int64_t most = std::max(2 * gpus, std::min(kTimes * gpus, kLargest));
  const JobSizes sizes(nodes_and_parts(inputs.cluster, std::min(kMostWorld, most), most),
                       [&](std::int64_t size) { return divides_job(inputs, space, size); });
  const JobSizes larger(sizes.between(static_cast<double>(gpus) + 1, kMostWorld), [](std::int64_t) { return true; });
  const auto fits = [&](std::int64_t size) {
    out.most_tried_gpus = std::max(out.most_tried_gpus, size);
    return SizeOutcome{has_plan_on(inputs, space, size)};
  };
  out.more = fewest_size(larger, 1, kTried, fits).gpus;
  if (divides_job(inputs, space, gpus)) return out;
  auto fewer = sizes.at_most(static_cast<double>(gpus) - 1);
  for (std::int64_t i = 0; i < kFewer && fewer && !out.fewer; ++i) {
    if (has_plan_on(inputs, space, *fewer)) out.fewer = fewer;
    fewer = sizes.at_most(static_cast<double>(*fewer) - 1);
  }
  Inputs other = inputs;
  std::int64_t tried = 0;
  for (const std::int64_t batch : larger_batches(inputs.workload.global_batch, gpus)) {
    other.workload.global_batch = batch;
    if (!divides_job(other, space, gpus)) continue;
    if (has_plan_on(other, space, gpus)) {
      out.global_batch = batch;
      return out;
    }
    if (++tried == kBatches) return out;
  }
  return out;
}

}  // namespace moeplan::planner
