// The way of an MoE layer's rows to the experts and back, chunk by chunk: encode by the codec, all-to-all, decode,
// experts, encode, all-to-all, decode ([ScheMoE] sec. 4: C1 A1 D1 E C2 A2 D2). What a schedule adds to it are its
// groups, its order of the chunks' tasks and what it does between them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/layer/chunk_order.hpp"
#include "planner/layer/moe_parts.hpp"

namespace moeplan::planner {

struct ExpertRound {
  GroupId group;          // of both all-to-alls
  Path sources;           // from a rank to the sources whose rows it sends
  bool backward = false;  // gradients: "d.moe.returned" to "d.moe.encoded" instead of "moe.encoded" to "moe.returned"
  bool shards = false;    // partial sums of the expert shards come back, and are added up
  /// Of all chunks' tasks; each stands after the one before it of its chunk.
  std::vector<ChunkStep> order;
  /// Chunks are not parts of every source's rows, but the rows of a group of neighbouring sources each, and every rank
  /// exchanges chunk j with the group j groups on ([FasterMoE] sec. 4.2).
  bool by_groups = false;
  /// Weight gradients, which no other rank waits for, come after the input gradients of all chunks.
  bool defers_weight_gradients = false;
  /// What the experts wait for besides their rows.
  std::vector<std::int32_t> weights_ready = {};
  /// After a chunk's experts: `held` is the path of its rows at their holder.
  std::function<void(std::int64_t chunk, const Path& held)> after_experts = {};
  /// Instead of the all-to-all back: `chunk` is the path of the chunk's rows at their source.
  std::function<void(const Path& chunk)> combine = {};
};

/// Appends it. Afterwards all chunks are back.
void append(const ExpertRound& round, const MoeLayer& layer, BlockBuilder& block);

}  // namespace moeplan::planner
