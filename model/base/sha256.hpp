// SHA-256 (FIPS 180-4): a name for content, equal only where the content is.
#pragma once

#include <string>
#include <string_view>

namespace moeplan {

/// 64 lower-case hexadecimal digits.
[[nodiscard]] std::string sha256(std::string_view content);

}  // namespace moeplan
