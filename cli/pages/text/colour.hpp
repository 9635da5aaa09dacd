// Colours of pages on a terminal. Pages themselves are plain text.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace moeplan::cli {

/// Whether what is written to `file` is coloured: it is a terminal that is not dumb, and NO_COLOR
/// (https://no-color.org) is not set.
[[nodiscard]] bool is_coloured(std::FILE* file);

/// The page with labels (labelled()) in bold and failures ("FAIL", "WRONG", "no feasible plan" ...) in red, by ANSI
/// escape codes. Without them it is the same text.
[[nodiscard]] std::string coloured(std::string_view page);

/// Prints a page, coloured where is_coloured().
void print_page(std::FILE* file, std::string_view page);

}  // namespace moeplan::cli
