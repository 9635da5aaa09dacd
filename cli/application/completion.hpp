// Completion of arguments in bash, from the definitions of the options.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace moeplan::cli {

/// A script for bash: subcommands, options, their values, and the names of configurations and built-ins, for which it
/// calls `moeplan list` of the executable that is being completed. Deterministic.
[[nodiscard]] std::string bash_completion(const CLI::App& app);

}  // namespace moeplan::cli
