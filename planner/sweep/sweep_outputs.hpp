// The settings and outputs that are available to the cases of a sweep, by kind.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "planner/sweep/sweep_spec.hpp"

namespace moeplan::sweep {

/// Decisions that a sweep can set: degrees, schedule and others.
[[nodiscard]] std::vector<std::string> decision_keys(SweepKind kind);

/// The numbers and decisions available as outputs, and those that are used if the sweep names none.
[[nodiscard]] std::vector<std::string> possible_outputs(SweepKind kind);
[[nodiscard]] std::vector<std::string> usual_outputs(SweepKind kind);

/// Columns of every sweep's table.
inline constexpr std::array kSweepColumns{"number", "key", "status", "reason", "gpus", "tokens"};
inline constexpr const char* kTimingColumn = "wall_s";

}  // namespace moeplan::sweep
