// One transformer layer, forward and backward, as operations of a block: attention, norms, the dense or MoE
// feed-forward part, shared experts, and the transfers of copies of placed experts (planner/layer/copy_parts.hpp).
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "planner/layer/block_builder.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/lowering/blocks/model_units.hpp"

namespace moeplan::planner {

/// The transfers of copies of experts that the block of a layer performs.
struct CopyTransfers {
  bool plans = false;              // forward: the layer's placement is planned
  bool waits = false;              // forward: the layer's experts wait for the weights of its own copies
  std::optional<MoeLayer> next{};  // forward: the layer to whose copies weights are sent concurrently
  bool collects = false;           // backward: gradients of the layer's copies are sent home
};

/// Appends the forward pass of a unit that is a layer, from "x" to "x".
void write_layer(LoweringContext& context, const ModelUnit& unit, const CopyTransfers& copies, BlockBuilder& block);
/// Appends its backward pass, from "d.x" to "d.x", with selective recomputation but not the full one.
void write_layer_backward(LoweringContext& context, const ModelUnit& unit, const CopyTransfers& copies,
                          BlockBuilder& block);

/// Appends the optimizer's step on these parameters, once their gradients are reduced: here, unless they were while the
/// backward pass ran. `clips`: their norm is limited first.
void write_optimizer(const LoweringContext& context, const UnitParameters& parameters, bool clips, BlockBuilder& block);

/// Appends a schedule's operations and, if the layer has shared experts, concurrently with its first dispatch those of
/// `shared_experts`; both end before the next operations. Without a dispatch, these follow. `during` appends operations
/// that start after the first dispatch.
void write_experts(const Schedule& schedule, MoeLayer& layer, BlockBuilder& block, bool forward,
                   const std::function<void()>& shared_experts, const std::function<void()>& during = {});

/// Sends the weights of all of a layer's copies concurrently with the operations appended next.
void send_copies(const MoeLayer& layer, BlockBuilder& block);
/// Sends the weights of the layer's own copies, for which its experts wait.
void send_own_copies(MoeLayer& layer, BlockBuilder& block);

}  // namespace moeplan::planner
