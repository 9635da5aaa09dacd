#include "planner/runs/job_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "planner/launch/export_plan.hpp"
#include "planner/runs/job_words.hpp"
#include "planner/runs/toml.hpp"
#include "profiler/tables/table_text.hpp"

namespace moeplan::runs {

namespace {

using planner::Framework;
using planner::FrameworkArgument;

constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

enum class ConfigFormat { Json, Toml, Yaml };

/// A configuration inside a text.
struct Config {
  ConfigFormat format;
  std::string text;
  int line = 1;  // in the whole text
};

std::string folded(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::optional<ConfigFormat> format_by_name(std::string_view name) {
  if (name.find(".json") != std::string_view::npos) return ConfigFormat::Json;
  if (name.find(".toml") != std::string_view::npos) return ConfigFormat::Toml;
  if (name.find(".yaml") != std::string_view::npos || name.find(".yml") != std::string_view::npos)
    return ConfigFormat::Yaml;
  return std::nullopt;
}

/// The format of a text that is a configuration as a whole.
std::optional<ConfigFormat> format_of(std::string_view text, const std::string& file) {
  if (file.ends_with(".json")) return ConfigFormat::Json;
  if (file.ends_with(".toml")) return ConfigFormat::Toml;
  if (file.ends_with(".yaml") || file.ends_with(".yml")) return ConfigFormat::Yaml;
  for (const std::string_view raw : profiler::split(text, '\n')) {
    const std::string_view line = profiler::trimmed(raw);
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '{') return ConfigFormat::Json;
    return line.front() == '[' && line.find(']') != std::string_view::npos ? std::optional(ConfigFormat::Toml)
                                                                           : std::nullopt;
  }
  return std::nullopt;
}

/// The text with $NAME and ${NAME} replaced, where the script gives them a value.
std::string expanded(std::string_view text, const std::map<std::string, std::string>& variables) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_braced = text.substr(i).starts_with("${");
    const std::size_t begin = i + (is_braced ? 2 : 1);
    const std::size_t end =
        std::min(text.find_first_not_of(kNameCharacters, std::min(begin, text.size())), text.size());
    const auto known =
        text[i] == '$' && end > begin ? variables.find(std::string(text.substr(begin, end - begin))) : variables.end();
    if (known == variables.end()) {
      out += text[i];
      continue;
    }
    out += known->second;
    i = is_braced && end < text.size() ? end : end - 1;
  }
  return out;
}

/// The configurations that a script writes: cat > "$CONFIG" <<'END' ... END.
std::vector<Config> here_documents(std::string_view text, const std::map<std::string, std::string>& variables) {
  std::vector<Config> out;
  const std::vector<std::string_view> lines = profiler::split(text, '\n');
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t arrows = lines[i].find("<<");
    if (arrows == std::string_view::npos || lines[i].substr(arrows).starts_with("<<<")) continue;
    const std::size_t word = std::min(lines[i].find_first_not_of("<- \t", arrows), lines[i].size());
    const bool is_quoted = word < lines[i].size() && (lines[i][word] == '\'' || lines[i][word] == '"');
    const std::size_t begin = word + (is_quoted ? 1 : 0);
    const std::size_t end = std::min(lines[i].find_first_not_of(kNameCharacters, begin), lines[i].size());
    const std::string_view mark = lines[i].substr(std::min(begin, lines[i].size()), end - begin);
    const auto format = format_by_name(expanded(lines[i], variables));
    if (mark.empty() || !format) continue;
    std::string body;
    const std::size_t first = i + 1;
    for (++i; i < lines.size() && profiler::trimmed(lines[i]) != mark; ++i) body += std::string(lines[i]) + '\n';
    out.push_back({*format, is_quoted ? body : expanded(body, variables), static_cast<int>(first) + 1});
  }
  return out;
}

Node parsed(const Config& config, const std::string& file) {
  // Parsed in its place, so that errors name its lines.
  const std::string text = std::string(static_cast<std::size_t>(config.line - 1), '\n') + config.text;
  switch (config.format) {
    case ConfigFormat::Json: return parse_json(text, file);
    case ConfigFormat::Toml: return parse_toml(text, file);
    case ConfigFormat::Yaml: break;
  }
  return parse_yaml(text, file);
}

bool is_number(std::string_view word) {
  return word.size() > 1 && word.front() == '-' && std::isdigit(static_cast<unsigned char>(word[1])) != 0;
}

/// Collects settings under the framework's names.
class Collector {
 public:
  Collector(const Framework& framework, std::string file) : framework_(framework), file_(std::move(file)) {
    for (const auto& [name, argument] : framework.arguments) {
      names_.emplace(folded(name), name);
      for (const std::string& alias : argument.aliases) names_.emplace(folded(alias), name);
    }
  }

  /// Sections are joined by dots.
  void add_document(const Node& node, const std::string& path) {
    for (const Entry& e : node.entries) {
      const std::string name = path.empty() ? e.key : path + "." + e.key;
      if (e.value.kind == Node::Kind::Map && !names_.contains(folded(name))) {
        add_document(e.value, name);
      } else {
        add(name, name, e.value);
      }
    }
  }

  void add_words(const std::vector<std::string>& words, std::string_view text) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      const bool is_served = i > 0 && words[i - 1] == "serve" && names_.contains("model");  // vllm serve MODEL
      if (is_served && is_value(word)) add("model", "serve", placed(word, place_of_word(text, word, file_)));
      if (word.size() < 2 || word.front() != '-' || is_number(word)) continue;
      const std::size_t equals = word.find('=');
      const std::string shown = word.substr(0, std::min(equals, word.find(')')));
      const std::string name = shown.substr(shown.starts_with("--") ? 2 : 1);
      if (!names_.contains(folded(name))) {
        if (shown.starts_with("--") && !name.empty()) out_.unknown.push_back(shown);
        continue;
      }
      const Location where = place_of_word(text, shown, file_);
      std::vector<std::string> values;
      if (equals != std::string::npos) values.push_back(word.substr(equals + 1));
      while (values.size() < most_values(name) && i + 1 < words.size() && is_value(words[i + 1]))
        values.push_back(words[++i]);
      add(name, shown, node_of(values, where));
    }
  }

  JobSettings result() {
    if (out_.values.empty() && wrong_.empty()) {
      throw_input_error({file_}, "",
                        fmt::format("has no setting of {}; expected its configuration or its arguments, such as {}",
                                    framework_.text(), framework_.arguments.begin()->first));
    }
    wrong_.throw_if_any();
    return std::move(out_);
  }
  JobSettings& settings() { return out_; }

 private:
  static bool is_value(const std::string& word) {
    constexpr std::string_view kOperators = "|&<>;";
    return word != kEndOfValues && !word.empty() && kOperators.find(word.front()) == std::string_view::npos &&
           (!word.starts_with('-') || is_number(word));
  }
  static Node placed(std::string text, const Location& where) {
    Node out = Node::text(std::move(text));
    out.where = where;
    return out;
  }
  /// No value: true; several: a list.
  static Node node_of(const std::vector<std::string>& values, const Location& where) {
    Node out = values.size() == 1 ? placed(values.front(), where) : values.empty() ? Node::boolean(true) : Node::list();
    if (values.size() > 1) {
      for (const std::string& v : values) out.items.push_back(placed(v, where));
    }
    out.where = where;
    return out;
  }
  static std::string plain(const Node& node) {
    if (node.kind != Node::Kind::List) return node.scalar;
    return fmt::format("[{}]", fmt::join(texts(node), ", "));
  }
  static std::vector<std::string> texts(const Node& node) {
    if (node.kind != Node::Kind::List) return {node.scalar};
    std::vector<std::string> out;
    for (const Node& item : node.items) out.push_back(plain(item));
    return out;
  }

  [[nodiscard]] std::size_t most_values(const std::string& name) const {
    constexpr std::size_t kMost = 4096;
    const FrameworkArgument::Type type = framework_.arguments.at(names_.at(folded(name))).type;
    return type == FrameworkArgument::Type::Switch ? 0 : type == FrameworkArgument::Type::List ? kMost : 1;
  }

  void add(const std::string& name, const std::string& shown, Node value) {
    const auto known = names_.find(folded(name));
    if (known == names_.end()) return out_.unknown.push_back(shown);
    // A variable without a value in the file says nothing.
    if (value.kind == Node::Kind::Null || value.scalar == "auto" || value.scalar.starts_with('$')) return;
    const bool is_switch = framework_.arguments.at(known->second).type == FrameworkArgument::Type::Switch;
    if (is_switch && value.scalar == "false") {
      out_.values.erase(known->second);
      return;
    }
    planner::LaunchSetting setting{known->second};
    if (!is_switch || value.scalar != "true") setting.values = texts(value);
    if (const std::string error = planner::setting_error(framework_, setting); !error.empty())
      return wrong_.add(value.where, shown, error);
    out_.values[known->second] = std::move(value);
  }

  const Framework& framework_;
  std::string file_;
  std::map<std::string, std::string> names_;  // the framework's name by folded names and aliases
  JobSettings out_{};
  Diagnostics wrong_;
};

}  // namespace

JobSettings read_job_settings(std::string_view text, const std::string& file, const Framework& framework) {
  Collector collector(framework, file);
  if (const auto format = format_of(text, file)) {
    collector.add_document(parsed({*format, std::string(text)}, file), "");
    return collector.result();
  }
  JobWords job = job_words(text, file);
  for (const Config& config : here_documents(text, job.variables)) collector.add_document(parsed(config, file), "");
  collector.add_words(job.words, text);
  JobSettings& settings = collector.settings();
  settings.world = job.world;
  settings.environment = std::move(job.variables);
  return collector.result();
}

bool SettingsReader::flag(const std::string& name) const {
  const auto it = settings_.values.find(name);
  return it != settings_.values.end() && it->second.scalar != "false";
}

std::string SettingsReader::text(const std::string& name, std::string fallback) const {
  const auto it = settings_.values.find(name);
  return it == settings_.values.end() ? fallback : it->second.scalar;
}

std::vector<const Node*> SettingsReader::list(const std::string& name) const {
  const auto it = settings_.values.find(name);
  if (it == settings_.values.end()) return {};
  if (it->second.kind != Node::Kind::List) return {&it->second};
  std::vector<const Node*> out;
  for (const Node& item : it->second.items) out.push_back(&item);
  return out;
}

std::optional<std::int64_t> SettingsReader::count(const std::string& name, std::int64_t least) {
  if (!has(name)) return std::nullopt;
  const auto value = profiler::whole_number(text(name));
  constexpr std::int64_t kMost = 1'000'000'000;
  if (value && *value >= least && *value <= kMost) return value;
  complain(name, fmt::format("{} is out of range; expected {} to {}", in_quotes(text(name)), least, kMost));
  return least;
}

void SettingsReader::complain(const std::string& name, std::string message) {
  const auto it = settings_.values.find(name);
  wrong_.add(it == settings_.values.end() ? Location{file_} : it->second.where, name, std::move(message));
}

}  // namespace moeplan::runs
