#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <regex>
#include <vector>

#include "cli/application/application.hpp"
#include "cli/application/option_parts.hpp"
#include "model/base/diagnostics.hpp"

namespace moeplan::cli {

namespace {

/// "moeplan import megatron": the application, and the subcommands given.
std::string full_name(const CLI::App& app) {
  return app.get_parent() ? full_name(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

/// The innermost subcommand that was given.
const CLI::App& given_command(const CLI::App& app) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  return given.empty() ? app : given_command(*given.back());
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : subcommands(app)) names.push_back(command->get_name());
  return names;
}

/// ; did you mean "--cluster"?
std::string nearest_text(const std::string& name, const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(name, known);
  return nearest.empty() ? "" : fmt::format("; did you mean {}?", in_quotes(nearest));
}

/// Arguments that nothing takes, which CLI11 reports only if nothing else is wrong.
std::vector<std::string> unknown_arguments(const CLI::App& app) {
  const CLI::App& command = given_command(app);
  std::vector<std::string> lines;
  for (const std::string& argument : app.remaining(true)) {
    const std::string name = argument.substr(0, argument.find('='));
    if (argument.starts_with("-")) {
      lines.push_back(fmt::format("{}: {} has no such option{}", name, full_name(command),
                                  nearest_text(name, option_names(command))));
    } else if (const std::vector<std::string> names = subcommand_names(command); !names.empty()) {
      lines.push_back(
          fmt::format("{}: is no command of {}{}", argument, full_name(command), nearest_text(argument, names)));
      return lines;              // what follows are its arguments
    } else if (lines.empty()) {  // else it is the value of an unknown option
      lines.push_back(fmt::format("{}: {} takes no such argument", argument, full_name(command)));
    }
  }
  return lines;
}

/// CLI11's text about one value in the form of our errors, if it is one of those: "Could not convert: --world = abc",
/// "--top: Value 0 not in range 1 to 100", "--inputs: dsik not in {embedded,disk}".
std::string value_error(const std::string& what) {
  static const std::regex kConversion("Could not convert: (\\S+) = (.*)"),
      kRange("(\\S+): Value (.*) not in range (\\S+) to (\\S+)"), kMissing("(\\S+): 1 required .* missing"),
      kRepeated("(\\S+): At Most 1 required but received (\\d+)"),
      kMember("(\\S+): (?:Check )?(.*?) (?:value )?(?:not )?in \\{(.*?)\\}.*");
  std::smatch part;
  if (std::regex_match(what, part, kConversion))
    return fmt::format("{}: {} is not a number", part[1].str(), in_quotes(part[2].str()));
  if (std::regex_match(what, part, kRange)) {
    return fmt::format("{}: {} is not a number from {} to {}", part[1].str(), in_quotes(part[2].str()), part[3].str(),
                       part[4].str());
  }
  if (std::regex_match(what, part, kMissing)) return fmt::format("{}: its value is missing", part[1].str());
  if (std::regex_match(what, part, kRepeated))
    return fmt::format("{}: is given {} times, but can be given only once", part[1].str(), part[2].str());
  if (std::regex_match(what, part, kMember)) {
    return fmt::format("{}: {} is not known{}", part[1].str(), in_quotes(part[2].str()),
                       suggestion(part[2].str(), set_values(part[3].str())));
  }
  return what;
}

}  // namespace

std::string parse_error_text(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = given_command(app);
  std::vector<std::string> lines = unknown_arguments(app);
  const std::string what = error.what();
  // "A subcommand is required" says less than that the one given is unknown.
  const bool is_said =
      dynamic_cast<const CLI::ExtrasError*>(&error) || (!lines.empty() && what.starts_with("A subcommand is required"));
  if (!is_said) lines.push_back(value_error(what));
  if (lines.empty()) lines.push_back(what);
  return fmt::format("{}\nSee {} --help.", fmt::join(lines, "\n"), full_name(command));
}

}  // namespace moeplan::cli
