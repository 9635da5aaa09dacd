// A sweep as its file says it: which settings vary, which cases that makes, and what is kept of each.
//
//   name: mixtral_nics
//   kind: plan                     # plan: search; candidate: degrees and schedule given; layer: one MoE layer alone
//   base: {cluster: dgx_h100, model: mixtral_8x7b, workload: default}
//   axes:
//     world: 64:512:2
//     cluster.template.fabric.nic_bandwidth: [100 Gbps, 200 Gbps, 400 Gbps]
//     B: {key: workload.global_batch, values: [256, 512]}          # a short name; without a key: for expressions only
//   zip:
//     - {cluster.gpu.memory: [40 GB, 80 GB], workload.zero_stage: [3, 1]}    # these vary together
//   derived: {ep: min(world, 8)}   # a setting, or a name for later expressions
//   when: [world % tp == 0]        # cases for which all of these hold
//   outputs: [makespan_s, memory_bytes, tp, ep]
//   budget: 16                     # plan: candidates that may be simulated a case
//
// A setting is cluster, model, workload (files as on the command line), world, a decision (degrees, schedule ...), or
// the path of a value as after -C: cluster.a.b, model.a[0].b, workload.a. Values are texts as after the = of -C.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/text/document.hpp"
#include "planner/sweep/expression.hpp"

namespace moeplan::sweep {

enum class SweepKind { Plan, Candidate, Layer };
inline constexpr std::array<std::pair<SweepKind, std::string_view>, 3> kSweepKindNames{
    {{SweepKind::Plan, "plan"}, {SweepKind::Candidate, "candidate"}, {SweepKind::Layer, "layer"}}};

struct SweepLimits {
  static constexpr std::int64_t kGrid = 2'000'000;  // combinations of values, before `when:`
  static constexpr std::int64_t kCases = 1'000'000;
  static constexpr std::size_t kSettings = 64;  // axes, derived ones and base values together
};

/// A name of the sweep and the setting that it gives a value to; key "": it only serves expressions.
struct Setting {
  std::string name;
  std::string key;
  Location where;
};

struct Axis {
  Setting setting;
  std::vector<std::string> values;
};

struct DerivedSetting {
  Setting setting;
  Expression expression;  // of base values, axes and the derived ones before it
};

/// A value that a case gives to a setting.
struct Assignment {
  std::string key;
  std::string value;
  bool operator==(const Assignment&) const = default;
};
/// "key=value", a line each.
[[nodiscard]] std::string text_of(const std::vector<Assignment>& assignments);

struct SweepSpec {
  std::string name;
  std::string source;  // the file
  SweepKind kind = SweepKind::Plan;
  std::vector<Axis> base;  // of one value each
  std::vector<Axis> axes;
  std::vector<std::vector<std::size_t>> dimensions;  // axes that vary together, by index; the last varies fastest
  std::vector<DerivedSetting> derived;
  std::vector<Expression> when;
  std::vector<std::string> outputs;
  std::int64_t budget = 0;          // of kind plan
  std::vector<std::int64_t> cases;  // places in the grid for which all of `when` hold, ascending

  /// What says which case one is: axes, then derived ones.
  [[nodiscard]] std::vector<std::string> columns() const;
  /// Base values, then those of columns(), at a place of the grid.
  [[nodiscard]] std::vector<Cell> cells_at(std::int64_t place) const;
  /// What is set at a place of the grid, in the same order; texts exactly as written.
  [[nodiscard]] std::vector<Assignment> assignments_at(std::int64_t place) const;
  [[nodiscard]] std::int64_t grid_size() const;
  /// By axis, the index of its value.
  [[nodiscard]] std::vector<std::size_t> choices_at(std::int64_t place) const;
};

/// Reads a sweep file, strictly; `overrides` as after -C are further base values. Raises InputError with everything
/// that is wrong, names of files and schedules too.
[[nodiscard]] SweepSpec read_sweep(const Node& document, const std::string& source,
                                   const std::vector<std::string>& overrides = {});

/// The file of a configuration that a sweep names: a path with a slash starts from the sweep's own file. Raises
/// InputError.
[[nodiscard]] std::filesystem::path sweep_config(const SweepSpec& sweep, const std::string& kind,
                                                 const std::string& name);

}  // namespace moeplan::sweep
