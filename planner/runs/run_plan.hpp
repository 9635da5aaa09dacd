// From a row of a table of runs to what the planner evaluates: a cluster, a model, a workload, and a pinned candidate.
//
// What a row leaves empty is the known default of its stack (Megatron-LM and what is built on it), or else what the
// planner chooses. What the program cannot express is refused, with the column and its value; what it expresses only
// roughly is noted.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/machine/cluster.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"
#include "planner/search/search_space.hpp"
#include "profiler/tables/run_table.hpp"

namespace moeplan::runs {

/// Why a row cannot be expressed: "dispatcher: \"x\" is ...".
struct Refusal {
  std::string reason;
};

/// What a measured peak of memory counts: the tensors of the framework's allocator, all that it has taken from the
/// device, or all that the device has in use.
enum class MemoryCounts { Tensors, Reserved, Device };

/// The job of a row.
struct RunPlan {
  std::string cluster;  // a name of configs/clusters, or a file
  std::int64_t world;
  ModelSpec model;
  Workload workload;
  planner::Candidate candidate;  // complete, unless the planner chooses
  planner::SearchSpace space;    // the same decisions as pins, if `is_searched`
  std::optional<Bytes> measured_memory = {};
  MemoryCounts memory_counts = MemoryCounts::Device;  // what the measured memory counts
  bool is_searched = false;  // the row leaves ep or the micro batch empty, or its stack's defaults are unknown
  std::vector<std::string> defaults = {};        // what was taken for empty columns: "zero 1"
  std::vector<std::string> approximations = {};  // what is expressed roughly: "cuda_graph attn: has no effect"

  [[nodiscard]] double tokens() const {
    return static_cast<double>(workload.global_batch) * static_cast<double>(workload.sequence_length);
  }
  /// Microbatches of a step on a replica, once the micro batch is known.
  [[nodiscard]] std::int64_t microbatches(const planner::Candidate& chosen) const {
    return workload.global_batch / (chosen.degrees.dp * chosen.micro_batch);
  }
};

/// Reads what rows name in configs/, each once.
class RunPlanner {
 public:
  RunPlanner();
  [[nodiscard]] std::variant<RunPlan, Refusal> plan(const profiler::RunRow& row);
  /// The same for another model than the one that the row names.
  [[nodiscard]] std::variant<RunPlan, Refusal> plan(const profiler::RunRow& row, const ModelSpec& model) const;
  /// The model that the row names. Raises InputError.
  [[nodiscard]] const ModelSpec& model_of(const profiler::RunRow& row);

 private:
  std::map<std::string, std::string> by_id_;
  std::map<std::pair<std::string, std::string>, ModelSpec> models_;  // by name and overrides
  Node default_workload_;
};

}  // namespace moeplan::runs
