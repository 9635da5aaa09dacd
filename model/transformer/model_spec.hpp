// The description of a Mixture-of-Experts transformer. Files: configs/models, or a Hugging Face config.json
// (hf_config.hpp).
//
//   name: small_moe
//   vocab_size: 32000
//   hidden_size: 1024
//   attention: {num_heads: 16}
//   layers: [{ffn: dense}, {repeat: 11, ffn: moe}]
//   ffns:
//     dense: {hidden_size: 4096}
//     moe: {num_experts: 8, top_k: 2, expert: {hidden_size: 4096}}
//
// All other keys are optional. Defaults:
//   the model    causal: true, norm: rms (or layer), norms_per_layer: 2, final_norm: true, tied_embeddings: false,
//                position_embeddings: 0, token_types: 0, embedding_norm: false, lm_head_bias: false, num_mtp_layers: 0,
//                hugging_face: [ids by which it can be named], approximations: [what an importer assumed], origins:
//                {KEY PATH: "published: ..."} (origins.hpp)
//   attention    of the layers that name no mixer (token_mixer.hpp):
//                kind: heads; num_kv_heads: num_heads, head_dim: hidden_size / num_heads, bias: false,
//                output_bias: as bias, qk_norm: false, qk_norm_whole: false, sinks: false, scaled_rotary: false,
//                v_head_dim: head_dim, output_gate: none (heads or values)
//                kind: latent; num_heads, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim, q_lora_rank: 0,
//                indexer: {num_heads, head_dim, top_k, shared: false}
//                kind: compressed; num_heads, head_dim, rope_head_dim, q_lora_rank, output_groups, output_rank,
//                compression: 0, indexer: as above
//                kind: delta_net; num_key_heads, num_value_heads, key_head_dim, value_head_dim, conv_kernel: 4
//                kind: mamba2; num_heads, head_dim, state_size, num_groups, conv_kernel: 4, chunk: 128,
//                conv_bias: true, bias: false
//                kind: none
//   mixers       named token mixers, each with the keys of attention
//   layers       repeat: 1, attention_window: 0, mixer: a key of mixers; instead of ffn (attention_window, mixer),
//                pattern: a list of {ffn, attention_window, mixer} which is repeated as a whole
//   mtp_layer    {ffn, attention_window, mixer} of a multi-token-prediction layer, if not that of the last layer
//   residual_streams: 1 (DeepSeek-V4's hyper-connections: 4)
//   ffns         an FFN has hidden_size, gated: true, bias: false, clamped: false; with num_experts it is MoE:
//                top_k, expert: an FFN, shared: an FFN (all shared experts as one; default none),
//                shared_gate: false, router_bias: false, expert_groups: 1,
//                groups_per_token: expert_groups (config.json: n_group, topk_group), latent_size: 0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/text/document.hpp"
#include "model/transformer/token_mixer.hpp"

namespace moeplan {

class MapReader;

/// A feed-forward network: 2 matrices, or 3 if gated (SwiGLU).
struct Ffn {
  std::int64_t hidden_size;  // H; 0: no FFN
  bool gated;
  bool bias;
  bool clamped = false;  // both halves of a gated projection are limited before the activation function
  bool operator==(const Ffn&) const = default;
};

struct Moe {
  std::int64_t num_experts;  // E
  std::int64_t top_k;        // k
  Ffn expert;
  Ffn shared;        // all shared experts as one FFN of their summed hidden size
  bool shared_gate;  // a learned gate on the shared expert's output (one vector of hidden_size)
  bool router_bias;  // one value per expert
  // Group-limited routing ([DeepSeek-V2] sec. 2.2.2, [DeepSeek-V3] sec. 2.1.2): the experts are divided into
  // expert_groups equal groups of consecutive experts, and a token's experts belong to at most groups_per_token of
  // these. One group, or groups_per_token == expert_groups: no limit.
  std::int64_t expert_groups = 1;
  std::int64_t groups_per_token = 1;
  /// Columns of the rows that the routed experts get and give, if tokens are projected to fewer before the dispatch and
  /// back after the combine (Nemotron-3 Super); 0: those of the model's hidden state.
  std::int64_t latent_size = 0;
  bool operator==(const Moe&) const = default;

  /// Columns of a dispatched row.
  [[nodiscard]] std::int64_t row_columns(std::int64_t hidden_size) const {
    return latent_size > 0 ? latent_size : hidden_size;
  }
};

/// A token mixer and a feed-forward part, each with a norm before it and added to the residual stream. Either may be
/// missing: NoMixer, or an Ffn of size 0.
struct LayerSpec {
  std::int64_t attention_window;         // number of tokens that a query sees; 0: all
  std::variant<Ffn, Moe> ffn;            // the dense or the MoE feed-forward part
  std::optional<TokenMixer> mixer = {};  // none: the model's attention
  bool operator==(const LayerSpec&) const = default;
};

/// `repeat` times the layers of `pattern`, in order.
struct RepeatedLayers {
  std::int64_t repeat;
  std::vector<LayerSpec> pattern;
  bool operator==(const RepeatedLayers&) const = default;
};

enum class Norm { Rms, Layer };  // a weight of hidden_size; LayerNorm also has a bias
inline constexpr std::array<std::pair<Norm, std::string_view>, 2> kNormNames{
    {{Norm::Rms, "rms"}, {Norm::Layer, "layer"}}};

struct ModelSpec {
  std::string name;
  std::int64_t vocab_size;
  std::int64_t hidden_size;          // M
  std::int64_t position_embeddings;  // learned positions; 0: none (rotary)
  std::int64_t token_types;          // BERT's segment embeddings; 0: none
  bool embedding_norm;               // BERT
  bool tied_embeddings;              // the output projection is the input embedding
  bool causal;
  Norm norm;
  std::int64_t norms_per_layer;  // 2, of hidden_size
  bool final_norm;
  TokenMixer attention;  // of every layer without a mixer of its own
  std::vector<RepeatedLayers> layers;
  std::int64_t num_mtp_layers;              // multi-token-prediction layers, counted separately
  bool lm_head_bias = false;                // on the output projection (Phi-3.5-MoE)
  std::optional<LayerSpec> mtp_layer = {};  // the layer of multi-token prediction; none: the last layer's kind
  /// Parallel residual streams of hidden_size, mixed before and after every attention and FFN (hyper-connections,
  /// [DeepSeek-V4] sec. 2.2); 1: the usual residual stream.
  std::int64_t residual_streams = 1;
  bool operator==(const ModelSpec&) const = default;

  [[nodiscard]] std::int64_t num_layers() const;
  [[nodiscard]] std::int64_t num_moe_layers() const;
};

/// Upper limits on a model's numbers, far beyond any existing model, so that no product of them overflows.
struct ModelLimits {
  static constexpr std::int64_t kHiddenSize = 1 << 20;  // also of an FFN, a head or a latent rank
  static constexpr std::int64_t kVocabSize = 1'000'000'000;
  static constexpr std::int64_t kHeads = 1 << 16;
  static constexpr std::int64_t kExperts = 1 << 16;
  static constexpr std::int64_t kLayers = 10'000;
  static constexpr std::int64_t kMtpLayers = 100;
  static constexpr std::int64_t kNormsPerLayer = 16;
  static constexpr std::int64_t kResidualStreams = 64;
  static constexpr double kParameters = 1e16;  // the largest published model of 2025 has about 1e12 to 2e12
};

/// Reads a model strictly. Raises InputError with every error found.
[[nodiscard]] ModelSpec read_model(const Node& document);

/// The document that read_model() parses back to this model, with every key written.
[[nodiscard]] Node model_document(const ModelSpec& model);

/// The error in the size of a model as a whole, or "". For the readers of models.
[[nodiscard]] std::string size_error(const ModelSpec& model);

/// Reads the grouping of experts under a file's key names. For the readers of models, once num_experts and top_k are
/// known.
void read_expert_groups(MapReader& r, Moe& moe, std::string_view experts_key, std::string_view groups_key,
                        std::string_view groups_per_token_key);

/// Parameter counts. "Active" counts top_k of the routed experts of every MoE layer.
struct ParameterCounts {
  std::int64_t total;
  std::int64_t active;                     // with embeddings and output projection
  std::int64_t active_without_embeddings;  // without all embedding tables and the output projection
  std::int64_t mtp;                        // of the multi-token-prediction layers; not included in the others
};
[[nodiscard]] ParameterCounts count_parameters(const ModelSpec& model);

/// The token mixer of a layer: its own, or the model's attention.
[[nodiscard]] const TokenMixer& mixer_of(const ModelSpec& model, const LayerSpec& layer);
/// Whether a layer has a feed-forward part, and a token mixer.
[[nodiscard]] bool has_ffn(const LayerSpec& layer);
[[nodiscard]] bool has_mixer(const LayerSpec& layer);
/// Columns of the rows that the first MoE layer dispatches; those of the hidden state if there is none.
[[nodiscard]] std::int64_t row_columns(const ModelSpec& model);
/// The layer of multi-token prediction.
[[nodiscard]] const LayerSpec& mtp_layer(const ModelSpec& model);

/// Parameter counts of the parts of a layer, for costs and memory.
[[nodiscard]] std::int64_t mixer_parameters(const ModelSpec& model, const TokenMixer& mixer);
[[nodiscard]] std::int64_t ffn_parameters(const Ffn& ffn, std::int64_t hidden_size);
[[nodiscard]] std::int64_t router_parameters(const Moe& moe, std::int64_t hidden_size);
/// One routed expert.
[[nodiscard]] std::int64_t expert_parameters(const Moe& moe, std::int64_t hidden_size);
/// Parameters of a whole layer without the routed experts (dense_parameters), and of the output projection
/// (head_parameters; 0 if it is tied to the input embedding).
[[nodiscard]] std::int64_t dense_parameters(const ModelSpec& model, const LayerSpec& layer);
[[nodiscard]] std::int64_t head_parameters(const ModelSpec& model);

}  // namespace moeplan
