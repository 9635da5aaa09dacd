// Two microbatches at once: the backward pass of one through a layer, concurrently with the forward pass of the next
// through another layer, so that the exchanges of each overlap the computation of the other (Megatron-LM's
// overlap_moe_expert_parallel_comm; DualPipe's pairs of chunks [DeepSeek-V3] sec. 3.2.1).
#pragma once

#include "model/program/program.hpp"

namespace moeplan::planner {

/// The operations of both blocks in turns: those of `backward` up to its first exchange of tokens, those of `forward`
/// up to its first exchange, and so on; thus each stream has, in order,
///
///   compute   gradients of the combine | attention, gate | gradients of the experts | experts | the rest of both
///   inter     dispatch of gradients    | dispatch        | combine of gradients     | combine
///
/// Dependencies are those within each block. The host launches the operations of both. If weight gradients are delayed,
/// those of `backward` run when the exchange that follows them has been launched, which overlaps with them
/// (Megatron-LM's delay_wgrad_compute; DualPipe's parts W): the experts' before `forward`'s experts.
[[nodiscard]] Block paired(const Block& backward, const Block& forward, bool delays_weight_gradients);

}  // namespace moeplan::planner
