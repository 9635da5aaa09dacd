// Whether all ranks of a Program do the same work on the same data, shifted.
#pragma once

#include <optional>

#include "model/program/program.hpp"
#include "model/specs/cluster.hpp"
#include "model/specs/symmetry.hpp"

namespace moeplan {

/// Whether a slice of these rows has as many of them on every rank, expert by expert of its share. Sufficient, not
/// necessary: equal counts from all sources, to all holders the same, and whole parts wherever rows are split.
[[nodiscard]] bool even_rows(const Program& program, const Rows& rows);

/// What a machine must look like (symmetric_view) for all ranks of the Program to be equal; nothing where their data
/// differs already: counts that differ between sources or holders, experts or rows that do not divide, a broadcast's
/// root, a tree. Sufficient, not necessary.
[[nodiscard]] std::optional<SymmetryQuery> symmetry_query(const Program& program);

/// The machine as rank 0 sees it, where all of its ranks run the Program and are provably equal; else null. The view
/// lives with the cluster.
[[nodiscard]] const SymmetricView* equal_ranks_view(const Program& program, const Cluster& cluster);

/// The way of rank 0's flow to `to` in one of the Program's communications.
[[nodiscard]] const SymmetricView::Way& way_of_flow(const SymmetricView& view, const Program& program,
                                                    const Operation& operation, RankId to);

/// Whether the communication runs in rings: all members then wait for the longest latency among its edges.
[[nodiscard]] bool runs_in_rings(const Communication& communication);

}  // namespace moeplan
