// The activation kernels of an expert, forward and backward: gelu(x), or for a gated expert silu(first half of the
// columns) times the second half.
#pragma once

#include <cmath>

#include "cuda_runtime/kernels/rows.hpp"

namespace moeplan::kernels {

MOEPLAN_BOTH inline float normal_cdf(float z) { return 0.5F * erfcf(-z * 0.70710678118654752F); }
MOEPLAN_BOTH inline float gelu_slope(float z) {
  return normal_cdf(z) + z * expf(-z * z / 2) * 0.39894228040143268F;  // density: exp(-z^2 / 2) / sqrt(2 pi)
}
MOEPLAN_BOTH inline float sigmoid(float z) { return 1 / (1 + expf(-z)); }
MOEPLAN_BOTH inline float silu_slope(float z) { return sigmoid(z) * (1 + z * (1 - sigmoid(z))); }

struct Activation {
  RowView up, activated;
  std::int64_t items = 0;
  bool gated = false;
  [[nodiscard]] std::int64_t width() const { return activated.view.columns; }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const Activation& k = *this;
    const std::int64_t half = activated.view.columns;
    each_chunk(team, half, [&](std::int64_t c, int n) {
      float x[8], y[8];
      load(k.up.view.format, k.up.row(item), c, n, x);
      if (k.gated) load(k.up.view.format, k.up.row(item), half + c, n, y);
      for (int j = 0; j < n; ++j) x[j] = k.gated ? x[j] * sigmoid(x[j]) * y[j] : x[j] * normal_cdf(x[j]);
      store(k.activated.view.format, k.activated.row(item), c, n, x);
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
    const ActivationBackward& k = *this;
    const std::int64_t half = d_activated.view.columns;
    each_chunk(team, half, [&](std::int64_t c, int n) {
      float d[8], x[8], y[8];
      load(k.d_activated.view.format, k.d_activated.row(item), c, n, d);
      load(k.up.view.format, k.up.row(item), c, n, x);
      if (!k.gated) {
        for (int j = 0; j < n; ++j) d[j] *= gelu_slope(x[j]);
        store(k.d_up.view.format, k.d_up.row(item), c, n, d);
        return;
      }
      load(k.up.view.format, k.up.row(item), half + c, n, y);
      for (int j = 0; j < n; ++j) {
        y[j] *= d[j] * silu_slope(x[j]);
        x[j] *= d[j] * sigmoid(x[j]);
      }
      store(k.d_up.view.format, k.d_up.row(item), c, n, y);
      store(k.d_up.view.format, k.d_up.row(item), half + c, n, x);
    });
  }
};

}  // namespace moeplan::kernels
