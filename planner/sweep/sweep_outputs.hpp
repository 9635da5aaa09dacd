// The kinds of sweeps, and the settings and outputs that are available to the cases of each.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moeplan::sweep {

enum class SweepKind { Plan, Candidate, Layer };
inline constexpr std::array<std::pair<SweepKind, std::string_view>, 3> kSweepKindNames{
    {{SweepKind::Plan, "plan"}, {SweepKind::Candidate, "candidate"}, {SweepKind::Layer, "layer"}}};

/// Decisions that a sweep can set: degrees, schedule and others.
[[nodiscard]] std::vector<std::string> decision_keys(SweepKind kind);

/// The numbers and decisions available as outputs, and those that are used if the sweep names none.
[[nodiscard]] std::vector<std::string> possible_outputs(SweepKind kind);
[[nodiscard]] std::vector<std::string> usual_outputs(SweepKind kind);

/// Whether an output's values are numbers, as the time and the degrees are, and not texts, as the schedule is.
[[nodiscard]] bool is_number(const std::string& output);

/// Columns of every sweep's table.
inline constexpr std::array kSweepColumns{"number", "key", "status", "reason", "gpus", "tokens"};
inline constexpr const char* kTimingColumn = "wall_s";

}  // namespace moeplan::sweep
