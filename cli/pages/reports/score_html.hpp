// The report of a score: predicted against measured times as a page with figures.
#pragma once

#include <string>

#include "cli/pages/reports/html_page.hpp"

namespace moeplan::cli {

/// The report of what `score --json` printed, one section a table. `file` is the document's name in messages. Raises
/// InputError if it is another document.
[[nodiscard]] Report score_html(const std::string& document, const std::string& file);

}  // namespace moeplan::cli
