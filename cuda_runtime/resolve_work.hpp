// Resolution of the operations of a block to the Work of one rank (work.hpp): symbolic slices become rows and element
// ranges.
#pragma once

#include <cstdint>

#include "cuda_runtime/layout.hpp"
#include "cuda_runtime/work.hpp"
#include "model/program/row_keys.hpp"

namespace moeplan::runtime {

/// Properties of the MoE layer that its operations do not state.
struct LayerFacts {
  std::int64_t top_k = 1;
  bool gated = false;  // gated activation: the up projection has two halves of columns
};

/// The inputs of the resolution. All of them must outlive the context.
struct ResolveContext {
  const Program& program;
  RankId rank;
  const TokenChoices& choices;
  const TokenIndex& tokens;
  const Layout& layout;
  LayerFacts facts;

  [[nodiscard]] std::vector<Slot> slots(const Slice& slice, RankId of) const {
    return row_slots(program, slice.rows, of, choices);
  }
  [[nodiscard]] std::vector<Slot> slots(const Slice& slice) const { return slots(slice, rank); }
  [[nodiscard]] RowList list(const Slice& slice) const { return layout.list(slice.buffer, slots(slice)); }
};

/// The Work of an operation. Raises InputError for operations outside an MoE layer, which are not supported so far:
/// attention, messages between pipeline stages, background streams, dense encoding.
[[nodiscard]] Work resolve_work(const ResolveContext& context, const Operation& operation);

/// The transfers of placed experts' weights to their copies, or of gradients back to the originals: one exchange per
/// step of the longest chain, the same number on every rank (resolve_copies.cpp). The operation must satisfy
/// is_to_copies().
[[nodiscard]] std::vector<Work> resolve_copies(const ResolveContext& context, const Operation& operation);

/// The Work of a communication (resolve_transfers.cpp).
[[nodiscard]] Work resolve_communication(const ResolveContext& context, const Operation& operation,
                                         const Communication& c);

}  // namespace moeplan::runtime
