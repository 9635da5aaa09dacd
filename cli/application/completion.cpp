#include "cli/application/completion.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <array>
#include <regex>
#include <utility>

#include "cli/application/option_parts.hpp"

namespace moeplan::cli {

namespace {

/// Options whose values `moeplan list` shows, and under which word.
constexpr std::array<std::pair<const char*, const char*>, 9> kListedOptions{{{"--cluster", "clusters"},
                                                                             {"--model", "models"},
                                                                             {"--workload", "workloads"},
                                                                             {"--gpu", "gpus"},
                                                                             {"--schedule", "schedules"},
                                                                             {"--dispatcher", "all-to-all"},
                                                                             {"--placement", "placements"},
                                                                             {"--codec", "codecs"},
                                                                             {"--framework", "frameworks"}}};
/// Those of `moeplan price`, which reads one file of figures instead of a whole cluster.
constexpr std::array<std::pair<const char*, const char*>, 2> kListedPriceOptions{
    {{"--cluster", "collective-models"}, {"--gpu", "operator-models"}}};

constexpr const char* kScript = R"(_moeplan() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command= options= values= listed= with_files=yes i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command ${COMP_WORDS[i]}" in
@WORDS@      *) ;;
    esac
  done
  case $command in
@COMMANDS@  esac
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
    return
  fi
  if [[ -n $listed ]]; then
    values=$("${COMP_WORDS[0]}" list "$listed" 2>/dev/null | cut -d' ' -f1)
  fi
  COMPREPLY=($(compgen -W "$values" -- "$current"))
  if [[ -n $with_files ]]; then
    compopt -o filenames 2>/dev/null
    COMPREPLY+=($(compgen -f -- "$current"))
  fi
}
complete -F _moeplan moeplan
)";

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  return text.replace(text.find(what), what.size(), by);
}

/// The names of a help text that is a list of them ("deepep, hybridep"), separated by spaces; "" for any other text.
std::string named_in_help(const OptionParts& option) {
  static const std::regex kList(R"((\w+(?:, \w+)+)(?: \[.*\])?)");
  std::smatch list;
  return std::regex_match(option.about, list, kList) ? std::regex_replace(list[1].str(), std::regex(","), "") : "";
}

/// The word under which `moeplan list` shows the values of an option of the command at `path`; "" if it does not.
std::string_view listed_as(const std::string& path, const std::string& option) {
  if (path.starts_with(" price")) {
    for (const auto& [name, word] : kListedPriceOptions) {
      if (option == name) return word;
    }
  }
  for (const auto& [name, word] : kListedOptions) {
    if (option == name) return word;
  }
  return "";
}

/// The lines that set what may follow an option of the command at `path`.
std::string after_option(const std::string& path, const OptionParts& option) {
  const std::string names = fmt::format("{}", fmt::join(option.names, "|"));
  if (const std::string usual = named_in_help(option); !usual.empty())
    return fmt::format("        {}) values='{}' ;;\n", names, usual);
  if (const std::string_view word = listed_as(path, option.names.back()); !word.empty())
    return fmt::format("        {}) listed={} ;;\n", names, word);
  if (!option.values.empty())
    return fmt::format("        {}) values='{}' with_files= ;;\n", names, fmt::join(option.values, " "));
  if (option.value != "TEXT") return fmt::format("        {}) values= with_files= ;;\n", names);  // a number
  return fmt::format("        {}) values= ;;\n", names);
}

/// The case of a command and those of the commands in it; `path` is "" or " import megatron".
void add_cases(const CLI::App& command, const std::string& path, std::string& words, std::string& cases) {
  std::vector<std::string> options, values;
  std::string after;
  for (const OptionParts& o : option_parts(command)) {
    options.insert(options.end(), o.names.begin(), o.names.end());
    values.insert(values.end(), o.values.begin(), o.argument.empty() ? o.values.begin() : o.values.end());
    if (!o.names.empty() && !o.value.empty()) after += after_option(path, o);
  }
  for (const CLI::App* sub : subcommands(command)) values.push_back(sub->get_name());
  cases += fmt::format("    '{}')\n      options='{}'\n", path, fmt::join(options, " "));
  if (!values.empty()) cases += fmt::format("      values='{}' with_files=\n", fmt::join(values, " "));
  if (!after.empty()) cases += fmt::format("      case $previous in\n{}      esac\n", after);
  cases += "      ;;\n";
  for (const CLI::App* sub : subcommands(command)) {
    const std::string full = fmt::format("{} {}", path, sub->get_name());
    words += fmt::format("      '{}') command='{}' ;;\n", full, full);
    add_cases(*sub, full, words, cases);
  }
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  std::string words, cases;
  add_cases(app, "", words, cases);
  const std::string script = replaced(replaced(kScript, "@WORDS@", words), "@COMMANDS@", cases);
  return "# Completion of moeplan in bash, generated from the definitions of its options.\n" + script;
}

}  // namespace moeplan::cli
