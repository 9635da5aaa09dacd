// The rows of a paper as a plot: our number over the published one, on a logarithmic axis.
#pragma once

#include <string>

#include "planner/reproduction/reproduction.hpp"

namespace moeplan::cli {

/// An SVG document with a line for each row: its name, its place in the paper, both numbers, the tolerance as a bar
/// around 1 and our number as a dot; rows out of the axis (1/4 to 4) are at its ends. The same result gives the same
/// bytes.
[[nodiscard]] std::string reproduction_plot(const reproduction::PaperResult& result);

}  // namespace moeplan::cli
