// One reader function per family. The comments list the tensors that the family's public modelling code (transformers'
// modeling_*.py, or the code published with the weights) creates in addition to embeddings, q/k/v/o projections, two
// RMS norms per layer, a final norm, a router matrix of E x hidden_size and experts of three matrices, all without
// biases.
#include "model/transformer/hf_families.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace moeplan::hf {

namespace {

using L = ModelLimits;
using Indices = std::vector<std::int64_t>;

std::int64_t window_or_none(MapReader& r) { return r.integer_or("sliding_window", 0, 0); }

void set_bias(HeadAttention& a, bool bias) { a.bias = a.output_bias = bias; }

/// MixtralForCausalLM. Only the common tensors. sliding_window applies to every layer.
ModelSpec mixtral(MapReader& r) {
  ModelSpec m = decoder(r, false);
  m.attention = head_attention(r, m.hidden_size);
  const Moe moe = routed_experts(r, "num_local_experts", "num_experts_per_tok", size(r, "intermediate_size"));
  const std::int64_t n = num_layers(r);
  m.layers = layer_strategies(same_window(n, window_or_none(r)), all_moe(n), gated(0), moe);
  return m;
}

/// PhimoeForCausalLM. As mixtral, but LayerNorm with bias; q, k, v, o biased by attention_bias; output projection
/// biased by lm_head_bias.
ModelSpec phimoe(MapReader& r) {
  ModelSpec m = mixtral(r);
  m.norm = Norm::Layer;
  m.lm_head_bias = r.boolean_or("lm_head_bias", false);
  set_bias(std::get<HeadAttention>(m.attention), r.boolean_or("attention_bias", false));
  return m;
}

/// MiniMaxM2ForCausalLM. As mixtral, with e_score_correction_bias (use_routing_bias) and norms over the whole q and k.
/// Its three MTP modules are not in the public weights and not counted. No sliding window.
ModelSpec minimax_m2(MapReader& r) {
  ModelSpec m = decoder(r, false);
  HeadAttention a = head_attention(r, m.hidden_size);
  a.qk_norm = a.qk_norm_whole = r.boolean_or("use_qk_norm", true);
  m.attention = a;
  Moe moe = routed_experts(r, "num_local_experts", "num_experts_per_tok", size(r, "intermediate_size"));
  moe.router_bias = r.boolean_or("use_routing_bias", true);
  const std::int64_t n = num_layers(r);
  m.layers = layer_strategies(same_window(n, 0), all_moe(n), gated(0), moe);
  return m;
}

/// Qwen: experts in every decoder_sparse_step-th layer that is not listed in mlp_only_layers.
std::vector<bool> qwen_moe_layers(MapReader& r, std::int64_t n) {
  const std::int64_t step = r.integer_or("decoder_sparse_step", 1, 1, L::kLayers);
  std::vector<bool> is_moe = moe_where(n, [&](std::int64_t i) { return (i + 1) % step == 0; });
  for (const std::int64_t i : layer_indices(r, "mlp_only_layers", n)) is_moe[static_cast<std::size_t>(i)] = false;
  return is_moe;
}

/// Sliding attention from layer max_window_layers on (absent: the configuration class's default), if use_sliding_window
/// is set.
Indices qwen_windows(MapReader& r, std::int64_t n, bool uses_windows, std::int64_t default_first) {
  const std::int64_t window = uses_windows ? window_or_none(r) : 0;
  const std::int64_t first = r.integer_or("max_window_layers", default_first, 0);
  Indices w = same_window(n, 0);
  for (std::int64_t i = first; i < n; ++i) w[static_cast<std::size_t>(i)] = window;
  return windows(r, std::move(w), window);
}

/// Qwen2MoeForCausalLM. q, k, v biased (qkv_bias), o not; a shared expert of shared_expert_intermediate_size whose
/// output is gated (shared_expert_gate: hidden_size x 1).
ModelSpec qwen2_moe(MapReader& r) {
  ModelSpec m = decoder(r, false);
  HeadAttention a = head_attention(r, m.hidden_size);
  a.bias = r.boolean_or("qkv_bias", true);
  m.attention = a;
  Moe moe = routed_experts(r, "num_experts", "num_experts_per_tok", size(r, "moe_intermediate_size"));
  moe.shared = gated(r.integer("shared_expert_intermediate_size", 0, L::kHiddenSize));
  moe.shared_gate = moe.shared.hidden_size > 0;
  const std::int64_t n = num_layers(r);
  const std::vector<bool> is_moe = qwen_moe_layers(r, n);
  const Indices w = qwen_windows(r, n, r.boolean_or("use_sliding_window", false), 28);
  m.layers = layer_strategies(w, is_moe, dense_part(r, "intermediate_size", is_moe), moe);
  return m;
}

/// Qwen3MoeForCausalLM (also the language model of Qwen3-VL-MoE). q_norm and k_norm of head_dim; q, k, v, o biased by
/// attention_bias; no shared expert. Attention windows, if used, apply to every layer.
ModelSpec qwen3_moe(MapReader& r) {
  ModelSpec m = decoder(r, false);
  HeadAttention a = head_attention(r, m.hidden_size);
  a.qk_norm = true;
  set_bias(a, r.boolean_or("attention_bias", false));
  m.attention = a;
  const Moe moe = routed_experts(r, "num_experts", "num_experts_per_tok", size(r, "moe_intermediate_size"));
  const std::int64_t n = num_layers(r);
  const std::vector<bool> is_moe = qwen_moe_layers(r, n);
  const std::int64_t window = r.boolean_or("use_sliding_window", false) ? window_or_none(r) : 0;
  m.layers = layer_strategies(windows(r, same_window(n, window), window), is_moe,
                              dense_part(r, "intermediate_size", is_moe), moe);
  return m;
}

/// The layers of a DeepSeek model whose attention has these windows.
void deepseek_layers(MapReader& r, ModelSpec& m, bool router_bias, Indices window) {
  const Moe moe = deepseek_moe(r, router_bias);
  const std::vector<bool> is_moe = deepseek_moe_layers(r, static_cast<std::int64_t>(window.size()));
  m.layers = layer_strategies(window, is_moe, dense_part(r, "intermediate_size", is_moe), moe);
}

/// DeepseekForCausalLM (DeepSeekMoE 16B). Plain multi-head attention; attention_bias for q, k, v, o.
ModelSpec deepseek(MapReader& r) {
  ModelSpec m = decoder(r, false);
  HeadAttention a = head_attention(r, m.hidden_size);
  set_bias(a, r.boolean_or("attention_bias", false));
  m.attention = a;
  deepseek_layers(r, m, false, same_window(num_layers(r), 0));
  return m;
}

/// DeepseekV2ForCausalLM. q_a, q_b (or q if q_lora_rank is null), kv_a with the shared rotary key, kv_b, o projections;
/// norms of both latents.
ModelSpec deepseek_v2(MapReader& r) {
  ModelSpec m = decoder(r, false);
  m.attention = latent_attention(r);
  deepseek_layers(r, m, r.text_or("topk_method", "") == "noaux_tc", same_window(num_layers(r), 0));
  return m;
}

/// DeepseekV3ForCausalLM (also Kimi-K2). As V2, with e_score_correction_bias, one value per expert, and MTP layers.
ModelSpec deepseek_v3(MapReader& r) {
  ModelSpec m = decoder(r, false);
  m.attention = latent_attention(r);
  deepseek_layers(r, m, r.text_or("topk_method", "noaux_tc") == "noaux_tc", same_window(num_layers(r), 0));
  set_mtp(r, m);
  return m;
}

/// Glm4MoeForCausalLM. q, k, v biased by attention_bias, o never; q_norm and k_norm of head_dim if use_qk_norm;
/// e_score_correction_bias; experts as DeepSeek; MTP layers.
ModelSpec glm4_moe(MapReader& r) {
  ModelSpec m = decoder(r, false);
  HeadAttention a = head_attention(r, m.hidden_size);
  a.bias = r.boolean_or("attention_bias", false);
  a.qk_norm = r.boolean_or("use_qk_norm", false);
  m.attention = a;
  deepseek_layers(r, m, true, same_window(num_layers(r), 0));
  set_mtp(r, m);
  return m;
}

/// Dots1ForCausalLM. Attention as qwen3_moe, experts as deepseek_v3 without MTP.
ModelSpec dots1(MapReader& r) {
  ModelSpec m = decoder(r, false);
  HeadAttention a = head_attention(r, m.hidden_size);
  a.qk_norm = true;
  set_bias(a, r.boolean_or("attention_bias", false));
  m.attention = a;
  deepseek_layers(r, m, true, qwen_windows(r, num_layers(r), r.boolean_or("use_sliding_window", true), 62));
  return m;
}

/// Llama4ForCausalLM, the language model of Llama4ForConditionalGeneration; the vision tower is not counted. Experts in
/// moe_layers (default: every interleave_moe_layer_step-th), each of intermediate_size, with one shared expert of the
/// same size; dense layers of intermediate_size_mlp. The norm of q and k has no weights. Every
/// no_rope_layer_interval-th layer sees all tokens, the others at most the attention_chunk_size tokens of a chunk.
ModelSpec llama4(MapReader& r) {
  ModelSpec m = decoder(r, false);
  HeadAttention a = head_attention(r, m.hidden_size);
  set_bias(a, r.boolean_or("attention_bias", false));
  m.attention = a;
  Moe moe = routed_experts(r, "num_local_experts", "num_experts_per_tok", size(r, "intermediate_size"));
  moe.shared = moe.expert;
  const std::int64_t n = num_layers(r);
  const std::int64_t step = r.integer_or("interleave_moe_layer_step", 1, 1, L::kLayers);
  std::vector<bool> is_moe = moe_where(n, [&](std::int64_t i) { return (i + 1) % step == 0; });
  if (r.has("moe_layers")) {
    is_moe.assign(is_moe.size(), false);
    for (const std::int64_t i : layer_indices(r, "moe_layers", n)) is_moe[static_cast<std::size_t>(i)] = true;
  }
  const std::int64_t chunk = r.integer_or("attention_chunk_size", 0, 0);
  const std::int64_t interval = r.integer_or("no_rope_layer_interval", 4, 1);
  Indices w = same_window(n, chunk);
  const auto no_rope = r.list_or_empty("no_rope_layers");  // 0: no rotary embedding, full attention
  for (std::size_t i = 0; i < w.size(); ++i) {
    const bool full = no_rope.size() == w.size() ? no_rope[i].first->scalar == "0"
                                                 : (static_cast<std::int64_t>(i) + 1) % interval == 0;
    if (full) w[i] = 0;
  }
  m.layers =
      layer_strategies(windows(r, std::move(w), chunk), is_moe, dense_part(r, "intermediate_size_mlp", is_moe), moe);
  return m;
}

/// GptOssForCausalLM. q, k, v, o biased by attention_bias; sinks, one per head; router, gate_up and down projections of
/// the experts biased, and clamped (swiglu_limit). Default layer_types: sliding, full, sliding, ... The rotary
/// embedding is YaRN with the attention factor 0.1 ln(factor) + 1, by default with a factor of 32.
ModelSpec gpt_oss(MapReader& r) {
  ModelSpec m = decoder(r, false);
  HeadAttention a = head_attention(r, m.hidden_size);
  set_bias(a, r.boolean_or("attention_bias", true));
  a.sinks = a.scaled_rotary = true;
  m.attention = a;
  Moe moe = routed_experts(r, "num_local_experts", "num_experts_per_tok", size(r, "intermediate_size"));
  moe.expert.bias = true;
  moe.expert.clamped = true;
  moe.router_bias = true;
  const std::int64_t n = num_layers(r);
  const std::int64_t window = window_or_none(r);
  Indices w = same_window(n, window);
  for (std::size_t i = 1; i < w.size(); i += 2) w[i] = 0;
  m.layers = layer_strategies(windows(r, std::move(w), window), all_moe(n), gated(0), moe);
  return m;
}

/// OlmoeForCausalLM. q_norm and k_norm over all heads together; q, k, v, o biased by attention_bias.
ModelSpec olmoe(MapReader& r) {
  ModelSpec m = decoder(r, false);
  HeadAttention a = head_attention(r, m.hidden_size);
  a.qk_norm = a.qk_norm_whole = true;
  set_bias(a, r.boolean_or("attention_bias", false));
  m.attention = a;
  const Moe moe = routed_experts(r, "num_experts", "num_experts_per_tok", size(r, "intermediate_size"));
  const std::int64_t n = num_layers(r);
  m.layers = layer_strategies(same_window(n, 0), all_moe(n), gated(0), moe);
  return m;
}

/// GraniteMoeForCausalLM and GraniteMoeSharedForCausalLM (shared_intermediate_size, 0: none). input_linear holds the
/// gate and up matrices; q, k, v, o biased by attention_bias.
ModelSpec granitemoe(MapReader& r) {
  ModelSpec m = decoder(r, false);
  HeadAttention a = head_attention(r, m.hidden_size);
  set_bias(a, r.boolean_or("attention_bias", false));
  m.attention = a;
  Moe moe = routed_experts(r, "num_local_experts", "num_experts_per_tok", size(r, "intermediate_size"));
  moe.shared = gated(r.integer_or("shared_intermediate_size", 0, 0, L::kHiddenSize));
  const std::int64_t n = num_layers(r);
  m.layers = layer_strategies(same_window(n, 0), all_moe(n), gated(0), moe);
  return m;
}

/// DbrxForCausalLM. Own key names; LayerNorm without bias, which has as many weights as an RMS norm.
ModelSpec dbrx(MapReader& r) {
  ModelSpec m{};
  m.vocab_size = r.integer("vocab_size", 1, L::kVocabSize);
  m.hidden_size = size(r, "d_model");
  m.tied_embeddings = r.boolean_or("tie_word_embeddings", false);
  m.causal = m.final_norm = true;
  m.norms_per_layer = 2;
  MapReader attention = r.map("attn_config");
  MapReader ffn = r.map("ffn_config");
  HeadAttention a{};
  a.num_heads = r.integer("n_heads", 1, L::kHeads);
  a.num_kv_heads = attention.integer("kv_n_heads", 1, L::kHeads);
  if (r.is_sound("n_heads")) check_divides(attention, "kv_n_heads", a.num_kv_heads, "n_heads", a.num_heads);
  if (m.hidden_size % a.num_heads != 0) r.complain("n_heads", "does not divide d_model");
  a.head_dim = std::max<std::int64_t>(1, m.hidden_size / a.num_heads);
  m.attention = a;
  const Moe moe = routed_experts(ffn, "moe_num_experts", "moe_top_k", size(ffn, "ffn_hidden_size"));
  const std::int64_t n = r.integer("n_layers", 1, L::kLayers);
  m.layers = layer_strategies(same_window(n, 0), all_moe(n), gated(0), moe);
  return m;
}

/// Ernie4_5_MoeForCausalLM. use_bias for q, k, v, o, every FFN and the output projection; e_score_correction_bias; the
/// shared experts as one FFN. Embeddings are tied unless the file says otherwise. Its MTP weights are not counted: the
/// public code does not load them.
ModelSpec ernie4_5_moe(MapReader& r) {
  ModelSpec m = decoder(r, true);
  HeadAttention a = head_attention(r, m.hidden_size);
  const bool bias = r.boolean_or("use_bias", false);
  set_bias(a, bias);
  m.attention = a;
  m.lm_head_bias = bias;
  Moe moe = routed_experts(r, "moe_num_experts", "moe_k", size(r, "moe_intermediate_size"));
  moe.shared = shared_experts(r, "moe_num_shared_experts", r.integer_or("moe_num_shared_experts", 0, 0, 1024),
                              moe.expert.hidden_size);
  moe.expert.bias = moe.shared.bias = bias;
  moe.router_bias = true;
  const std::int64_t n = num_layers(r);
  const std::int64_t first = r.integer_or("moe_layer_start_index", 1, 0, L::kLayers);
  std::int64_t last = r.integer_or("moe_layer_end_index", -1, -1, L::kLayers);
  if (last < 0) last = n - 1;
  const std::int64_t step = r.integer_or("moe_layer_interval", 1, 1, L::kLayers);
  const std::vector<bool> is_moe =
      moe_where(n, [&](std::int64_t i) { return (i + 1) % step == 0 && i >= first && i <= last; });
  Ffn dense = dense_part(r, "intermediate_size", is_moe);
  dense.bias = bias && dense.hidden_size > 0;
  m.layers = layer_strategies(same_window(n, 0), is_moe, dense, moe);
  return m;
}

/// HunYuanMoEV1ForCausalLM. query and key norms of head_dim; a shared MLP of intermediate_size x num_shared_expert in
/// every layer; experts of moe_intermediate_size (default: intermediate_size). Per-layer lists must be uniform.
ModelSpec hunyuan_v1_moe(MapReader& r) {
  ModelSpec m = decoder(r, false);
  HeadAttention a = head_attention(r, m.hidden_size);
  a.qk_norm = r.boolean_or("use_qk_norm", true);
  set_bias(a, r.boolean_or("attention_bias", false));
  m.attention = a;
  const std::int64_t shared_size = size(r, "intermediate_size");
  const std::int64_t expert_size =
      r.has("moe_intermediate_size") ? uniform_integer(r, "moe_intermediate_size", 1, L::kHiddenSize) : shared_size;
  Moe moe = routed_experts(r, "num_experts", "moe_topk", expert_size);
  const std::int64_t shared = r.has("num_shared_expert") ? uniform_integer(r, "num_shared_expert", 0, 1024) : 1;
  moe.shared = shared_experts(r, "num_shared_expert", shared, shared_size);
  if (r.boolean_or("use_cla", false)) r.complain("use_cla", "attention shared across layers is not modelled");
  const std::int64_t n = num_layers(r);
  const std::int64_t dense = r.integer_or("moe_layer_num_skipped", 0, 0, L::kLayers);
  const std::vector<bool> is_moe = moe_where(n, [&](std::int64_t i) { return i >= dense; });
  m.layers = layer_strategies(same_window(n, 0), is_moe, gated(shared_size), moe);
  return m;
}

constexpr std::array kFamilies{Family{"mixtral", "MixtralForCausalLM", mixtral},
                               Family{"qwen2_moe", "Qwen2MoeForCausalLM", qwen2_moe},
                               Family{"qwen3_moe", "Qwen3MoeForCausalLM", qwen3_moe},
                               Family{"qwen3_vl_moe_text", "", qwen3_moe},
                               Family{"deepseek", "DeepseekForCausalLM", deepseek},
                               Family{"deepseek_v2", "DeepseekV2ForCausalLM", deepseek_v2},
                               Family{"deepseek_v3", "DeepseekV3ForCausalLM", deepseek_v3},
                               Family{"deepseek_v32", "DeepseekV32ForCausalLM", deepseek_v32},
                               Family{"deepseek_v4", "DeepseekV4ForCausalLM", deepseek_v4},
                               Family{"kimi_k2", "", deepseek_v3},
                               Family{"glm_moe_dsa", "GlmMoeDsaForCausalLM", glm_moe_dsa},
                               Family{"qwen3_next", "Qwen3NextForCausalLM", qwen3_next},
                               Family{"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", qwen3_next},
                               Family{"nemotron_h", "NemotronHForCausalLM", nemotron_h},
                               Family{"mimo_v2", "MiMoV2ForCausalLM", mimo_v2},
                               Family{"mimo_v2_flash", "MiMoV2FlashForCausalLM", mimo_v2},
                               Family{"step3p5", "Step3p5ForCausalLM", step3p5},
                               Family{"glm4_moe", "Glm4MoeForCausalLM", glm4_moe},
                               Family{"llama4_text", "Llama4ForCausalLM", llama4},
                               Family{"gpt_oss", "GptOssForCausalLM", gpt_oss},
                               Family{"olmoe", "OlmoeForCausalLM", olmoe},
                               Family{"phimoe", "PhimoeForCausalLM", phimoe},
                               Family{"granitemoe", "GraniteMoeForCausalLM", granitemoe},
                               Family{"granitemoeshared", "GraniteMoeSharedForCausalLM", granitemoe},
                               Family{"dbrx", "DbrxForCausalLM", dbrx},
                               Family{"ernie4_5_moe", "Ernie4_5_MoeForCausalLM", ernie4_5_moe},
                               Family{"minimax_m2", "MiniMaxM2ForCausalLM", minimax_m2},
                               Family{"hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM", hunyuan_v1_moe},
                               Family{"dots1", "Dots1ForCausalLM", dots1}};

}  // namespace

std::span<const Family> families() { return kFamilies; }

}  // namespace moeplan::hf
