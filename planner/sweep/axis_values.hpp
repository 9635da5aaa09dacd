// The values of a sweep's axis: a list, or a range such as `1KiB:1GiB:2` or `0:1:+0.25`.
#pragma once

#include <string>
#include <vector>

#include "model/text/document.hpp"
#include "model/text/reader.hpp"

namespace moeplan::sweep {

inline constexpr std::size_t kMostAxisValues = 10'000;

/// `FIRST:LAST:FACTOR`: FIRST, FIRST FACTOR, FIRST FACTOR^2 ... up to LAST; `FIRST:LAST:+STEP` adds. FIRST and LAST are
/// numbers, or quantities of one kind; a factor is > 1, a step > 0 and of their kind. LAST is one of the values where
/// it is reached but for rounding (one part in 10^9). A quantity is written in the largest of the units of FIRST and
/// LAST in which it is a whole number, else in that of FIRST. Any other text is one value. Reports into `diagnostics`.
[[nodiscard]] std::vector<std::string> values_of_text(const std::string& text, const Location& where,
                                                      const std::string& key_path, Diagnostics& diagnostics);

enum class Repeats { Refused, Allowed };  // of a value of one axis

/// Of a list, whose elements are values or ranges, or of a single one. Reports what is no scalar, empty lists, values
/// that occur twice unless that is allowed, and more than 10,000 values.
[[nodiscard]] std::vector<std::string> axis_values(const Node& node, const std::string& key_path,
                                                   Diagnostics& diagnostics, Repeats repeats = Repeats::Refused);

}  // namespace moeplan::sweep
