// Families of Hugging Face configurations: how each one's config.json becomes a model. Used by hf_config.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/reader.hpp"
#include "model/transformer/model_spec.hpp"

namespace moeplan::hf {

/// A family that is modelled. `read` stands on the map that describes the language model, and reports what is wrong.
struct Family {
  std::string_view model_type;
  std::string_view architecture;  // for files without a model_type
  ModelSpec (*read)(MapReader& config);
};
[[nodiscard]] std::span<const Family> families();

/// What is the same in nearly every family: vocab_size, hidden_size, tie_word_embeddings, two RMS norms a layer and a
/// final one, causal. `tied` is what an absent tie_word_embeddings means to the family's configuration class.
[[nodiscard]] ModelSpec decoder(MapReader& config, bool tied);

/// num_attention_heads, num_key_value_heads (default: as many), head_dim (default: hidden_size / heads), no biases.
[[nodiscard]] HeadAttention head_attention(MapReader& config, std::int64_t hidden_size);

/// Latent attention of DeepSeek-V2 and V3. `q_lora_rank` must be there, null where queries are not compressed.
[[nodiscard]] LatentAttention latent_attention(MapReader& config);

[[nodiscard]] std::int64_t num_layers(MapReader& config);

/// A size in 1 ... ModelLimits::kHiddenSize.
[[nodiscard]] std::int64_t size(MapReader& config, std::string_view key);

/// E and k of routed experts under a family's key names, k <= E checked; the expert is gated, without biases.
[[nodiscard]] Moe routed_experts(MapReader& config, std::string_view experts_key, std::string_view top_k_key,
                                 std::int64_t expert_size);

/// A whole number, or a list of equal ones (one a layer).
[[nodiscard]] std::int64_t uniform_integer(MapReader& config, std::string_view key, std::int64_t least,
                                           std::int64_t most);

/// Indices of layers in a list; absent or null: none.
[[nodiscard]] std::vector<std::int64_t> layer_indices(MapReader& config, std::string_view key, std::int64_t layers);

/// The attention window of each layer: by `layer_types` if that is there, else `fallback`.
/// sliding_attention sees `window` tokens, chunked_attention at most `window` (its own chunk's), full_attention all.
[[nodiscard]] std::vector<std::int64_t> windows(MapReader& config, std::vector<std::int64_t> fallback,
                                                std::int64_t window);

/// The layers as few runs: at each place the repeated pattern (of at most 64 layers) that covers most, then the
/// shortest. `windows` and `is_moe` have one element a layer.
[[nodiscard]] std::vector<RepeatedLayers> layer_strategies(std::span<const std::int64_t> windows,
                                                           const std::vector<bool>& is_moe, const Ffn& dense,
                                                           const Moe& moe);

}  // namespace moeplan::hf
