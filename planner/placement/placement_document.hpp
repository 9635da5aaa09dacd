// A placement in a plan file.
#pragma once

#include <cstdint>

#include "model/text/reader.hpp"
#include "planner/placement/placement.hpp"

namespace moeplan::planner {

[[nodiscard]] Node placement_document(const Placement& placement);

/// Of ranks 0 .. ranks - 1. Reports into the reader's diagnostics; what was read with any is not to be used.
[[nodiscard]] Placement read_placement(MapReader placement, std::int64_t ranks);

}  // namespace moeplan::planner
