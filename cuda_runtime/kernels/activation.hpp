// The activation kernels of an expert, forward and backward: gelu(x), or for a gated expert silu(first half of the
// columns) times the second half.
#pragma once

#include <cmath>

#include "cuda_runtime/kernels/rows.hpp"

namespace moeplan::kernels {

/// exp(x), and a / b for b from 1 to infinity; on a GPU within some roundings, by its instructions.
MOEPLAN_BOTH inline float exp_of(float x) {
#if defined(__CUDA_ARCH__)
  return __expf(x);
#else
  return expf(x);
#endif
}
MOEPLAN_BOTH inline float ratio(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdividef(a, b);
#else
  return a / b;
#endif
}

/// The normal distribution at z: its density, and its cumulative distribution function, from the same exponential.
struct Normal {
  float density, cdf;

  /// By formula 7.1.26 of M. Abramowitz, I. Stegun, "Handbook of Mathematical Functions", 1964: erf with an error of at
  /// most 1.5e-7.
  MOEPLAN_BOTH explicit Normal(float z) {
    const float e = exp_of(-z * z / 2), t = ratio(1, 1 + 0.3275911F * 0.70710678118654752F * fabsf(z));
    const float sum =
        t * (0.254829592F + t * (-0.284496736F + t * (1.421413741F + t * (-1.453152027F + t * 1.061405429F))));
    const float beyond = 0.5F * sum * e;  // |z|
    density = e * 0.39894228040143268F;   // 1 / sqrt(2 pi)
    cdf = z > 0 ? 1 - beyond : beyond;
  }
};

MOEPLAN_BOTH inline float gelu(float z) { return z * Normal(z).cdf; }
MOEPLAN_BOTH inline float gelu_slope(float z) {
  const Normal n(z);
  return n.cdf + z * n.density;
}
MOEPLAN_BOTH inline float sigmoid(float z) { return ratio(1, 1 + exp_of(-z)); }

struct Activation {
  RowView up, activated;
  std::int64_t items = 0;
  bool gated = false;
  [[nodiscard]] std::int64_t width() const { return activated.view.columns; }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const Format in = up.view.format, out = activated.view.format;
    const std::int64_t half = activated.view.columns;
    const char* const x_row = up.row(item);
    char* const out_row = activated.row(item);
    const bool is_gated = gated;
    with_format(out, in == out, [&](auto format) {
      each_chunk(team, half, [&](std::int64_t c, int n) {
        float x[8], y[8];
        load(format(in), x_row, c, n, x);
        if (is_gated) load(format(in), x_row, half + c, n, y);
        for (int j = 0; j < n; ++j) x[j] = is_gated ? x[j] * sigmoid(x[j]) * y[j] : gelu(x[j]);
        store(format(out), out_row, c, n, x);
      });
    });
  }
};

struct ActivationBackward {
  RowView d_activated, up, d_up;
  std::int64_t items = 0;
  bool gated = false;
  [[nodiscard]] std::int64_t width() const { return d_activated.view.columns; }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const Format in = up.view.format, out = d_up.view.format, gradient = d_activated.view.format;
    const std::int64_t half = d_activated.view.columns;
    const char *const d_row = d_activated.row(item), *const x_row = up.row(item);
    char* const out_row = d_up.row(item);
    const bool is_gated = gated;
    with_format(out, in == out && gradient == out, [&](auto format) {
      each_chunk(team, half, [&](std::int64_t c, int n) {
        float d[8], x[8], y[8];
        load(format(gradient), d_row, c, n, d);
        load(format(in), x_row, c, n, x);
        if (!is_gated) {
          for (int j = 0; j < n; ++j) d[j] *= gelu_slope(x[j]);
          store(format(out), out_row, c, n, d);
          return;
        }
        load(format(in), x_row, half + c, n, y);
        for (int j = 0; j < n; ++j) {
          const float s = sigmoid(x[j]), slope = s * (1 + x[j] * (1 - s));
          y[j] *= d[j] * slope;
          x[j] *= d[j] * s;
        }
        store(format(out), out_row, c, n, y);
        store(format(out), out_row, half + c, n, x);
      });
    });
  }
};

}  // namespace moeplan::kernels
