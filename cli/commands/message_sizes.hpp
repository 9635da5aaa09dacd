// The sizes that a collective is asked for: `--sizes 1KiB:1GiB:2`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moeplan::cli {

inline constexpr std::size_t kMostSizes = 100;
inline constexpr double kLargestSize = 1099511627776;  // bytes, 1 TiB: more than any GPU's memory holds

/// `MIN:MAX:FACTOR`: MIN, MIN FACTOR, MIN FACTOR^2 ... up to MAX, each in whole bytes (rounded down, repeated ones left
/// out). MIN and MAX with units, 1 B <= MIN <= MAX <= 1 TiB; FACTOR a number > 1. Raises InputError with everything
/// that is wrong, or where these are more than 100 sizes.
[[nodiscard]] std::vector<std::int64_t> parse_message_sizes(const std::string& text);

}  // namespace moeplan::cli
