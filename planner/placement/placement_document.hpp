// Serialisation of placements in plan files.
#pragma once

#include <cstdint>

#include "model/text/reader.hpp"
#include "planner/placement/placement.hpp"

namespace moeplan::planner {

[[nodiscard]] Node placement_document(const Placement& placement);

/// Reads a placement on ranks 0 .. ranks - 1. Reports into the reader's diagnostics; a result with diagnostics must not
/// be used.
[[nodiscard]] Placement read_placement(MapReader placement, std::int64_t ranks);

}  // namespace moeplan::planner
