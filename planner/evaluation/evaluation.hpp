// The evaluation of one candidate: is it feasible, does it fit in memory, how long does an iteration take?
//
// Every command and every search evaluates candidates with evaluate(), to the depth that it needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/analysis/analysis.hpp"
#include "model/analysis/timeline.hpp"
#include "model/base/infeasibility.hpp"
#include "model/costs/estimate.hpp"
#include "model/costs/memory.hpp"
#include "model/program/program.hpp"
#include "planner/candidate/candidate.hpp"
#include "planner/evaluation/problem.hpp"
#include "planner/lowering/ordered.hpp"

namespace moeplan::planner {

/// How far a candidate is evaluated. Every depth includes the checks of those before it.
enum class Depth {
  Feasibility,    // infeasibility() only
  Memory,         // also the memory that an iteration needs
  Extrapolation,  // also the estimate; that of a long pipeline is extrapolated from few microbatches
                  // (long_pipeline.hpp)
  Estimate,       // the same from the Program of the whole iteration
  Makespan,       // also the simulated makespan
  Timeline        // also the Program, and the Timeline with all its spans
};

/// The checks of an evaluation.
enum class Checks {
  All,
  AllButMemory,  // a candidate that does not fit in memory is evaluated nevertheless
  None           // the same; `infeasibility()` must be none
};

struct EvaluationOptions {
  Checks checks = Checks::All;
  /// With Depth::Extrapolation: a candidate with at least this many ranks per stage and with ranks that differ gets a
  /// bound instead of an estimate, which would take long.
  std::optional<std::int64_t> asymmetric_rank_threshold = {};
  /// With Depth::Extrapolation: the candidate's memory, if it is known, and known to fit.
  std::optional<MemoryUse> memory = {};
  /// Up to Depth::Extrapolation, with all checks: a candidate that lacks memory on its first rank has that rank's
  /// memory, which is found sooner than the fullest one's.
  bool is_rejected_by_first_rank = false;
  int threads = 1;  // of its simulation
};

/// A candidate with its predicted memory and time.
struct Evaluated {
  Candidate candidate;
  MemoryUse memory = {};
  Estimate estimate = {};
  std::optional<SimTime> makespan = {};  // simulated; absent if only priced
  OrderSearch order = {};                // "listed" unless this candidate's order was searched

  /// The origin of the order in use. It is the search's answer, or "heuristic" if the search found a better order that
  /// is not in use because its simulation was no faster.
  [[nodiscard]] std::string_view order_answered_by() const {
    return order.improved > 0 && candidate.order == OperationOrder::Listed ? "heuristic" : order.answered_by;
  }
};

/// The result of evaluate(), as far as the evaluation went.
struct Evaluation {
  Evaluated evaluated;
  std::optional<Infeasibility> infeasibility = {};  // where the evaluation stopped; the text for memory is "memory"
  std::optional<Seconds> bound = {};                // lower bound, in place of the estimate (EvaluationOptions)
  Program program = {};                             // with Depth::Timeline
  Timeline timeline = {};                           // with Depth::Timeline
};

/// Evaluates a candidate with its order of operations. Deterministic.
[[nodiscard]] Evaluation evaluate(const Problem& problem, const Candidate& candidate, Depth depth,
                                  const EvaluationOptions& options = {});

/// The same for a candidate that was lowered to `program` already; `depth` is at least Depth::Estimate, and only memory
/// is checked.
[[nodiscard]] Evaluation evaluate_program(const Problem& problem, const Candidate& candidate, Program program,
                                          Depth depth, const EvaluationOptions& options = {});

/// The simulated makespan of a candidate that was evaluated to a lesser depth.
[[nodiscard]] SimTime simulated_makespan(const Problem& problem, const Candidate& candidate, int threads = 1);

/// Flows between ranks in the exchanges of one microbatch: a simulation of ranks that all differ follows each of them,
/// of a pipeline on each of its stages. A million take seconds.
[[nodiscard]] std::int64_t exchange_flows(const Problem& problem, const Candidate& candidate);

/// The throughput that an iteration time corresponds to.
struct Throughput {
  double tokens_per_s_per_gpu;
  /// Model FLOPs, with those of layers of multi-token prediction that are trained along, divided by what the peaks of
  /// all GPUs allow in the makespan.
  double model_flops_utilization;
};
[[nodiscard]] Throughput throughput(const Problem& problem, const Candidate& candidate, SimTime makespan);

/// Everything that is predicted for a candidate.
struct Prediction {
  SimTime makespan;
  Estimate estimate;
  MemoryUse memory;
  RankTime binding;              // time breakdown of the binding rank
  std::vector<RankTime> stages;  // of the binding rank of each pipeline stage
  double tokens_per_s_per_gpu = 0;
  double model_flops_utilization = 0;
  Program program;
  Timeline timeline;

  /// The fraction of the makespan in which a rank waits for others, the mean over the stages: a pipeline's bubble.
  [[nodiscard]] double bubble() const;
  /// How far the makespan is above the lower bound of the Program: 0.03 for 3%.
  [[nodiscard]] double schedule_gap() const {
    return estimate.lower_bound > Seconds(0) ? makespan.seconds() / estimate.lower_bound - 1 : 0;
  }
};
/// evaluate() to its full depth, whether or not the candidate fits in memory. `infeasibility()` must be none.
[[nodiscard]] Prediction predict(const Problem& problem, const Candidate& candidate, int threads = 1);

/// The memory that an iteration of the candidate needs on the fullest rank of each stage, and on its fullest rank; with
/// `ranks`, on these ranks of each stage.
[[nodiscard]] std::vector<MemoryUse> iteration_memory_by_stage(const Problem& problem, const Candidate& candidate,
                                                               const Program& program,
                                                               const std::vector<RankId>& ranks = {});
[[nodiscard]] MemoryUse iteration_memory(const Problem& problem, const Candidate& candidate, const Program& program,
                                         const std::vector<RankId>& ranks = {});
/// The buffers in use at the peak of a stage's fullest rank, those that take most first.
[[nodiscard]] std::vector<BufferUse> iteration_buffers(const Problem& problem, const Candidate& candidate,
                                                       const Program& program, std::size_t stage);

}  // namespace moeplan::planner
