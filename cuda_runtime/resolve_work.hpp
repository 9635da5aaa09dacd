// From the operations of a block to what one rank does: symbols become rows and runs (work.hpp).
#pragma once

#include <cstdint>

#include "cuda_runtime/layout.hpp"
#include "cuda_runtime/work.hpp"
#include "model/program/row_keys.hpp"

namespace moeplan::runtime {

/// What an MoE layer's operations leave to the layer.
struct LayerFacts {
  std::int64_t top_k = 1;
  bool gated = false;  // the experts' activation: the up projection has two halves of columns
};

/// Everything that is looked up while operations are resolved. All of it outlives the resolver.
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

/// Raises InputError where an operation is none of an MoE layer's, which are all that is executed so far: attention,
/// messages between pipeline stages, background streams, dense encoding.
[[nodiscard]] Work resolve_work(const ResolveContext& context, const Operation& operation);

/// The weights of placed experts to their copies, or gradients back: one exchange for each step of the longest chain,
/// as many on every rank (resolve_copies.cpp). The operation is_to_copies().
[[nodiscard]] std::vector<Work> resolve_copies(const ResolveContext& context, const Operation& operation);

/// The same of a communication (resolve_transfers.cpp).
[[nodiscard]] Work resolve_communication(const ResolveContext& context, const Operation& operation,
                                         const Communication& c);

}  // namespace moeplan::runtime
