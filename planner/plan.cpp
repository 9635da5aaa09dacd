#include "planner/plan.hpp"

#include "model/costs/compute.hpp"
#include "model/costs/model_flops.hpp"
#include "planner/lower.hpp"
#include "sim/simulate.hpp"

namespace moeplan {

Prediction predict(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                   const Candidate& candidate) {
  Prediction p;
  p.program = lower_iteration(model, workload, candidate, cluster.ranks_per_node());
  p.estimate = estimate(p.program, cluster);
  p.memory = memory_use(p.program, model, workload, candidate.degrees,
                        workload.global_batch / candidate.degrees.dp / candidate.micro_batch);
  p.timeline = simulate(p.program, cluster, {.network = make_fast_network});
  p.makespan = p.timeline.makespan;
  const std::vector<RankTime> times = rank_times(p.program, p.timeline);
  p.slowest = times[slowest_rank(times).index()];
  const auto gpus = static_cast<double>(cluster.gpus());
  const double tokens = static_cast<double>(workload.global_batch) * static_cast<double>(workload.sequence_length);
  const double seconds = p.makespan.seconds().value();
  p.tokens_per_s_per_gpu = tokens / seconds / gpus;
  const double flops =
      tokens * forward_flops_per_token(model, workload.sequence_length) * (workload.mode == Mode::Train ? 3.0 : 1.0);
  p.model_flops_utilization = flops / (seconds * gpus * peak_rate(cluster.gpu, workload.dtype).value());
  return p;
}

}  // namespace moeplan
