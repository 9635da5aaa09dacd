// An MoE layer as it is executed with synthetic values: its shape and formats, and the experts that each token selects.
#pragma once

#include <cstdint>
#include <optional>

#include "cuda_runtime/reference/moe_layer.hpp"
#include "model/program/program.hpp"
#include "model/program/row_keys.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"

namespace moeplan::runtime {

/// The parameters of a layer that is executed with synthetic values.
struct SyntheticLayer {
  MoeShape shape;
  Dtype dtype = Dtype::Fp32;
  std::int64_t esp = 1;                 // shards per expert, on consecutive ranks
  std::optional<MoeShape> shared = {};  // the shared experts: one expert that all tokens select, with weight 1
  std::int64_t tp = 1;                  // shards of the shared experts, on consecutive ranks
  /// The norm of the residual stream, to which the layer's output is added; none: neither is executed.
  std::optional<Norm> norm = {};
  std::optional<WireFormat> dispatch_format = {}, combine_format = {};  // on the wire
  /// Gate weights are applied at the experts: GateWeights::InExperts, or AllToAll::deduplicates().
  bool weighs_at_experts = false;
  CodecOptions codecs = {};
  std::uint64_t seed = 1;
  RoutingCounts asked;                        // the tokens' selections, before a capacity drops any
  TokenChoices kept = {};                     // the selections that remain after the capacity
  std::optional<std::int64_t> capacity = {};  // rows per source that an expert accepts; none if no selection is dropped
};

/// The seed of the shared experts' weights: they are not those of expert 0.
[[nodiscard]] inline std::uint64_t shared_seed(const SyntheticLayer& layer) { return layer.seed + 1; }

/// Sets `kept` and `capacity`: `asked` reduced to the counts of the Program's routing (over all slots of a placed
/// expert), of which an expert accepts the first ones in token order. `tokens`: per source. Raises InputError if no
/// synthetic tokens can produce these selections: sources of different size, or a hidden_size that made_tokens() does
/// not support.
[[nodiscard]] SyntheticLayer with_choices(SyntheticLayer layer, const RoutingTable& table, std::int64_t tokens);

}  // namespace moeplan::runtime
