// The shape of one matrix product, and what a training step computes with it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace moeplan {

/// C[m,n] with k terms per element.
struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool operator==(const GemmShape&) const = default;
};

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

[[nodiscard]] inline double flops_of(const GemmShape& s) {
  return 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
}

}  // namespace moeplan
