// The round trip of an MoE layer's rows to the experts, chunk by chunk: codec encode, all-to-all, decode, experts,
// encode, all-to-all, decode ([ScheMoE] sec. 4: C1 A1 D1 E C2 A2 D2). A schedule defines its groups, the order of the
// chunks' tasks and additional operations between them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/layer/chunk_order.hpp"
#include "planner/layer/moe_parts.hpp"

namespace moeplan::planner {

/// The parameters of a round trip.
struct ExpertRound {
  GroupId group;          // group of both all-to-alls
  Path sources;           // path from a rank to the sources whose rows it sends
  bool backward = false;  // gradients: "d.moe.returned" to "d.moe.encoded" instead of "moe.encoded" to "moe.returned"
  bool shards = false;    // combine returns partial sums of the expert shards, which are then summed
  /// The shards of an expert gather the rows that arrive, and reduce-scatter their results before these return.
  bool gathers_over_shards = false;
  /// The tasks of all chunks; each comes after its predecessor in the same chunk.
  std::vector<ChunkStep> order;
  /// If true, a chunk is not a part of every source's rows but consists of all rows exchanged between two groups of
  /// neighbouring sources: every rank exchanges chunk j with the group that is j groups further on ([FasterMoE] sec.
  /// 4.2).
  bool by_groups = false;
  /// Weight gradients, for which no other rank waits, run after the input gradients of all chunks.
  bool defers_weight_gradients = false;
  /// Operations that the experts wait for in addition to their rows.
  std::vector<std::int32_t> weights_ready = {};
  /// Called after a chunk's experts; `held` is the path of its rows at their holder.
  std::function<void(std::int64_t chunk, const Path& held)> after_experts = {};
  /// Replaces the all-to-all of combine; `chunk` is the path of the chunk's rows at their source.
  std::function<void(const Path& chunk)> combine = {};
};

/// Appends the round trip to a block. The operations appended next run after all chunks have completed.
void append(const ExpertRound& round, const MoeLayer& layer, BlockBuilder& block);

}  // namespace moeplan::planner
