// Lowering of a model, a workload and a candidate to a Program.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/program/program.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// The Program of a whole iteration: every microbatch forward and (in training) backward, then gradients and optimizer.
/// `infeasibility()` must be none. `ranks_per_node` shapes the rings of collectives (Program::ranks_per_node).
[[nodiscard]] Program lower_iteration(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                                      std::int64_t ranks_per_node);

/// Iterations of a candidate with several numbers of microbatches, which have their blocks in common.
struct LoweredIterations {
  Program program;                              // without stages
  std::vector<std::vector<Sequence>> stages{};  // by iteration, then pipeline stage
};
/// The Programs of iterations with these numbers of microbatches of each replica, whatever the workload's global batch
/// is. Otherwise as lower_iteration().
[[nodiscard]] LoweredIterations lower_iterations(const ModelSpec& model, const Workload& workload,
                                                 const Candidate& candidate, std::int64_t ranks_per_node,
                                                 const std::vector<std::int64_t>& microbatches);

/// One microbatch's passes through units of the model, on the ranks of one stage, without transfers of parameters or
/// copies to host memory.
struct LoweredPasses {
  Program program;                         // without stages
  std::vector<BlockId> forward, backward;  // by unit; without training there is no `backward`
};
/// Units of whole_model(), which has all layers of multi-token prediction: these, or by default all. `candidate` has no
/// pipeline; its batch may be any.
[[nodiscard]] LoweredPasses lower_passes(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                                         std::int64_t ranks_per_node,
                                         const std::optional<std::vector<std::size_t>>& units = {});

/// What the replicas of parameters add to the passes of a training iteration's first and last microbatch.
struct LoweredEnds {
  Program program;                           // without stages
  std::vector<BlockId> gathers, reductions;  // by unit of whole_model(); empty if no pass is concurrent with any
  std::vector<BlockId> updates;              // by stage; without launches, which depend on the passes
};
/// `stages` lists the units of whole_model() that each pipeline stage holds. `candidate` has no pipeline.
[[nodiscard]] LoweredEnds lower_ends(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                                     std::int64_t ranks_per_node, const std::vector<std::vector<std::size_t>>& stages);

/// The Program of the forward and backward pass of one MoE layer alone (two blocks), without norm, residual and
/// gradient traffic: what Parm measures. Every rank has `tokens` rows. The routing is that of `kind`. Copies of placed
/// experts receive their weights before the experts run and send gradients home at the end; if `moves_copies` is false,
/// the Program represents a microbatch that reuses the copies already in place.
[[nodiscard]] Program lower_moe_layer(const Moe& moe, std::int64_t hidden_size, std::int64_t tokens,
                                      const Workload& workload, const Candidate& candidate, std::int64_t ranks_per_node,
                                      bool moves_copies = true, std::size_t kind = 0);

}  // namespace moeplan::planner
