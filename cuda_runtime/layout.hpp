// Where the rows of a Program's buffers lie on one rank.
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

/// The occurrences of each key in a list of slots.
class SlotTable {
 public:
  explicit SlotTable(std::span<const Slot> slots);
  [[nodiscard]] bool contains(const RowKey& key) const { return occurrences_.contains(key); }
  /// Of a key that occurs: this occurrence, or if the list has it not, the last one.
  [[nodiscard]] Slot at(const RowKey& key, std::int32_t occurrence) const;
  /// The n-th that the list has (from 0), or the last one.
  [[nodiscard]] Slot nth(const RowKey& key, std::size_t n) const;
  [[nodiscard]] const auto& keys() const { return occurrences_; }

 private:
  std::unordered_map<RowKey, std::vector<std::int32_t>, RowKeyHash> occurrences_;
};

/// Which token of a source is the ordinal-th that selected an expert: token_of() in constant time.
class TokenIndex {
 public:
  TokenIndex(const TokenChoices& choices, std::int64_t experts);
  /// -1 for a padding row.
  [[nodiscard]] std::int64_t token(std::int64_t source, std::int64_t expert, std::int64_t ordinal) const;
  /// How many tokens of a source selected an expert.
  [[nodiscard]] std::int64_t count(std::int64_t source, std::int64_t expert) const {
    return std::ssize(tokens_[static_cast<std::size_t>(source)][static_cast<std::size_t>(expert)]);
  }
  /// The key of the token of a row; of a row of tokens, its own. A padding row's ordinal is -1.
  [[nodiscard]] RowKey token_key(const RowKey& row) const;

 private:
  std::vector<std::vector<std::vector<std::int32_t>>> tokens_;  // by source, expert
};

/// The rows of one buffer that the blocks name on a rank, each once.
[[nodiscard]] std::vector<Slot> buffer_slots(const Program& program, RankId rank, std::span<const BlockId> blocks,
                                             BufferId buffer, const TokenChoices& choices);

/// Every row that the blocks name has a place. Rows that products read or write come first, in their order, so that
/// those of an expert lie together.
class Layout {
 public:
  Layout(const Program& program, RankId rank, std::span<const BlockId> blocks, const TokenChoices& choices);

  [[nodiscard]] std::int64_t rows(BufferId buffer) const { return std::ssize(order_[buffer.index()]); }
  /// By place.
  [[nodiscard]] const std::vector<Slot>& slots(BufferId buffer) const { return order_[buffer.index()]; }
  /// The place of a slot that some slice names.
  [[nodiscard]] std::int32_t place(BufferId buffer, const Slot& slot) const;
  [[nodiscard]] RowList list(BufferId buffer, std::span<const Slot> slots) const;

 private:
  void add(const Program& program, const Slice& slice, RankId rank, const TokenChoices& choices);

  std::vector<std::vector<Slot>> order_;                                 // by buffer
  std::vector<std::unordered_map<Slot, std::int32_t, SlotHash>> place_;  // by buffer
};

}  // namespace moeplan::runtime
