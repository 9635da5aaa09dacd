// One MoE layer of a plan as it is executed: on the smallest set of ranks of one stage that contains the layer
// completely.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/program/program.hpp"
#include "model/text/reader.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/routing.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// The layer, its tokens and the decisions for the executed ranks.
struct LayerCase {
  Moe moe;  // shared experts are executed in a step
  std::int64_t hidden_size;
  std::int64_t tokens;  // per tensor-parallel group, as in lower_moe_layer()
  Workload workload;
  Candidate candidate;  // with the degrees of the executed ranks
  std::int64_t ranks_per_node;
  /// A whole training step: with shared experts, reduction of gradients and optimizer (lower_layer_step()).
  bool is_step = false;
  /// Of a step: the norm of the residual stream, to which the layer's output is added; none: neither is executed.
  std::optional<Norm> norm = {};
  bool operator==(const LayerCase&) const = default;

  [[nodiscard]] std::int64_t ranks() const { return candidate.degrees.world(); }
  [[nodiscard]] std::int64_t tokens_of_source() const { return tokens / candidate.degrees.tp; }
};

/// Layer `layer` of a plan (counted from 0; by default the first MoE layer) on lcm(tp, ep esp) ranks: one
/// expert-parallel group, or as many as its tensor-parallel groups span. Operations keep the order in which the
/// schedule lists them. Raises InputError if the layer does not exist or has no experts.
[[nodiscard]] LayerCase layer_case(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                                   std::int64_t ranks_per_node, std::optional<std::int64_t> layer);

/// A step of the same layer, on all ranks of a pipeline stage. Raises InputError also for what is not executed: forward
/// workloads, placed experts, gradients in 16 bits of weights in another format, moments in 16 bits.
[[nodiscard]] LayerCase layer_step_case(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                                        std::int64_t ranks_per_node, std::optional<std::int64_t> layer);

/// The parts of this layer in an iteration of the model that the case leaves out, e.g. "attention", "norms".
[[nodiscard]] std::vector<std::string> left_out(const ModelSpec& model, const LayerCase& layer,
                                                std::optional<std::int64_t> number);

/// The layer scaled down: 1/`by` of the expert-parallel ranks, of the experts (as many per rank as before), and of
/// tokens, hidden size and FFN size (rounded up to a size that divides evenly). Raises InputError if `by` does not
/// divide ep.
[[nodiscard]] LayerCase scaled(const LayerCase& layer, std::int64_t by);

/// The layer as ranks on GPUs, or on a host, execute it: hosts receive an expert's rows of all sources together
/// (ExpertLayout::Merged); on GPUs a kernel at the end of the exchange puts them in order (Sorted).
[[nodiscard]] LayerCase as_executed(LayerCase layer, bool on_gpus);

/// The forward and backward pass of the layer as a Program. Raises InputError if the layer cannot be lowered.
[[nodiscard]] Program lower(const LayerCase& layer);

/// The tokens' selections before the workload's gate drops any. With a capacity factor, where the routing is unknown
/// and every count is the full capacity, they are as even as possible.
[[nodiscard]] RoutingCounts asked_counts(const LayerCase& layer, const Program& program);

/// The document of a layer case, with every field, and the strict reader of such documents, which raises InputError.
[[nodiscard]] Node layer_case_document(const LayerCase& layer);
[[nodiscard]] LayerCase read_layer_case(const Node& document);

/// "8 experts, 2 a token, 512 x 1024 gated, 256 tokens a rank".
[[nodiscard]] std::string layer_text(const LayerCase& layer);

}  // namespace moeplan::planner
