// An MoE layer as a dense loop over tokens and experts in double: what every schedule, placement and back end must
// give.
//
// For token x (a row of M): logits = x G; the k experts with the largest logits, ties to the lower index, each with the
// softmax of its logit over those k; then sum over them of weight times expert(x). A plain expert is gelu(x U) D with
// gelu(z) = z Phi(z); a gated one (silu(x U_1) * (x U_2)) D with U = [U_1 U_2]. With a capacity, of one source's tokens
// that chose an expert the first so many go to it, in order of token; the others' contributions are left out, and the
// weights of what is kept stay as they are.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace moeplan::runtime {

/// Row by row.
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
  std::vector<Matrix> up;    // of each expert: hidden x up_columns
  std::vector<Matrix> down;  // ffn x hidden
};

/// What becomes of a row on its way to an expert or back, in place: nothing, or a codec's loss. Gradients take the same
/// ways: that of an expert's output goes to the expert (dispatch), that of its input comes back (combine).
using RowLoss = std::function<void(std::span<double>)>;
struct Wire {
  RowLoss dispatch = {};
  RowLoss combine = {};
  /// The gate weighs rows where the experts are, so that an output's gradient travels before it is weighted.
  bool weighs_at_experts = false;
};

struct Choice {
  std::int64_t expert;
  double weight;
  bool is_kept;  // within the expert's capacity
};

struct MoeForward {
  std::vector<std::vector<Choice>> choices;  // of each token, by descending logit
  Matrix output;                             // tokens x hidden
};

/// The tokens of one source.
[[nodiscard]] MoeForward moe_forward(const MoeShape& shape, const MoeWeights& weights, const Matrix& tokens,
                                     std::optional<std::int64_t> capacity, const Wire& wire = {});

struct MoeGradients {
  Matrix tokens;
  MoeWeights weights;  // sums over the tokens
};

/// Of a loss with this gradient by the output, through the choices that the forward pass made (choosing has no
/// gradient, its weights have). Codecs are passed straight through: the gradient of their loss is taken for 1.
[[nodiscard]] MoeGradients moe_backward(const MoeShape& shape, const MoeWeights& weights, const Matrix& tokens,
                                        const MoeForward& forward, const Matrix& d_output, const Wire& wire = {});

}  // namespace moeplan::runtime
