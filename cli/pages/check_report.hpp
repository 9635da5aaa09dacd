// The page of `moeplan check`: whether predictions hold on this machine.
#pragma once

#include <string>

#include "cli/pages/validate_report.hpp"

namespace moeplan::cli {

/// assumed: what a choice between schedules and a forecast of a training time need.
inline constexpr double kMostMape = 0.15, kLeastCorrelation = 0.8, kMostRegret = 0.03;

struct CheckResult {
  bool holds_values = false;  // all cases were executed, with right values
  bool holds_times = false;   // kMostMape
  bool holds_order = false;   // kLeastCorrelation
  bool holds_choice = false;  // kMostRegret
  [[nodiscard]] bool holds() const { return holds_values && holds_times && holds_order && holds_choice; }
};
[[nodiscard]] CheckResult check_result(const SuiteStatistics& statistics);

/// The suite's page, the criteria with what was reached, and a verdict.
[[nodiscard]] std::string check_page(const ValidateHead& head, const std::vector<ValidatedCase>& cases,
                                     const std::string& profile);

}  // namespace moeplan::cli
