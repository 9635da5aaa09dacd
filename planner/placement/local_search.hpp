// Improving a placement by small changes, priced by layer_time().
//
// A change touches an expert of the rank with the largest load or at the busiest port: it changes places with another
// expert, moves to a free slot, gets another holder, loses one, or divides its tokens otherwise. A change is taken if
// the price falls, or stays and loads are more even. Where none is left, a few random exchanges are made and the search
// goes on from there; the best placement seen is the answer. Deterministic: the budget is a number of priced changes.
#pragma once

#include <cstdint>
#include <optional>

#include "model/base/random.hpp"
#include "planner/placement/layer_time.hpp"

namespace moeplan::planner {

struct SearchTerms {
  PlacementDevices devices;
  const Placement* current = nullptr;  // adds migration_time() / iterations to every price
  std::int64_t iterations = 1;
};

struct ImprovedPlacement {
  Placement placement;
  Seconds price{};  // never more than that of the start
  std::int64_t trials = 0;
};

/// `start` has no flaw, nor has the result.
[[nodiscard]] ImprovedPlacement improve_placement(const ExpertColumns& columns, const SearchTerms& terms,
                                                  Placement start, std::int64_t trials);

}  // namespace moeplan::planner
