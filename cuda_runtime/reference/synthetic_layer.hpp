// Synthetic tokens and weights of an MoE layer: deterministic for a seed, and such that the gate selects exactly the
// planned experts.
//
// Column e of the gate is the unit vector e plus small noise. A token has +1 .. +1.5 at the elements of the experts
// that it selects, -1 .. -1.5 at those of the other experts, and made values of variance 1 elsewhere. A selected
// expert's logit therefore exceeds every other by more than 1.5, a margin that no rounding of a 16-bit format closes.
// A norm in between divides a token by about 1 and keeps the order of its elements. Requires hidden_size >= experts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda_runtime/reference/moe_layer.hpp"
#include "model/machine/dtype.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/routing.hpp"

namespace moeplan::runtime {

/// The experts that each token of a source selects: expert e is selected counts[source][e] times, no expert twice by
/// one token, in an order drawn from the seed. Raises InputError if the sum of the counts is not a multiple of top_k,
/// or if a count exceeds the number of tokens.
[[nodiscard]] std::vector<std::vector<std::int64_t>> planned_choices(const RoutingCounts& counts, RankId source,
                                                                     std::int64_t top_k, std::uint64_t seed);

/// The tokens of a source, rounded to `dtype`, made one at a time.
class MadeTokens {
 public:
  /// Raises InputError as planned_choices() does, and if hidden_size < experts.
  MadeTokens(const MoeShape& shape, const RoutingCounts& counts, RankId source, Dtype dtype, std::uint64_t seed);
  [[nodiscard]] std::int64_t size() const { return std::ssize(choices_); }
  void make(std::int64_t token, std::span<double> out) const;

 private:
  MoeShape shape_;
  RankId source_;
  Dtype dtype_;
  std::uint64_t seed_;
  std::vector<std::vector<std::int64_t>> choices_;
};
/// Every `step`-th of them.
[[nodiscard]] Matrix made_tokens(const MoeShape& shape, const RoutingCounts& counts, RankId source, Dtype dtype,
                                 std::uint64_t seed, std::int64_t step = 1);

/// A row of weights or gradients: made values (kernels/made_values.hpp) times `scale` plus `mean`, rounded to the
/// format of the buffer. Each is a function of the seed, the expert and the position, so that any rank can make any row
/// of those that it needs, on its device or here.
struct MadeRow {
  std::uint64_t first = 0;  // the number of the value in column 0
  float scale = 1;
  std::int64_t one = -1;  // the column that is 1 instead; -1: none
  float mean = 0;         // added to every value (kernels/made_values.hpp says which are possible)
};
/// The gate as above; experts with values of variance 1 / rows, so that magnitudes are preserved.
[[nodiscard]] MadeRow gate_row(const MoeShape& shape, std::int64_t row, std::uint64_t seed);
[[nodiscard]] MadeRow up_row(const MoeShape& shape, std::int64_t expert, std::int64_t row, std::uint64_t seed);
[[nodiscard]] MadeRow down_row(const MoeShape& shape, std::int64_t expert, std::int64_t row, std::uint64_t seed);
/// The weights of a norm: between 0.75 and 1.25, so that a normed token selects the experts that the token does. All
/// rows are of one scale and mean.
[[nodiscard]] MadeRow norm_row(const MoeShape& shape, std::int64_t row, std::uint64_t seed);
void make_row(const MadeRow& row, Dtype dtype, std::span<double> out);

/// All rows of them.
[[nodiscard]] MoeWeights made_weights(const MoeShape& shape, Dtype dtype, std::uint64_t seed);
[[nodiscard]] Matrix made_gate(const MoeShape& shape, Dtype dtype, std::uint64_t seed);
[[nodiscard]] Matrix made_up(const MoeShape& shape, std::int64_t expert, Dtype dtype, std::uint64_t seed);
[[nodiscard]] Matrix made_norm(const MoeShape& shape, Norm norm, Dtype dtype, std::uint64_t seed);
[[nodiscard]] Matrix made_down(const MoeShape& shape, std::int64_t expert, Dtype dtype, std::uint64_t seed);

/// made_weights(), with experts generated row by row when they are read.
class GeneratedWeights final : public LayerWeights {
 public:
  GeneratedWeights(const MoeShape& shape, Dtype dtype, std::uint64_t seed)
      : shape_(shape), dtype_(dtype), seed_(seed), gate_(made_gate(shape, dtype, seed)) {}
  [[nodiscard]] const Matrix& gate() const override { return gate_; }
  std::span<const double> up(std::int64_t expert, std::int64_t row, Scratch& scratch) const override;
  std::span<const double> down(std::int64_t expert, std::int64_t row, Scratch& scratch) const override;

 private:
  MoeShape shape_;
  Dtype dtype_;
  std::uint64_t seed_;
  Matrix gate_;
};

/// The gradient with respect to the output of a source's token: made values of variance 1; and of every `step`-th one
/// of its tokens.
[[nodiscard]] MadeRow gradient_row(const MoeShape& shape, RankId source, std::int64_t token, std::uint64_t seed);
[[nodiscard]] Matrix made_gradient(const MoeShape& shape, std::int64_t tokens, RankId source, Dtype dtype,
                                   std::uint64_t seed, std::int64_t step = 1);

}  // namespace moeplan::runtime
