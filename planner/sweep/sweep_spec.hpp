// A sweep specification as read from its file: which settings vary, which cases result, and which outputs are kept.
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
//   budget: 16                     # plan: candidates that may be simulated per case
//
// A setting is one of cluster, model, workload (named as on the command line), world, a decision (degrees, schedule,
// ...), or the path of a value as in -C: cluster.a.b, model.a[0].b, workload.a. Values are texts in the syntax of -C
// values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "model/text/document.hpp"
#include "planner/sweep/expression.hpp"
#include "planner/sweep/sweep_outputs.hpp"

namespace moeplan::sweep {

/// Upper limits on the size of a sweep.
struct SweepLimits {
  static constexpr std::int64_t kGrid = 2'000'000;  // combinations of values, before `when:`
  static constexpr std::int64_t kCases = 1'000'000;
  static constexpr std::size_t kSettings = 64;  // axes, derived settings and base values together
};

/// A name used in the sweep and the setting to which it assigns a value; with key "" it only serves expressions.
struct Setting {
  std::string name;
  std::string key;
  Location where;
};

/// A setting that varies, with its values.
struct Axis {
  Setting setting;
  std::vector<std::string> values;
};

/// A setting computed by an expression.
struct DerivedSetting {
  Setting setting;
  Expression expression;  // over base values, axes and preceding derived settings
};

/// A value that a case assigns to a setting.
struct Assignment {
  std::string key;
  std::string value;
  bool operator==(const Assignment&) const = default;
};
/// "key=value", a line each.
[[nodiscard]] std::string text_of(const std::vector<Assignment>& assignments);

/// The validated content of a sweep file.
struct SweepSpec {
  std::string name;
  std::string source;  // path of the file
  SweepKind kind = SweepKind::Plan;
  std::vector<Axis> base;  // with one value each
  std::vector<Axis> axes;
  std::vector<std::vector<std::size_t>>
      dimensions;  // indices of axes that vary together; the last dimension varies fastest
  std::vector<DerivedSetting> derived;
  std::vector<Expression> when;
  std::vector<std::string> outputs;
  std::int64_t budget = 0;          // for kind plan: candidates that may be simulated per case
  std::vector<std::int64_t> cases;  // grid positions at which all of `when` hold, ascending

  /// Names of the columns that identify a case: axes, then derived settings.
  [[nodiscard]] std::vector<std::string> columns() const;
  /// Base values, then those of columns(), at a grid position.
  [[nodiscard]] std::vector<Cell> cells_at(std::int64_t place) const;
  /// The settings at a grid position in the same order, with texts exactly as written.
  [[nodiscard]] std::vector<Assignment> assignments_at(std::int64_t place) const;
  [[nodiscard]] std::int64_t grid_size() const;
  /// The index of each axis's value.
  [[nodiscard]] std::vector<std::size_t> choices_at(std::int64_t place) const;
};

/// The file of a configuration that a sweep names; a path that contains a slash is relative to the sweep file. Raises
/// InputError.
[[nodiscard]] std::filesystem::path sweep_config(const SweepSpec& sweep, const std::string& kind,
                                                 const std::string& name);

}  // namespace moeplan::sweep
