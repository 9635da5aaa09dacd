// The FLOPs that a model needs, whoever computes them and however often.
#pragma once

#include "model/transformer/model_spec.hpp"

namespace moeplan {

/// Forward FLOPs of one token of a sequence of `sequence_length`: two a weight that multiplies it (top_k of the routed
/// experts, the output projection too) and the attention over the keys it sees (half the sequence where causal).
/// Training is three times that ([FasterMoE] sec. 3.2: backward twice forward); recomputation does not count.
[[nodiscard]] double forward_flops_per_token(const ModelSpec& model, std::int64_t sequence_length);

}  // namespace moeplan
