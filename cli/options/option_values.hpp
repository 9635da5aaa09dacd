// Parsers for option values shared by several subcommands.
#pragma once

#include <string>
#include <vector>

#include "model/base/quantity.hpp"

namespace moeplan::cli {

/// A duration such as "60s", "500 ms" or, in minutes, "5m"; positive, at most one day. Raises an InputError that names
/// the option.
[[nodiscard]] Seconds duration_option(const std::string& option, const std::string& text);

/// A number of tokens, above 0: "15T", "500B", "2.5e12" (K, M, B or G, T: powers of a thousand). Raises an InputError
/// that names the option.
[[nodiscard]] double token_count_option(const std::string& option, const std::string& text);

/// Bandwidths separated by commas, each above 0: "200Gbps,400Gbps". Raises an InputError that names the option, with
/// every one that is wrong.
[[nodiscard]] std::vector<BytesPerSecond> bandwidth_list_option(const std::string& option, const std::string& text);

}  // namespace moeplan::cli
