// Texts of a page, wrapped at its width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moeplan::cli {

/// The columns of every page: tables are no wider, and texts are wrapped.
inline constexpr std::size_t kPageColumns = 100;
/// The column in which the texts of labelled lines begin.
inline constexpr std::size_t kTextColumn = 17;

/// "  label          text", wrapped at spaces, with every line ended. The text and its further lines begin at `column`
/// (counted from 0), or after a label that reaches beyond it. A word longer than a line stands alone on one, and
/// a number stays with the word after it, its unit.
[[nodiscard]] std::string labelled(std::string_view label, std::string_view text, std::size_t column = kTextColumn);

/// A paragraph, indented by two columns.
[[nodiscard]] std::string in_lines(std::string_view text);

/// The text cut to what fits behind a label in one line, with "..." if it was longer.
[[nodiscard]] std::string shortened(const std::string& text);

}  // namespace moeplan::cli
