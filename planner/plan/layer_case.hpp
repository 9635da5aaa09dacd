// One MoE layer of a plan as it is executed: of one stage, the fewest ranks in which the layer is whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/program/program.hpp"
#include "model/text/reader.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/routing.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

struct LayerCase {
  Moe moe;  // shared experts are not executed
  std::int64_t hidden_size;
  std::int64_t tokens;  // of a tensor-parallel group, as lower_moe_layer() has it
  Workload workload;
  Candidate candidate;  // its degrees are those of the executed ranks
  std::int64_t ranks_per_node;
  bool operator==(const LayerCase&) const = default;

  [[nodiscard]] std::int64_t ranks() const { return candidate.degrees.world(); }
  [[nodiscard]] std::int64_t tokens_of_source() const { return tokens / candidate.degrees.tp; }
};

/// Layer `layer` of a plan (from 0; the first MoE layer if not given) on lcm(tp, ep esp) ranks: one expert-parallel
/// group, or as many as its tensor-parallel groups reach. Operations in the order in which schedules list them. Raises
/// InputError for a layer that is none or has no experts.
[[nodiscard]] LayerCase layer_case(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                                   std::int64_t ranks_per_node, std::optional<std::int64_t> layer);

/// The same with a `by`-th of the expert-parallel ranks, of the experts (as many a rank as before), and of tokens,
/// hidden size and FFN size (rounded up to what divides). Raises InputError where `by` does not divide ep.
[[nodiscard]] LayerCase scaled(const LayerCase& layer, std::int64_t by);

[[nodiscard]] Program lower(const LayerCase& layer);

/// What tokens choose before the workload's gate drops any. With a capacity factor, whose counts are full rows of an
/// unknown routing: as even as can be.
[[nodiscard]] RoutingCounts asked_counts(const LayerCase& layer, const Program& program);

/// Every field, and back. Strict; raises InputError.
[[nodiscard]] Node layer_case_document(const LayerCase& layer);
[[nodiscard]] LayerCase read_layer_case(const Node& document);

/// "8 experts, 2 a token, 512 x 1024 gated, 256 tokens a rank".
[[nodiscard]] std::string layer_text(const LayerCase& layer);

}  // namespace moeplan::planner
