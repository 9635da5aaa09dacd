#include "planner/launch/export_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "model/text/reader.hpp"
#include "planner/launch/exporters.hpp"

namespace moeplan::planner {

namespace {

using Exporter = Launch (*)(const LaunchInput&);

constexpr std::array<std::pair<std::string_view, Exporter>, 6> kExporters{{{"deepspeed", deepspeed_launch},
                                                                           {"megatron", megatron_launch},
                                                                           {"megatron-bridge", megatron_bridge_launch},
                                                                           {"sglang", sglang_launch},
                                                                           {"torchtitan", torchtitan_launch},
                                                                           {"vllm", vllm_launch}}};

template <class Number>
bool is_number(const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

bool fits(const FrameworkArgument& argument, const LaunchSetting& setting) {
  using Type = FrameworkArgument::Type;
  if (argument.type == Type::List) return true;
  if (argument.type == Type::Switch) return setting.values.empty();
  if (setting.values.size() != 1) return false;
  const std::string& value = setting.values.front();
  if (!argument.choices.empty())
    return std::find(argument.choices.begin(), argument.choices.end(), value) != argument.choices.end();
  if (argument.type == Type::Int) return is_number<std::int64_t>(value);
  if (argument.type == Type::Float) return is_number<double>(value);
  return true;
}

void check_mode(const LaunchInput& input) {
  const bool serves = input.framework.serves();
  if (serves == (input.inputs.workload.mode == Mode::Forward)) return;
  throw_input_error({}, "workload.mode",
                    fmt::format("the plan is for {}; {} {}", serves ? "training" : "a forward pass",
                                input.framework.title, serves ? "serves" : "trains"));
}

}  // namespace

std::vector<std::string> launch_targets() {
  std::vector<std::string> names;
  for (const auto& [name, exporter] : kExporters) names.emplace_back(name);
  return names;
}

std::string setting_error(const Framework& framework, const LaunchSetting& setting) {
  const auto known = framework.arguments.find(setting.name);
  if (known == framework.arguments.end()) return fmt::format("{} has no {}", framework.text(), setting.name);
  const FrameworkArgument& argument = known->second;
  if (fits(argument, setting)) return "";
  const std::string value = fmt::format("{}", fmt::join(setting.values, " "));
  return fmt::format("{} of {} takes {}, not {}", setting.name, framework.text(),
                     argument.choices.empty()
                         ? std::string(moeplan::name_of<FrameworkArgument::Type>(kArgumentTypeNames, argument.type))
                         : fmt::format("one of {}", fmt::join(argument.choices, ", ")),
                     in_quotes(value));
}

Launch launch_of(const LaunchInput& input) {
  check_mode(input);
  const auto exporter = std::find_if(kExporters.begin(), kExporters.end(),
                                     [&](const auto& e) { return e.first == input.framework.name; });
  if (exporter == kExporters.end()) {
    throw_input_error({}, "framework",
                      fmt::format("{} has no exporter{}", in_quotes(input.framework.name),
                                  suggestion(input.framework.name, launch_targets())));
  }
  Launch launch = exporter->second(input);
  launch.title = input.framework.text();
  launch.gpus_per_node = std::min(input.plan.world_size, gpus_per_host(input.cluster));
  launch.nodes = (input.plan.world_size + launch.gpus_per_node - 1) / launch.gpus_per_node;
  launch.about = fmt::format("{} on {} x {} of {}, {:.4g} s an iteration by prediction", input.inputs.model.name,
                             input.plan.world_size, input.cluster.gpu.name, input.inputs.cluster.name,
                             input.plan.makespan.seconds().value());
  std::vector<LaunchSetting> known;
  for (LaunchSetting& setting : launch.settings) {
    const std::string error = setting_error(input.framework, setting);
    if (error.empty()) {
      known.push_back(std::move(setting));
    } else {
      launch.leave(error);
    }
  }
  launch.settings = std::move(known);
  return launch;
}

}  // namespace moeplan::planner
