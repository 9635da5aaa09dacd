#include "planner/launch/launch_script.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace moeplan::planner {

namespace {

using Type = FrameworkArgument::Type;

/// The text as one word of a shell; what has a dollar is expanded by each task.
std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,+@%";
  if (text.find('$') != std::string::npos) return '"' + text + '"';
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string config_value(const std::string& value, Type type) {
  if (type == Type::Int || type == Type::Float) return value;
  if (value == "true" || value == "false" || value.starts_with('[')) return value;
  return '"' + value + '"';
}

/// A value in a configuration file; switches are true, lists are in brackets.
std::string config_values(const LaunchSetting& setting, Type type) {
  if (type == Type::Switch) return "true";
  if (type != Type::List) return config_value(setting.values.front(), type);
  std::vector<std::string> each;
  for (const std::string& v : setting.values) each.push_back(config_value(v, Type::Text));
  return fmt::format("[{}]", fmt::join(each, ", "));
}

/// Settings as sections by the dots of their names. Sections keep the order of their first setting.
struct Section {
  std::string name;
  std::vector<std::pair<std::string, std::string>> values = {};
  std::vector<Section> sections = {};

  Section& at(const std::string& child) {
    const auto it = std::find_if(sections.begin(), sections.end(), [&](const Section& s) { return s.name == child; });
    if (it != sections.end()) return *it;
    return sections.emplace_back(Section{child});
  }
};

Section sections_of(const Launch& launch, const Framework& framework) {
  Section root;
  for (const LaunchSetting& setting : launch.settings) {
    Section* section = &root;
    std::string rest = setting.name;
    for (std::size_t dot = rest.find('.'); dot != std::string::npos; dot = rest.find('.')) {
      section = &section->at(rest.substr(0, dot));
      rest = rest.substr(dot + 1);
    }
    section->values.emplace_back(rest, config_values(setting, framework.arguments.at(setting.name).type));
  }
  return root;
}

std::string yaml(const Section& section, const std::string& indent) {
  std::string out;
  for (const auto& [key, value] : section.values) out += fmt::format("{}{}: {}\n", indent, key, value);
  for (const Section& s : section.sections) out += fmt::format("{}{}:\n", indent, s.name) + yaml(s, indent + "  ");
  return out;
}

std::string toml(const Section& section, const std::string& path) {
  std::string out;
  if (!section.values.empty() && !path.empty()) out += fmt::format("[{}]\n", path);
  for (const auto& [key, value] : section.values) out += fmt::format("{} = {}\n", key, value);
  for (const Section& s : section.sections) out += '\n' + toml(s, path.empty() ? s.name : path + "." + s.name);
  return out;
}

std::string json(const Section& section, const std::string& indent) {
  std::vector<std::string> lines;
  for (const auto& [key, value] : section.values) lines.push_back(fmt::format("{}  \"{}\": {}", indent, key, value));
  for (const Section& s : section.sections)
    lines.push_back(fmt::format("{}  \"{}\": {}", indent, s.name, json(s, indent + "  ")));
  return fmt::format("{{\n{}\n{}}}", fmt::join(lines, ",\n"), indent);
}

std::string config_text(const Launch& launch, const Framework& framework) {
  const Section root = sections_of(launch, framework);
  switch (launch.style) {
    case LaunchStyle::Flags: break;
    case LaunchStyle::YamlFile: return yaml(root, "");
    case LaunchStyle::TomlFile: {
      const std::string text = toml(root, "");
      return text.substr(text.find_first_not_of('\n'));
    }
    case LaunchStyle::JsonFile: return json(root, "") + '\n';
  }
  return "";
}

std::string comments(const std::string& title, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string out = fmt::format("# {}:\n", title);
  for (const std::string& line : lines) out += fmt::format("#   - {}\n", line);
  return out;
}

}  // namespace

std::string launch_script(const Launch& launch, const Framework& framework) {
  std::string out = "#!/usr/bin/env bash\n#SBATCH --job-name=moeplan\n";
  out +=
      fmt::format("#SBATCH --nodes={}\n#SBATCH --ntasks-per-node={}\n#SBATCH --gpus-per-node={}\n#SBATCH --exclusive\n",
                  launch.nodes, launch.one_task_per_node ? 1 : launch.gpus_per_node, launch.gpus_per_node);
  out += fmt::format("# {}\n# for {}\n", launch.about, launch.title);
  out += comments("Not translated", launch.untranslated);
  if (launch.untranslated.empty()) out += "# Every decision of the plan is translated.\n";
  out += comments("To fill in", launch.to_fill_in);
  out += "set -euo pipefail\n\n";
  for (const auto& [name, value] : launch.environment) out += fmt::format("export {}={}\n", name, shell_word(value));
  out +=
      "export MASTER_ADDR=${MASTER_ADDR:-$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)}\n"
      "export MASTER_PORT=${MASTER_PORT:-29500}\n\n";
  if (launch.style != LaunchStyle::Flags) {
    out += fmt::format("export CONFIG=$PWD/{}\ncat > \"$CONFIG\" <<'END'\n{}END\n\n", launch.config_file,
                       config_text(launch, framework));
  }
  out += "task() {\n";
  if (launch.style == LaunchStyle::Flags) {
    out += "  ARGUMENTS=(\n";
    for (const LaunchSetting& setting : launch.settings) {
      out += "    --" + setting.name;
      for (const std::string& value : setting.values) out += ' ' + shell_word(value);
      out += '\n';
    }
    out += "  )\n";
  }
  if (!launch.one_task_per_node)
    out += "  export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS\n";
  return out + "  exec " + launch.command + "\n}\nexport -f task\nsrun bash -c task\n";
}

}  // namespace moeplan::planner
