// The layout of a Program's buffers on one rank: the position of every row.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "cuda_runtime/work.hpp"
#include "model/program/row_keys.hpp"

namespace moeplan::runtime {

using Slot = RowSlot;

struct SlotHash {
  [[nodiscard]] std::size_t operator()(const Slot& slot) const {
    return RowKeyHash()(slot.key) * 31 + static_cast<std::size_t>(slot.occurrence);
  }
};

/// The occurrences of each row key in a list of slots.
class SlotTable {
 public:
  explicit SlotTable(std::span<const Slot> slots);
  [[nodiscard]] bool contains(const RowKey& key) const { return occurrences_.contains(key); }
  /// The slot of a key in the list with this occurrence or, if the list does not contain it, with the last one.
  [[nodiscard]] Slot at(const RowKey& key, std::int32_t occurrence) const;
  /// The slot of the n-th occurrence in the list (from 0), or the last one.
  [[nodiscard]] Slot nth(const RowKey& key, std::size_t n) const;
  [[nodiscard]] const auto& keys() const { return occurrences_; }

 private:
  std::unordered_map<RowKey, std::vector<std::int32_t>, RowKeyHash> occurrences_;
};

/// An index of tokens, with queries in constant time: the ordinal-th token of a source that selected an expert.
class TokenIndex {
 public:
  TokenIndex(const TokenChoices& choices, std::int64_t experts);
  /// The token, or -1 for a padding row.
  [[nodiscard]] std::int64_t token(std::int64_t source, std::int64_t expert, std::int64_t ordinal) const;
  /// The number of tokens of a source that selected an expert.
  [[nodiscard]] std::int64_t count(std::int64_t source, std::int64_t expert) const {
    return std::ssize(tokens_[static_cast<std::size_t>(source)][static_cast<std::size_t>(expert)]);
  }
  /// The key of the token that a row belongs to; for a row of tokens, its own key. A padding row's ordinal is -1.
  [[nodiscard]] RowKey token_key(const RowKey& row) const;

 private:
  std::vector<std::vector<std::vector<std::int32_t>>> tokens_;  // by source, expert
};

/// The rows of one buffer that the blocks refer to on a rank, each once.
[[nodiscard]] std::vector<Slot> buffer_slots(const Program& program, RankId rank, std::span<const BlockId> blocks,
                                             BufferId buffer, const TokenChoices& choices);

/// The positions of all rows that the blocks refer to. Rows that products read or write come first, in the products'
/// order, so that the rows of an expert are contiguous. Fixed rows are at their ordinals.
class Layout {
 public:
  Layout(const Program& program, RankId rank, std::span<const BlockId> blocks, const TokenChoices& choices);

  [[nodiscard]] std::int64_t rows(BufferId buffer) const { return std::ssize(order_[buffer.index()]); }
  /// The slots of a buffer, by position.
  [[nodiscard]] const std::vector<Slot>& slots(BufferId buffer) const { return order_[buffer.index()]; }
  /// The position of a slot that occurs in some slice.
  [[nodiscard]] std::int32_t place(BufferId buffer, const Slot& slot) const;
  [[nodiscard]] RowList list(BufferId buffer, std::span<const Slot> slots) const;

 private:
  void add(const Program& program, const Slice& slice, RankId rank, const TokenChoices& choices);

  std::vector<std::vector<Slot>> order_;                                 // by buffer
  std::vector<std::unordered_map<Slot, std::int32_t, SlotHash>> place_;  // by buffer
};

}  // namespace moeplan::runtime
