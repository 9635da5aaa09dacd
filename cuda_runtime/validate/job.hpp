// The job that `moeplan validate` and `moeplan profile` give to their ranks, and the ranks' answer: the contents of two
// files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cuda_runtime/device/driver/gpu_clocks.hpp"
#include "cuda_runtime/layer_reference.hpp"
#include "cuda_runtime/layer_values.hpp"
#include "cuda_runtime/measure/measure.hpp"
#include "planner/plan/layer_case.hpp"
#include "profiler/stopping_rule.hpp"

namespace moeplan::validate {

struct ExecuteLimits {
  Seconds time_out{60};  // of a communication, from when this rank reached it
  Seconds budget{10};    // of the timed executions of one case
  /// The exact number of timed executions; none: until the median is known to 5 % or the budget is spent.
  std::optional<std::int64_t> iterations = {};
  double most_reference_flops =
      runtime::kMostReferenceFlops;  // of the reference on one rank; above it only some tokens are compared
};

/// The measurement of single operations (measure/benchmarks.hpp), as requested by `moeplan profile`.
struct MeasureJob {
  std::int64_t ranks;  // 0: one per GPU of the node; with a single GPU, four that share it
  Seconds budget;      // for all benchmarks
  runtime::BenchmarkScale scale = runtime::BenchmarkScale::Cores;
  bool operators = false;  // a table of operators instead
};

struct ExecuteJob {
  ExecuteLimits limits;
  std::vector<planner::LayerCase> cases;  // all with the same number of ranks
  /// Ranks run on parts of one GPU, joined by links of this bandwidth; none: see cuda_worker/main.cpp.
  std::optional<BytesPerSecond> link_of_parts = {};
  std::optional<MeasureJob> measure = {};
};
[[nodiscard]] Node job_document(const ExecuteJob& job);
[[nodiscard]] ExecuteJob read_job(const Node& document);

/// Start and end of an operation, in nanoseconds since the start of the execution.
struct RanSpan {
  std::int64_t start;
  std::int64_t end;
  bool operator==(const RanSpan&) const = default;
};

struct ExecutionResult {
  std::string refused;  // why the case cannot be executed; "" if it was executed
  std::string failed;   // why ranks ended during its execution; never in an answer of theirs
  bool is_right = false;
  runtime::ValueErrors values;                          // the largest over all ranks
  std::string stopped_by;                               // a name of kStopReasonNames, or "iterations"
  std::vector<std::vector<std::vector<RanSpan>>> runs;  // by execution, rank, and operation of all blocks in order
};

/// The processor on which ranks executed.
struct Processor {
  std::string name;                  // of a core or a GPU
  std::int64_t count = 1;            // per node
  double memory = 0;                 // bytes, of a GPU
  std::int64_t multiprocessors = 1;  // of a GPU
  bool multiplies_fp8 = false;       // in an answer with measurements: all ranks' GPUs do
  bool operator==(const Processor&) const = default;
};

struct Answer {
  std::vector<std::string> hosts;  // name of the node, by rank
  Processor processor;             // of rank 0
  std::vector<ExecutionResult> cases;
  std::vector<runtime::Measured> measured = {};  // by benchmark
  runtime::SeenClocks clocks = {};               // of all ranks' GPUs, read during executions
};
[[nodiscard]] std::string answer_text(const Answer& answer);
/// Parses a text written by answer_text(). Raises InputError for any other text.
[[nodiscard]] Answer read_answer(const std::string& text);

/// The exchange format of GPU clocks between ranks.
[[nodiscard]] std::string clocks_text(const runtime::SeenClocks& clocks);
[[nodiscard]] runtime::SeenClocks read_clocks(const std::string& text);

}  // namespace moeplan::validate
