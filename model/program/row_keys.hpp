// Which rows a slice holds, one by one: what an executor needs where resolve.hpp counts.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "model/program/program.hpp"

namespace moeplan {

/// Experts that each token of each source selected, by [source][token]: as many as the routing's counts say.
using TokenChoices = std::vector<std::vector<std::vector<std::int64_t>>>;

/// A row of a buffer, the same wherever it lies. Of fixed rows: `ordinal`. Of weights: a row of an expert. Of tokens,
/// and of distinct routed rows: the ordinal-th token of `source`; of other routed rows: the ordinal-th of its tokens
/// that selected `expert`. A token whose experts' rows lie in several chunks has a distinct row in each of them.
struct RowKey {
  std::int64_t expert = -1;  // -1: none
  std::int64_t source = -1;  // rank, by its place in the stage; -1: none
  std::int64_t ordinal = 0;
  std::int64_t copy = 0;  // of RowStep::Kind::Copies: the position in the group of who made it; of distinct rows:
                          // the index of the Chunk
  auto operator<=>(const RowKey&) const = default;
};

/// In order; routed rows by expert (slot) first; of placed experts they bear the expert's number, so that its rows are
/// the same in whichever slot. As many as row_count() says (of distinct rows, as there are). A key may occur more than
/// once, where a path meets a source more than once.
[[nodiscard]] std::vector<RowKey> row_keys(const Program& program, const Rows& rows, RankId rank,
                                           const TokenChoices& choices);

/// A row of a buffer on one rank, where a path may meet a source more than once (tensor-parallel ranks that all send
/// their group's tokens): which of its occurrences, in order. Counted before a Chunk step takes its part, so that the
/// chunks of a slice and the whole of it number them alike.
struct RowSlot {
  RowKey key;
  std::int32_t occurrence = 0;
  auto operator<=>(const RowSlot&) const = default;
};
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

/// Tokens of one source by the expert that they selected, in order.
[[nodiscard]] std::vector<std::vector<std::int32_t>> tokens_by_expert(
    const std::vector<std::vector<std::int64_t>>& choices, std::int64_t experts);

/// The `copy` of the keys of these distinct rows; of others 0.
[[nodiscard]] std::int64_t copy_of(const Rows& rows);

/// The token of a routed row that is not distinct; -1 for a padding row, which no token has.
[[nodiscard]] std::int64_t token_of(const RowKey& key, const TokenChoices& choices);

}  // namespace moeplan
