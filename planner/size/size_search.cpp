#include "planner/size/size_search.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/costs/model_flops.hpp"
#include "model/text/unit_text.hpp"
#include "planner/search/search.hpp"
#include "planner/size/job_sizes.hpp"

namespace moeplan::planner {

namespace {

/// Why a search found nothing: the memory that the nearest plan lacks, or what most candidates failed by.
std::string why_no_plan(const SearchResult& found, const Cluster& cluster) {
  if (found.nearest_miss) {
    const Bytes lacking = found.nearest_miss->memory.total() - cluster.memory_per_rank();
    return fmt::format("lacks {} GiB per GPU{}", gib(lacking),
                       found.fits_with ? "; fits with recompute " + name_of(*found.fits_with) : "");
  }
  const auto most = std::max_element(found.rejected.begin(), found.rejected.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == found.rejected.end() ? "no division of the GPUs" : most->first;
}

/// GPUs that would reach the throughput with all of them at the highest peak of the GPU: no plan needs fewer.
double gpus_at_peak(const Inputs& inputs, double tokens_per_s) {
  const Workload& w = inputs.workload;
  const double per_token =
      forward_flops_per_token(inputs.model, w.sequence_length) * (w.mode == Mode::Train ? 3.0 : 1.0);
  double peak = 0;
  for (const auto& [dtype, rate] : inputs.cluster.gpu.peak) peak = std::max(peak, rate.value());
  return peak > 0 ? tokens_per_s * per_token / peak : 0;
}

/// The space with the framework's schedule, if it has one alone: the others need not be enumerated.
SearchSpace with_own_schedule(SearchSpace space) {
  if (!space.framework || space.schedule) return space;
  const auto schedules = space.framework->values.find(FrameworkDecision::Schedules);
  if (schedules != space.framework->values.end() && schedules->second.size() == 1)
    space.schedule = schedules->second.begin()->first;
  return space;
}

void insert_by_gpus(Sizing& sizing, TriedSize size) {
  const auto at = std::lower_bound(sizing.tried.begin(), sizing.tried.end(), size.gpus,
                                   [](const TriedSize& t, std::int64_t gpus) { return t.gpus < gpus; });
  sizing.tried.insert(at, std::move(size));
}

}  // namespace

const TriedSize* Sizing::at(std::int64_t size) const {
  const auto it = std::find_if(tried.begin(), tried.end(), [&](const TriedSize& t) { return t.gpus == size; });
  return it == tried.end() ? nullptr : &*it;
}

TriedSize tried_size(const Inputs& inputs, const SearchSpace& space, std::int64_t gpus, const SizeProgress& progress) {
  const Cluster cluster = build_cluster(inputs.cluster, gpus);
  const Problem problem(inputs.model, inputs.workload, cluster);
  SearchResult found = search(problem, with_own_schedule(space), [&](std::int64_t done, std::int64_t total) {
    if (progress) progress(gpus, done, total);
  });
  TriedSize out{.gpus = gpus};
  if (found.ranked.empty()) {
    out.no_plan = why_no_plan(found, cluster);
    return out;
  }
  out.best = std::move(found.ranked.front());
  out.global_bound = found.global_bound;
  const Throughput rate = throughput(problem, out.best->candidate, *out.best->makespan);
  out.tokens_per_s = rate.tokens_per_s_per_gpu * static_cast<double>(gpus);
  out.model_flops_utilization = rate.model_flops_utilization;
  return out;
}

Sizing fewest_gpus(const Inputs& inputs, const SearchSpace& space, double tokens_per_s, const SizeLimits& limits,
                   const SizeProgress& progress) {
  Sizing out;
  const auto outcome = [&](std::int64_t gpus) {
    TriedSize size = tried_size(inputs, space, gpus, progress);
    const SizeOutcome result{.suffices = size.tokens_per_s >= tokens_per_s,
                             .needed = size.best
                                           ? std::optional(tokens_per_s / size.tokens_per_s * static_cast<double>(gpus))
                                           : std::nullopt};
    insert_by_gpus(out, std::move(size));
    return result;
  };
  const FewestSize found =
      fewest_size(job_sizes(inputs, space, limits.most_gpus), limits.start.value_or(gpus_at_peak(inputs, tokens_per_s)),
                  limits.most_tried, outcome);
  out.gpus = found.gpus;
  out.untried = found.untried;
  out.excluded = found.excluded;
  return out;
}

Sizing fastest_of(const Inputs& inputs, const SearchSpace& space, std::int64_t gpus, const SizeProgress& progress) {
  constexpr int kTried = 4;
  const JobSizes sizes = job_sizes(inputs, space, gpus);
  Sizing out;
  double fastest = 0;
  auto next = sizes.at_most(static_cast<double>(gpus));
  for (int i = 0; next && i < kTried; ++i) {
    TriedSize size = tried_size(inputs, space, *next, progress);
    if (size.tokens_per_s > fastest) out.gpus = size.gpus;
    fastest = std::max(fastest, size.tokens_per_s);
    insert_by_gpus(out, std::move(size));
    next = sizes.at_most(static_cast<double>(*next - 1));
  }
  return out;
}

}  // namespace moeplan::planner
