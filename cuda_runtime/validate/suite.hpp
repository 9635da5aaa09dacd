// A suite: variants of the execution of one MoE layer, each executed and compared with its prediction. Files:
// configs/suites.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cuda_runtime/validate/job.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/search/layer_search.hpp"

namespace moeplan::validate {

struct Suite {
  std::string name;
  planner::PlanInputs inputs;
  planner::Candidate base;                                  // the suite's degrees
  std::vector<std::string> schedules, all_to_alls, codecs;  // empty: all
  std::vector<std::int64_t> pipeline_degrees;               // empty: the defaults of each schedule
};

/// Reads a suite strictly. Keys: name, cluster, model, workload (names or paths), overrides, degrees {tp, ep, esp},
/// micro_batch; and schedules, all_to_alls, pipeline_degrees and codecs, each a list or `all`. Raises InputError.
[[nodiscard]] Suite read_suite(const std::filesystem::path& path);

/// The feasible variants of the layer among those that the suite requests.
[[nodiscard]] std::vector<planner::LayerCase> cases_of(const Suite& suite, const planner::LayerCase& layer);

/// The stored results of a suite's executed cases: one line of JSON per case, in a file next to the suite, from which
/// an interrupted suite can be resumed.
class SuiteStore {
 public:
  /// Reads the file if it `resumes`, otherwise starts a new one.
  SuiteStore(std::filesystem::path file, bool resumes);
  [[nodiscard]] std::optional<Answer> find(const planner::LayerCase& layer) const;
  /// Raises InputError if the file cannot be written.
  void add(const planner::LayerCase& layer, const Answer& answer);

 private:
  std::filesystem::path file_;
  std::map<std::string, std::string> answers_;  // by key
};

}  // namespace moeplan::validate
