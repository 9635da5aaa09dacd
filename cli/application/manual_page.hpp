// Manual pages in the language of man(7), from the definitions of the options.
#pragma once

#include <map>
#include <string>

namespace CLI {
class App;
}

namespace moeplan::cli {

/// The pages by the name of their file: moeplan.1, and one a subcommand: moeplan-plan.1. Deterministic.
[[nodiscard]] std::map<std::string, std::string> manual_pages(const CLI::App& app);

}  // namespace moeplan::cli
