// The norms of rows, forward and backward: RMSNorm, whose weights are a row of factors, and LayerNorm, whose weights
// are a row of factors and one of summands.
#pragma once

#include <cmath>

#include "cuda_runtime/kernels/held_row.hpp"
#include "cuda_runtime/kernels/rows.hpp"

namespace moeplan::kernels {

/// A row is normed as (x - mean) x inverse, where inverse = 1 / sqrt(variance + epsilon). RMSNorm takes the mean for 0.
struct RowScale {
  float mean = 0, inverse = 0;
};

/// The scale of a row. If it `is_centred`, the variance takes a second pass, about the mean.
template <class Team, class FormatOf>
MOEPLAN_BOTH RowScale row_scale(Team& team, const HeldRow<FormatOf>& row, std::int64_t columns, float epsilon,
                                bool is_centred) {
  const float share = 1 / static_cast<float>(columns);
  float mean = 0;
  if (is_centred) {
    float sum = 0;
    row.each(team, [&](int held, std::int64_t c, int n) {
      float x[8];
      row.get(held, c, n, x);
      for (int j = 0; j < n; ++j) sum += x[j];
    });
    mean = team.sum(sum) * share;
  }
  float squares = 0;
  row.each(team, [&](int held, std::int64_t c, int n) {
    float x[8];
    row.get(held, c, n, x);
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
      const HeldRow held_x(team, format, f, x_row, 0, columns, columns);
      const RowScale scale = row_scale(team, held_x, columns, least, is_centred);
      held_x.each(team, [&](int held, std::int64_t c, int n) {
        float x[8], w[8], b[8] = {};
        held_x.get(held, c, n, x);
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
      const HeldRow held_x(team, format, f, x_row, 0, columns, columns);
      const HeldRow held_d(team, format, gradient, d_row, 0, columns, columns);
      const RowScale scale = row_scale(team, held_x, columns, least, is_centred);
      const auto get_both = [&](int held, std::int64_t c, int n, float(&x)[8], float(&d)[8]) {  // normed; its gradient
        float w[8];
        held_x.get(held, c, n, x);
        held_d.get(held, c, n, d);
        load(format(g), factors, c, n, w);
        for (int j = 0; j < n; ++j) {
          x[j] = (x[j] - scale.mean) * scale.inverse;
          d[j] *= w[j];
        }
      };
      float sum = 0, product = 0;
      held_x.each(team, [&](int held, std::int64_t c, int n) {
        float x[8], d[8];
        get_both(held, c, n, x, d);
        for (int j = 0; j < n; ++j) {
          sum += d[j];
          product += d[j] * x[j];
        }
      });
      const float share = 1 / static_cast<float>(columns);
      const float mean = is_centred ? team.sum(sum) * share : 0, slope = team.sum(product) * share;
      held_x.each(team, [&](int held, std::int64_t c, int n) {
        float x[8], d[8];
        get_both(held, c, n, x, d);
        for (int j = 0; j < n; ++j) x[j] = scale.inverse * (d[j] - mean - slope * x[j]);
        store(format(h), d_in_row, c, n, x);
      });
      if (team.lane == 0) *to = scale;
    });
  }
};

/// The gradient with respect to the weights, summed over `kRows` rows: a row of sums for each, of factors and then of
/// summands. An item is some columns of such a row; lanes read columns next to each other.
struct NormWeightSums {
  static constexpr std::int64_t kRows = 64, kColumns = 256;

  RowView d_out, in;
  const RowScale* scales = nullptr;  // by row
  float* sums = nullptr;             // [sums_of(rows)][1, or 2 if is_layer_norm][columns]
  std::int64_t rows = 0;
  std::int64_t items = 0;  // items_of() the rows
  bool is_layer_norm = false;
  [[nodiscard]] std::int64_t width() const { return kColumns; }

  [[nodiscard]] static std::int64_t sums_of(std::int64_t rows) { return (rows + kRows - 1) / kRows; }
  [[nodiscard]] static std::int64_t items_of(std::int64_t rows, std::int64_t columns) {
    return sums_of(rows) * ((columns + kColumns - 1) / kColumns);
  }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const std::int64_t columns = in.view.columns, parts = (columns + kColumns - 1) / kColumns;
    const std::int64_t of = item / parts, begin = item % parts * kColumns, first = of * kRows;
    const std::int64_t end = begin + kColumns < columns ? begin + kColumns : columns;
    const std::int64_t last = first + kRows < rows ? first + kRows : rows;
    const Format f = in.view.format, g = d_out.view.format;
    float* const out = sums + of * (is_layer_norm ? 2 : 1) * columns;
    const NormWeightSums& k = *this;
    with_format(f, f == g, [&](auto format) {
      each_chunk(team, begin, end, columns, [&](std::int64_t c, int n) {
        float factor[8] = {}, summand[8] = {};
        for (std::int64_t r = first; r < last; ++r) {
          float x[8], d[8];
          load(format(f), k.in.row(r), c, n, x);
          load(format(g), k.d_out.row(r), c, n, d);
          const RowScale scale = k.scales[r];
          for (int j = 0; j < n; ++j) {
            factor[j] += d[j] * (x[j] - scale.mean) * scale.inverse;
            summand[j] += d[j];
          }
        }
        for (int j = 0; j < n; ++j) out[c + j] = factor[j];
        if (!k.is_layer_norm) return;
        for (int j = 0; j < n; ++j) out[columns + c + j] = summand[j];
      });
    });
  }
};

/// Adds those sums to the weights' gradient. An item is a column; the lanes share the rows of sums.
struct NormWeightGradient {
  const float* sums = nullptr;
  RowView d_weights;
  std::int64_t rows = 0;   // of sums
  std::int64_t items = 0;  // columns
  bool is_layer_norm = false;
  [[nodiscard]] std::int64_t width() const { return 8 * rows; }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t column, Team& team) const {
    const std::int64_t columns = d_weights.view.columns, weights = is_layer_norm ? 2 : 1;
    for (std::int64_t w = 0; w < weights; ++w) {
      float total = 0;
      for (std::int64_t r = team.lane; r < rows; r += team.size) total += sums[(r * weights + w) * columns + column];
      total = team.sum(total);
      if (team.lane != 0) continue;
      const Format format = d_weights.view.format;
      store1(format, d_weights.row(w), column, load1(format, d_weights.row(w), column) + total);
    }
  }
};

}  // namespace moeplan::kernels
