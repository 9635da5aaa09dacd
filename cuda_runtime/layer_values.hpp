// The values of an executed MoE layer: tokens and weights that give exactly the planned counts, and what must come out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cuda_runtime/interpreter.hpp"
#include "cuda_runtime/reference/moe_layer.hpp"
#include "model/workload/workload.hpp"

namespace moeplan::runtime {

/// A layer with values.
struct SyntheticLayer {
  MoeShape shape;
  Dtype dtype = Dtype::Fp32;
  std::int64_t esp = 1;  // shards of an expert, on consecutive ranks
  std::optional<WireFormat> there = {}, back = {};
  bool weighs_at_experts = false;  // rows of one token are added up there (AllToAll::deduplicates())
  CodecOptions codecs = {};
  std::uint64_t seed = 1;
  RoutingCounts asked;                        // by the tokens' choices, before a capacity drops any
  TokenChoices kept = {};                     // what the gate lets through
  std::optional<std::int64_t> capacity = {};  // rows of one source that an expert takes, where that is fewer
};

/// Fills in `kept` and `capacity`: `asked` behind the counts of the Program's routing (of all slots of a placed
/// expert), of which an expert takes the first ones in order of token. `tokens` of each source. Raises InputError where
/// no tokens can be made that choose so: sources of different size, or another hidden_size than made_tokens() needs.
[[nodiscard]] SyntheticLayer with_choices(SyntheticLayer layer, const RoutingTable& table, std::int64_t tokens);

/// Largest differences from the reference, as shares of the largest value there.
struct ValueErrors {
  double output = 0;           // of "moe.out"
  double gradient = 0;         // of "d.ffn.in"
  double weight_gradient = 0;  // of the experts' and the gate's
  double rows_off = 0;         // share of rows of outputs and gradients that differ by more than lossless_tolerance()
  std::int64_t rows = 0;       // compared
  bool has_weights = true;     // whether the weights' gradients were compared
  [[nodiscard]] double worst() const { return std::max({output, gradient, weight_gradient}); }
};

/// What roundings between the layer's operations may add up to; assumed: 8 of a 16-bit format, 512 of fp32, in which
/// sums are made.
[[nodiscard]] double lossless_tolerance(Dtype dtype);

/// Whether values are right. Lossless: within the tolerance. Behind codecs a difference of one rounding may choose the
/// next code. assumed: then at most a quarter of the rows (and two) are off at all, and none by more than a tenth (two
/// steps of int8 through the layer) or, of zfp, whose blocks may cancel, three tenths; half where partial sums of
/// expert shards are coded that the reference codes as one. Nothing is asked of the number of rows where differences
/// are the rule: there, and in 16-bit formats.
[[nodiscard]] bool are_right(const ValueErrors& errors, const SyntheticLayer& layer);

class LayerValues {
 public:
  LayerValues(const Program& program, SyntheticLayer layer, Interpreter& interpreter);

  /// Inputs, weights (at their homes) and gradients at the output; everything else zero.
  void fill();
  /// After one run since fill(). Where the reference would take more than `most_flops`, some tokens of every source are
  /// compared, and no gradients of weights.
  [[nodiscard]] ValueErrors errors(double most_flops = 1e12);

 private:
  [[nodiscard]] bool has(const std::string& buffer) const;
  void fill_weights();
  /// Whether the rank has the expert's own weights, not a copy.
  [[nodiscard]] bool is_home(std::int64_t expert) const;
  [[nodiscard]] std::vector<double> shard_of_up(std::span<const double> row) const;
  [[nodiscard]] Wire wire() const;
  [[nodiscard]] double weight_errors(const MoeWeights& expected);

  const Program& program_;
  SyntheticLayer layer_;
  Interpreter& interpreter_;
  std::int64_t shard_;  // of an expert that this rank holds
};

}  // namespace moeplan::runtime
