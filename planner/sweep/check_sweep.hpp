// Checks of a sweep as a whole, once its parts have been read.
#pragma once

#include "model/base/diagnostics.hpp"
#include "planner/sweep/sweep_spec.hpp"

namespace moeplan::sweep {

/// Checks that names of settings are well-formed, distinct and no names of other columns, and that what every sweep
/// needs is set.
void check_names(const SweepSpec& sweep, Diagnostics& wrong);

/// Checks names of files, schedules and placements; with a misspelt name all rows would only repeat the error.
void check_values(const SweepSpec& sweep, Diagnostics& wrong);

/// Adds the grid positions at which all conditions hold. Complains if there are none, or too many.
void add_cases(SweepSpec& sweep, Diagnostics& wrong);

}  // namespace moeplan::sweep
