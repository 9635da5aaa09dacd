// What an executed layer's values must be on one rank: the reference layer over the sources that it has to do with.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "cuda_runtime/layer_values.hpp"

namespace moeplan::runtime {

/// How often the gradients of a rank's weights count each source's tokens: a source whose tokens several ranks send
/// counts several times, as data-parallel sums later count it.
struct GradientShares {
  std::map<std::int64_t, double> gate;                             // by source
  std::map<std::int64_t, std::map<std::int64_t, double>> experts;  // by expert, source

  [[nodiscard]] bool has(std::int64_t source) const;
};
/// From the rows that the experts of this rank read; where their gradients are scattered over a group of ranks, from
/// the rows of all of these.
[[nodiscard]] GradientShares gradient_shares(const Program& program, const Interpreter& interpreter,
                                             const TokenChoices& kept);

class LayerReference {
 public:
  /// All tokens of a source, or where that would take more than `most_flops` for all sources, every so many.
  LayerReference(const SyntheticLayer& layer, Wire wire, double most_flops);

  [[nodiscard]] bool is_whole() const { return step_ == 1; }
  /// Works out a source's tokens, with their gradients if it `trains`; adds its part to the weights' gradients.
  void add(std::int64_t source, bool trains, const std::optional<GradientShares>& shares);

  /// The output or gradient of a token, empty if it was not worked out.
  [[nodiscard]] std::span<const double> row(const RowKey& token, bool backward) const;
  [[nodiscard]] const MoeWeights& weight_gradients() const { return sum_; }

 private:
  struct OfSource {
    Matrix output, gradient;  // every step-th token
  };

  const SyntheticLayer& layer_;
  Wire wire_;
  std::int64_t step_ = 1;
  MoeWeights weights_;
  MoeWeights sum_;
  std::unordered_map<std::int64_t, OfSource> sources_;
};

}  // namespace moeplan::runtime
