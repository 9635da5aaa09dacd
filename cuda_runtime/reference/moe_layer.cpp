#include "cuda_runtime/reference/moe_layer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/base/to_index.hpp"

namespace moeplan::runtime {

namespace {

using Row = std::vector<double>;

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// A matrix that is read row by row.
struct RowsOf {
  std::int64_t rows, columns;
  std::function<std::span<const double>(std::int64_t)> row;

  explicit RowsOf(const Matrix& m) : rows(m.rows), columns(m.columns), row([&m](std::int64_t r) { return m.row(r); }) {}
  RowsOf(std::int64_t r, std::int64_t c, std::function<std::span<const double>(std::int64_t)> row_of)
      : rows(r), columns(c), row(std::move(row_of)) {}
};

/// The two matrices of an expert. They share memory for the row that is read.
class Expert {
 public:
  Expert(const MoeShape& shape, const LayerWeights& weights, std::int64_t expert)
      : up(shape.hidden_size, shape.up_columns(), [&, expert](auto r) { return weights.up(expert, r, scratch_); }),
        down(shape.ffn_size, shape.hidden_size, [&, expert](auto r) { return weights.down(expert, r, scratch_); }) {}
  Expert(const Expert&) = delete;
  Expert& operator=(const Expert&) = delete;

 private:
  LayerWeights::Scratch scratch_;

 public:
  const RowsOf up, down;
};

/// x A.
Row times(std::span<const double> x, const RowsOf& a) {
  Row y(to_index(a.columns), 0.0);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    const auto row = a.row(i);
    for (std::size_t j = 0; j < row.size(); ++j) y[j] += x[to_index(i)] * row[j];
  }
  return y;
}

/// The product x A^T.
Row times_transposed(std::span<const double> x, const RowsOf& a) {
  Row y(to_index(a.rows), 0.0);
  for (std::int64_t i = 0; i < a.rows; ++i) y[to_index(i)] = dot(x, a.row(i));
  return y;
}

/// A += x^T y, of which A has every step-th row.
void add_outer(Matrix& a, std::int64_t step, std::span<const double> x, std::span<const double> y) {
  for (std::int64_t i = 0; i < a.rows; ++i) {
    const auto row = a.row(i);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] += x[to_index(i * step)] * y[j];
  }
}

double phi(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }  // standard normal CDF
double gelu(double z) { return z * phi(z); }
double gelu_slope(double z) { return phi(z) + z * std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi); }
double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }
double silu(double z) { return z * sigmoid(z); }
double silu_slope(double z) { return sigmoid(z) * (1 + z * (1 - sigmoid(z))); }

Row activated(const MoeShape& shape, const Row& up) {
  Row a(to_index(shape.ffn_size));
  for (std::size_t h = 0; h < a.size(); ++h) a[h] = shape.gated ? silu(up[h]) * up[a.size() + h] : gelu(up[h]);
  return a;
}

/// The gradient with respect to the activation's input, given that with respect to its output.
Row activation_backward(const MoeShape& shape, const Row& up, const Row& d_activated) {
  Row d(up.size());
  const std::size_t ffn = d_activated.size();
  for (std::size_t h = 0; h < ffn; ++h) {
    if (shape.gated) {
      d[h] = d_activated[h] * silu_slope(up[h]) * up[ffn + h];
      d[ffn + h] = d_activated[h] * silu(up[h]);
    } else {
      d[h] = d_activated[h] * gelu_slope(up[h]);
    }
  }
  return d;
}

Row lossy(std::span<const double> row, const RowLoss& loss) {
  Row out(row.begin(), row.end());
  if (loss) loss(out);
  return out;
}

void scale(Row& row, double factor) {
  for (double& v : row) v *= factor;
}

std::vector<Choice> chosen(const MoeShape& shape, const Row& logits) {
  std::vector<std::int64_t> order(to_index(shape.experts));
  for (std::size_t e = 0; e < order.size(); ++e) order[e] = static_cast<std::int64_t>(e);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return logits[to_index(a)] > logits[to_index(b)]; });
  std::vector<Choice> choices;
  double sum = 0;
  for (std::int64_t i = 0; i < shape.top_k; ++i) {
    const double weight = std::exp(logits[to_index(order[to_index(i)])] - logits[to_index(order[0])]);
    choices.push_back({order[to_index(i)], weight, true});
    sum += weight;
  }
  for (Choice& c : choices) c.weight /= sum;
  return choices;
}

}  // namespace

MoeWeights zero_weights(const MoeShape& shape, std::int64_t step) {
  if (step == 0) return {};
  const auto experts = [&](std::int64_t rows, std::int64_t columns) {
    return std::vector(to_index(shape.experts), Matrix((rows + step - 1) / step, columns));
  };
  return {Matrix(shape.hidden_size, shape.experts), experts(shape.hidden_size, shape.up_columns()),
          experts(shape.ffn_size, shape.hidden_size)};
}

MoeForward moe_forward(const MoeShape& shape, const LayerWeights& weights, const Matrix& tokens,
                       std::optional<std::int64_t> capacity, const Wire& wire) {
  MoeForward out{.choices = {}, .output = Matrix(tokens.rows, shape.hidden_size)};
  std::vector<std::int64_t> taken(to_index(shape.experts), 0);
  for (std::int64_t t = 0; t < tokens.rows; ++t) {
    std::vector<Choice> choices = chosen(shape, times(tokens.row(t), RowsOf(weights.gate())));
    for (Choice& c : choices) {
      c.is_kept = !capacity || taken[to_index(c.expert)] < *capacity;
      if (!c.is_kept) continue;
      ++taken[to_index(c.expert)];
      const Row sent = lossy(tokens.row(t), wire.dispatch);
      const Expert expert(shape, weights, c.expert);
      Row result = times(activated(shape, times(sent, expert.up)), expert.down);
      if (wire.weighs_at_experts) scale(result, c.weight);
      Row returned = lossy(result, wire.combine);
      if (!wire.weighs_at_experts) scale(returned, c.weight);
      for (std::size_t m = 0; m < returned.size(); ++m) out.output.row(t)[m] += returned[m];
    }
    out.choices.push_back(std::move(choices));
  }
  return out;
}

MoeGradients moe_backward(const MoeShape& shape, const LayerWeights& weights, const Matrix& tokens,
                          const MoeForward& forward, const Matrix& d_output, const Wire& wire, std::int64_t step) {
  MoeGradients d{.tokens = Matrix(tokens.rows, shape.hidden_size), .weights = zero_weights(shape, step)};
  for (std::int64_t t = 0; t < tokens.rows; ++t) {
    const std::vector<Choice>& choices = forward.choices[to_index(t)];
    Row d_weight(choices.size(), 0.0);
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const Choice& c = choices[i];
      if (!c.is_kept) continue;
      const Expert expert(shape, weights, c.expert);
      // What the forward pass had: rows as they arrived on either side.
      const Row input = lossy(tokens.row(t), wire.dispatch);
      const Row up = times(input, expert.up);
      const Row hidden = activated(shape, up);
      const Row result = times(hidden, expert.down);
      Row d_result(d_output.row(t).begin(), d_output.row(t).end());
      if (wire.weighs_at_experts) d_result = lossy(d_result, wire.dispatch);
      d_weight[i] = dot(d_result, wire.weighs_at_experts ? result : lossy(result, wire.combine));
      scale(d_result, c.weight);
      if (!wire.weighs_at_experts) d_result = lossy(d_result, wire.dispatch);
      const Row d_up = activation_backward(shape, up, times_transposed(d_result, expert.down));
      if (step > 0) add_outer(d.weights.down[to_index(c.expert)], step, hidden, d_result);
      if (step > 0) add_outer(d.weights.up[to_index(c.expert)], step, input, d_up);
      const Row d_input = lossy(times_transposed(d_up, expert.up), wire.combine);
      for (std::size_t m = 0; m < d_input.size(); ++m) d.tokens.row(t)[m] += d_input[m];
    }
    // Softmax over the selected logits: d logit = weight (d weight - sum of weight d weight).
    double mean = 0;
    for (std::size_t i = 0; i < choices.size(); ++i) mean += choices[i].weight * d_weight[i];
    Row d_logits(to_index(shape.experts), 0.0);
    for (std::size_t i = 0; i < choices.size(); ++i) {
      d_logits[to_index(choices[i].expert)] = choices[i].weight * (d_weight[i] - mean);
    }
    if (step > 0) add_outer(d.weights.gate, 1, tokens.row(t), d_logits);
    const Row through_gate = times_transposed(d_logits, RowsOf(weights.gate()));
    for (std::size_t m = 0; m < through_gate.size(); ++m) d.tokens.row(t)[m] += through_gate[m];
  }
  return d;
}

}  // namespace moeplan::runtime
