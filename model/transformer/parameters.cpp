// Parameter counts of a model, tensor by tensor.
#include <fmt/format.h>

#include "model/transformer/model_spec.hpp"

namespace moeplan {

namespace {

template <class N>
N ffn_count(const Ffn& f, std::int64_t hidden_size) {
  if (f.hidden_size == 0) return N{0};
  const N hidden = static_cast<N>(hidden_size);
  const N own = static_cast<N>(f.hidden_size);
  const N inner = f.gated ? N{2} * own : own;
  return hidden * (inner + own) + (f.bias ? inner + hidden : N{0});
}

template <class N>
N router_count(const Moe& m, std::int64_t hidden_size) {
  const N hidden = static_cast<N>(hidden_size);
  const N row = m.router_bias ? hidden + N{1} : hidden;
  return static_cast<N>(m.num_experts) * row + (m.shared_gate ? hidden : N{0});
}

/// One routed expert, whose rows have the columns of the latent projection if there is one.
template <class N>
N expert_count(const Moe& m, std::int64_t hidden_size) {
  return ffn_count<N>(m.expert, m.row_columns(hidden_size));
}

/// First in double, to check that the model is small enough for integer counts.
template <class N>
struct Count {
  const ModelSpec& model;

  static N number(std::int64_t n) { return static_cast<N>(n); }
  N hidden() const { return number(model.hidden_size); }
  N norm() const { return model.norm == Norm::Layer ? N{2} * hidden() : hidden(); }

  /// Projections q, k, v and output, with their biases and norms; the output gate's projection has q's bias.
  N mixer(const HeadAttention& a) const {
    const N q = number(a.num_heads) * number(a.head_dim);
    const N k = number(a.num_kv_heads) * number(a.head_dim);
    const N v = number(a.num_kv_heads) * number(a.value_dim());
    const N out = number(a.num_heads) * number(a.value_dim());
    const N gate = a.output_gate == OutputGate::None    ? N{0}
                   : a.output_gate == OutputGate::Heads ? number(a.num_heads)
                                                        : out;
    N n = hidden() * (q + k + v + gate) + out * hidden();
    if (a.bias) n += q + k + v + gate;
    if (a.output_bias) n += hidden();
    if (a.qk_norm) n += a.qk_norm_whole ? q + k : N{2} * number(a.head_dim);
    if (a.sinks) n += number(a.num_heads);
    return n;
  }

  /// [DeepSeek-V2] sec. 2.1.2: down-projections to the latents, their norms, up-projections, output projection.
  N mixer(const LatentAttention& a) const {
    const N heads = number(a.num_heads);
    const N q = heads * (number(a.qk_nope_head_dim) + number(a.qk_rope_head_dim));
    const N q_rank = number(a.q_lora_rank);
    const N kv_rank = number(a.kv_lora_rank);
    const N queries = a.q_lora_rank > 0 ? hidden() * q_rank + q_rank + q_rank * q : hidden() * q;
    const N down = hidden() * (kv_rank + number(a.qk_rope_head_dim)) + kv_rank;
    const N up = kv_rank * heads * (number(a.qk_nope_head_dim) + number(a.v_head_dim));
    return queries + down + up + heads * number(a.v_head_dim) * hidden() + indexer(a);
  }
  /// [DeepSeek-V3.2] sec. 2.1: queries from the compressed queries, one key with a LayerNorm, a weight a head.
  N indexer(const LatentAttention& a) const {
    if (!a.indexer || a.indexer->is_shared) return N{0};
    const N heads = number(a.indexer->num_heads), dim = number(a.indexer->head_dim);
    return number(a.q_lora_rank) * heads * dim + hidden() * dim + N{2} * dim + hidden() * heads;
  }

  /// [DeepSeek-V4] sec. 2.3: compressed queries with a norm, one key-value head with a norm, sinks, grouped output
  /// projection; the compressor: entries and their weights, a bias by position, a norm; the indexer: a compressor of
  /// its own, queries, a weight a head.
  N mixer(const CompressedAttention& a) const {
    const N heads = number(a.num_heads), dim = number(a.head_dim), rank = number(a.q_lora_rank);
    const N low = number(a.output_groups) * number(a.output_rank);
    N n = hidden() * rank + rank + rank * heads * dim + hidden() * dim + dim + heads;
    n += heads * dim * number(a.output_rank) + low * hidden();
    if (a.compression > 0) n += compressor(a, dim);
    if (a.indexer && !a.indexer->is_shared) {
      const N index_dim = number(a.indexer->head_dim), index_heads = number(a.indexer->num_heads);
      n += compressor(a, index_dim) + rank * index_heads * index_dim + hidden() * index_heads;
    }
    return n;
  }
  N compressor(const CompressedAttention& a, N dim) const {
    const N width = number(a.overlap()) * dim;
    return N{2} * hidden() * width + number(a.compression) * width + dim;
  }

  /// Input projections, a convolution without bias, decay and its bias a head, the norm of a head's output, output
  /// projection (Qwen3NextGatedDeltaNet).
  N mixer(const GatedDeltaNet& d) const {
    return hidden() * number(d.input_columns()) + number(d.conv_columns()) * number(d.conv_kernel) +
           N{2} * number(d.num_value_heads) + number(d.value_head_dim) + number(d.value_columns()) * hidden();
  }

  /// Input projection, convolution, decay, its bias and the skip connection a head, the norm of the output, output
  /// projection (NemotronHMamba2Mixer).
  N mixer(const Mamba2& m) const {
    const N in = number(m.input_columns()), inner = number(m.inner_columns()), conv = number(m.conv_columns());
    N n = hidden() * in + conv * number(m.conv_kernel) + N{3} * number(m.num_heads) + inner + inner * hidden();
    if (m.conv_bias) n += conv;
    if (m.bias) n += in + hidden();
    return n;
  }
  N mixer(const NoMixer&) const { return N{0}; }
  N mixer(const TokenMixer& any) const {
    return std::visit([&](const auto& m) { return mixer(m); }, any);
  }

  /// The norms of a layer: half of them belong to its mixer, half to its feed-forward part.
  N norms(const LayerSpec& l) const {
    const bool is_whole = has_mixer(l) && has_ffn(l);
    return number(is_whole ? model.norms_per_layer : model.norms_per_layer / 2) * norm();
  }
  /// [DeepSeek-V4] sec. 2.2: from all streams, the weights with which they are read, written and mixed, with a bias
  /// each and three scales; before and after each part of a layer.
  N hyper_connections(const LayerSpec& l) const {
    if (model.residual_streams == 1) return N{0};
    const N streams = number(model.residual_streams), outputs = streams * (streams + N{2});
    const N parts = number((has_mixer(l) ? 1 : 0) + (has_ffn(l) ? 1 : 0));
    return parts * (outputs * streams * hidden() + outputs + N{3});
  }
  /// Reads the streams before the output projection.
  N last_hyper_connection() const {
    if (model.residual_streams == 1) return N{0};
    const N streams = number(model.residual_streams);
    return streams * streams * hidden() + streams + N{1};
  }

  N ffn(const Ffn& f) const { return ffn_count<N>(f, model.hidden_size); }
  /// A layer, counting `experts` of its routed experts (a dense layer has none).
  N layer(const LayerSpec& l, bool active_only) const {
    const N common = mixer(mixer_of(model, l)) + norms(l) + hyper_connections(l);
    if (const auto* dense = std::get_if<Ffn>(&l.ffn)) return common + ffn(*dense);
    const Moe& m = std::get<Moe>(l.ffn);
    const N experts = number(active_only ? m.top_k : m.num_experts) * expert_count<N>(m, model.hidden_size);
    const N latent = N{2} * hidden() * number(m.latent_size);
    return common + router_count<N>(m, model.hidden_size) + latent + ffn(m.shared) + experts;
  }
  N all_layers(bool active_only) const {
    N n{0};
    for (const RepeatedLayers& run : model.layers) {
      for (const LayerSpec& l : run.pattern) n += number(run.repeat) * layer(l, active_only);
    }
    return n + last_hyper_connection() + (model.final_norm ? norm() : N{0}) + (model.embedding_norm ? norm() : N{0});
  }
  N embeddings() const {
    const N table = number(model.vocab_size) * hidden();
    const N others = (number(model.position_embeddings) + number(model.token_types)) * hidden();
    return table + others + (model.tied_embeddings ? N{0} : table) +
           (model.lm_head_bias ? number(model.vocab_size) : N{0});
  }
  /// [DeepSeek-V3] sec. 2.2: a layer, norms of the two inputs, their joint projection, and the
  /// norm before the output projection. Embedding and output projection are the main model's.
  N mtp() const {
    if (model.num_mtp_layers == 0 || model.layers.empty() || model.layers.back().pattern.empty()) return N{0};
    const N one = layer(mtp_layer(model), false) + N{2} * hidden() * hidden() + N{3} * norm();
    return number(model.num_mtp_layers) * one;
  }
};

}  // namespace

std::int64_t ModelSpec::num_layers() const {
  std::int64_t n = 0;
  for (const RepeatedLayers& run : layers) n += run.repeat * static_cast<std::int64_t>(run.pattern.size());
  return n;
}

std::int64_t ModelSpec::num_moe_layers() const {
  std::int64_t n = 0;
  for (const RepeatedLayers& run : layers) {
    for (const LayerSpec& l : run.pattern) n += std::holds_alternative<Moe>(l.ffn) ? run.repeat : 0;
  }
  return n;
}

const TokenMixer& mixer_of(const ModelSpec& model, const LayerSpec& layer) {
  return layer.mixer ? *layer.mixer : model.attention;
}

bool has_mixer(const LayerSpec& layer) { return !layer.mixer || !std::holds_alternative<NoMixer>(*layer.mixer); }

bool has_ffn(const LayerSpec& layer) {
  const Ffn* dense = std::get_if<Ffn>(&layer.ffn);
  return !dense || dense->hidden_size > 0;
}

std::int64_t row_columns(const ModelSpec& model) {
  for (const RepeatedLayers& run : model.layers) {
    for (const LayerSpec& layer : run.pattern) {
      if (const Moe* moe = std::get_if<Moe>(&layer.ffn)) return moe->row_columns(model.hidden_size);
    }
  }
  return model.hidden_size;
}

const LayerSpec& mtp_layer(const ModelSpec& model) {
  return model.mtp_layer ? *model.mtp_layer : model.layers.back().pattern.back();
}

std::string size_error(const ModelSpec& model) {
  const Count<double> count{model};
  const double n = count.all_layers(false) + count.embeddings() + count.mtp();
  if (n <= ModelLimits::kParameters) return "";
  return fmt::format("the model has {:.3g} parameters; expected at most {:.3g}", n, ModelLimits::kParameters);
}

ParameterCounts count_parameters(const ModelSpec& model) {
  const Count<std::int64_t> count{model};
  const std::int64_t active = count.all_layers(true);
  return {.total = count.all_layers(false) + count.embeddings(),
          .active = active + count.embeddings(),
          .active_without_embeddings = active,
          .mtp = count.mtp()};
}

std::int64_t dense_parameters(const ModelSpec& model, const LayerSpec& layer) {
  LayerSpec without = layer;
  if (auto* moe = std::get_if<Moe>(&without.ffn)) moe->top_k = 0;
  return Count<std::int64_t>{model}.layer(without, /*active_only=*/true);
}

std::int64_t head_parameters(const ModelSpec& model) {
  return (model.tied_embeddings ? 0 : model.vocab_size * model.hidden_size) +
         (model.lm_head_bias ? model.vocab_size : 0);
}

std::int64_t mixer_parameters(const ModelSpec& model, const TokenMixer& mixer) {
  return Count<std::int64_t>{model}.mixer(mixer);
}

std::int64_t expert_parameters(const Moe& moe, std::int64_t hidden_size) {
  return expert_count<std::int64_t>(moe, hidden_size);
}

std::int64_t ffn_parameters(const Ffn& ffn, std::int64_t hidden_size) {
  return ffn_count<std::int64_t>(ffn, hidden_size);
}

std::int64_t router_parameters(const Moe& moe, std::int64_t hidden_size) {
  return router_count<std::int64_t>(moe, hidden_size);
}

}  // namespace moeplan
