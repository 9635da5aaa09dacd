// Detection of equivalent ranks: ranks of a Program that do the same work on shifted data.
#pragma once

#include <optional>
#include <vector>

#include "model/machine/cluster.hpp"
#include "model/machine/symmetry.hpp"
#include "model/program/program.hpp"

namespace moeplan {

/// Whether a slice of these rows has the same number of rows on every rank, for each expert of its local range.
/// Sufficient, not necessary: requires equal counts from all sources, equal counts for all holders of experts, and
/// integral parts wherever rows are split.
[[nodiscard]] bool even_rows(const Program& program, const Rows& rows);

/// One rank of each group of ranks of a stage that hold equally many rows of every slice: they hold equally loaded
/// experts and have the same position wherever rows are split. Ascending.
[[nodiscard]] std::vector<RankId> ranks_that_differ(const Program& program);

/// By rank of a stage: numbers that are equal only for ranks that hold equally many rows of every slice. Empty if
/// sources have different counts, or experts are placed.
[[nodiscard]] std::vector<std::int32_t> kinds_of_ranks(const Program& program);

/// The symmetry (symmetric_view) that a cluster must have for ranks of the Program to be images of each other; none if
/// their data differ irregularly: counts that differ between sources, placed experts, messages between pipeline stages.
/// Anything that depends on a rank's position in a group (experts that do not divide or have different loads, rows that
/// do not divide, leaders, a broadcast's root, a tree) makes the group `fixed`, or where it repeats in the group a
/// period of it. Sufficient, not necessary.
[[nodiscard]] std::optional<SymmetryQuery> symmetry_query(const Program& program);

/// The view of the cluster by its representatives, if all its ranks execute the Program and provably do the same as
/// their representatives; otherwise null. The view is owned by the cluster.
[[nodiscard]] const SymmetricView* representatives_view(const Program& program, const Cluster& cluster);

/// The same view if rank 0 alone represents all ranks; otherwise null.
[[nodiscard]] const SymmetricView* equal_ranks_view(const Program& program, const Cluster& cluster);

/// The route of a representative's flow to `to` in one of the Program's communications.
[[nodiscard]] const SymmetricView::OrbitRoute& route_of_flow(const SymmetricView& view, const Program& program,
                                                             const Operation& operation, RankId from, RankId to);

/// Whether the communication uses rings; all members then wait for the longest latency among its edges.
[[nodiscard]] bool runs_in_rings(const Communication& communication);

}  // namespace moeplan
