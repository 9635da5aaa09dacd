// The optimizer's kernel: Adam [Kingma, Ba 2015, algorithm 1] late in training, when its bias corrections are 1, or SGD
// with momentum.
#pragma once

#include <cmath>

#include "cuda_runtime/kernels/rows.hpp"

namespace moeplan::kernels {

struct OptimizerRates {
  float learning = 0.1F;                               // assumed: large, so that errors of a step show in the weights
  float beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F;  // beta1 is also SGD's momentum
};

MOEPLAN_BOTH inline void adam(float gradient, float& first, float& second, float& weight) {
  const OptimizerRates rates;
  first = rates.beta1 * first + (1 - rates.beta1) * gradient;
  second = rates.beta2 * second + (1 - rates.beta2) * gradient * gradient;
  weight -= rates.learning * first / (sqrtf(second) + rates.epsilon);
}
MOEPLAN_BOTH inline void sgd(float gradient, float& first, float& weight) {
  const OptimizerRates rates;
  first = rates.beta1 * first + gradient;
  weight -= rates.learning * first;
}

/// The step of row i of the weights. A row of `states` is as wide as the weights' row for each of the moments (two:
/// Adam; one: SGD), and once more if it also has the weights in fp32.
struct UpdateWeights {
  RowView gradients, states, weights;
  std::int64_t items = 0;
  std::int32_t moments = 2;
  [[nodiscard]] std::int64_t width() const { return weights.view.columns; }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const Format g_format = gradients.view.format, w_format = weights.view.format;
    const char* const g_row = gradients.row(item);
    char *const s_row = states.row(item), *const w_row = weights.row(item);
    const std::int64_t columns = weights.view.columns, master = moments * columns;
    const bool has_masters = states.view.columns > master, is_adam = moments > 1;
    each_chunk(team, columns, [&](std::int64_t c, int n) {
      float g[8], m[8], v[8] = {}, w[8];
      load(g_format, g_row, c, n, g);
      load(Format::Fp32, s_row, c, n, m);
      if (is_adam) load(Format::Fp32, s_row, columns + c, n, v);
      if (has_masters) {
        load(Format::Fp32, s_row, master + c, n, w);
      } else {
        load(w_format, w_row, c, n, w);
      }
      for (int j = 0; j < n; ++j) {
        is_adam ? adam(g[j], m[j], v[j], w[j]) : sgd(g[j], m[j], w[j]);
      }
      store(Format::Fp32, s_row, c, n, m);
      if (is_adam) store(Format::Fp32, s_row, columns + c, n, v);
      if (has_masters) store(Format::Fp32, s_row, master + c, n, w);
      store(w_format, w_row, c, n, w);
    });
  }
};

}  // namespace moeplan::kernels
