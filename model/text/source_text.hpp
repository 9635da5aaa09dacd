// Checks on the raw bytes of a file before parsing.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "model/base/diagnostics.hpp"

namespace moeplan {

/// The line and the column, both from 1, of an offset in the text; an offset beyond its end is its end.
[[nodiscard]] Location location_at(std::string_view text, std::size_t offset, const std::string& name);

/// The offset of the first byte that is not part of well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates).
[[nodiscard]] std::optional<std::size_t> first_invalid_utf8(std::string_view text);

/// The text without its byte order mark. Raises InputError for NUL and other control characters (except tab, line feed
/// and carriage return) and for invalid UTF-8. yaml-cpp treats 0x04 as the end of the file and would silently drop what
/// follows.
[[nodiscard]] std::string_view checked_text(std::string_view text, const std::string& name);

/// Limits that keep the tree of a document within a few hundred megabytes: maximum nesting depth, maximum number of
/// nodes (including keys), and maximum key length (YAML's own limit is 1,024 characters of the escaped form).
inline constexpr std::size_t kDeepestNesting = 64;
inline constexpr std::size_t kMostNodes = 1'000'000;
inline constexpr std::size_t kLongestKey = 200;

/// A file name as stored in every node: shortened to its beginning and end if it is very long.
[[nodiscard]] std::string short_name(const std::string& name);

}  // namespace moeplan
