// Values of options that several subcommands have.
#pragma once

#include <string>

#include "model/base/quantity.hpp"

namespace moeplan::cli {

/// "60s", "500 ms", or minutes as in "5m"; more than 0, at most a day. Raises InputError that names the option.
[[nodiscard]] Seconds duration_option(const std::string& option, const std::string& text);

}  // namespace moeplan::cli
