// Families whose layers have several token mixers, or sparse attention. The comments list the tensors as those of
// hf_families.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "model/transformer/hf_families.hpp"

namespace moeplan::hf {

namespace {

using L = ModelLimits;

/// index_n_heads, index_head_dim, index_topk.
Indexer read_indexer_keys(MapReader& r) {
  return {.num_heads = r.integer("index_n_heads", 1, L::kHeads),
          .head_dim = size(r, "index_head_dim"),
          .top_k = r.integer("index_topk", 1)};
}

/// The elements of a list of words, one for each of `layers` layers (more are ignored); empty if the key is absent or
/// null. A word that is not one of `known` is reported.
std::vector<std::string> layer_words(MapReader& r, std::string_view key, std::int64_t layers,
                                     const std::vector<std::string>& known) {
  std::vector<std::string> words;
  const auto list = r.list_or_empty(key);
  if (list.empty()) return words;
  if (std::ssize(list) < layers) {
    r.complain(key, fmt::format("has {} elements; expected one for each of {} layers", list.size(), layers));
    return words;
  }
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto& [node, path] = list[static_cast<std::size_t>(i)];
    if (std::find(known.begin(), known.end(), node->scalar) == known.end()) {
      r.diagnostics().add(node->where, path,
                          fmt::format("{} is not modelled; expected {}{}", in_quotes(node->scalar),
                                      fmt::join(known, ", "), suggestion(node->scalar, known)));
      return {};
    }
    words.push_back(node->scalar);
  }
  return words;
}

/// The layers with this attention in all of them, by which have experts.
std::vector<LayerSpec> latent_layers(MapReader& r, const std::vector<bool>& is_moe) {
  const Moe moe = deepseek_moe(r, r.text_or("topk_method", "noaux_tc") == "noaux_tc");
  const Ffn dense = dense_part(r, "intermediate_size", is_moe);
  std::vector<LayerSpec> layers;
  for (const bool has_experts : is_moe) {
    layers.push_back({.attention_window = 0, .ffn = dense});
    if (has_experts) layers.back().ffn = moe;
  }
  return layers;
}

/// Which layers use the keys that the preceding layer has selected: indexer_types, else index_topk_pattern, else
/// index_topk_freq and index_skip_topk_offset (GlmMoeDsaConfig).
std::vector<bool> shared_indexers(MapReader& r, std::int64_t layers) {
  std::vector<bool> shared(static_cast<std::size_t>(layers), false);
  const std::string pattern = r.text_or("index_topk_pattern", "");
  const std::int64_t every = r.integer_or("index_topk_freq", 1, 1, L::kLayers);
  const std::int64_t offset = r.integer_or("index_skip_topk_offset", 2, 0, L::kLayers);
  const std::vector<std::string> types = layer_words(r, "indexer_types", layers, {"full", "shared"});
  if (types.empty() && !pattern.empty() && std::ssize(pattern) < layers) {
    r.complain("index_topk_pattern",
               fmt::format("has {} letters; expected F or S for each of {} layers", pattern.size(), layers));
    return shared;
  }
  for (std::size_t i = 0; i < shared.size(); ++i) {
    const std::int64_t after = std::max<std::int64_t>(static_cast<std::int64_t>(i) - offset + 1, 0);
    shared[i] = !types.empty() ? types[i] == "shared" : !pattern.empty() ? pattern[i] == 'S' : after % every != 0;
  }
  if (shared.front()) r.complain("indexer_types", "the first layer has no preceding layer whose keys it could use");
  return shared;
}

}  // namespace

/// DeepseekV32ForCausalLM. As deepseek_v3, with an indexer in every layer: wq_b, wk, the LayerNorm of its key,
/// weights_proj.
ModelSpec deepseek_v32(MapReader& r) {
  ModelSpec m = decoder(r, false);
  LatentAttention a = latent_attention(r);
  a.indexer = read_indexer_keys(r);
  m.attention = a;
  m.layers = folded(latent_layers(r, deepseek_moe_layers(r, num_layers(r))));
  set_mtp(r, m);
  return m;
}

/// GlmMoeDsaForCausalLM (GLM-5). As deepseek_v32, but some layers use the keys that the preceding layer has selected
/// and have no indexer; mlp_layer_types says which layers are dense. The layer of multi-token prediction has an
/// indexer.
ModelSpec glm_moe_dsa(MapReader& r) {
  ModelSpec m = decoder(r, false);
  LatentAttention a = latent_attention(r);
  a.indexer = read_indexer_keys(r);
  m.attention = a;
  const std::int64_t n = num_layers(r);
  std::vector<bool> is_moe = moe_where(n, [](std::int64_t i) { return i >= 3; });
  if (r.has("first_k_dense_replace")) is_moe = deepseek_moe_layers(r, n);
  const std::vector<std::string> types = layer_words(r, "mlp_layer_types", n, {"dense", "sparse"});
  for (std::size_t i = 0; i < types.size(); ++i) is_moe[i] = types[i] == "sparse";
  const std::vector<bool> shared = shared_indexers(r, n);
  std::vector<LayerSpec> layers = latent_layers(r, is_moe);
  m.mtp_layer = layers.back();
  a.indexer->is_shared = true;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (shared[i]) layers[i].mixer = a;
  }
  m.layers = folded(layers);
  set_mtp(r, m);
  if (m.num_mtp_layers == 0) m.mtp_layer = std::nullopt;
  return m;
}

/// DeepseekV4ForCausalLM. Attention as CompressedAttention says; mHC (hyper-connections) around attention and MoE of
/// every layer; all layers have experts, clamped by swiglu_limit; the router's bias is missing in the first
/// num_hash_layers layers, whose experts a table of tokens selects: the table's whole numbers are no parameters, and
/// balanced routing is assumed of it as of a router. The layer of multi-token prediction has the last of
/// compress_ratios.
ModelSpec deepseek_v4(MapReader& r) {
  ModelSpec m = decoder(r, false);
  m.residual_streams = r.integer_or("hc_mult", 4, 1, L::kResidualStreams);
  CompressedAttention a{};
  a.num_heads = r.integer("num_attention_heads", 1, L::kHeads);
  if (r.integer_or("num_key_value_heads", 1, 1, L::kHeads) != 1) {
    r.complain("num_key_value_heads", "several key-value heads are not modelled in this attention; expected 1");
  }
  a.head_dim = size(r, "head_dim");
  a.rope_head_dim = r.integer("qk_rope_head_dim", 0, a.head_dim);
  a.q_lora_rank = size(r, "q_lora_rank");
  a.output_groups = r.integer("o_groups", 1, L::kHeads);
  check_divides(r, "o_groups", a.output_groups, "num_attention_heads", a.num_heads);
  a.output_rank = size(r, "o_lora_rank");
  m.attention = a;
  const Indexer indexer = read_indexer_keys(r);
  const std::int64_t window = r.integer("sliding_window", 1);
  const std::int64_t n = num_layers(r);
  const std::int64_t hashed = r.integer_or("num_hash_layers", 3, 0, L::kLayers);
  set_mtp(r, m);
  Moe moe = deepseek_moe(r, true);
  moe.expert.clamped = r.has("swiglu_limit");
  const auto ratios = r.list("compress_ratios");
  if (std::ssize(ratios) < n) {
    r.complain("compress_ratios", fmt::format("has {} elements; expected one for each of {} layers", ratios.size(), n));
    return m;
  }
  std::vector<LayerSpec> layers;
  for (std::size_t i = 0; i < std::min<std::size_t>(ratios.size(), static_cast<std::size_t>(n) + 1); ++i) {
    const auto& [node, path] = ratios[i];
    // Few tokens in an entry: entries overlap and are selected (CSA); many: all are seen (HCA).
    const std::string ratio = node->scalar;
    if (ratio != "0" && ratio != "4" && ratio != "128") {
      r.diagnostics().add(node->where, path, fmt::format("expected 0, 4 or 128, got {}", in_quotes(ratio)));
      return m;
    }
    LayerSpec layer{.attention_window = window, .ffn = moe};
    std::get<Moe>(layer.ffn).router_bias = static_cast<std::int64_t>(i) >= hashed;
    if (ratio != "0") {
      CompressedAttention own = a;
      own.compression = ratio == "4" ? 4 : 128;
      if (ratio == "4") own.indexer = indexer;
      layer.mixer = own;
    }
    layers.push_back(std::move(layer));
  }
  if (std::ssize(layers) > n) {
    if (m.num_mtp_layers > 0) m.mtp_layer = layers.back();
    layers.pop_back();
  }
  m.layers = folded(layers);
  return m;
}

/// Qwen3NextForCausalLM and the language model of Qwen3.5-MoE. Attention with norms of queries and keys and an output
/// gate as wide as the queries in every full_attention_interval-th layer (or by layer_types), Gated DeltaNet in the
/// others; a gated shared expert. MTP layers (mtp_num_hidden_layers) have full attention.
ModelSpec qwen3_next(MapReader& r) {
  ModelSpec m = decoder(r, false);
  HeadAttention a = head_attention(r, m.hidden_size);
  a.qk_norm = true;
  a.bias = a.output_bias = r.boolean_or("attention_bias", false);
  if (r.boolean_or("attn_output_gate", true)) a.output_gate = OutputGate::Values;
  m.attention = a;
  const GatedDeltaNet delta{.num_key_heads = r.integer("linear_num_key_heads", 1, L::kHeads),
                            .num_value_heads = r.integer("linear_num_value_heads", 1, L::kHeads),
                            .key_head_dim = size(r, "linear_key_head_dim"),
                            .value_head_dim = size(r, "linear_value_head_dim"),
                            .conv_kernel = r.integer_or("linear_conv_kernel_dim", 4, 1, L::kHiddenSize)};
  check_divides(r, "linear_num_key_heads", delta.num_key_heads, "linear_num_value_heads", delta.num_value_heads);
  Moe moe = routed_experts(r, "num_experts", "num_experts_per_tok", size(r, "moe_intermediate_size"));
  moe.shared = gated(r.integer("shared_expert_intermediate_size", 0, L::kHiddenSize));
  moe.shared_gate = moe.shared.hidden_size > 0;
  const std::int64_t n = num_layers(r);
  const std::int64_t step = r.integer_or("decoder_sparse_step", 1, 1, L::kLayers);
  std::vector<bool> is_moe = moe_where(n, [&](std::int64_t i) { return (i + 1) % step == 0; });
  for (const std::int64_t i : layer_indices(r, "mlp_only_layers", n)) is_moe[static_cast<std::size_t>(i)] = false;
  const Ffn dense = dense_part(r, "intermediate_size", is_moe);
  const std::int64_t interval = r.integer_or("full_attention_interval", 4, 1, L::kLayers);
  const std::vector<std::string> types = layer_words(r, "layer_types", n, {"linear_attention", "full_attention"});
  std::vector<LayerSpec> layers;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto index = static_cast<std::size_t>(i);
    LayerSpec layer{.attention_window = 0, .ffn = dense};
    if (is_moe[index]) layer.ffn = moe;
    const bool is_full = types.empty() ? (i + 1) % interval == 0 : types[index] == "full_attention";
    if (!is_full) layer.mixer = delta;
    layers.push_back(std::move(layer));
  }
  m.layers = folded(layers);
  m.num_mtp_layers = r.integer_or("mtp_num_hidden_layers", 0, 0, L::kMtpLayers);
  if (m.num_mtp_layers > 0) m.mtp_layer = LayerSpec{.attention_window = 0, .ffn = moe};
  return m;
}

namespace {

/// Nemotron-H's layers by their letter in hybrid_override_pattern or their word in layers_block_type: M, mamba; *,
/// attention; E, moe; -, mlp. Returns the letters; none if neither key is there.
std::string nemotron_letters(MapReader& r, std::string_view pattern_key, std::string_view list_key) {
  static constexpr std::array<std::pair<std::string_view, char>, 6> kWords{{{"mamba", 'M'},
                                                                            {"linear_attention", 'M'},
                                                                            {"attention", '*'},
                                                                            {"full_attention", '*'},
                                                                            {"moe", 'E'},
                                                                            {"mlp", '-'}}};
  if (r.has(pattern_key)) {
    const std::string pattern = r.text(pattern_key);
    if (const auto at = pattern.find_first_not_of("M*E-"); at != std::string::npos) {
      r.complain(pattern_key, fmt::format("has the letter {}; expected M (Mamba-2), * (attention), E (experts) or - "
                                          "(dense FFN)",
                                          in_quotes(pattern.substr(at, 1))));
      return "";
    }
    return pattern;
  }
  std::vector<std::string> known;
  for (const auto& [word, letter] : kWords) known.emplace_back(word);
  std::string letters;
  const auto size = std::ssize(r.list_or_empty(list_key));
  for (const std::string& word : layer_words(r, list_key, size, known)) {
    letters += std::find_if(kWords.begin(), kWords.end(), [&](const auto& w) { return w.first == word; })->second;
  }
  return letters;
}

}  // namespace

/// NemotronHForCausalLM. A layer is one part with one norm: Mamba-2, attention (without positions), experts or a dense
/// FFN. FFNs and experts have two matrices (squared ReLU), biased by mlp_bias; e_score_correction_bias; shared experts
/// of moe_shared_expert_intermediate_size each. With moe_latent_size, tokens are projected to that size before the
/// dispatch and back. A layer of multi-token prediction has attention and experts.
ModelSpec nemotron_h(MapReader& r) {
  ModelSpec m = decoder(r, false);
  HeadAttention a = head_attention(r, m.hidden_size);
  a.bias = a.output_bias = r.boolean_or("attention_bias", false);
  m.attention = a;
  const bool bias = r.boolean_or("mlp_bias", false);
  const auto plain = [&](std::int64_t hidden) { return Ffn{.hidden_size = hidden, .gated = false, .bias = bias}; };
  Mamba2 mamba{.num_heads = r.integer("mamba_num_heads", 1, L::kHeads),
               .head_dim = size(r, "mamba_head_dim"),
               .state_size = size(r, "ssm_state_size"),
               .num_groups = r.integer("n_groups", 1, L::kHeads),
               .conv_kernel = r.integer_or("conv_kernel", 4, 1, L::kHiddenSize),
               .chunk = r.integer_or("chunk_size", 128, 1, L::kHiddenSize),
               .conv_bias = r.boolean_or("use_conv_bias", true),
               .bias = r.boolean_or("use_bias", false) || r.boolean_or("mamba_proj_bias", false)};
  check_divides(r, "n_groups", mamba.num_groups, "mamba_num_heads", mamba.num_heads);
  const std::string letters = nemotron_letters(r, "hybrid_override_pattern", "layers_block_type");
  if (letters.empty()) {
    r.complain("layers_block_type", "missing key; expected the kind of each layer, or hybrid_override_pattern");
    return m;
  }
  const bool has_experts = letters.find('E') != std::string::npos;
  Moe moe{};
  if (has_experts) {
    moe = routed_experts(r, "n_routed_experts", "num_experts_per_tok", size(r, "moe_intermediate_size"));
    moe.expert = plain(moe.expert.hidden_size);
    const std::int64_t shared = r.integer_or("n_shared_experts", 0, 0, 1024);
    moe.shared = plain(
        shared == 0 ? 0
                    : shared_experts(r, "n_shared_experts", shared, size(r, "moe_shared_expert_intermediate_size"))
                          .hidden_size);
    moe.router_bias = true;
    moe.latent_size = r.integer_or("moe_latent_size", 0, 0, L::kHiddenSize);
    read_expert_groups(r, moe, "n_routed_experts", "n_group", "topk_group");
  }
  const Ffn dense = letters.find('-') != std::string::npos ? plain(size(r, "intermediate_size")) : plain(0);
  std::vector<LayerSpec> layers;
  for (const char letter : letters) {
    LayerSpec layer{.attention_window = 0, .ffn = plain(0)};
    if (letter == 'M') layer.mixer = mamba;
    if (letter == 'E' || letter == '-') layer.mixer = NoMixer{};
    if (letter == 'E') layer.ffn = moe;
    if (letter == '-') layer.ffn = dense;
    layers.push_back(std::move(layer));
  }
  m.layers = folded(layers);
  set_mtp(r, m);
  if (m.num_mtp_layers > 0) {
    const std::string mtp = nemotron_letters(r, "mtp_hybrid_override_pattern", "mtp_layers_block_type");
    if (mtp != "*E" && !mtp.empty()) {
      r.complain("mtp_layers_block_type",
                 "expected attention, then moe: other layers of multi-token prediction are "
                 "not modelled");
    }
    m.mtp_layer = LayerSpec{.attention_window = 0, .ffn = moe};
  }
  return m;
}

}  // namespace moeplan::hf
