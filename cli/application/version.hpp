// What this build of moeplan is.
#pragma once

#include <string>

namespace moeplan::cli {

/// The version: "0.1.0".
[[nodiscard]] std::string version();

/// The commit of the sources, 12 digits, with "-modified" if they differ from it; "unknown" outside a repository.
[[nodiscard]] std::string commit();

/// Two lines: name and version, and commit.
[[nodiscard]] std::string version_page();

/// Which back ends are installed next to this executable.
[[nodiscard]] std::string back_ends_line();

}  // namespace moeplan::cli
