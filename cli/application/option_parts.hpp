// What the definition of an option says, as manual pages and completion show it.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace moeplan::cli {

/// An option or an argument of a command.
struct OptionParts {
  std::vector<std::string> names;   // "-o", "--output"; empty for an argument
  std::string argument;             // the name of an argument without dashes; "" for options
  std::string value;                // "TEXT", "INT", "FLOAT"; "" for flags
  std::vector<std::string> values;  // if only these are taken
  std::string about;                // the help text, with the range of numbers and the default value
  bool is_required = false;
};

/// The values of a set as CLI11 prints it: of "a,b", or of "a->0,b->1" a and b.
[[nodiscard]] std::vector<std::string> set_values(const std::string& list);

[[nodiscard]] OptionParts option_parts_of(const CLI::Option& option);

/// All options of a command in the order of their definition, --help first.
[[nodiscard]] std::vector<OptionParts> option_parts(const CLI::App& command);

/// The subcommands of a command, in the order of their definition.
[[nodiscard]] std::vector<const CLI::App*> subcommands(const CLI::App& command);

}  // namespace moeplan::cli
