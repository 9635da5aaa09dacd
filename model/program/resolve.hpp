// Evaluation of a Program's symbolic slices on one rank: rows, bytes, FLOPs, and the flows of a communication.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/operators/gemm_shape.hpp"
#include "model/program/local_experts.hpp"
#include "model/program/program.hpp"

namespace moeplan {

/// Number of rows of a slice on `rank`.
[[nodiscard]] std::int64_t row_count(const Program& program, const Rows& rows, RankId rank);

/// The same of every rank of the first pipeline stage. Rows that many ranks reach are added up once: if sources differ,
/// this takes time in proportion to ranks, experts and steps of the path, whatever the size of the groups.
[[nodiscard]] std::vector<std::int64_t> row_counts(const Program& program, const Rows& rows);

/// Number of rows of each expert on `rank`, in order, for a routed slice that is not distinct.
[[nodiscard]] std::vector<std::int64_t> rows_by_expert(const Program& program, const Rows& rows, RankId rank);

[[nodiscard]] std::int64_t byte_count(const Program& program, const Slice& slice, RankId rank);

/// The bytes of one tensor in `dtype` of each shape of the weights whose gradients the stage's blocks compute by
/// products.
[[nodiscard]] Bytes bytes_of_shapes(const Program& program, std::size_t stage, Dtype dtype);

/// Matrix products of attention's backward pass over those of its forward pass: five instead of two.
inline constexpr double kAttentionBackwardProducts = 2.5;

/// The FLOPs, bytes and products of a computation on one rank.
struct ComputeLoad {
  double flops = 0;
  std::int64_t bytes = 0;           // read and written
  std::vector<GemmShape> products;  // of a Gemm: one, or one per local expert
  std::int64_t sources = 1;         // if by source: so many products one after another are those of one expert
};
[[nodiscard]] ComputeLoad compute_load(const Program& program, const Operation& operation, RankId rank);

/// The bytes that one rank sends to another in one communication.
struct Flow {
  RankId from;
  RankId to;
  std::int64_t bytes = 0;
  bool operator==(const Flow&) const = default;
};

/// All flows of the group that `member` belongs to, without flows to self and empty flows, ordered by (from, to).
/// All-gather, reduce-scatter and all-reduce use rings over the nodes, one per member of a node, each with its part of
/// the data (ring_edges; NCCL's channels); broadcast uses a chain from position 0. With Pattern::Tree: tree_edges,
/// where the two flows of a pair belong to two trees.
[[nodiscard]] std::vector<Flow> group_flows(const Program& program, const Operation& operation, RankId member);

/// Whether the operation is a broadcast of placed experts to their copies, or the reduction from the copies.
[[nodiscard]] bool is_to_copies(const Operation& operation);

/// The chain of a placed expert's rows in such a broadcast: the home's position in the group, then those of the copies.
struct ExpertChain {
  ExpertId expert;
  std::vector<std::int64_t> positions;
};
/// The chains of the group that `member` belongs to, by expert.
[[nodiscard]] std::vector<ExpertChain> expert_chains(const Program& program, const Operation& operation, RankId member);

/// Whether two positions of a group exchange data in this part of an all-to-all.
[[nodiscard]] bool exchanges(const Communication& c, const GroupFamily& family, std::int64_t from, std::int64_t to);

/// Whether the data that arrive from several members are summed: reductions, and, for distinct rows, an all-to-all from
/// the holders of experts to the sources.
[[nodiscard]] bool adds_up(const Program& program, const Operation& operation);

/// The flows that one rank sends, ordered by receiver, or receives, ordered by sender. O(group size) row counts.
[[nodiscard]] std::vector<Flow> flows_from(const Program& program, const Operation& operation, RankId rank);
[[nodiscard]] std::vector<Flow> flows_to(const Program& program, const Operation& operation, RankId rank);
/// The flows that several ranks send, in the order of the ranks: what those of a group have in common is counted once.
[[nodiscard]] std::vector<Flow> flows_from(const Program& program, const Operation& operation,
                                           std::span<const RankId> ranks);

/// The n of the alpha-beta model for this rank (see AlphaBeta), in bytes.
[[nodiscard]] std::int64_t message_size(const Program& program, const Operation& operation, RankId rank);

}  // namespace moeplan
