#include "planner/layer_search.hpp"

#include <algorithm>

#include "planner/all_to_all.hpp"
#include "planner/codec.hpp"
#include "planner/in_parallel.hpp"
#include "planner/lower.hpp"
#include "planner/schedule.hpp"
#include "sim/simulate.hpp"

namespace moeplan {

namespace {

/// The fixed value alone, or all.
template <class T>
std::vector<T> choices(const std::optional<T>& fixed, std::vector<T> all) {
  return fixed ? std::vector<T>{*fixed} : std::move(all);
}

std::vector<std::string> codec_names(const Workload& workload) {
  std::vector<std::optional<WireFormat>> formats{std::nullopt};
  formats.insert(formats.end(), workload.codecs.allowed.begin(), workload.codecs.allowed.end());
  std::vector<std::string> names;
  for (const auto& there : formats) {
    for (const auto& back : formats) names.push_back(codec_pair_name({there, back}));
  }
  return names;
}

}  // namespace

MoeRun MoeRun::of(const Candidate& c) { return {c.schedule, c.all_to_all, c.pipeline_degree, c.codec}; }

Candidate MoeRun::in(Candidate candidate) const {
  candidate.schedule = schedule;
  candidate.all_to_all = all_to_all;
  candidate.pipeline_degree = pipeline_degree;
  candidate.codec = codec;
  return candidate;
}

std::vector<MoeRun> layer_runs(std::int64_t hidden_size, const Workload& workload, const Candidate& candidate,
                               std::int64_t ranks_per_node, const LayerSpace& space) {
  std::vector<std::string> schedule_names, all_to_all_names;
  for (const auto& s : schedules()) schedule_names.emplace_back(s->name());
  for (const auto& a : all_to_alls()) all_to_all_names.emplace_back(a->name());
  Degrees of_layer = candidate.degrees;
  if (candidate.sequence_parallel) of_layer.tp = 1;
  std::vector<MoeRun> runs;
  for (const std::string& schedule : choices(space.schedule, schedule_names)) {
    const Schedule& s = *find_schedule(schedule);
    const auto degrees = choices(space.pipeline_degree, s.pipeline_degrees(of_layer, ranks_per_node));
    for (const std::string& all_to_all : choices(space.all_to_all, all_to_all_names)) {
      for (const std::string& codec : choices(space.codec, codec_names(workload))) {
        for (const std::int64_t degree : degrees) {
          const MoeRun run{schedule, all_to_all, degree, codec};
          const Candidate c = run.in(candidate);
          if (!layer_obstacle(hidden_size, workload, c, ranks_per_node).empty()) continue;
          if (space.schedule || s.same_as(of_layer, c, workload.mode).empty()) runs.push_back(run);
        }
      }
    }
  }
  return runs;
}

std::vector<PricedRun> priced_runs(const std::vector<MoeRun>& runs, const Moe& moe, std::int64_t hidden_size,
                                   std::int64_t tokens, const Workload& workload, const Candidate& candidate,
                                   const Cluster& cluster, int threads) {
  std::vector<PricedRun> priced;
  for (const MoeRun& run : runs) priced.push_back({run, {}});
  in_parallel(runs.size(), threads, [&](std::size_t i) {
    const Program program =
        lower_moe_layer(moe, hidden_size, tokens, workload, runs[i].in(candidate), cluster.ranks_per_node());
    priced[i].time = simulate(program, cluster, {.keep_spans = false, .network = make_fast_network}).makespan;
  });
  std::stable_sort(priced.begin(), priced.end(),
                   [](const PricedRun& a, const PricedRun& b) { return a.time < b.time; });
  return priced;
}

std::vector<PricedRun> promising_runs(const Moe& moe, std::int64_t hidden_size, std::int64_t tokens,
                                      const Workload& workload, const Candidate& candidate, const Cluster& cluster,
                                      const LayerSpace& space, int threads) {
  constexpr std::size_t kExtended = 4;
  const std::vector<MoeRun> all = layer_runs(hidden_size, workload, candidate, cluster.ranks_per_node(), space);
  const auto price = [&](const std::vector<MoeRun>& runs) {
    return priced_runs(runs, moe, hidden_size, tokens, workload, candidate, cluster, threads);
  };
  // Of each schedule and all-to-all, the one with the fewest chunks and no codec where there is one.
  std::vector<MoeRun> first;
  const auto same_way = [](const MoeRun& a, const MoeRun& b) {
    return a.schedule == b.schedule && a.all_to_all == b.all_to_all;
  };
  for (const MoeRun& run : all) {
    if (first.empty() || !same_way(first.back(), run)) first.push_back(run);
  }
  std::vector<PricedRun> priced = price(first);
  std::vector<MoeRun> more;
  for (std::size_t i = 0; i < std::min(kExtended, priced.size()); ++i) {
    for (const MoeRun& run : all) {
      if (same_way(run, priced[i].run) && run != priced[i].run) more.push_back(run);
    }
  }
  const std::vector<PricedRun> extended = price(more);
  priced.insert(priced.end(), extended.begin(), extended.end());
  std::stable_sort(priced.begin(), priced.end(),
                   [](const PricedRun& a, const PricedRun& b) { return a.time < b.time; });
  return priced;
}

}  // namespace moeplan
