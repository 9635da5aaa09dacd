// Operations of a Program as one rank executes them: every row found, every byte of a transfer addressed.
//
// The interpreter makes them from a Program once (resolve_work.hpp); a back end prepares them (backend.hpp) and runs
// them. Rows are indices in a buffer of this rank, -1 for a row that is nobody's and all zeros. Computation is in
// fp32 or better; what a buffer holds has the buffer's format, so that as many bytes move as the Program is priced by.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "model/program/program.hpp"

namespace moeplan::runtime {

/// Rows of a buffer, in the order in which an operation takes them. A row may occur several times.
struct RowList {
  BufferId buffer;
  std::vector<std::int32_t> rows;

  /// Whether they lie one behind the other, so that no index is needed.
  [[nodiscard]] bool is_contiguous() const;
  bool operator==(const RowList&) const = default;
};

/// C = A B of ranges of the rows of three lists. In an NN product B has as many rows as A has columns, in TN A and B
/// have as many rows as are added up (Gemm::Form).
struct Product {
  struct Range {
    std::int64_t first = 0;
    std::int64_t rows = 0;
    bool operator==(const Range&) const = default;
  };
  Range a, b, c;
  bool accumulates = false;
  bool operator==(const Product&) const = default;
};
struct GemmWork {
  Gemm::Form form = Gemm::Form::NN;
  RowList a, b, c;
  std::vector<Product> products;  // one, or of a grouped GEMM one for each expert (and source) with rows in C
};

/// Row i of `out` becomes row i of `in`.
struct CopyRowsWork {
  RowList in, out;
};

/// Row i of `out` becomes the sum of the terms begin[i] .. begin[i + 1] - 1: rows of inputs, each times the weight that
/// the gate gave `expert` in the choice row, where there are choices.
struct SumRowsWork {
  struct Term {
    std::int32_t input = 0;  // index in `inputs`
    std::int32_t row = 0;
    std::int32_t choice_row = 0;
    std::int32_t expert = 0;
  };
  std::vector<BufferId> inputs;
  RowList out;
  std::vector<std::int64_t> begin;  // one more than rows of `out`
  std::vector<Term> terms;
  std::optional<BufferId> choice;
};

/// The gate: of each row of logits the k largest, ties to the lower index. A choice row holds k experts, as numbers,
/// then their weights, the softmax over the k.
struct TopKWork {
  RowList logits, choice;
  std::int64_t k = 1;
};
/// The gradient by the logits, from that by the weights of the choice.
struct TopKBackwardWork {
  RowList d_weights, logits, d_logits;
  std::int64_t k = 1;
};

/// gelu(x), or of a gated expert silu(first half of the columns) times the second half.
struct ActivationWork {
  RowList up, activated;
  bool gated = false;
};
struct ActivationBackwardWork {
  RowList d_activated, up, d_up;
  bool gated = false;
};

/// Row i of `out` becomes the sum of rows i of `a` and `b`, which may be the same rows as `out`.
struct AddWork {
  RowList a, b, out;
};

/// The gradient by what came back from the experts and by the choice's weights. Entry i: row `returned` gave the token
/// of row `token` its part for `expert`. Rows of `d_choice` are first set to zero.
struct DecodeBackwardWork {
  struct Entry {
    std::int32_t returned = 0, d_returned = 0, token = 0, choice = 0, d_choice = 0, expert = 0;
  };
  BufferId d_out, returned, choice, d_returned;
  RowList d_choice;
  std::vector<Entry> entries;
};

/// Row i of `rows` to row i of each of `wire` (values, then what belongs to a whole row), or back.
struct CodecWork {
  WireFormat format = WireFormat::Fp16;
  bool decodes = false;
  RowList rows;
  std::vector<RowList> wire;
};

/// Consecutive elements of a buffer.
struct Run {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const Run&) const = default;
};

/// Elements of a buffer in the order in which they are sent; neighbouring runs are one.
struct Packed {
  std::vector<Run> runs;

  void append(Run run);
  [[nodiscard]] std::int64_t elements() const;
  bool operator==(const Packed&) const = default;
};

struct Transfer {
  RankId peer;
  Packed data;
};

/// Sends and receives between this rank and its peers, all at once. What goes from one to another is packed in the same
/// order on both sides. `own` needs no network: elements of `from` that become those of `to`.
struct ExchangeWork {
  BufferId from, to;
  std::vector<Transfer> sends, receives;  // by peer, none empty, none of this rank itself
  Packed own_from, own_to;
  bool adds = false;          // what arrives from several peers (and the own) is added up, from zero
  Packed cleared;             // where it adds: what is set to zero before
  std::int64_t messages = 1;  // that the data of a peer is cut into
};

/// A collective in which each of a group's members owns a block of the data, by position. All-gather: from_blocks is
/// the own block alone, to_blocks are all; reduce-scatter: the other way round; all-reduce: both all. Broadcast: one
/// block, from position 0. Blocks of one position are equally long on every rank.
struct CollectiveWork {
  Collective collective = Collective::AllGather;
  std::vector<RankId> members;
  std::int64_t position = 0;
  BufferId from, to;
  std::vector<Packed> from_blocks, to_blocks;
};

using Work = std::variant<GemmWork, CopyRowsWork, SumRowsWork, TopKWork, TopKBackwardWork, ActivationWork,
                          ActivationBackwardWork, AddWork, DecodeBackwardWork, CodecWork, ExchangeWork, CollectiveWork>;

[[nodiscard]] constexpr bool communicates(const Work& work) {
  return std::holds_alternative<ExchangeWork>(work) || std::holds_alternative<CollectiveWork>(work);
}

}  // namespace moeplan::runtime
