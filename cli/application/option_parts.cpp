#include "cli/application/option_parts.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <regex>

namespace moeplan::cli {

namespace {

/// CLI11 appends checks to the type of a value: TEXT:{a,b}, INT:INT in [1 - 100].
void read_type(const CLI::Option& option, OptionParts& parts) {
  const std::string type = option.get_type_name();
  const std::size_t colon = type.find(':');
  parts.value = type.substr(0, colon);
  const std::string check = colon == std::string::npos ? "" : type.substr(colon + 1);
  std::smatch set;  // {a,b}, or of a transformer: value in {a->0,b->1} OR {0,1}
  if (std::regex_match(check, set, std::regex(R"((?:value in )?\{(.*?)\}.*)"))) parts.values = set_values(set[1].str());
  std::smatch range;
  if (std::regex_search(check, range, std::regex(R"(in \[(\S+) - (\S+)\])")))
    parts.about += fmt::format(" ({} to {})", range[1].str(), range[2].str());
}

}  // namespace

OptionParts option_parts_of(const CLI::Option& option) {
  OptionParts parts;
  parts.about = option.get_description();
  parts.is_required = option.get_required();
  for (const std::string& name : option.get_snames()) parts.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) parts.names.push_back("--" + name);
  if (parts.names.empty()) parts.argument = option.get_name();
  if (option.get_expected_max() > 0) read_type(option, parts);
  if (const std::string given = option.get_default_str(); !given.empty()) parts.about += fmt::format(" [{}]", given);
  return parts;
}

std::vector<std::string> set_values(const std::string& list) {
  std::vector<std::string> values;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    values.push_back(list.substr(begin, std::min(list.find("->", begin), end) - begin));
    begin = end + 1;
  }
  return values;
}

std::vector<OptionParts> option_parts(const CLI::App& command) {
  std::vector<OptionParts> out;
  for (const CLI::Option* option : command.get_options()) out.push_back(option_parts_of(*option));
  return out;
}

std::vector<const CLI::App*> subcommands(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App*) { return true; });
}

}  // namespace moeplan::cli
