// Enumeration of the individual rows of a slice, as executors need it; resolve.hpp only counts them.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "model/program/program.hpp"

namespace moeplan {

/// The experts selected by each token, by [source][token]; consistent with the routing's counts.
using TokenChoices = std::vector<std::vector<std::vector<std::int64_t>>>;

/// How many of a source's tokens select each expert: of a placed expert, over all of its slots.
[[nodiscard]] std::vector<std::int64_t> selections_by_expert(const RoutingTable& table, RankId source);

/// The identity of a row of a buffer, independent of its position. For fixed rows: `ordinal`. For weights: a row of an
/// expert. For tokens and distinct routed rows: the ordinal-th token of `source`; for other routed rows: the ordinal-th
/// of its tokens that selected `expert`. A token whose experts' rows lie in several chunks has a distinct row in each
/// of them.
struct RowKey {
  std::int64_t expert = -1;  // -1: none
  std::int64_t source = -1;  // rank, as its position in the stage; -1: none
  std::int64_t ordinal = 0;
  std::int64_t copy = 0;  // of RowStep::Kind::Copies: the position in the group of the member that made it; of distinct
                          // rows: the index of the Chunk
  auto operator<=>(const RowKey&) const = default;
};

/// A row of a buffer on one rank: its key and, if a path reaches a source more than once (tensor-parallel ranks that
/// all send their group's tokens), the number of the occurrence, in order. Occurrences are counted before a Chunk step
/// takes its part, so that the chunks of a slice and the whole slice have the same numbering.
struct RowSlot {
  RowKey key;
  std::int32_t occurrence = 0;
  auto operator<=>(const RowSlot&) const = default;
};
/// The rows of a slice, in order; routed rows are ordered by expert (slot) first. Keys of placed experts have the
/// expert's number, so that its rows have the same keys in every slot. There are row_count() rows (of distinct rows,
/// the actual number). A key occurs more than once if a path reaches a source more than once.
[[nodiscard]] std::vector<RowSlot> row_slots(const Program& program, const Rows& rows, RankId rank,
                                             const TokenChoices& choices);

struct RowKeyHash {
  [[nodiscard]] std::size_t operator()(const RowKey& key) const {
    std::uint64_t h = 0;
    for (const std::int64_t part : {key.expert, key.source, key.ordinal, key.copy})
      h = (h ^ static_cast<std::uint64_t>(part)) * 0x9e3779b97f4a7c15ULL + (h >> 29U);
    return static_cast<std::size_t>(h);
  }
};

/// The tokens of one source by the expert that they selected, in order.
[[nodiscard]] std::vector<std::vector<std::int32_t>> tokens_by_expert(
    const std::vector<std::vector<std::int64_t>>& choices, std::int64_t experts);

/// The `copy` value of the keys of these rows if they are distinct; otherwise 0.
[[nodiscard]] std::int64_t copy_of(const Rows& rows);

}  // namespace moeplan
