// The message sizes of a collective: the option `--sizes 1KiB:1GiB:2`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moeplan::cli {

inline constexpr std::size_t kMostSizes = 100;
inline constexpr double kLargestSize = 1099511627776;  // bytes, 1 TiB: exceeds the memory of any GPU

/// Parses `MIN:MAX:FACTOR`: the sizes MIN, MIN FACTOR, MIN FACTOR^2, ... up to MAX, in whole bytes (rounded down,
/// without repetitions). MIN and MAX have units, or nccl-tests' letters: 1M:1G:8 is 1MiB:1GiB:8. 1 B <= MIN <= MAX <= 1
/// TiB; FACTOR is a number > 1. Raises InputError with every error found, or for more than 100 sizes.
[[nodiscard]] std::vector<std::int64_t> parse_message_sizes(const std::string& text);

}  // namespace moeplan::cli
