// The report of a sweep as a page with figures.
#pragma once

#include <string>

#include "cli/pages/reports/html_page.hpp"

namespace moeplan::cli {

/// The report of a sweep's database. Raises InputError if the file is none.
[[nodiscard]] Report sweep_html(const std::string& database);

}  // namespace moeplan::cli
