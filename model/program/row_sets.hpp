// Rows of a slice as sets: which experts, and how many rows of them a path reaches. Behind resolve.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/program/resolve.hpp"

namespace moeplan {

/// Ranges in ascending order that neither meet nor touch.
using ExpertSet = std::vector<ExpertRange>;
[[nodiscard]] ExpertSet intersection(const ExpertSet& a, const ExpertSet& b);
[[nodiscard]] std::int64_t size_of(const ExpertSet& experts);

/// The experts that a slice holds rows for (or weights of) on `rank`.
[[nodiscard]] ExpertSet experts_of(const Program& program, const Rows& rows, RankId rank);

/// How many experts a slice has weights of: those without the empty slots.
[[nodiscard]] std::int64_t weights_of(const Program& program, const Rows& rows, RankId rank);

/// Of a slice of tokens.
[[nodiscard]] std::int64_t token_rows(const Program& program, const Rows& rows, RankId rank);

/// Rows of these experts along a path from `rank`, of a routed slice otherwise like `rows`.
[[nodiscard]] std::int64_t rows_over(const Program& program, const Rows& rows, std::span<const RowStep> path,
                                     RankId rank, const ExpertSet& experts);

/// How many sources' rows a path reaches, counted as often as it meets them.
[[nodiscard]] std::int64_t sources_reached(const Program& program, std::span<const RowStep> path);

/// Of so many rows, those of a Chunk step.
[[nodiscard]] std::int64_t chunk_rows(std::int64_t rows, const RowStep& chunk);

/// Whether a leader's slice is on this rank at all: every Leader step of the path has it at position 0.
[[nodiscard]] bool leads(const Program& program, std::span<const RowStep> path, RankId rank);

}  // namespace moeplan
