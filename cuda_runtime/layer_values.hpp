// The values of an executed MoE layer: synthetic tokens and weights that produce exactly the planned routing counts,
// and their comparison with the reference layer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda_runtime/executed_layer.hpp"
#include "cuda_runtime/interpreter.hpp"
#include "cuda_runtime/reference/moe_layer.hpp"

namespace moeplan::runtime {

/// Largest differences from the reference, relative to the largest reference value.
struct ValueErrors {
  double output = 0;           // of "moe.out"
  double gradient = 0;         // of "d.ffn.in"
  double weight_gradient = 0;  // of the experts' and the gate's
  double rows_off = 0;      // fraction of rows of outputs and gradients that differ by more than lossless_tolerance()
  std::int64_t rows = 0;    // compared
  bool has_weights = true;  // whether weight gradients were compared
  [[nodiscard]] double worst() const { return std::max({output, gradient, weight_gradient}); }
};

/// The tolerance for accumulated rounding between the layer's operations. assumed: 8 roundings of a 16-bit format; 512
/// of fp32, the format of the sums.
[[nodiscard]] double lossless_tolerance(Dtype dtype);

/// Whether the values are correct. Without codecs: within lossless_tolerance(). With codecs, a difference of one
/// rounding may select the next code. assumed: then at most a quarter of the rows of 16 elements (and two) exceed the
/// tolerance, correspondingly more of longer rows, and none by more than a tenth (two steps of int8 through the layer),
/// or three tenths with zfp, whose blocks may cancel, or half where partial sums of expert shards are encoded that the
/// reference encodes as one. The number of rows is not limited where differences are the rule: in the latter case, and
/// in 16-bit formats.
[[nodiscard]] bool are_right(const ValueErrors& errors, const SyntheticLayer& layer);

class LayerValues {
 public:
  LayerValues(const Program& program, SyntheticLayer layer, Interpreter& interpreter);

  /// Writes inputs, weights (at their home ranks) and output gradients; zero-fills everything else.
  void fill();
  /// The differences after one execution since fill(). If the reference would take more than `most_flops`, only a
  /// subset of the tokens of every source is compared, and no weight gradients.
  [[nodiscard]] ValueErrors errors(double most_flops = 1e12);

 private:
  [[nodiscard]] bool has(const std::string& buffer) const;
  void fill_weights();
  /// Whether the rank holds the expert's original weights, not a copy.
  [[nodiscard]] bool is_home(std::int64_t expert) const;
  [[nodiscard]] std::vector<double> shard_of_up(std::span<const double> row) const;
  [[nodiscard]] Wire wire() const;
  [[nodiscard]] double weight_errors(const MoeWeights& expected);

  const Program& program_;
  SyntheticLayer layer_;
  Interpreter& interpreter_;
  std::int64_t shard_;  // index of the expert shard on this rank
};

}  // namespace moeplan::runtime
