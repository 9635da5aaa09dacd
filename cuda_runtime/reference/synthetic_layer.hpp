// Synthetic tokens and weights of an MoE layer: deterministic for a seed, and such that the gate selects exactly the
// planned experts.
//
// Column e of the gate is the unit vector e plus small noise. A token has +1 .. +1.5 at the elements of the experts
// that it selects, -1 .. -1.5 at those of the other experts, and normal values elsewhere. A selected expert's logit
// therefore exceeds every other by more than 1.5, a margin that no rounding of a 16-bit format closes. Requires
// hidden_size >= experts.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda_runtime/reference/moe_layer.hpp"
#include "model/machine/dtype.hpp"
#include "model/workload/routing.hpp"

namespace moeplan::runtime {

/// The experts that each token of a source selects: expert e is selected counts[source][e] times, no expert twice by
/// one token, in an order drawn from the seed. Raises InputError if the sum of the counts is not a multiple of top_k,
/// or if a count exceeds the number of tokens.
[[nodiscard]] std::vector<std::vector<std::int64_t>> planned_choices(const RoutingCounts& counts, RankId source,
                                                                     std::int64_t top_k, std::uint64_t seed);

/// The tokens of a source, rounded to `dtype`. Raises InputError as planned_choices() does, and if hidden_size <
/// experts.
[[nodiscard]] Matrix made_tokens(const MoeShape& shape, const RoutingCounts& counts, RankId source, Dtype dtype,
                                 std::uint64_t seed);

/// The weights, rounded to `dtype`: the gate as above, and experts with normal values of variance 1 / rows, so that
/// magnitudes are preserved. An expert's weights depend on the seed and the expert's number alone, so that any rank can
/// generate those that it holds.
[[nodiscard]] MoeWeights made_weights(const MoeShape& shape, Dtype dtype, std::uint64_t seed);
[[nodiscard]] Matrix made_gate(const MoeShape& shape, Dtype dtype, std::uint64_t seed);
[[nodiscard]] Matrix made_up(const MoeShape& shape, std::int64_t expert, Dtype dtype, std::uint64_t seed);
[[nodiscard]] Matrix made_down(const MoeShape& shape, std::int64_t expert, Dtype dtype, std::uint64_t seed);

/// The gradient with respect to the output of a source's tokens: normal values.
[[nodiscard]] Matrix made_gradient(const MoeShape& shape, std::int64_t tokens, RankId source, Dtype dtype,
                                   std::uint64_t seed);

}  // namespace moeplan::runtime
