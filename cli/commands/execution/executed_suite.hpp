// A suite's cases, predicted and executed.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "cli/commands/execution/back_end.hpp"
#include "cuda_runtime/validate/suite.hpp"

namespace moeplan::cli {

struct SuiteRequest {
  BackEnd on;
  validate::ExecuteLimits limits;
  std::string source;  // of messages: the suite's name or path
  std::optional<std::int64_t> layer = {};
  std::int64_t scale = 1;
  std::filesystem::path results;  // where finished cases are stored
  bool resumes = false;           // with what is stored there
};

struct ExecutedSuite {
  ValidateHead head;
  std::vector<ValidatedCase> cases;        // finished or failed, in the suite's order
  std::optional<ExitCode> early = {};      // if ranks gave no further answer
  [[nodiscard]] bool has_answers() const;  // at least one case was finished
};

[[nodiscard]] ExecutedSuite execute_suite(const validate::Suite& suite, const SuiteRequest& request);

/// Compares an execution with its prediction on this cluster.
[[nodiscard]] ValidatedCase validated(const planner::LayerCase& layer, validate::ExecutionResult result,
                                      const Cluster& cluster);

}  // namespace moeplan::cli
