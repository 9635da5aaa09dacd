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

/// The settings common to nearly all families: vocab_size, hidden_size, tie_word_embeddings, two RMS norms per layer
/// and a final one, causal. `tied` is the family's default for tie_word_embeddings.
[[nodiscard]] ModelSpec decoder(MapReader& config, bool tied);

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

/// The layers as a short list of repeats: at each position the repeated pattern (of at most 64 layers) that covers the
/// most layers, then the shortest such pattern. `windows` and `is_moe` have one element per layer.
[[nodiscard]] std::vector<RepeatedLayers> layer_strategies(std::span<const std::int64_t> windows,
                                                           const std::vector<bool>& is_moe, const Ffn& dense,
                                                           const Moe& moe);

}  // namespace moeplan::hf
