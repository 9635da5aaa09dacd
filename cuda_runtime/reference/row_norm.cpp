#include "cuda_runtime/reference/row_norm.hpp"

#include <cmath>
#include <vector>

namespace moeplan::runtime {

namespace {

bool is_layer_norm(const Matrix& weights) { return weights.rows > 1; }

/// A row without its mean, if that is subtracted, and divided by its deviation.
struct Normed {
  std::vector<double> values;
  double deviation;

  Normed(std::span<const double> row, bool is_centred) : values(row.begin(), row.end()) {
    const auto size = static_cast<double>(row.size());
    double mean = 0, squares = 0;
    for (const double x : row) mean += is_centred ? x / size : 0;
    for (double& x : values) {
      x -= mean;
      squares += x * x;
    }
    deviation = std::sqrt(squares / size + kNormEpsilon);
    for (double& x : values) x /= deviation;
  }
};

}  // namespace

Matrix norm_forward(const Matrix& rows, const Matrix& weights) {
  Matrix out(rows.rows, rows.columns);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    const Normed normed(rows.row(r), is_layer_norm(weights));
    const auto row = out.row(r);
    for (std::size_t c = 0; c < row.size(); ++c) {
      row[c] = weights.row(0)[c] * normed.values[c] + (is_layer_norm(weights) ? weights.row(1)[c] : 0);
    }
  }
  return out;
}

/// By the chain rule, through y = x' / s with x' = x - mean(x) and s^2 = mean(x'^2) + epsilon: dL/dx' = (g - y mean(g
/// y)) / s, where g is the gradient with respect to y; then dL/dx = dL/dx' - mean(dL/dx'), in which mean(y) = 0.
NormGradients norm_backward(const Matrix& rows, const Matrix& weights, const Matrix& d_normed) {
  NormGradients out{Matrix(rows.rows, rows.columns), Matrix(weights.rows, weights.columns)};
  const auto size = static_cast<double>(rows.columns);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    const Normed normed(rows.row(r), is_layer_norm(weights));
    const auto d = d_normed.row(r);
    const auto d_row = out.rows.row(r), factors = out.weights.row(0);
    double product = 0;
    for (std::size_t c = 0; c < d.size(); ++c) {
      factors[c] += d[c] * normed.values[c];
      if (is_layer_norm(weights)) out.weights.row(1)[c] += d[c];
      product += d[c] * weights.row(0)[c] * normed.values[c] / size;
    }
    double mean = 0;
    for (std::size_t c = 0; c < d.size(); ++c) {
      d_row[c] = (d[c] * weights.row(0)[c] - normed.values[c] * product) / normed.deviation;
      mean += d_row[c] / size;
    }
    for (double& x : d_row) x -= is_layer_norm(weights) ? mean : 0;
  }
  return out;
}

}  // namespace moeplan::runtime
