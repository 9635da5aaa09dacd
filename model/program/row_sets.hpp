// Set operations on the rows of a slice: which experts, and how many of their rows a path reaches. Implementation
// detail of resolve.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/program/local_experts.hpp"
#include "model/program/program.hpp"

namespace moeplan {

/// Disjoint, non-adjacent ranges in ascending order.
using ExpertSet = std::vector<ExpertRange>;
[[nodiscard]] ExpertSet intersection(const ExpertSet& a, const ExpertSet& b);
[[nodiscard]] std::int64_t size_of(const ExpertSet& experts);

/// The experts that a slice holds rows (or weights) of on `rank`.
[[nodiscard]] ExpertSet experts_of(const Program& program, const Rows& rows, RankId rank);

/// Number of experts that a slice has weights of: empty slots are not counted.
[[nodiscard]] std::int64_t weights_of(const Program& program, const Rows& rows, RankId rank);

/// Number of rows of a slice of tokens.
[[nodiscard]] std::int64_t token_rows(const Program& program, const Rows& rows, RankId rank);

/// Number of rows of these experts along a path from `rank`, for a routed slice otherwise equal to `rows`.
[[nodiscard]] std::int64_t rows_over(const Program& program, const Rows& rows, std::span<const RowStep> path,
                                     RankId rank, const ExpertSet& experts);

/// The same for each of the experts, in order; not for distinct rows.
[[nodiscard]] std::vector<std::int64_t> rows_of_each(const Program& program, const Rows& rows,
                                                     std::span<const RowStep> path, RankId rank,
                                                     const ExpertSet& experts);

/// Number of sources that a path reaches, counted with multiplicity.
[[nodiscard]] std::int64_t sources_reached(const Program& program, std::span<const RowStep> path);

/// Whether rows along the path depend on the rank's position in a group, even if all sources are equal.
[[nodiscard]] bool is_positional(std::span<const RowStep> path);

/// Whether all ranks have equally many of these rows. Sufficient, not necessary.
[[nodiscard]] bool equal_on_all_ranks(const Program& program, const Rows& rows);

/// Number of the rows, out of `rows`, that a Chunk step takes.
[[nodiscard]] std::int64_t chunk_rows(std::int64_t rows, const RowStep& chunk);

/// Whether a slice with Leader steps has rows on this rank: the rank is at position 0 for every Leader step of the
/// path.
[[nodiscard]] bool leads(const Program& program, std::span<const RowStep> path, RankId rank);

}  // namespace moeplan
