// The papers' closed forms for one MoE layer of a plan, to be read next to its simulation: [Parm] eqs. (1) to (14) and
// algorithm 1, [ScheMoE] eqs. (10), (11) and (16) to (18), [FasterMoE] figure 12's bound. Those of expert placements
// are in planner/placement/strategies/closed_forms.hpp.
#pragma once

#include <optional>
#include <span>

#include "model/costs/parm.hpp"
#include "planner/report/layer_roofline.hpp"

namespace moeplan::planner {

/// The communication time of the layer's forward pass on the plan's degrees ([Parm] sec. IV and V), by the cluster's
/// costs. N_MP is tp, N_EP ep, N_ESP esp.
struct ParmForms {
  Bytes input;       // BLM
  Bytes dispatched;  // x = ETM
  Bytes exchanged;   // y = ETM N_ESP / N_MP
  Seconds baseline;  // t_base, eq. (1)
  Seconds s1;        // t_S1, eq. (2)
  Seconds s2;        // t_S2, eq. (7): the all-gather overlaps the second all-to-all as far as links allow
  Seconds in_turn;   // the same without overlap
  /// Algorithm 1, with tensor parallelism only: t_D1, eq. (13), and t_D2, eq. (14), with alpha and beta of eq. (12)
  /// fitted to messages of y to 16 y bytes.
  struct Choice {
    Seconds t_d1, t_d2;
    ParmChoice schedule;
  };
  std::optional<Choice> choice;
};

/// How far the layer's operations overlap, simulated alone, forward and backward.
struct LayerOverlap {
  Seconds in_turn;  // t_1, [ScheMoE] eq. (10): the computation and communication of the binding rank, one by one
  Seconds time;     // t_r, eq. (11)
  Seconds hidden;   // t_hidden = t_1 - t_r; below zero where ranks wait for each other
  double bound;     // [FasterMoE] figure 12: t_1 / max(Lat_comm, Lat_comp), the most that overlap can gain
};

/// [ScheMoE] eqs. (16) to (18) for one dispatch: exchanges inside nodes next to those between nodes.
struct PipeForms {
  Seconds inside;                                                                          // t_intra
  Seconds between;                                                                         // t_inter
  [[nodiscard]] Seconds pipelined() const { return inside > between ? inside : between; }  // eq. (16)
  [[nodiscard]] Seconds in_turn() const { return inside + between; }                       // eq. (17)
  [[nodiscard]] double most() const { return in_turn() / pipelined(); }                    // S_max, eq. (18)
};

struct PaperForms {
  std::optional<ParmForms> parm;  // none without an exchange
  std::optional<LayerOverlap> overlap;
  std::optional<PipeForms> pipe;  // none unless the exchange has several ranks on several nodes
};

/// Of the model's first MoE layer; all are none without one. `points` are its layer_roofline(). Routing is even, with
/// the workload's capacity factor, or 1 without capacity.
[[nodiscard]] PaperForms paper_forms(const Problem& problem, const Candidate& plan, std::span<const LayerPoint> points);

}  // namespace moeplan::planner
