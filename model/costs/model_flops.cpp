#include "model/costs/model_flops.hpp"

#include <algorithm>

#include "model/costs/scan_kernels.hpp"

namespace moeplan {

namespace {

double real(std::int64_t n) { return static_cast<double>(n); }

/// Keys of a query in a layer of full attention, on average: all, or half of them if causal.
double all_keys(const ModelSpec& model, std::int64_t sequence_length) {
  return real(sequence_length) * (model.causal ? 0.5 : 1.0);
}

double windowed(double keys, const LayerSpec& layer) {
  return layer.attention_window > 0 ? std::min(keys, real(layer.attention_window)) : keys;
}

}  // namespace

double selected_keys(std::int64_t candidates, std::int64_t most, bool causal) {
  const double all = real(candidates), k = std::min(all, real(most));
  if (!causal || all == 0) return k;
  return k - k * k / (2 * all);
}

double indexer_multiply_adds(const Indexer& indexer, double keys) {
  return indexer.is_shared ? 0 : real(indexer.num_heads * indexer.head_dim) * keys;
}

CompressedKeys compressed_keys(const CompressedAttention& a, const LayerSpec& layer, bool causal,
                               std::int64_t sequence_length) {
  const std::int64_t window = layer.attention_window > 0 ? layer.attention_window : sequence_length;
  CompressedKeys keys{.near = selected_keys(sequence_length, window, causal)};
  if (a.compression == 0) return keys;
  keys.entries = sequence_length / a.compression;
  keys.scored = selected_keys(keys.entries, keys.entries, causal);
  keys.far = selected_keys(keys.entries, a.indexer ? a.indexer->top_k : keys.entries, causal);
  return keys;
}

namespace {

/// Multiply-adds of a token in a layer's mixer beyond those of its weights.
struct MixerWork {
  const ModelSpec& model;
  const LayerSpec& layer;
  std::int64_t sequence_length;

  double operator()(const HeadAttention& a) const {
    return windowed(all_keys(model, sequence_length), layer) * real(a.num_heads * (a.head_dim + a.value_dim()));
  }
  double operator()(const LatentAttention& a) const {
    if (!a.indexer) {
      return windowed(all_keys(model, sequence_length), layer) *
             real(a.num_heads * (a.qk_nope_head_dim + a.qk_rope_head_dim + a.v_head_dim));
    }
    const double keys = selected_keys(sequence_length, a.indexer->top_k, model.causal);
    return keys * real(a.num_heads * (2 * a.kv_lora_rank + a.qk_rope_head_dim)) +
           indexer_multiply_adds(*a.indexer, all_keys(model, sequence_length));
  }
  double operator()(const CompressedAttention& a) const {
    const CompressedKeys keys = compressed_keys(a, layer, model.causal, sequence_length);
    return (keys.near + keys.far) * real(2 * a.num_heads * a.head_dim) +
           (a.indexer ? indexer_multiply_adds(*a.indexer, keys.scored) : 0);
  }
  double operator()(const GatedDeltaNet& d) const { return multiply_adds(scan_kernels(d, 1).forward); }
  double operator()(const Mamba2& m) const { return multiply_adds(scan_kernels(m, 1).forward); }
  double operator()(const NoMixer&) const { return 0; }
};

}  // namespace

double forward_flops_per_token(const ModelSpec& model, std::int64_t sequence_length) {
  const double head = real(model.vocab_size) * real(model.hidden_size);
  double flops = 2 * (real(count_parameters(model).active_without_embeddings) + head);
  for (const RepeatedLayers& run : model.layers) {
    for (const LayerSpec& layer : run.pattern) {
      flops += real(run.repeat) * 2 * std::visit(MixerWork{model, layer, sequence_length}, mixer_of(model, layer));
    }
  }
  return flops;
}

double mtp_flops_per_token(const ModelSpec& model, std::int64_t sequence_length) {
  ModelSpec mtp = model;
  mtp.layers = {{1, {mtp_layer(model)}}};
  return 4 * real(model.hidden_size) * real(model.hidden_size) + forward_flops_per_token(mtp, sequence_length);
}

}  // namespace moeplan
