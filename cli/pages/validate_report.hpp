// The reports of `moeplan validate`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cuda_runtime/validate/job.hpp"
#include "cuda_runtime/validate/validation.hpp"
#include "planner/report/json_parts.hpp"

namespace moeplan::cli {

/// The hardware on which the layer was executed.
struct Hardware {
  std::string backend;
  std::string processor;           // name of a core or a GPU
  std::int64_t cores;              // cores or GPUs per node
  std::vector<std::string> hosts;  // by rank
  std::string clocks = {};         // of the GPUs
};
/// A description such as "4 ranks, host back end, 1 machine, 2 cores of AMD EPYC; 4 ranks share 2 cores".
[[nodiscard]] std::string hardware_text(const Hardware& hardware);

/// One variant of a layer, executed and compared, refused, or failed.
struct ValidatedCase {
  planner::LayerCase layer;
  validate::ExecutionResult result;
  validate::CaseValidation validation;  // empty unless it was executed
  [[nodiscard]] bool was_executed() const { return result.refused.empty() && result.failed.empty(); }
};

struct ValidateHead {
  std::string cluster;
  std::string source;  // file of the plan or suite
  std::int64_t scale = 1;
  Hardware hardware;
  std::string command;
  std::vector<std::string> left_out = {};  // parts of the plan's layer that are neither executed nor predicted
  std::optional<double> max_error = {};    // largest error for a successful exit code; none: unlimited
};

[[nodiscard]] std::string validate_page(const ValidateHead& head, const ValidatedCase& validated);
[[nodiscard]] std::string validate_json(const ValidateHead& head, const ValidatedCase& validated);

/// Reports of several variants of one layer: the order of their times, and the cost of choosing by prediction.
[[nodiscard]] std::string suite_page(const ValidateHead& head, const std::vector<ValidatedCase>& cases);
/// How well the order and the times of a suite's executed cases were predicted.
struct SuiteStatistics {
  std::int64_t executed = 0, failed = 0;
  bool are_right = true;                // the values of all executed cases
  double mape = 0;                      // mean of |predicted / measured - 1|
  std::optional<double> correlation{};  // Spearman's, of predicted and measured times
  double regret = 0;                    // of choosing the case that is predicted to be the fastest
  double spread = 0;                    // the slowest case's measured time over the fastest one's, minus 1
};
[[nodiscard]] SuiteStatistics suite_statistics(const std::vector<ValidatedCase>& cases);
[[nodiscard]] std::string suite_json(const ValidateHead& head, const std::vector<ValidatedCase>& cases);

}  // namespace moeplan::cli
