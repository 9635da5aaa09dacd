// Transfers for copies of placed experts in training: once per iteration, weights from their homes before the experts
// run (Trans), and gradients to their homes after the last microbatch (Agg). They run on the replicas' background
// stream, in order with the exchanges between replicas: weights are gathered before they are forwarded, and gradients
// reach their home before they are summed over replicas.
//
// The placement's strategy chooses one of two modes. Blocking, as in [FasterMoE] sec. 4.2: a layer's weights are sent
// between its own dispatch and combine, and its gradients after its backward pass; the layer waits for both. All
// experts wait for the weights, in the smart schedule only those of its last step.
//
// Otherwise transfers are block-wise, as in [Pro-Prophet] algorithm 2. For the next layer that has copies, up
// projections are sent concurrently with this layer's experts (SubTrans1), and down projections after its combine,
// concurrently with the next attention (SubTrans2); gradients are sent home concurrently with the backward pass of
// attention and of the preceding layer. The paper splits a transfer by the time of FNEC; here the split is by matrix.
#pragma once

#include "planner/layer/moe_parts.hpp"

namespace moeplan::planner {

/// Writes the transfers of one layer into a block.
class CopyParts {
 public:
  CopyParts(const MoeLayer& layer, BlockBuilder& block) : l_(layer), b_(block) {}

  /// These transfers start after the operation appended last, concurrently with the operations appended next.
  void send_up() { move("expert up weights", MoeParts(l_, b_).w_up(), /*home=*/false); }
  void send_down() { move("expert down weights", MoeParts(l_, b_).w_down(), /*home=*/false); }
  void collect_gradients() {
    move("expert down gradients", MoeParts(l_, b_).w_down("d."), /*home=*/true);
    move("expert up gradients", MoeParts(l_, b_).w_up("d."), /*home=*/true);
  }
  /// Appends a wait for all transfers listed before it. With `at_start` the whole block waits; otherwise only
  /// operations that depend on the returned one.
  std::int32_t wait(bool at_start);

 private:
  void move(const char* what, const Slice& weights, bool home);

  const MoeLayer& l_;
  BlockBuilder& b_;
};

}  // namespace moeplan::planner
