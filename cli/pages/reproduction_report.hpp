// The page and the JSON of `moeplan reproduce`.
#pragma once

#include <string>
#include <vector>

#include "planner/reproduction/reproduction.hpp"

namespace moeplan::cli {

/// A paper with its declarations, its rows and the number of scored rows that pass.
[[nodiscard]] std::string reproduction_page(const reproduction::PaperResult& result);
/// "all: 40 of 83 scored rows pass", for several papers.
[[nodiscard]] std::string reproduction_summary(const std::vector<reproduction::PaperResult>& results);
/// JSON according to docs/schema/reproduce.json.
[[nodiscard]] std::string reproduction_json(const std::vector<reproduction::PaperResult>& results);

}  // namespace moeplan::cli
