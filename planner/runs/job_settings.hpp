// What people have of a job of a framework: its settings by the framework's own names, from a configuration file, the
// arguments of a command, or a script that has either.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/diagnostics.hpp"
#include "model/text/document.hpp"
#include "planner/frameworks/framework.hpp"
#include "planner/plan/plan.hpp"

namespace moeplan::runs {

struct JobSettings {
  std::map<std::string, Node> values = {};              // by names of Framework::arguments; switches that are on: true
  std::map<std::string, std::string> environment = {};  // variables of a script
  std::optional<std::int64_t> world = {};               // GPUs, if the file says it
  std::vector<std::string> unknown = {};                // settings without effect on a plan, in their order
};

/// What is known of a job apart from its settings.
struct JobContext {
  std::string file = {};                                   // of the settings, for errors
  planner::PlanInputs documents = {};                      // with the framework's overrides of the workload
  std::optional<std::int64_t> world = {};                  // GPUs, if the settings do not say it
  std::optional<std::int64_t> tp = {}, ep = {}, esp = {};  // DeepSpeed's, which the model's code decides
};

/// Reads the settings of a job:
/// - JSON, TOML or YAML (by the file's name, or as the text begins): sections are joined by dots;
/// - a script or bare arguments (job_words.hpp). A configuration that a script writes by a here-document is read, too;
///   arguments override it.
/// Names have dashes or underscores, in full or as aliases of the framework. The value "auto" counts as absent. Raises
/// InputError, located in the text, for text that cannot be read and values that the framework's parser refuses; and
/// if no setting of the framework is there at all.
[[nodiscard]] JobSettings read_job_settings(std::string_view text, const std::string& file,
                                            const planner::Framework& framework);

/// Typed access to settings. What is wrong is collected, with the place of the setting.
class SettingsReader {
 public:
  SettingsReader(const JobSettings& settings, std::string file) : settings_(settings), file_(std::move(file)) {}

  [[nodiscard]] bool has(const std::string& name) const { return settings_.values.contains(name); }
  [[nodiscard]] bool flag(const std::string& name) const;  // there, and not false
  [[nodiscard]] std::string text(const std::string& name, std::string fallback = "") const;
  [[nodiscard]] std::vector<const Node*> list(const std::string& name) const;  // its elements; one if it is no list
  /// A whole number from `least` to a billion; absent: none.
  [[nodiscard]] std::optional<std::int64_t> count(const std::string& name, std::int64_t least = 1);
  [[nodiscard]] std::int64_t count_or(const std::string& name, std::int64_t fallback, std::int64_t least = 1) {
    return count(name, least).value_or(fallback);
  }

  void complain(const std::string& name, std::string message);
  void throw_if_any() const { wrong_.throw_if_any(); }

 private:
  const JobSettings& settings_;
  std::string file_;
  Diagnostics wrong_;
};

}  // namespace moeplan::runs
