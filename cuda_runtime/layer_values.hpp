// The values of an executed MoE layer: synthetic tokens and weights that produce exactly the planned routing counts,
// and their comparison with the reference layer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda_runtime/executed_layer.hpp"
#include "cuda_runtime/interpreter.hpp"
#include "cuda_runtime/layer_reference.hpp"
#include "cuda_runtime/reference/moe_layer.hpp"
#include "cuda_runtime/step_values.hpp"

namespace moeplan::runtime {

/// Largest differences from the reference, relative to the largest reference value.
struct ValueErrors {
  double output = 0;           // of the layer; in a training step with the residual stream
  double gradient = 0;         // of its input
  double weight_gradient = 0;  // of the experts', the gate's, the norm's; in a training step their sums over replicas
  double update = 0;           // of the weights after the optimizer's step
  double rows_off = 0;      // fraction of rows of outputs and gradients that differ by more than lossless_tolerance()
  std::int64_t rows = 0;    // compared
  bool has_weights = true;  // whether weight gradients and updates were compared
  [[nodiscard]] double worst() const { return std::max({output, gradient, weight_gradient, update}); }
};

/// The tolerance for accumulated rounding between the layer's operations. assumed: 8 roundings of a 16-bit format; 512
/// of fp32, the format of the sums.
[[nodiscard]] double lossless_tolerance(Dtype dtype);

/// Whether the values are correct. Without codecs: within lossless_tolerance(). With codecs, a difference of one
/// rounding may select the next code. assumed: then at most a quarter of the rows of 16 elements (and two) exceed the
/// tolerance, correspondingly more of longer rows, and none by more than a tenth (two steps of int8 through the layer),
/// a quarter with fp8_block (two steps, of an eighth each), or three tenths with zfp, whose blocks may cancel, or half
/// where partial sums of expert shards are encoded that the reference encodes as one. The number of rows is not limited
/// where differences are the rule: in the latter case, and in 16-bit formats.
[[nodiscard]] bool are_right(const ValueErrors& errors, const SyntheticLayer& layer);

/// Some consecutive columns of a row.
struct ColumnRange {
  std::int64_t first, count;
};

class LayerValues {
 public:
  LayerValues(const Program& program, SyntheticLayer layer, Interpreter& interpreter);

  /// Writes inputs, weights (in training at their home ranks, which send them; otherwise at all that hold them) and
  /// output gradients; zero-fills everything else.
  void fill();
  /// The differences after one execution since fill(). If the reference would take more than `most_flops`, only a
  /// subset of the tokens of every source is compared, and no weight gradients.
  [[nodiscard]] ValueErrors errors(double most_flops = 1e12);
  /// Prepares executions of which only times matter: fills a training step again, with output gradients so small that
  /// weights stay as they are, and with them the experts that the gate selects.
  void hold_weights();
  /// Before each of them: zero-fills the gradients that accumulate.
  void begin_run() { step_.clear_gradients(); }

 private:
  void fill(double gradient_size);
  void fill_weights();
  /// Whether the rank holds the expert's original weights, not a copy. Also of weights of no expert.
  [[nodiscard]] bool is_home(std::int64_t expert) const;
  /// The part of a layer's weights that is a row of a buffer on this rank: columns of a row of a matrix.
  struct Part {
    enum class Matrix { Norm, Gate, Up, Down } matrix;
    bool is_shared;  // of the shared experts
    std::int64_t expert, row;
    std::vector<ColumnRange> columns;
  };
  [[nodiscard]] Part part(const std::string& weight, const RowKey& row) const;
  /// The weights of a layer, or their gradients.
  struct Weights {
    const LayerWeights& routed;
    const LayerWeights* shared;
    const Matrix& norm;
  };
  /// The values of a part of them; empty: not known.
  [[nodiscard]] static std::vector<double> row_of(const Part& part, const Weights& weights);
  /// How it is made: its elements, from 0 on.
  [[nodiscard]] MadeElements made_row(const Part& part) const;
  [[nodiscard]] Wire wire() const;
  void compare_weights(const LayerReference& reference, ValueErrors& errors);
  [[nodiscard]] double weight_errors(const StepValues::RowOf& gradient);

  const Program& program_;
  SyntheticLayer layer_;
  Interpreter& interpreter_;
  StepValues step_;
  std::int64_t shard_, shared_shard_;  // indices of the shards of experts and shared experts on this rank
  std::unique_ptr<const LayerWeights> routed_, shared_;  // generated when they are read; null: no shared experts
  Matrix norm_;                                          // empty: no norm
  BufferId in_, out_;                                    // of the layer
};

}  // namespace moeplan::runtime
