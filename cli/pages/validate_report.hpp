// What `moeplan validate` prints.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cuda_runtime/validate/job.hpp"
#include "cuda_runtime/validate/validation.hpp"
#include "planner/report/json_parts.hpp"

namespace moeplan::cli {

/// The machine that executed it.
struct Hardware {
  std::string backend;
  std::string processor;           // a core or a GPU
  std::int64_t cores;              // or GPUs, of a machine
  std::vector<std::string> hosts;  // by rank
  std::string clocks = {};         // of GPUs
};
/// "4 ranks, host back end, 1 machine, 2 cores of AMD EPYC; 4 ranks share 2 cores".
[[nodiscard]] std::string hardware_text(const Hardware& hardware);

/// A layer that was executed and compared, or refused.
struct ValidatedCase {
  planner::LayerCase layer;
  validate::ExecutionResult result;
  validate::CaseValidation validation;  // where it was not refused
};

struct ValidateHead {
  std::string cluster;
  std::string source;  // the plan's file, or the suite's
  std::int64_t scale = 1;
  Hardware hardware;
  std::string command;
  std::optional<double> max_error = {};  // that the exit code allows; none: any
};

[[nodiscard]] std::string validate_page(const ValidateHead& head, const ValidatedCase& validated);
[[nodiscard]] std::string validate_json(const ValidateHead& head, const ValidatedCase& validated);

/// Of several ways to run one layer: which order the times have, and what choosing by prediction costs.
[[nodiscard]] std::string suite_page(const ValidateHead& head, const std::vector<ValidatedCase>& cases);
[[nodiscard]] std::string suite_json(const ValidateHead& head, const std::vector<ValidatedCase>& cases);

}  // namespace moeplan::cli
