#include "planner/evaluation/evaluation.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "model/costs/compute.hpp"
#include "model/costs/model_flops.hpp"
#include "model/program/equal_ranks.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/evaluation/long_pipeline.hpp"
#include "planner/lowering/feasibility.hpp"
#include "sim/program/simulate.hpp"
#include "sim/program/simulate_stages.hpp"

namespace moeplan::planner {

namespace {

/// Sets the memory; returns whether the evaluation goes on.
bool fits(const Problem& problem, const Program& program, const EvaluationOptions& options, Evaluation& out) {
  const Candidate& candidate = out.evaluated.candidate;
  MemoryUse& memory = out.evaluated.memory;
  const Bytes has = problem.cluster().memory_per_rank();
  const bool must_fit = options.checks == Checks::All;
  if (must_fit && options.is_rejected_by_first_rank && ranks_that_differ(program).size() > 1)
    memory = iteration_memory(problem, candidate, program, {RankId(0)});
  if (memory.total() <= has) memory = iteration_memory(problem, candidate, program);
  if (!must_fit || memory.total() <= has) return true;
  out.infeasibility = Infeasibility(Constraint::Memory, has.value(), memory.total().value(), "memory");
  return false;
}

/// The makespan of a candidate's Program, whose Timeline may be kept.
SimTime makespan_of(const Problem& problem, const Candidate& candidate, const Program& program, int threads) {
  KeptTimelines& kept = problem.kept_timelines();
  Timeline timeline =
      sim::simulate(program, problem.stage_clusters(), {.keep_spans = kept.keeps_any(), .threads = threads});
  const SimTime makespan = timeline.makespan;
  kept.offer(candidate, std::move(timeline));
  return makespan;
}

/// The Timeline of a candidate's Program with all spans, simulated if it was not kept.
Timeline timeline_of(const Problem& problem, const Candidate& candidate, const Program& program, int threads) {
  if (std::optional<Timeline> kept = problem.kept_timelines().take(candidate)) return std::move(*kept);
  return sim::simulate(program, problem.stage_clusters(), {.threads = threads});
}

/// Depth::Memory and Depth::Extrapolation.
void evaluate_filled(const Problem& problem, Depth depth, const EvaluationOptions& options, Evaluation& out) {
  StageClusters& clusters = problem.stage_clusters();
  const Iteration iteration(problem.model(), problem.workload(), out.evaluated.candidate, problem.ranks_per_node());
  const Program& program = iteration.filled();
  if (options.memory) {
    out.evaluated.memory = *options.memory;
  } else if (!fits(problem, program, options, out)) {
    return;
  }
  if (depth == Depth::Memory) return;
  const auto& threshold = options.asymmetric_rank_threshold;
  if (threshold && program.ranks_per_stage() >= *threshold && has_asymmetric_ranks(program, clusters)) {
    out.bound = iteration.bounded_by_first_rank(clusters);
  } else {
    out.evaluated.estimate = iteration.estimated(clusters);
  }
}

}  // namespace

Evaluation evaluate(const Problem& problem, const Candidate& candidate, Depth depth, const EvaluationOptions& options) {
  Evaluation out{.evaluated = {.candidate = candidate}};
  if (options.checks != Checks::None)
    out.infeasibility = infeasibility(problem.model(), problem.workload(), candidate, problem.ranks_per_node());
  if (out.infeasibility || depth == Depth::Feasibility) return out;
  if (depth <= Depth::Extrapolation) {
    evaluate_filled(problem, depth, options, out);
    return out;
  }
  Program program = lowered(problem.model(), problem.workload(), problem.stage_clusters(), candidate);
  return evaluate_program(problem, candidate, std::move(program), depth, options);
}

Evaluation evaluate_program(const Problem& problem, const Candidate& candidate, Program program, Depth depth,
                            const EvaluationOptions& options) {
  assert(depth >= Depth::Estimate && "a whole iteration");
  Evaluation out{.evaluated = {.candidate = candidate}};
  if (!fits(problem, program, {.checks = options.checks}, out)) return out;
  out.evaluated.estimate = estimate(program, problem.stage_clusters());
  if (depth < Depth::Makespan) return out;
  if (depth == Depth::Makespan) {
    out.evaluated.makespan = makespan_of(problem, candidate, program, options.threads);
    return out;
  }
  out.timeline = timeline_of(problem, candidate, program, options.threads);
  out.evaluated.makespan = out.timeline.makespan;
  out.program = std::move(program);
  return out;
}

SimTime simulated_makespan(const Problem& problem, const Candidate& candidate, int threads) {
  return makespan_of(problem, candidate,
                     lowered(problem.model(), problem.workload(), problem.stage_clusters(), candidate), threads);
}

std::int64_t exchange_flows(const Problem& problem, const Candidate& c) {
  const std::int64_t of_a_layer = problem.workload().mode == Mode::Train ? 4 : 2;  // a dispatch and a combine per pass
  const std::int64_t peers = c.degrees.ep * c.degrees.esp - 1;
  return of_a_layer * problem.model().num_moe_layers() * c.degrees.ranks_per_stage() * peers;
}

Throughput throughput(const Problem& problem, const Candidate& candidate, SimTime makespan) {
  const ModelSpec& model = problem.model();
  const Workload& workload = problem.workload();
  const auto gpus = static_cast<double>(problem.cluster().gpus());
  const double tokens = static_cast<double>(workload.global_batch) * static_cast<double>(workload.sequence_length);
  const double seconds = makespan.seconds().value();
  double per_token = forward_flops_per_token(model, workload.sequence_length);
  if (const std::int64_t mtp = mtp_layers_of(workload, candidate); mtp > 0)
    per_token += static_cast<double>(mtp) * mtp_flops_per_token(model, workload.sequence_length);
  const double flops = tokens * per_token * (workload.mode == Mode::Train ? 3.0 : 1.0);
  const double peak = peak_rate(problem.cluster().gpu, workload.dtype).value();
  return {.tokens_per_s_per_gpu = tokens / seconds / gpus, .model_flops_utilization = flops / (seconds * gpus * peak)};
}

double Prediction::bubble() const {
  if (stages.empty() || makespan == SimTime()) return 0;
  Seconds waiting;
  for (const RankTime& t : stages) waiting += t.waiting;
  return waiting / makespan.seconds() / static_cast<double>(stages.size());
}

Prediction predict(const Problem& problem, const Candidate& candidate, int threads) {
  Evaluation e = evaluate(problem, candidate, Depth::Timeline, {.checks = Checks::None, .threads = threads});
  const Throughput rate = throughput(problem, candidate, e.timeline.makespan);
  const std::vector<RankTime> times = rank_times(e.program, e.timeline);
  return {.makespan = e.timeline.makespan,
          .estimate = std::move(e.evaluated.estimate),
          .memory = e.evaluated.memory,
          .binding = binding_rank(times),
          .stages = binding_ranks_by_stage(e.program, times),
          .tokens_per_s_per_gpu = rate.tokens_per_s_per_gpu,
          .model_flops_utilization = rate.model_flops_utilization,
          .program = std::move(e.program),
          .timeline = std::move(e.timeline)};
}

namespace {

/// The Program of which the memory is counted. A pair of overlapped microbatches fills the buffers of one while it
/// empties those of the other: as one after the other.
Program in_turn_program(const Problem& problem, const Candidate& overlapped) {
  return Iteration(problem.model(), problem.workload(), in_turn(overlapped), problem.ranks_per_node()).filled();
}

}  // namespace

std::vector<BufferUse> iteration_buffers(const Problem& problem, const Candidate& candidate, const Program& program,
                                         std::size_t stage) {
  std::vector<BufferUse> out =
      buffers_at_peak(candidate.ep_overlap ? in_turn_program(problem, candidate) : program, stage);
  std::stable_sort(out.begin(), out.end(), [](const BufferUse& a, const BufferUse& b) { return a.all() > b.all(); });
  return out;
}

std::vector<MemoryUse> iteration_memory_by_stage(const Problem& problem, const Candidate& candidate,
                                                 const Program& program, const std::vector<RankId>& ranks) {
  if (candidate.ep_overlap)
    return iteration_memory_by_stage(problem, in_turn(candidate), in_turn_program(problem, candidate), ranks);
  return memory_by_stage(program, stage_parameters(problem.model(), problem.workload(), candidate), problem.workload(),
                         candidate.degrees, problem.cluster().gpu.runtime_memory, ranks);
}

MemoryUse iteration_memory(const Problem& problem, const Candidate& candidate, const Program& program,
                           const std::vector<RankId>& ranks) {
  const std::vector<MemoryUse> all = iteration_memory_by_stage(problem, candidate, program, ranks);
  return *std::max_element(all.begin(), all.end(),
                           [](const MemoryUse& a, const MemoryUse& b) { return a.total() < b.total(); });
}

}  // namespace moeplan::planner
