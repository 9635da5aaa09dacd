// What can be set and what can be kept of the cases of a sweep, by kind.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "planner/sweep/sweep_spec.hpp"

namespace moeplan::sweep {

/// Decisions that can be set: degrees, schedule and the like.
[[nodiscard]] std::vector<std::string> decision_keys(SweepKind kind);

/// Numbers and decisions that can be kept, and those that are where none are named.
[[nodiscard]] std::vector<std::string> possible_outputs(SweepKind kind);
[[nodiscard]] std::vector<std::string> usual_outputs(SweepKind kind);

/// Columns that every sweep has.
inline constexpr std::array kSweepColumns{"number", "key", "status", "reason", "gpus", "tokens"};
inline constexpr const char* kTimingColumn = "wall_s";

}  // namespace moeplan::sweep
