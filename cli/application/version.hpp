// What this build of moeplan is.
#pragma once

#include <string>

namespace moeplan::cli {

/// The version: "0.1.0".
[[nodiscard]] std::string version();

/// The commit of the sources, 12 digits, with "-modified" if they differ from it; "unknown" outside a repository.
[[nodiscard]] std::string commit();

/// Three lines: name and version, commit, and which back ends execute plans.
[[nodiscard]] std::string version_page();

}  // namespace moeplan::cli
