// A suite: many ways to run one MoE layer, each executed and compared. Files: configs/suites.
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
  planner::Candidate base;                                  // its degrees
  std::vector<std::string> schedules, all_to_alls, codecs;  // empty: all
  std::vector<std::int64_t> pipeline_degrees;               // empty: those that a schedule is tried with
};

/// Strict. Keys: name, cluster, model, workload (names or paths), overrides, degrees {tp, ep, esp}, micro_batch,
/// schedules, all_to_alls, pipeline_degrees and codecs, each a list or `all`. Raises InputError.
[[nodiscard]] Suite read_suite(const std::filesystem::path& path);

/// The ways to run the layer that the suite asks for and that can run.
[[nodiscard]] std::vector<planner::LayerCase> cases_of(const Suite& suite, const planner::LayerCase& layer);

/// Results of cases that were executed before, one line of JSON a case, kept beside the suite so that a run that was
/// interrupted can be resumed.
class SuiteStore {
 public:
  /// Reads what is there if it `resumes`, else begins anew.
  SuiteStore(std::filesystem::path file, bool resumes);
  [[nodiscard]] std::optional<Answer> find(const planner::LayerCase& layer) const;
  /// Raises InputError where it cannot be written.
  void add(const planner::LayerCase& layer, const Answer& answer);

 private:
  std::filesystem::path file_;
  std::map<std::string, std::string> answers_;  // by key
};

}  // namespace moeplan::validate
