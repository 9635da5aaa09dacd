// What a training step computes with a matrix product, and how the product runs.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace moeplan {

/// What a product of a training step computes: outputs, gradients of the inputs (dgrad), or gradients of the weights
/// (wgrad), which are added to main gradients in fp32. A linear layer of T tokens has forward {T, out, in}, dgrad
/// {T, in, out} and wgrad {out, in, T}.
enum class GemmPhase { Forward, Dgrad, Wgrad };

inline constexpr std::array<std::pair<GemmPhase, std::string_view>, 3> kGemmPhaseNames{
    {{GemmPhase::Forward, "forward"}, {GemmPhase::Dgrad, "dgrad"}, {GemmPhase::Wgrad, "wgrad"}}};

/// How a product runs.
struct GemmCall {
  GemmPhase phase = GemmPhase::Forward;
  double slowdown = 1;    // of math: sustained clocks over those of the burst that was measured
  bool quantises = true;  // false: the left operand arrives in the products' format
  bool operator==(const GemmCall&) const = default;
};

}  // namespace moeplan
