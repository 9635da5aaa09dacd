// What `moeplan validate` and `moeplan profile` ask of the ranks that it starts, and what they answer: two files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cuda_runtime/device/gpu_clocks.hpp"
#include "cuda_runtime/layer_values.hpp"
#include "cuda_runtime/measure/measure.hpp"
#include "planner/plan/layer_case.hpp"
#include "profiler/stopping_rule.hpp"

namespace moeplan::validate {

struct ExecuteLimits {
  Seconds time_out{60};  // of a communication that others do not come to
  Seconds budget{10};    // of the timed runs of one case
  std::optional<std::int64_t> iterations =
      {};                             // exactly so many; none: until the median is known to 5 % or the budget ends
  double most_reference_flops = 2e9;  // of the reference on one rank, beyond which some tokens are compared
};

/// Measuring operations instead of executing layers (measure/benchmarks.hpp).
struct MeasureJob {
  std::int64_t ranks;  // 0: one for each GPU of the machine; where there is one, four that share it
  Seconds budget;      // of all benchmarks
  runtime::BenchmarkScale scale = runtime::BenchmarkScale::Cores;
};

struct ExecuteJob {
  ExecuteLimits limits;
  std::vector<planner::LayerCase> cases;  // all of as many ranks
  std::optional<MeasureJob> measure = {};
};
[[nodiscard]] Node job_document(const ExecuteJob& job);
[[nodiscard]] ExecuteJob read_job(const Node& document);

/// When an operation ran, in nanoseconds since the run began.
struct RanSpan {
  std::int64_t start;
  std::int64_t end;
  bool operator==(const RanSpan&) const = default;
};

struct ExecutionResult {
  std::string refused;  // why it cannot be executed; "": it was
  bool is_right = false;
  runtime::ValueErrors values;                          // the worst of all ranks
  std::string stopped_by;                               // a name of kStopReasonNames, or "iterations"
  std::vector<std::vector<std::vector<RanSpan>>> runs;  // by run, rank, operation of all blocks in order
};

/// What ranks ran on.
struct Processor {
  std::string name;                  // a core's or a GPU's
  std::int64_t count = 1;            // that a machine has
  double memory = 0;                 // of a GPU, bytes
  std::int64_t multiprocessors = 1;  // of a GPU
  bool operator==(const Processor&) const = default;
};

struct Answer {
  std::vector<std::string> hosts;  // by rank: name of the machine
  Processor processor;             // of rank 0's
  std::vector<ExecutionResult> cases;
  std::vector<runtime::Measured> measured = {};  // by benchmark
  runtime::SeenClocks clocks = {};               // of all ranks' GPUs, after runs
};
[[nodiscard]] std::string answer_text(const Answer& answer);
/// Raises InputError where the text is none that answer_text() wrote.
[[nodiscard]] Answer read_answer(const std::string& text);

/// What ranks tell each other of their GPUs' clocks.
[[nodiscard]] std::string clocks_text(const runtime::SeenClocks& clocks);
[[nodiscard]] runtime::SeenClocks read_clocks(const std::string& text);

}  // namespace moeplan::validate
