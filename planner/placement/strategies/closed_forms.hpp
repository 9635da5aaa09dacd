// The papers' closed forms of a training layer's time under a placement, next to which a simulation can be read:
// [FasterMoE] eq. 7 to 10, [Pro-Prophet] eq. 6 and 8 and its balance degree.
#pragma once

#include "planner/placement/divide.hpp"

namespace moeplan::planner {

struct PlacementForms {
  Seconds fastermoe;              // eq. 7; eq. 8 where experts have copies
  bool sends_less;                // eq. 9: copies of the experts are fewer bytes than the inputs of the fullest rank
  bool saves_more;                // eq. 10: copies save more computation than they add communication
  Seconds pro_prophet;            // T' with blocking transfers, eq. 6
  Seconds pro_prophet_scheduled;  // T' with the scheduler, eq. 8
  double balance_degree;          // standard deviation of the ranks' inputs, sec. VI-C
};

/// Of any placement: the largest load and the inputs that ranks receive from others follow from its division of tokens.
/// Copies are priced as if they were on all ranks (n = 0), where the papers' are.
[[nodiscard]] PlacementForms placement_forms(const RoutingCounts& counts, const Placement& placement,
                                             const PlacementDevices& devices);

}  // namespace moeplan::planner
