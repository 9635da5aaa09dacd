// Local search that improves a placement by small changes, priced by layer_time().
//
// Every change involves an expert of the rank with the largest load or of the rank with the busiest port: the expert
// swaps with another one, moves to a free slot, gains a holder, loses one, or divides its tokens differently. A change
// is accepted if the price falls, or if it stays equal and loads become more even. At a local optimum a few random
// swaps are made and the search continues from there; the best placement seen is returned. Deterministic: the budget is
// a number of priced changes.
#pragma once

#include <cstdint>
#include <optional>

#include "model/base/random.hpp"
#include "planner/placement/layer_time.hpp"

namespace moeplan::planner {

/// The terms of a placement's price.
struct SearchTerms {
  PlacementDevices devices;
  const Placement* current = nullptr;  // adds migration_time() / iterations to every price
  std::int64_t iterations = 1;
};

/// The result of the search.
struct ImprovedPlacement {
  Placement placement;
  Seconds price{};  // at most that of the start
  std::int64_t trials = 0;
};

/// Improves `start`, which must be valid (placement_error()); so is the result.
[[nodiscard]] ImprovedPlacement improve_placement(const ExpertColumns& columns, const SearchTerms& terms,
                                                  Placement start, std::int64_t trials);

}  // namespace moeplan::planner
