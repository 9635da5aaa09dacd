// The expected values of an executed layer on one rank: the reference layer over the sources that concern the rank.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "cuda_runtime/executed_layer.hpp"
#include "cuda_runtime/interpreter.hpp"
#include "cuda_runtime/reference/moe_layer.hpp"

namespace moeplan::runtime {

/// Multiplicity of each source's tokens in the gradients of a rank's weights. A source whose tokens are sent by several
/// ranks counts several times, as it does in later data-parallel sums.
struct GradientShares {
  std::map<std::int64_t, double> gate;                             // by source
  std::map<std::int64_t, double> norm;                             // by source
  std::map<std::int64_t, std::map<std::int64_t, double>> experts;  // by expert, source

  [[nodiscard]] bool has(std::int64_t source) const;
  /// Whether every source counts with all of its tokens. Otherwise the gradients are of a part of them, as on a replica
  /// that shares its sources' tokens with others, and cannot be compared by source.
  [[nodiscard]] bool are_whole() const;
};
/// The multiplicities for this rank, given by the rows of its experts' products; if gradients are scattered over a
/// group of ranks, or reduced over replicas, by the rows of the whole group.
[[nodiscard]] GradientShares gradient_shares(const Program& program, const Interpreter& interpreter,
                                             const TokenChoices& kept);

/// assumed: what a core computes in some seconds.
inline constexpr double kMostReferenceFlops = 2e9;

/// assumed: room on every rank for weights in double, and as much each for a source's gradients and for their sums.
inline constexpr double kMostReferenceBytes = 256e6;

/// The reference computes every n-th token: all of them (1) if that takes at most `most_flops`, forward and backward.
[[nodiscard]] std::int64_t reference_step(const MoeShape& shape, double tokens, double most_flops);

class LayerReference {
 public:
  /// Covers all tokens of a source or, if that would take more than `most_flops` for all sources, every n-th token.
  /// Experts' weights beyond `most_bytes` are generated when they are read, and of their gradients beyond that only
  /// every n-th row is computed.
  LayerReference(const SyntheticLayer& layer, Wire wire, double most_flops, double most_bytes = kMostReferenceBytes);

  [[nodiscard]] bool is_whole() const { return step_ == 1; }
  /// Computes a source's tokens, with their gradients if it `trains`, and adds its part to the gradients of the
  /// weights.
  void add(std::int64_t source, bool trains, const std::optional<GradientShares>& shares);

  /// The output or gradient of a token; empty if it was not computed.
  [[nodiscard]] std::span<const double> row(const RowKey& token, bool backward) const;
  [[nodiscard]] StoredWeights weight_gradients() const { return StoredWeights(sum_, row_step_); }
  /// Of the shared experts, over all sources.
  [[nodiscard]] StoredWeights shared_gradients() const { return StoredWeights(shared_sum_, shared_row_step_); }
  /// Of the norm's weights.
  [[nodiscard]] const Matrix& norm_gradients() const { return norm_sum_; }

 private:
  struct OfSource {
    Matrix output, gradient;  // every step-th token
  };

  const SyntheticLayer& layer_;
  Wire wire_;
  std::int64_t step_ = 1;
  std::int64_t row_step_ = 1, shared_row_step_ = 1;  // of gradients of weights
  MoeWeights stored_;                                // if they are few; otherwise generated when they are read
  std::unique_ptr<const LayerWeights> weights_;
  std::unique_ptr<const LayerWeights> shared_;  // null: no shared experts
  MoeWeights sum_, shared_sum_;                 // if all tokens are computed
  Matrix norm_, norm_sum_;                      // empty: no norm
  std::unordered_map<std::int64_t, OfSource> sources_;
};

}  // namespace moeplan::runtime
