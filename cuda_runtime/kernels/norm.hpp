// The norms of rows, forward and backward: RMSNorm, whose weights are a row of factors, and LayerNorm, whose weights
// are a row of factors and one of summands.
#pragma once

#include <cmath>

#include "cuda_runtime/kernels/rows.hpp"

namespace moeplan::kernels {

/// A row is normed as (x - mean) x inverse, where inverse = 1 / sqrt(variance + epsilon). RMSNorm takes the mean for 0.
struct RowScale {
  float mean = 0, inverse = 0;
};

/// The scale of a row. If it `is_centred`, the variance takes a second pass, about the mean.
template <class Team>
MOEPLAN_BOTH RowScale row_scale(Team& team, Format format, const char* row, std::int64_t columns, float epsilon,
                                bool is_centred) {
  const float share = 1 / static_cast<float>(columns);
  float mean = 0;
  if (is_centred) {
    float sum = 0;
    each_chunk(team, columns, [&](std::int64_t c, int n) {
      float x[8];
      load(format, row, c, n, x);
      for (int j = 0; j < n; ++j) sum += x[j];
    });
    mean = team.sum(sum) * share;
  }
  float squares = 0;
  each_chunk(team, columns, [&](std::int64_t c, int n) {
    float x[8];
    load(format, row, c, n, x);
    for (int j = 0; j < n; ++j) squares += (x[j] - mean) * (x[j] - mean);
  });
  return {mean, 1 / sqrtf(team.sum(squares) * share + epsilon)};
}

/// Row i of `out` becomes the norm of row i of `in`, times the first row of weights, plus the second one if
/// `is_layer_norm`.
struct NormRows {
  RowView in, weights, out;
  std::int64_t items = 0;
  float epsilon = 0;
  bool is_layer_norm = false;
  [[nodiscard]] std::int64_t width() const { return out.view.columns; }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const Format f = in.view.format, g = weights.view.format, h = out.view.format;
    const std::int64_t columns = out.view.columns;
    const char *const x_row = in.row(item), *const factors = weights.row(0),
                      *const summands = is_layer_norm ? weights.row(1) : nullptr;
    char* const y_row = out.row(item);
    const float least = epsilon;
    const bool is_centred = is_layer_norm;
    with_format(h, f == h && g == h, [&](auto format) {
      const RowScale scale = row_scale(team, format(f), x_row, columns, least, is_centred);
      each_chunk(team, columns, [&](std::int64_t c, int n) {
        float x[8], w[8], b[8] = {};
        load(format(f), x_row, c, n, x);
        load(format(g), factors, c, n, w);
        if (summands != nullptr) load(format(g), summands, c, n, b);
        for (int j = 0; j < n; ++j) x[j] = (x[j] - scale.mean) * scale.inverse * w[j] + b[j];
        store(format(h), y_row, c, n, x);
      });
    });
  }
};

/// The gradient with respect to row i of the input, given that with respect to the output; and the row's scale.
struct NormRowsBackward {
  RowView d_out, in, weights, d_in;
  RowScale* scales = nullptr;
  std::int64_t items = 0;
  float epsilon = 0;
  bool is_layer_norm = false;
  [[nodiscard]] std::int64_t width() const { return in.view.columns; }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const Format f = in.view.format, g = weights.view.format, h = d_in.view.format, gradient = d_out.view.format;
    const std::int64_t columns = in.view.columns;
    const char *const d_row = d_out.row(item), *const x_row = in.row(item), *const factors = weights.row(0);
    char* const d_in_row = d_in.row(item);
    const float least = epsilon;
    const bool is_centred = is_layer_norm;
    RowScale* const to = scales + item;
    with_format(h, f == h && g == h && gradient == h, [&](auto format) {
      const RowScale scale = row_scale(team, format(f), x_row, columns, least, is_centred);
      const auto load_all = [&](std::int64_t c, int n, float(&x)[8], float(&d)[8]) {  // normed, and its gradient
        float w[8];
        load(format(f), x_row, c, n, x);
        load(format(gradient), d_row, c, n, d);
        load(format(g), factors, c, n, w);
        for (int j = 0; j < n; ++j) {
          x[j] = (x[j] - scale.mean) * scale.inverse;
          d[j] *= w[j];
        }
      };
      float sum = 0, product = 0;
      each_chunk(team, columns, [&](std::int64_t c, int n) {
        float x[8], d[8];
        load_all(c, n, x, d);
        for (int j = 0; j < n; ++j) {
          sum += d[j];
          product += d[j] * x[j];
        }
      });
      const float share = 1 / static_cast<float>(columns);
      const float mean = is_centred ? team.sum(sum) * share : 0, slope = team.sum(product) * share;
      each_chunk(team, columns, [&](std::int64_t c, int n) {
        float x[8], d[8];
        load_all(c, n, x, d);
        for (int j = 0; j < n; ++j) x[j] = scale.inverse * (d[j] - mean - slope * x[j]);
        store(format(h), d_in_row, c, n, x);
      });
      if (team.lane == 0) *to = scale;
    });
  }
};

/// Adds the gradient with respect to some columns of the weights: sums over `rows` rows, which the lanes share.
struct NormWeightGradient {
  RowView d_out, in, d_weights;
  const RowScale* scales = nullptr;  // by row
  std::int64_t rows = 0;
  std::int64_t items = 0;  // groups_of() the columns
  bool is_layer_norm = false;
  [[nodiscard]] std::int64_t width() const { return 8 * rows; }

  [[nodiscard]] static std::int64_t groups_of(std::int64_t columns) { return columns % 8 == 0 ? columns / 8 : columns; }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const int n = in.view.columns % 8 == 0 ? 8 : 1;
    const std::int64_t c = n * item;
    float factor[8] = {}, summand[8] = {};
    for (std::int64_t r = team.lane; r < rows; r += team.size) {
      float x[8], d[8];
      load(in.view.format, in.row(r), c, n, x);
      load(d_out.view.format, d_out.row(r), c, n, d);
      const RowScale scale = scales[r];
      for (int j = 0; j < n; ++j) {
        factor[j] += d[j] * (x[j] - scale.mean) * scale.inverse;
        summand[j] += d[j];
      }
    }
    add(team, 0, c, n, factor);
    if (is_layer_norm) add(team, 1, c, n, summand);
  }

 private:
  template <class Team>
  MOEPLAN_BOTH void add(Team& team, std::int64_t row, std::int64_t c, int n, float (&sums)[8]) const {
    for (int j = 0; j < n; ++j) sums[j] = team.sum(sums[j]);
    if (team.lane != 0) return;
    float before[8];
    load(d_weights.view.format, d_weights.row(row), c, n, before);
    for (int j = 0; j < n; ++j) sums[j] += before[j];
    store(d_weights.view.format, d_weights.row(row), c, n, sums);
  }
};

}  // namespace moeplan::kernels
