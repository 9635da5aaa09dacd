// The DDL-roofline of [FasterMoE] sec. 3.3, eqs. (3) to (6): whether an iteration is bound by computation or by
// communication, and how much of the potential benefit of overlap it realises. MODELS section 3.
#pragma once

#include <vector>

#include "model/analysis/analysis.hpp"
#include "model/base/quantity.hpp"
#include "model/program/program.hpp"

namespace moeplan {

struct DdlRoofline {
  Seconds computation;        // Lat_comp: of the binding rank, over the whole iteration, forward and backward
  Seconds communication;      // Lat_comm: likewise, from reaching a communication to its end
  double ratio = 0;           // R_CC = Lat_comp / Lat_comm, eq. (3); infinite without communication
  FlopsPerSecond computing;   // P_w: throughput while computing: the binding rank's FLOPs / Lat_comp
  FlopsPerSecond average;     // P_avg, eq. (4): the average rank's FLOPs / makespan
  FlopsPerSecond ideal;       // P_w min(1, R_CC), eq. (5): with perfect overlap
  FlopsPerSecond semi_ideal;  // P_w R_CC / (R_CC + 1), eq. (6): without overlap
};

/// Computes the roofline. FLOPs are those of the matrix products and of attention that the Program executes
/// (recomputation included), instead of eq. (4)'s count for an MoE layer's two products. Times of a rank's overlapping
/// communications are summed, in which case P_avg may exceed `ideal`.
[[nodiscard]] DdlRoofline ddl_roofline(const Program& program, SimTime makespan, const RankTime& binding);

/// FLOPs of the products and attention of the whole Program on each rank, by RankId.
[[nodiscard]] std::vector<double> flops_by_rank(const Program& program);

}  // namespace moeplan
