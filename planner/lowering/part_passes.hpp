// The passes of microbatches through one part of the model: which blocks they consist of, and which transfers for
// replicas and copies of parameters the first and the last microbatch add.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/candidate/stage_layout.hpp"
#include "planner/lowering/blocks/unit_blocks.hpp"

namespace moeplan::planner {

/// The position of a part in the model.
struct PartPosition {
  std::int64_t layers_before = 0;
  std::size_t moe_layers_before = 0;
  /// By how many stages the activations of a forward pass move from the preceding part to this one, and from this one
  /// to the next; 0: there is none, or the stage itself holds it.
  std::int64_t from_preceding = 0, to_next = 0;
  /// A microbatch turns back on this stage, and this part has the last layer before: the backward pass needs it at
  /// once, so that its activations stay on the GPU.
  bool turns = false;
};

/// A part of the model on a stage: its units in order, and the passes of the first, the last and the other
/// microbatches. The backward passes are empty without training.
struct PartPasses {
  PartPosition position;
  std::vector<std::size_t> units;
  Sequence first_forward, forward, backward, last_backward;
};

/// The units of a part in order; adds those that are new.
[[nodiscard]] std::vector<std::size_t> part_units(const LoweringContext& context, const StagePart& part,
                                                  const PartPosition& position, const std::vector<std::size_t>& kinds,
                                                  ModelUnits& units);
[[nodiscard]] std::size_t number_of_units(const StagePart& part);

/// The parts of a stage, in the order of their first passes.
struct StageParts {
  std::vector<StagePart> parts;
  std::vector<PartPosition> positions;
};

/// When transfers for the replicas of parameters take place: in every pass, in the first one forward or in the last one
/// backward.
struct ReplicaTransfers {
  bool gathers_always, gathers_once, reduces_always, reduces_last;
};
[[nodiscard]] ReplicaTransfers replica_transfers(const LoweringContext& context);

/// The passes through the parts of a stage; adds their units and blocks. `kinds` are the kinds of routing by MoE layer
/// of the model (routing_kinds()). With ZeRO 1 and 2, weights of the first part are gathered unit by unit, those of the
/// others after the first pass through the part before, concurrently with those that follow (as Megatron-Core's
/// param_sync_func does in forward_backward_pipelining_with_interleaving).
[[nodiscard]] std::vector<PartPasses> stage_passes(const LoweringContext& context, const StageParts& stage,
                                                   const std::vector<std::size_t>& kinds, ModelUnits& units,
                                                   UnitBlocks& blocks);

/// A microbatch's backward pass through one part, concurrently with the forward pass of another microbatch through a
/// part of the same stage: layer by layer in pairs, the other units alone. Neither is the first or last microbatch.
[[nodiscard]] Sequence paired_pass(const LoweringContext& context, const PartPasses& backward,
                                   const PartPasses& forward, const ModelUnits& units, UnitBlocks& blocks);

}  // namespace moeplan::planner
