// What must hold of a file's bytes before a parser sees them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace moeplan {

/// The offset of the first byte that is not part of well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates).
[[nodiscard]] std::optional<std::size_t> first_invalid_utf8(std::string_view text);

/// The text without a byte order mark. Raises InputError for NUL and other control characters (tab, line feed and
/// carriage return excepted) and for text that is not UTF-8. yaml-cpp takes 0x04 for the end of the file, so that what
/// follows would be dropped without a word.
[[nodiscard]] std::string_view checked_text(std::string_view text, const std::string& name);

/// Limits of a document that keep its tree within some hundred megabytes: the deepest nesting, the most nodes (keys
/// count too), and the longest key (YAML's own limit is 1,024 characters of its escaped form).
inline constexpr std::size_t kDeepestNesting = 64;
inline constexpr std::size_t kMostNodes = 1'000'000;
inline constexpr std::size_t kLongestKey = 200;

/// A file's name as every node of it keeps it: its beginning and end, where it is very long.
[[nodiscard]] std::string short_name(const std::string& name);

}  // namespace moeplan
