// The SHA-256 hash (FIPS 180-4), used to identify content.
#pragma once

#include <string>
#include <string_view>

namespace moeplan {

/// The hash as 64 lower-case hexadecimal digits.
[[nodiscard]] std::string sha256(std::string_view content);

}  // namespace moeplan
