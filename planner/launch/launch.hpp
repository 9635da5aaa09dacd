// A plan in the words of a framework: what one types, or writes into its configuration, to run it (export_plan.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/frameworks/framework.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/plan/plan.hpp"

namespace moeplan::planner {

/// What is exported. The referenced objects must outlive it.
struct LaunchInput {
  const Plan& plan;
  const Inputs& inputs;
  const Cluster& cluster;
  const Framework& framework;
};

/// An argument or a key of a configuration with its values; none: a switch that is on.
struct LaunchSetting {
  std::string name;  // "tensor-model-parallel-size", "parallelism.tensor_parallel_degree"
  std::vector<std::string> values = {};
  bool operator==(const LaunchSetting&) const = default;
};

/// How settings reach the framework.
enum class LaunchStyle {
  Flags,     // as arguments: --name value
  YamlFile,  // sections by the dots of their names
  TomlFile,
  JsonFile
};

struct Launch {
  std::string title;  // "Megatron-LM 0.15"
  std::string about;  // the plan in a line
  LaunchStyle style = LaunchStyle::Flags;
  std::string config_file;  // its name, unless settings are flags
  std::string command;      // of one task, with the array ARGUMENTS of the flags or the path CONFIG of the file
  bool one_task_per_node = false;
  std::int64_t nodes = 1, gpus_per_node = 1;
  std::vector<LaunchSetting> settings = {};
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::vector<std::string> untranslated = {};  // decisions of the plan that the framework will not follow
  std::vector<std::string> to_fill_in = {};    // what a plan does not know: data, checkpoints

  void set(std::string name) { settings.push_back({std::move(name)}); }
  void set(std::string name, std::string value) { settings.push_back({std::move(name), {std::move(value)}}); }
  void set(std::string name, std::int64_t value) { set(std::move(name), std::to_string(value)); }
  void leave(std::string decision) { untranslated.push_back(std::move(decision)); }
};

}  // namespace moeplan::planner
