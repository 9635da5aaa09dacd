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

/// First in double, to check that the model is small enough for integer counts.
template <class N>
struct Count {
  const ModelSpec& model;

  static N number(std::int64_t n) { return static_cast<N>(n); }
  N hidden() const { return number(model.hidden_size); }
  N norm() const { return model.norm == Norm::Layer ? N{2} * hidden() : hidden(); }

  /// Projections q, k, v and output, with their biases and norms.
  N attention(const HeadAttention& a) const {
    const N q = number(a.num_heads) * number(a.head_dim);
    const N kv = number(a.num_kv_heads) * number(a.head_dim);
    N n = hidden() * (q + N{2} * kv) + q * hidden();
    if (a.bias) n += q + N{2} * kv;
    if (a.output_bias) n += hidden();
    if (a.qk_norm) n += a.qk_norm_whole ? q + kv : N{2} * number(a.head_dim);
    if (a.sinks) n += number(a.num_heads);
    return n;
  }

  /// [DeepSeek-V2] sec. 2.1.2: down-projections to the latents, their norms, up-projections, output projection.
  N attention(const LatentAttention& a) const {
    const N heads = number(a.num_heads);
    const N q = heads * (number(a.qk_nope_head_dim) + number(a.qk_rope_head_dim));
    const N q_rank = number(a.q_lora_rank);
    const N kv_rank = number(a.kv_lora_rank);
    const N queries = a.q_lora_rank > 0 ? hidden() * q_rank + q_rank + q_rank * q : hidden() * q;
    const N down = hidden() * (kv_rank + number(a.qk_rope_head_dim)) + kv_rank;
    const N up = kv_rank * heads * (number(a.qk_nope_head_dim) + number(a.v_head_dim));
    return queries + down + up + heads * number(a.v_head_dim) * hidden();
  }
  N attention() const {
    return std::visit([&](const auto& a) { return attention(a); }, model.attention);
  }

  N ffn(const Ffn& f) const { return ffn_count<N>(f, model.hidden_size); }
  /// A layer, counting `experts` of its routed experts (a dense layer has none).
  N layer(const LayerSpec& l, bool active_only) const {
    const N common = attention() + number(model.norms_per_layer) * norm();
    if (const auto* dense = std::get_if<Ffn>(&l.ffn)) return common + ffn(*dense);
    const Moe& m = std::get<Moe>(l.ffn);
    const N experts = number(active_only ? m.top_k : m.num_experts) * ffn(m.expert);
    return common + router_count<N>(m, model.hidden_size) + ffn(m.shared) + experts;
  }
  N all_layers(bool active_only) const {
    N n{0};
    for (const RepeatedLayers& run : model.layers) {
      for (const LayerSpec& l : run.pattern) n += number(run.repeat) * layer(l, active_only);
    }
    return n + (model.final_norm ? norm() : N{0}) + (model.embedding_norm ? norm() : N{0});
  }
  N embeddings() const {
    const N table = number(model.vocab_size) * hidden();
    const N others = (number(model.position_embeddings) + number(model.token_types)) * hidden();
    return table + others + (model.tied_embeddings ? N{0} : table) +
           (model.lm_head_bias ? number(model.vocab_size) : N{0});
  }
  /// [DeepSeek-V3] sec. 2.2: a layer equal to the last one, norms of the two inputs, their joint projection, and the
  /// norm before the output projection. Embedding and output projection are the main model's.
  N mtp() const {
    if (model.num_mtp_layers == 0 || model.layers.empty() || model.layers.back().pattern.empty()) return N{0};
    const N one = layer(model.layers.back().pattern.back(), false) + N{2} * hidden() * hidden() + N{3} * norm();
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

std::int64_t attention_parameters(const ModelSpec& model) { return Count<std::int64_t>{model}.attention(); }

std::int64_t ffn_parameters(const Ffn& ffn, std::int64_t hidden_size) {
  return ffn_count<std::int64_t>(ffn, hidden_size);
}

std::int64_t router_parameters(const Moe& moe, std::int64_t hidden_size) {
  return router_count<std::int64_t>(moe, hidden_size);
}

}  // namespace moeplan
