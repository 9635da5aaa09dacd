// What multiplies in the 8-bit format of a recipe besides linear layers.
#pragma once

#include <array>
#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "model/workload/module_set.hpp"

namespace moeplan {

enum class Fp8Module {
  Attention,  // attention: fused attention, whose queries, keys and values are quantised (--fp8-dot-product-attention)
  OutputHead  // output_head: the products of the output head (Megatron-Core's fp8_output_proj)
};

inline constexpr std::array<std::pair<Fp8Module, std::string_view>, 2> kFp8ModuleNames{
    {{Fp8Module::Attention, "attention"}, {Fp8Module::OutputHead, "output_head"}}};

struct Fp8Modules : ModuleSet<Fp8Module> {
  static const Fp8Modules None;
  using ModuleSet::ModuleSet;
  constexpr auto operator<=>(const Fp8Modules&) const = default;
};

inline constexpr Fp8Modules Fp8Modules::None{};

/// "none", or modules joined by "+": "attention+output_head".
[[nodiscard]] std::string name_of(const Fp8Modules& modules);
/// The reverse; none for any other text.
[[nodiscard]] std::optional<Fp8Modules> parse_fp8_modules(std::string_view text);
/// The message about a text that is none of these.
[[nodiscard]] std::string fp8_modules_error(std::string_view text);

}  // namespace moeplan
