#include "model/costs/model_flops.hpp"

#include <algorithm>

namespace moeplan {

namespace {

/// Columns of queries and values over all heads.
double attention_columns(const ModelSpec& model) {
  if (const auto* h = std::get_if<HeadAttention>(&model.attention)) {
    return static_cast<double>(2 * h->num_heads * h->head_dim);
  }
  const auto& l = std::get<LatentAttention>(model.attention);
  return static_cast<double>(l.num_heads * (l.qk_nope_head_dim + l.qk_rope_head_dim + l.v_head_dim));
}

}  // namespace

double forward_flops_per_token(const ModelSpec& model, std::int64_t sequence_length) {
  const double head = static_cast<double>(model.vocab_size) * static_cast<double>(model.hidden_size);
  double flops = 2 * (static_cast<double>(count_parameters(model).active_without_embeddings) + head);
  for (const RepeatedLayers& run : model.layers) {
    for (const LayerSpec& layer : run.pattern) {
      double keys = static_cast<double>(sequence_length) * (model.causal ? 0.5 : 1.0);
      if (layer.attention_window > 0) keys = std::min(keys, static_cast<double>(layer.attention_window));
      flops += static_cast<double>(run.repeat) * 2 * keys * attention_columns(model);
    }
  }
  return flops;
}

}  // namespace moeplan
