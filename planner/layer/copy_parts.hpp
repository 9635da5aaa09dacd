// What copies of placed experts need in training: the weights of their homes before the experts run, once an iteration
// (Trans), and their gradients brought home after the last microbatch (Agg). On the replicas' background stream, in
// order with what replicas exchange: weights are gathered before they are sent on, gradients come home before they are
// summed over replicas.
//
// Block-wise, as [Pro-Prophet] algorithm 2 has it: of the next layer that has copies, up projections go beside this
// layer's experts (SubTrans1), down projections after its combine, beside the next attention (SubTrans2); gradients go
// home beside the attention's backward pass and the layer before. The paper cuts a transfer by the time of FNEC; here
// the matrices are the parts.
#pragma once

#include "planner/layer/moe_parts.hpp"

namespace moeplan::planner {

class CopyParts {
 public:
  CopyParts(const MoeLayer& layer, BlockBuilder& block) : l_(layer), b_(block) {}

  /// Beside what is appended next; they begin after what was appended last.
  void send_up() { move("expert up weights", MoeParts(l_, b_).w_up(), /*home=*/false); }
  void send_down() { move("expert down weights", MoeParts(l_, b_).w_down(), /*home=*/false); }
  void collect_gradients() {
    move("expert down gradients", MoeParts(l_, b_).w_down("d."), /*home=*/true);
    move("expert up gradients", MoeParts(l_, b_).w_up("d."), /*home=*/true);
  }
  /// Until all that was listed before has ended. `at_start`: the whole block waits; else nothing does but who comes
  /// after the operation returned.
  std::int32_t wait(bool at_start);

 private:
  void move(const char* what, const Slice& weights, bool home);

  const MoeLayer& l_;
  BlockBuilder& b_;
};

}  // namespace moeplan::planner
