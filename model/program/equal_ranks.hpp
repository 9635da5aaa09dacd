// Whether ranks of a Program do the same work on the same data, shifted.
#pragma once

#include <optional>

#include "model/machine/cluster.hpp"
#include "model/machine/symmetry.hpp"
#include "model/program/program.hpp"

namespace moeplan {

/// Whether a slice of these rows has as many of them on every rank, expert by expert of its share. Sufficient, not
/// necessary: equal counts from all sources, to all holders the same, and whole parts wherever rows are split.
[[nodiscard]] bool even_rows(const Program& program, const Rows& rows);

/// What a machine must look like (symmetric_view) for ranks of the Program to be images of one another; nothing where
/// their data differs without a rule: counts that differ between sources, placed experts, messages between pipeline
/// stages. What
/// differs by a rank's position in a group (experts that do not divide or have other loads, rows that do not divide,
/// leaders, a broadcast's root, a tree) makes the group `fixed`. Sufficient, not necessary.
[[nodiscard]] std::optional<SymmetryQuery> symmetry_query(const Program& program);

/// The machine as its representatives see it, where all of its ranks run the Program and provably do what these do;
/// else null. The view lives with the cluster.
[[nodiscard]] const SymmetricView* representatives_view(const Program& program, const Cluster& cluster);

/// That view where rank 0 alone stands for all; else null.
[[nodiscard]] const SymmetricView* equal_ranks_view(const Program& program, const Cluster& cluster);

/// The way of a representative's flow to `to` in one of the Program's communications.
[[nodiscard]] const SymmetricView::Way& way_of_flow(const SymmetricView& view, const Program& program,
                                                    const Operation& operation, RankId from, RankId to);

/// Whether the communication runs in rings: all members then wait for the longest latency among its edges.
[[nodiscard]] bool runs_in_rings(const Communication& communication);

}  // namespace moeplan
