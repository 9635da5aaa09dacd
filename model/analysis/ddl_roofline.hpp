// The DDL-roofline of [FasterMoE] sec. 3.3, eqs. (3) to (6): is an iteration bound by computation or by communication,
// and how much of what overlap could give does it get. MODELS section 3.
#pragma once

#include <vector>

#include "model/analysis/analysis.hpp"
#include "model/base/quantity.hpp"
#include "model/program/program.hpp"

namespace moeplan {

struct DdlRoofline {
  Seconds computation;        // Lat_comp: of the binding rank, over the whole iteration, forward and backward
  Seconds communication;      // Lat_comm: the same, from reaching a communication to its end
  double ratio = 0;           // R_CC = Lat_comp / Lat_comm, eq. (3); infinite without communication
  FlopsPerSecond computing;   // P_w: what a GPU does while it computes: the binding rank's FLOPs over Lat_comp
  FlopsPerSecond average;     // P_avg, eq. (4): the average rank's FLOPs over the makespan
  FlopsPerSecond ideal;       // P_w min(1, R_CC), eq. (5): the shorter of the two hides wholly behind the longer
  FlopsPerSecond semi_ideal;  // P_w R_CC / (R_CC + 1), eq. (6): nothing overlaps
};

/// FLOPs are those of the matrix products and of attention as the Program runs them (recomputation included), in place
/// of eq. (4)'s count for an MoE layer's two products. Where a rank's communications overlap one another their times
/// are summed, so P_avg may then lie above `ideal`.
[[nodiscard]] DdlRoofline ddl_roofline(const Program& program, SimTime makespan, const RankTime& binding);

/// FLOPs of the products and attention of the whole run on each rank, by RankId.
[[nodiscard]] std::vector<double> flops_by_rank(const Program& program);

}  // namespace moeplan
