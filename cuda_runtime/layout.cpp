#include "cuda_runtime/layout.hpp"

#include <algorithm>
#include <cassert>
#include <unordered_set>

namespace moeplan::runtime {

SlotTable::SlotTable(std::span<const Slot> slots) {
  for (const Slot& s : slots) occurrences_[s.key].push_back(s.occurrence);
}

Slot SlotTable::at(const RowKey& key, std::int32_t occurrence) const {
  const auto& known = occurrences_.at(key);
  const bool has = std::find(known.begin(), known.end(), occurrence) != known.end();
  return {key, has ? occurrence : known.back()};
}

Slot SlotTable::nth(const RowKey& key, std::size_t n) const {
  const auto& known = occurrences_.at(key);
  return {key, known[std::min(n, known.size() - 1)]};
}

TokenIndex::TokenIndex(const TokenChoices& choices, std::int64_t experts) {
  for (const auto& of_source : choices) tokens_.push_back(tokens_by_expert(of_source, experts));
}

std::int64_t TokenIndex::token(std::int64_t source, std::int64_t expert, std::int64_t ordinal) const {
  const auto& tokens = tokens_[static_cast<std::size_t>(source)][static_cast<std::size_t>(expert)];
  return ordinal < std::ssize(tokens) ? tokens[static_cast<std::size_t>(ordinal)] : -1;
}

RowKey TokenIndex::token_key(const RowKey& row) const {
  return {.source = row.source, .ordinal = row.expert < 0 ? row.ordinal : token(row.source, row.expert, row.ordinal)};
}

std::vector<Slot> buffer_slots(const Program& program, RankId rank, std::span<const BlockId> blocks, BufferId buffer,
                               const TokenChoices& choices) {
  std::vector<const Rows*> looked_at;
  std::unordered_set<Slot, SlotHash> known;
  std::vector<Slot> out;
  const auto add = [&](const Slice& slice) {
    const auto is_same = [&](const Rows* rows) { return *rows == slice.rows; };
    if (slice.buffer != buffer || std::any_of(looked_at.begin(), looked_at.end(), is_same)) return;
    looked_at.push_back(&slice.rows);
    for (const Slot& slot : row_slots(program, slice.rows, rank, choices)) {
      if (known.insert(slot).second) out.push_back(slot);
    }
  };
  for (const BlockId block : blocks) {
    for (const Operation& operation : program.blocks[block.index()].operations) {
      for (const Slice& s : operation.reads) add(s);
      for (const Slice& s : operation.writes) add(s);
    }
  }
  return out;
}

Layout::Layout(const Program& program, RankId rank, std::span<const BlockId> blocks, const TokenChoices& choices)
    : order_(program.buffers.size()), place_(program.buffers.size()) {
  std::vector<std::vector<const Rows*>> looked_at(program.buffers.size());
  const auto add_once = [&](const Slice& slice) {
    auto& known = looked_at[slice.buffer.index()];
    if (std::any_of(known.begin(), known.end(), [&](const Rows* rows) { return *rows == slice.rows; })) return;
    known.push_back(&slice.rows);
    add(program, slice, rank, choices);
  };
  for (const bool products : {true, false}) {
    for (const BlockId block : blocks) {
      for (const Operation& operation : program.blocks[block.index()].operations) {
        if (std::holds_alternative<Gemm>(operation.work) != products) continue;
        for (const Slice& s : operation.reads) add_once(s);
        for (const Slice& s : operation.writes) add_once(s);
      }
    }
  }
}

void Layout::add(const Program& program, const Slice& slice, RankId rank, const TokenChoices& choices) {
  auto& order = order_[slice.buffer.index()];
  auto& place = place_[slice.buffer.index()];
  if (slice.rows.kind == Rows::Kind::Fixed) {  // each is at its ordinal, whichever part of them the rank has
    for (std::int64_t i = std::ssize(order); i < slice.rows.each; ++i) {
      order.push_back({.key = {.ordinal = i}});
      place.emplace(order.back(), static_cast<std::int32_t>(i));
    }
    return;
  }
  for (const Slot& slot : row_slots(program, slice.rows, rank, choices)) {
    if (place.try_emplace(slot, static_cast<std::int32_t>(order.size())).second) order.push_back(slot);
  }
}

std::int32_t Layout::place(BufferId buffer, const Slot& slot) const {
  const auto& place = place_[buffer.index()];
  const auto it = place.find(slot);
  assert(it != place.end() && "a row that no slice names");
  return it->second;
}

RowList Layout::list(BufferId buffer, std::span<const Slot> slots) const {
  RowList out{buffer, {}};
  out.rows.reserve(slots.size());
  for (const Slot& s : slots) out.rows.push_back(place(buffer, s));
  return out;
}

}  // namespace moeplan::runtime
