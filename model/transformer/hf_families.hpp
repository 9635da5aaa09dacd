// The table of supported families of Hugging Face configurations, and helpers that convert a config.json to a model.
// Used by hf_config.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/reader.hpp"
#include "model/transformer/model_spec.hpp"

namespace moeplan::hf {

/// A supported family. `read` gets the map that describes the language model, and reports errors into its diagnostics.
struct Family {
  std::string_view model_type;
  std::string_view architecture;  // for files without a model_type
  ModelSpec (*read)(MapReader& config);
};
[[nodiscard]] std::span<const Family> families();

// Families of several token mixers, or of sparse attention (hf_hybrid_families.cpp).
[[nodiscard]] ModelSpec deepseek_v32(MapReader& config);
[[nodiscard]] ModelSpec deepseek_v4(MapReader& config);
[[nodiscard]] ModelSpec glm_moe_dsa(MapReader& config);
[[nodiscard]] ModelSpec qwen3_next(MapReader& config);
[[nodiscard]] ModelSpec nemotron_h(MapReader& config);
// Families with other heads in layers with a window (hf_windowed_families.cpp).
[[nodiscard]] ModelSpec mimo_v2(MapReader& config);
[[nodiscard]] ModelSpec step3p5(MapReader& config);

/// A model of what the keys of a configuration of an unknown family show: attention, experts and windows as the nearest
/// known ones. Appends a sentence to `notes` for each assumption, and for the keys without effect.
[[nodiscard]] ModelSpec approximate(MapReader& config, std::vector<std::string>& notes);

/// The settings common to nearly all families: vocab_size, hidden_size, tie_word_embeddings, two RMS norms per layer
/// and a final one, causal. `tied` is the family's default for tie_word_embeddings.
[[nodiscard]] ModelSpec decoder(MapReader& config, bool tied);

/// Complains if the value of `key` does not divide that of `of`, where both were read without an error.
void check_divides(MapReader& r, std::string_view key, std::int64_t value, std::string_view of, std::int64_t number);

/// Reads num_attention_heads, num_key_value_heads (default: num_attention_heads), head_dim (default: hidden_size /
/// heads); no biases.
[[nodiscard]] HeadAttention head_attention(MapReader& config, std::int64_t hidden_size);

/// Multi-head latent attention of DeepSeek-V2 and V3. `q_lora_rank` is required; null if queries are not compressed.
[[nodiscard]] LatentAttention latent_attention(MapReader& config);

[[nodiscard]] std::int64_t num_layers(MapReader& config);

/// A size in 1 ... ModelLimits::kHiddenSize.
[[nodiscard]] std::int64_t size(MapReader& config, std::string_view key);

/// E and k of the routed experts under a family's key names; checks k <= E. The expert is gated, without biases.
[[nodiscard]] Moe routed_experts(MapReader& config, std::string_view experts_key, std::string_view top_k_key,
                                 std::int64_t expert_size);

/// An integer, or a list of equal integers (one per layer).
[[nodiscard]] std::int64_t uniform_integer(MapReader& config, std::string_view key, std::int64_t least,
                                           std::int64_t most);

/// Layer indices in a list; none if absent or null.
[[nodiscard]] std::vector<std::int64_t> layer_indices(MapReader& config, std::string_view key, std::int64_t layers);

/// The attention window of each layer: by `layer_types` if present, otherwise `fallback`. sliding_attention sees
/// `window` tokens, chunked_attention at most `window` (those of its own chunk), full_attention all.
[[nodiscard]] std::vector<std::int64_t> windows(MapReader& config, std::vector<std::int64_t> fallback,
                                                std::int64_t window);

/// A gated FFN without biases.
[[nodiscard]] Ffn gated(std::int64_t hidden_size);

/// The FFN of dense layers, of the size at `key`, which is required only if a layer is dense.
[[nodiscard]] Ffn dense_part(MapReader& config, std::string_view key, const std::vector<bool>& is_moe);

/// `count` shared experts, which are computed as one FFN of their summed size.
[[nodiscard]] Ffn shared_experts(MapReader& config, std::string_view key, std::int64_t count, std::int64_t each);

[[nodiscard]] std::vector<std::int64_t> same_window(std::int64_t layers, std::int64_t window);
[[nodiscard]] std::vector<bool> all_moe(std::int64_t layers);
/// Whether each layer has experts, by a rule on its index.
template <class Rule>
[[nodiscard]] std::vector<bool> moe_where(std::int64_t layers, Rule rule) {
  std::vector<bool> is_moe(static_cast<std::size_t>(layers));
  for (std::int64_t i = 0; i < layers; ++i) is_moe[static_cast<std::size_t>(i)] = rule(i);
  return is_moe;
}

/// DeepSeek's experts: all n_shared_experts are one FFN of n_shared_experts x moe_intermediate_size. n_shared_experts
/// null: none.
[[nodiscard]] Moe deepseek_moe(MapReader& config, bool router_bias);
/// DeepSeek's MoE layers: those before first_k_dense_replace are dense, then every moe_layer_freq-th has experts.
[[nodiscard]] std::vector<bool> deepseek_moe_layers(MapReader& config, std::int64_t layers);
/// num_nextn_predict_layers: each has a layer, two input norms, eh_proj (2 hidden_size x hidden_size), an output norm.
void set_mtp(MapReader& config, ModelSpec& model);

/// The layers as a short list of repeats: at each position the repeated pattern (of at most 64 layers) that covers the
/// most layers, then the shortest such pattern.
[[nodiscard]] std::vector<RepeatedLayers> folded(const std::vector<LayerSpec>& layers);
/// The same of layers with the model's attention. `windows` and `is_moe` have one element per layer.
[[nodiscard]] std::vector<RepeatedLayers> layer_strategies(std::span<const std::int64_t> windows,
                                                           const std::vector<bool>& is_moe, const Ffn& dense,
                                                           const Moe& moe);

}  // namespace moeplan::hf
