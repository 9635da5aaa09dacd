// The MoE layer as systems without tensor parallelism of their own run it ([Parm] fig. 3a; MODELS section 7): every
// tensor-parallel rank dispatches all of its group's tokens, and an expert's shards see all tokens of their group.
//
//   forward   AG_ESP - gate - encode - A2A_EP - experts - AR_ESP - A2A_EP - decode - (ESP-Split)
//   backward  AG_ESP - decode' - A2A_EP - experts' - A2A_EP - encode' - RS_ESP - gate'
//
// With sequence parallelism, or without tensor parallelism and shards, only gate, exchanges and experts are left.
#pragma once

#include "planner/layer/expert_round.hpp"

namespace moeplan::planner {

/// A schedule of this layout: what it adds is the way of the rows between encode and decode.
class BaselineLayout : public Schedule {
 public:
  void lower_forward(const MoeLayer& layer, BlockBuilder& block) const final;
  void lower_backward(const MoeLayer& layer, BlockBuilder& block) const final;

 private:
  /// An order of so many chunks, and what they are: here each step for all of them before the next. Groups, sources and
  /// direction are the layout's.
  [[nodiscard]] virtual ExpertRound round(std::int64_t chunks) const;
};

}  // namespace moeplan::planner
