// The reader of sweep files.
#pragma once

#include <string>
#include <vector>

#include "model/text/document.hpp"
#include "planner/sweep/sweep_spec.hpp"

namespace moeplan::sweep {

/// Reads a sweep file strictly. `overrides`, in the syntax of -C, are additional base values. Raises InputError with
/// everything that is wrong, including unknown names of files and schedules.
[[nodiscard]] SweepSpec read_sweep(const Node& document, const std::string& source,
                                   const std::vector<std::string>& overrides = {});

}  // namespace moeplan::sweep
