// The reference implementation of an MoE layer: a dense loop over tokens and experts in double precision, which every
// schedule, placement and back end must reproduce.
//
// For a token x (a row of M elements): logits = x G; the k experts with the largest logits, ties to the lower index,
// are selected and weighted by the softmax over their k logits; the output is the sum of weight times expert(x). A
// plain expert is gelu(x U) D with gelu(z) = z Phi(z), a gated one (silu(x U_1) * (x U_2)) D with U = [U_1 U_2]. With a
// capacity, an expert accepts that many of the tokens of one source that selected it, in token order; the contributions
// of the others are dropped, and the remaining weights are unchanged.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace moeplan::runtime {

/// A row-major matrix.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values{};

  Matrix() = default;
  Matrix(std::int64_t r, std::int64_t c) : rows(r), columns(c), values(static_cast<std::size_t>(r * c), 0.0) {}
  [[nodiscard]] std::span<double> row(std::int64_t r) {
    return std::span(values).subspan(static_cast<std::size_t>(r * columns), static_cast<std::size_t>(columns));
  }
  [[nodiscard]] std::span<const double> row(std::int64_t r) const {
    return std::span(values).subspan(static_cast<std::size_t>(r * columns), static_cast<std::size_t>(columns));
  }
  bool operator==(const Matrix&) const = default;
};

struct MoeShape {
  std::int64_t hidden_size;
  std::int64_t ffn_size;
  std::int64_t experts;
  std::int64_t top_k;
  bool gated;
  [[nodiscard]] std::int64_t up_columns() const { return gated ? 2 * ffn_size : ffn_size; }
};

struct MoeWeights {
  Matrix gate;               // hidden x experts
  std::vector<Matrix> up;    // by expert: hidden x up_columns
  std::vector<Matrix> down;  // by expert: ffn x hidden
};

/// The weights as the layer reads them: the gate, and experts row by row, stored or generated when they are read.
class LayerWeights {
 public:
  virtual ~LayerWeights() = default;
  [[nodiscard]] virtual const Matrix& gate() const = 0;
  /// A row of an expert's matrix; empty if it is not known. `scratch` may hold it, until its next use.
  using Scratch = std::vector<double>;
  virtual std::span<const double> up(std::int64_t expert, std::int64_t row, Scratch& scratch) const = 0;
  virtual std::span<const double> down(std::int64_t expert, std::int64_t row, Scratch& scratch) const = 0;
};

/// Weights that are stored, of each expert's matrix every `step`-th row, and outlive this object.
class StoredWeights final : public LayerWeights {
 public:
  explicit StoredWeights(const MoeWeights& weights, std::int64_t step = 1) : weights_(weights), step_(step) {}
  [[nodiscard]] const Matrix& gate() const override { return weights_.gate; }
  std::span<const double> up(std::int64_t expert, std::int64_t row, Scratch&) const override {
    return row_of(weights_.up[static_cast<std::size_t>(expert)], row);
  }
  std::span<const double> down(std::int64_t expert, std::int64_t row, Scratch&) const override {
    return row_of(weights_.down[static_cast<std::size_t>(expert)], row);
  }

 private:
  [[nodiscard]] std::span<const double> row_of(const Matrix& m, std::int64_t row) const {
    return row % step_ == 0 ? m.row(row / step_) : std::span<const double>();
  }
  const MoeWeights& weights_;
  std::int64_t step_;
};

/// The in-place modification of a row by its transfer to or from an expert: none, or the loss of a codec. Gradients
/// take the same transfers: the gradient of an expert's output is dispatched to the expert, that of its input is
/// combined.
using RowLoss = std::function<void(std::span<double>)>;
struct Wire {
  RowLoss dispatch = {};
  RowLoss combine = {};
  /// The gate weights are applied at the experts, so that the gradient of an output is sent before it is weighted.
  bool weighs_at_experts = false;
};

struct Choice {
  std::int64_t expert;
  double weight;
  bool is_kept;  // within the expert's capacity
};

struct MoeForward {
  std::vector<std::vector<Choice>> choices;  // by token, in order of descending logits
  Matrix output;                             // tokens x hidden
};

/// The forward pass over the tokens of one source.
[[nodiscard]] MoeForward moe_forward(const MoeShape& shape, const LayerWeights& weights, const Matrix& tokens,
                                     std::optional<std::int64_t> capacity, const Wire& wire = {});

struct MoeGradients {
  Matrix tokens;
  MoeWeights weights;  // sums over the tokens
};

/// Zeros in the place of every `step`-th row of the experts' matrices; 0: of no weights at all.
[[nodiscard]] MoeWeights zero_weights(const MoeShape& shape, std::int64_t step);

/// The gradients of a loss whose gradient with respect to the output is `d_output`, for the selections of the forward
/// pass (selection has no gradient, its weights have). Codecs are treated as the identity (straight-through estimator).
/// Gradients of weights are those in zero_weights(shape, step).
[[nodiscard]] MoeGradients moe_backward(const MoeShape& shape, const LayerWeights& weights, const Matrix& tokens,
                                        const MoeForward& forward, const Matrix& d_output, const Wire& wire = {},
                                        std::int64_t step = 1);

}  // namespace moeplan::runtime
