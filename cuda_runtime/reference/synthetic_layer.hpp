// Tokens and weights for a check: deterministic by seed, and such that the gate chooses exactly what was planned.
//
// Column e of the gate is the unit vector e and a little noise, and a token has +1 .. +1.5 at the places of the experts
// that it shall choose, -1 .. -1.5 at the other experts' places, and normal values elsewhere. So a chosen expert's
// logit is more than 1.5 above every other's, which no rounding of a 16-bit format closes. It needs hidden_size >=
// experts.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda_runtime/reference/moe_layer.hpp"
#include "model/machine/dtype.hpp"
#include "model/workload/routing.hpp"

namespace moeplan::runtime {

/// Of each token of a source, the experts that it shall choose: expert e counts[source][e] times in all, no token an
/// expert twice, in an order drawn from the seed. Raises InputError where the counts' sum is no multiple of top_k, or
/// where a count exceeds the tokens.
[[nodiscard]] std::vector<std::vector<std::int64_t>> planned_choices(const RoutingCounts& counts, RankId source,
                                                                     std::int64_t top_k, std::uint64_t seed);

/// The source's tokens, rounded to `dtype`. Raises InputError as above, and where hidden_size < experts.
[[nodiscard]] Matrix made_tokens(const MoeShape& shape, const RoutingCounts& counts, RankId source, Dtype dtype,
                                 std::uint64_t seed);

/// The gate as above; the experts' weights normal with variance 1 / rows, so that values keep their size. Rounded to
/// `dtype`. An expert's weights depend on the seed and its number alone, so that any rank can make those that it holds.
[[nodiscard]] MoeWeights made_weights(const MoeShape& shape, Dtype dtype, std::uint64_t seed);
[[nodiscard]] Matrix made_gate(const MoeShape& shape, Dtype dtype, std::uint64_t seed);
[[nodiscard]] Matrix made_up(const MoeShape& shape, std::int64_t expert, Dtype dtype, std::uint64_t seed);
[[nodiscard]] Matrix made_down(const MoeShape& shape, std::int64_t expert, Dtype dtype, std::uint64_t seed);

/// A gradient by the output of a source's tokens: normal values.
[[nodiscard]] Matrix made_gradient(const MoeShape& shape, std::int64_t tokens, RankId source, Dtype dtype,
                                   std::uint64_t seed);

}  // namespace moeplan::runtime
