// The FLOPs that a model mathematically requires, independent of parallelisation and recomputation.
#pragma once

#include "model/transformer/model_spec.hpp"

namespace moeplan {

/// Forward FLOPs of one token of a sequence of `sequence_length` tokens: two per weight that multiplies it (top_k of
/// the routed experts, including the output projection) plus attention over the keys it sees (half the sequence if
/// causal). Training takes three times as many ([FasterMoE] sec. 3.2: backward is twice forward); recomputation is not
/// counted.
[[nodiscard]] double forward_flops_per_token(const ModelSpec& model, std::int64_t sequence_length);

}  // namespace moeplan
