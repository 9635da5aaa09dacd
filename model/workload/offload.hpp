// What is kept in the memory of the GPUs' hosts instead of on the GPUs.
#pragma once

#include <array>
#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "model/workload/module_set.hpp"

namespace moeplan {

/// A part of a layer whose activations leave the GPU after the forward pass through it and return for the backward pass
/// (Megatron-LM's --fine-grained-activation-offloading, whose names these are), or the optimizer's states, which are on
/// the GPU for its step alone (--offload-optimizer-states).
enum class OffloadModule {
  AttentionNorm,   // attn_norm: the layer's input
  QkvLinear,       // qkv_linear: what the projections to queries, keys and values keep, with their latents
  CoreAttention,   // core_attn: queries, keys, values and what attention makes of them
  AttentionProj,   // attn_proj: what attention's output projection multiplies
  MlpNorm,         // mlp_norm: the input of the feed-forward part
  ExpertFc1,       // expert_fc1: the rows that the experts multiply
  MoeActivation,   // moe_act: the inputs of the experts' activation function
  FusedGroupMlp,   // fused_group_mlp: all that the experts keep, where their products are fused
  OptimizerStates  // optimizer
};

inline constexpr std::array<std::pair<OffloadModule, std::string_view>, 9> kOffloadModuleNames{
    {{OffloadModule::AttentionNorm, "attn_norm"},
     {OffloadModule::QkvLinear, "qkv_linear"},
     {OffloadModule::CoreAttention, "core_attn"},
     {OffloadModule::AttentionProj, "attn_proj"},
     {OffloadModule::MlpNorm, "mlp_norm"},
     {OffloadModule::ExpertFc1, "expert_fc1"},
     {OffloadModule::MoeActivation, "moe_act"},
     {OffloadModule::FusedGroupMlp, "fused_group_mlp"},
     {OffloadModule::OptimizerStates, "optimizer"}}};

struct Offload : ModuleSet<OffloadModule> {
  static const Offload None;
  using ModuleSet::ModuleSet;
  constexpr auto operator<=>(const Offload&) const = default;

  [[nodiscard]] bool has_activations() const;
};

inline constexpr Offload Offload::None{};
inline constexpr Offload kOffloadedStates{OffloadModule::OptimizerStates};
inline bool Offload::has_activations() const { return *this != None && *this != kOffloadedStates; }

/// "none", or modules joined by "+": "core_attn+expert_fc1".
[[nodiscard]] std::string name_of(const Offload& offload);
/// The reverse; none for any other text.
[[nodiscard]] std::optional<Offload> parse_offload(std::string_view text);
/// The message about a text that is none of these.
[[nodiscard]] std::string offload_error(std::string_view text);

}  // namespace moeplan
