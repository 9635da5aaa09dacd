// Norms of rows in double precision: the reference implementation of RMSNorm [B. Zhang, R. Sennrich, NeurIPS 2019] and
// LayerNorm [J. Ba, J. Kiros, G. Hinton, 2016].
//
// RMSNorm of a row x of M elements is w x / sqrt(sum of x^2 / M + epsilon), element by element. LayerNorm first
// subtracts the mean of x from x, and last adds b. The weights are a matrix with the row w and, for LayerNorm, the row
// b.
#pragma once

#include "cuda_runtime/reference/moe_layer.hpp"

namespace moeplan::runtime {

/// What a norm adds to the mean square or the variance of a row. assumed: that of Qwen3 and DeepSeek-V3.
inline constexpr double kNormEpsilon = 1e-6;

[[nodiscard]] Matrix norm_forward(const Matrix& rows, const Matrix& weights);

struct NormGradients {
  Matrix rows;
  Matrix weights;  // sums over the rows
};
/// The gradients of a loss whose gradient with respect to the normed rows is `d_normed`.
[[nodiscard]] NormGradients norm_backward(const Matrix& rows, const Matrix& weights, const Matrix& d_normed);

}  // namespace moeplan::runtime
