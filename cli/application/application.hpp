// The command line: all subcommands, and what is printed for arguments that cannot be read.
#pragma once

#include <string>

#include "cli/commands/commands.hpp"

namespace CLI {
class ParseError;
}

namespace moeplan::cli {

/// Adds name, description, version and all subcommands.
void add_commands(CLI::App& app, ExitCode& code);

/// What is wrong with the arguments that `app` could not parse, a line each: unknown subcommands and options with the
/// nearest name, values of the wrong type, what is missing.
[[nodiscard]] std::string parse_error_text(const CLI::App& app, const CLI::ParseError& error);

}  // namespace moeplan::cli
