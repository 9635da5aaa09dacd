// The MoE layer's layout in systems whose MoE layer does not use tensor parallelism ([Parm] fig. 3a; MODELS section 7):
// every tensor-parallel rank dispatches all tokens of its group, and an expert's shards process all tokens of their
// group.
//
//   forward   AG_ESP - gate - encode - A2A_EP - experts - AR_ESP - A2A_EP - decode - (ESP-Split)
//   backward  AG_ESP - decode' - A2A_EP - experts' - A2A_EP - encode' - RS_ESP - gate'
//
// With sequence parallelism, or without tensor parallelism and expert shards, only gate, exchanges and experts remain.
#pragma once

#include "planner/layer/expert_round.hpp"

namespace moeplan::planner {

/// Base class of the schedules with this layout. A derived class defines the path of the rows between encode and
/// decode.
class BaselineLayout : public Schedule {
 public:
  std::optional<Degrees> least_as_s1(const Degrees& d) const override { return d; }
  void lower_forward(const MoeLayer& layer, BlockBuilder& block) const final;
  void lower_backward(const MoeLayer& layer, BlockBuilder& block) const final;

 private:
  /// The chunks and the order of their tasks; by default each step runs for all chunks before the next step. The layout
  /// sets groups, sources and direction.
  [[nodiscard]] virtual ExpertRound round(std::int64_t chunks) const;
};

}  // namespace moeplan::planner
