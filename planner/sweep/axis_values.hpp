// The values of a sweep's axis, given as a list or as a range such as `1KiB:1GiB:2` or `0:1:+0.25`.
#pragma once

#include <string>
#include <vector>

#include "model/text/document.hpp"
#include "model/text/reader.hpp"

namespace moeplan::sweep {

inline constexpr std::size_t kMostAxisValues = 10'000;

/// The values that a text denotes. `FIRST:LAST:FACTOR` is FIRST, FIRST FACTOR, FIRST FACTOR^2 ... up to LAST;
/// `FIRST:LAST:+STEP` adds. FIRST and LAST are numbers, or quantities of one kind; a factor is > 1, and a step is > 0
/// and of the same kind. LAST is included if it is reached within rounding (one part in 10^9). A quantity is written in
/// the larger of the units of FIRST and LAST in which it is a whole number, otherwise in the unit of FIRST. Any other
/// text is a single value. Reports into `diagnostics`.
[[nodiscard]] std::vector<std::string> values_of_text(const std::string& text, const Location& where,
                                                      const std::string& key_path, Diagnostics& diagnostics);

enum class Repeats { Refused, Allowed };  // whether one axis may list a value twice

/// The values of a node: a list of values and ranges, or a single one. Reports non-scalars, empty lists, more than
/// 10,000 values and, unless `repeats` allows them, duplicates.
[[nodiscard]] std::vector<std::string> axis_values(const Node& node, const std::string& key_path,
                                                   Diagnostics& diagnostics, Repeats repeats = Repeats::Refused);

}  // namespace moeplan::sweep
