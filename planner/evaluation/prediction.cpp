#include "planner/evaluation/prediction.hpp"

#include "model/costs/compute.hpp"
#include "model/costs/model_flops.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/lowering/ordered.hpp"
#include "sim/program/simulate.hpp"
#include "sim/program/simulate_stages.hpp"

namespace moeplan::planner {

Timeline simulated(const Program& program, StageClusters& machines, bool keep_spans) {
  const sim::SimulateOptions options{.keep_spans = keep_spans};
  return program.stages.size() == 1 ? sim::simulate(program, machines.cluster(), options)
                                    : sim::simulate_stages(program, machines, options);
}

Throughput throughput(const ModelSpec& model, const Workload& workload, const Cluster& cluster, SimTime makespan) {
  const auto gpus = static_cast<double>(cluster.gpus());
  const double tokens = static_cast<double>(workload.global_batch) * static_cast<double>(workload.sequence_length);
  const double seconds = makespan.seconds().value();
  const double flops =
      tokens * forward_flops_per_token(model, workload.sequence_length) * (workload.mode == Mode::Train ? 3.0 : 1.0);
  return {.tokens_per_s_per_gpu = tokens / seconds / gpus,
          .model_flops_utilization = flops / (seconds * gpus * peak_rate(cluster.gpu, workload.dtype).value())};
}

MemoryUse iteration_memory(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                           const Candidate& candidate, const Program& program) {
  return memory_use(program, stage_parameters(model, workload, candidate), workload, candidate.degrees,
                    cluster.gpu.runtime_memory);
}

Prediction predict(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                   const Candidate& candidate) {
  Prediction p;
  StageClusters machines(cluster);
  p.program = lowered(model, workload, machines, candidate);
  p.estimate = estimate(p.program, machines);
  p.memory = iteration_memory(model, workload, cluster, candidate, p.program);
  p.timeline = simulated(p.program, machines, /*keep_spans=*/true);
  p.makespan = p.timeline.makespan;
  p.binding = binding_rank(rank_times(p.program, p.timeline));
  const Throughput rate = throughput(model, workload, cluster, p.makespan);
  p.tokens_per_s_per_gpu = rate.tokens_per_s_per_gpu;
  p.model_flops_utilization = rate.model_flops_utilization;
  return p;
}

}  // namespace moeplan::planner
