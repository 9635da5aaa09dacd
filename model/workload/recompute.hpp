// What the backward pass computes again instead of keeping it from the forward pass.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/workload/module_set.hpp"

namespace moeplan {

/// A part of a layer whose results are not kept. The names are Megatron-LM's (--recompute-modules), but for
/// FfnActivation and Projections.
enum class RecomputeModule {
  CoreAttention,    // core_attn: the attention kernel
  MlaUpProjection,  // mla_up_proj: queries, keys and values of latent attention, from the latents
  Mlp,              // mlp: everything inside a dense FFN
  Layernorm,        // layernorm: the outputs of both norms
  MoeActivation,    // moe_act: the experts' activation function
  Moe,              // moe: everything inside the MoE layer, with its dispatch and combine
  SharedExperts,    // shared_experts: everything inside the shared expert
  FfnActivation,    // ffn_act: the activation functions of dense FFNs and of the shared expert
  /// projections: every second product of attention over heads without biases, the keys' and the output's, and the
  /// norms and rotary embedding of queries and keys. With moe and layernorm: torchtitan's selective checkpoints
  /// (activation_checkpoint.py, SelectiveAC), which keep the other products of linear layers, the attention kernel's
  /// result and the selection.
  Projections,
  WholeLayer  // everything but the layer's input
};

inline constexpr std::array<std::pair<RecomputeModule, std::string_view>, 9> kRecomputeModuleNames{
    {{RecomputeModule::CoreAttention, "core_attn"},
     {RecomputeModule::MlaUpProjection, "mla_up_proj"},
     {RecomputeModule::Mlp, "mlp"},
     {RecomputeModule::Layernorm, "layernorm"},
     {RecomputeModule::MoeActivation, "moe_act"},
     {RecomputeModule::Moe, "moe"},
     {RecomputeModule::SharedExperts, "shared_experts"},
     {RecomputeModule::FfnActivation, "ffn_act"},
     {RecomputeModule::Projections, "projections"}}};

/// A set of modules. The three usual ones have names: None, Selective ([Korthikanti] sec. 5: norms and activation
/// functions, which are bound by memory) and Full (whole layers).
struct Recompute : ModuleSet<RecomputeModule> {
  static const Recompute None, Selective, SelectiveAndMoe, AllButAttention, PerOperation, Full;
  using ModuleSet::ModuleSet;
  constexpr auto operator<=>(const Recompute&) const = default;
  /// Whether dispatch, experts and combine are among them.
  [[nodiscard]] constexpr bool has_experts() const {
    return has(RecomputeModule::WholeLayer) || has(RecomputeModule::Moe);
  }
};

inline constexpr Recompute Recompute::None{};
inline constexpr Recompute Recompute::Selective{RecomputeModule::Layernorm, RecomputeModule::MoeActivation,
                                                RecomputeModule::FfnActivation};
/// Selective, and everything inside the MoE layer.
inline constexpr Recompute Recompute::SelectiveAndMoe{RecomputeModule::Layernorm, RecomputeModule::Moe,
                                                      RecomputeModule::FfnActivation};
/// Nearly all that a layer keeps, but neither the attention kernel nor the products before it.
inline constexpr Recompute Recompute::AllButAttention{RecomputeModule::MlaUpProjection, RecomputeModule::Mlp,
                                                      RecomputeModule::Layernorm,       RecomputeModule::Moe,
                                                      RecomputeModule::SharedExperts,   RecomputeModule::Projections};
/// torchtitan's selective mode.
inline constexpr Recompute Recompute::PerOperation{RecomputeModule::Layernorm, RecomputeModule::Moe,
                                                   RecomputeModule::Projections};
inline constexpr Recompute Recompute::Full{RecomputeModule::WholeLayer};

/// "none", "selective", "full", or modules joined by "+": "moe_act+layernorm".
[[nodiscard]] std::string name_of(const Recompute& recompute);
/// The reverse; none for any other text.
[[nodiscard]] std::optional<Recompute> parse_recompute(std::string_view text);
/// The message about a text that is none of these.
[[nodiscard]] std::string recompute_error(std::string_view text);

/// The layers of a model that are recomputed, where not all of them are.
struct RecomputedLayers {
  /// That many first layers of each part of a pipeline (Megatron-LM: --recompute-method block --recompute-num-layers).
  std::optional<std::int64_t> first_of_part = {};
  std::vector<std::int64_t> numbers = {};  // of layers, from 0, ascending
  auto operator<=>(const RecomputedLayers&) const = default;

  [[nodiscard]] bool all() const { return !first_of_part && numbers.empty(); }
  /// Whether the layer with this number in the model, and in its part, is among them.
  [[nodiscard]] bool contains(std::int64_t in_model, std::int64_t in_part) const;
};

/// "all", "first:2", or numbers and ranges: "0-2,4,6".
[[nodiscard]] std::string name_of(const RecomputedLayers& layers);
/// The reverse, of numbers in any order; none for any other text, a number twice, or one beyond a model's limits.
[[nodiscard]] std::optional<RecomputedLayers> parse_recomputed_layers(std::string_view text);

}  // namespace moeplan
