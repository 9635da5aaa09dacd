// Parsers for option values shared by several subcommands.
#pragma once

#include <string>

#include "model/base/quantity.hpp"

namespace moeplan::cli {

/// A duration such as "60s", "500 ms" or, in minutes, "5m"; positive, at most one day. Raises an InputError that names
/// the option.
[[nodiscard]] Seconds duration_option(const std::string& option, const std::string& text);

}  // namespace moeplan::cli
