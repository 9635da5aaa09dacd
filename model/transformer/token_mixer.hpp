// The part of a layer that mixes tokens: attention, or a recurrence along the sequence. Part of a model
// (model_spec.hpp, which gives the keys of files).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "model/text/document.hpp"

namespace moeplan {

class MapReader;

/// A gate on the output of attention, a sigmoid of a projection of the layer's input: none, one value a head
/// (Step-3.5), or one a value (Qwen3-Next, whose query projection is twice as wide).
enum class OutputGate { None, Heads, Values };

/// Multi-head and grouped-query attention.
struct HeadAttention {
  std::int64_t num_heads;
  std::int64_t num_kv_heads;
  std::int64_t head_dim;
  bool bias;                    // on the q, k and v projections
  bool qk_norm;                 // a norm weight for each of q and k, of head_dim ...
  bool sinks;                   // one learned value per head (gpt-oss)
  bool output_bias = false;     // on the output projection
  bool qk_norm_whole = false;   // ... or of all heads together (OLMoE, MiniMax-M2)
  bool scaled_rotary = false;   // YaRN with an attention factor: queries and keys are scaled as they are rotated
  std::int64_t v_head_dim = 0;  // of values; 0: head_dim
  OutputGate output_gate = OutputGate::None;
  bool operator==(const HeadAttention&) const = default;

  [[nodiscard]] std::int64_t value_dim() const { return v_head_dim > 0 ? v_head_dim : head_dim; }
};

/// The lightning indexer of sparse attention ([DeepSeek-V3.2] sec. 2.1): heads score all keys of a query, summed with
/// weights of the query, and attention sees the top_k keys.
struct Indexer {
  std::int64_t num_heads;
  std::int64_t head_dim;
  std::int64_t top_k;
  bool is_shared = false;  // no indexer of its own: the keys that the preceding layer has selected (GLM-5.2)
  bool operator==(const Indexer&) const = default;
};

/// Multi-head latent attention ([DeepSeek-V2] sec. 2.1). With an indexer it is sparse and works on the latents
/// themselves, as one key-value head ([DeepSeek-V3.2] sec. 2.1: "the MQA mode of MLA").
struct LatentAttention {
  std::int64_t num_heads;
  std::int64_t q_lora_rank;  // 0: queries are not compressed
  std::int64_t kv_lora_rank;
  std::int64_t qk_nope_head_dim;
  std::int64_t qk_rope_head_dim;
  std::int64_t v_head_dim;
  std::optional<Indexer> indexer = {};
  bool operator==(const LatentAttention&) const = default;
};

/// DeepSeek-V4's attention ([DeepSeek-V4] sec. 2.3): one head that is both key and value, for the tokens of the
/// layer's window and, with a `compression`, for one compressed entry of every `compression` tokens. With an indexer
/// (CSA) the entries overlap and a query sees the top_k of them, without (HCA) all. The heads' outputs are projected in
/// `output_groups` groups to `output_rank` columns each, and these to the hidden size.
struct CompressedAttention {
  std::int64_t num_heads;
  std::int64_t head_dim;
  std::int64_t rope_head_dim;  // columns of head_dim that rotary embedding rotates
  std::int64_t q_lora_rank;
  std::int64_t output_groups;
  std::int64_t output_rank;
  std::int64_t compression = 0;  // 0: none
  std::optional<Indexer> indexer = {};
  bool operator==(const CompressedAttention&) const = default;

  /// Values that a token gives to a compressed entry: those of two overlapping windows with an indexer.
  [[nodiscard]] std::int64_t overlap() const { return indexer ? 2 : 1; }
};

/// Gated DeltaNet ([Gated DeltaNet], as in Qwen3-Next): linear attention whose state of key_head_dim x value_head_dim a
/// head decays and is corrected by every token. Computed in chunks (model/costs/scan_kernels.hpp).
struct GatedDeltaNet {
  std::int64_t num_key_heads;
  std::int64_t num_value_heads;
  std::int64_t key_head_dim;
  std::int64_t value_head_dim;
  std::int64_t conv_kernel = 4;  // tokens that the convolution over queries, keys and values sees
  bool operator==(const GatedDeltaNet&) const = default;

  [[nodiscard]] std::int64_t key_columns() const { return num_key_heads * key_head_dim; }
  [[nodiscard]] std::int64_t value_columns() const { return num_value_heads * value_head_dim; }
  [[nodiscard]] std::int64_t conv_columns() const { return 2 * key_columns() + value_columns(); }
  /// Queries, keys, values and their output gate, and two values a head: decay and strength of the correction.
  [[nodiscard]] std::int64_t input_columns() const { return conv_columns() + value_columns() + 2 * num_value_heads; }
};

/// A Mamba-2 state-space layer ([Mamba-2] sec. 7): heads of head_dim with a state of head_dim x state_size each; groups
/// of heads share the input and output matrices B and C. Computed in chunks (model/costs/scan_kernels.hpp).
struct Mamba2 {
  std::int64_t num_heads;
  std::int64_t head_dim;
  std::int64_t state_size;
  std::int64_t num_groups;
  std::int64_t conv_kernel = 4;
  std::int64_t chunk = 128;  // tokens
  bool conv_bias = true;
  bool bias = false;  // on the input and output projections
  bool operator==(const Mamba2&) const = default;

  [[nodiscard]] std::int64_t inner_columns() const { return num_heads * head_dim; }
  [[nodiscard]] std::int64_t conv_columns() const { return inner_columns() + 2 * num_groups * state_size; }
  /// The output gate, what the convolution sees, and a time step a head.
  [[nodiscard]] std::int64_t input_columns() const { return inner_columns() + conv_columns() + num_heads; }
};

/// No token mixer: the layer is its feed-forward part alone (Nemotron-H).
struct NoMixer {
  bool operator==(const NoMixer&) const = default;
};

using TokenMixer = std::variant<HeadAttention, LatentAttention, CompressedAttention, GatedDeltaNet, Mamba2, NoMixer>;

/// Reads a token mixer of a model file strictly.
[[nodiscard]] TokenMixer read_token_mixer(MapReader r, std::int64_t hidden_size);

/// The node that read_token_mixer() parses back to this mixer. Keys that only few models have are left out where they
/// have their default.
[[nodiscard]] Node token_mixer_document(const TokenMixer& mixer);

/// A word for a mixer: "attention", "delta_net", "mamba2" or "none".
[[nodiscard]] std::string_view mixer_word(const TokenMixer& mixer);

}  // namespace moeplan
