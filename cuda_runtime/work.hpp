// The operations of a Program as executed by one rank: rows as buffer indices, transfers as element ranges.
//
// They are resolved from a Program once (resolve_work.hpp), then prepared and executed by a back end (backend.hpp). A
// row is an index in a buffer of this rank; -1 is a padding row of zeros. Computation uses fp32 or better. Data is
// stored in the buffer's format, so that as many bytes move as the cost model assumes.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "model/program/program.hpp"

namespace moeplan::runtime {

/// Rows of a buffer, in the order in which an operation accesses them. A row may occur several times.
struct RowList {
  BufferId buffer;
  std::vector<std::int32_t> rows;

  /// Whether the rows are consecutive, so that no index list is needed.
  [[nodiscard]] bool is_contiguous() const;
  bool operator==(const RowList&) const = default;
};

/// A product C = A B of row ranges of three lists. In an NN product B has as many rows as A has columns; in a TN
/// product A and B have the same number of rows, the dimension of the sum (Gemm::Form).
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
  std::vector<Product> products;  // one; for a grouped GEMM, one per expert (and source) with rows in C
  bool are_separate = false;      // whether a GPU computes each by a launch of its own
};

/// Copies row i of `in` to row i of `out`.
struct CopyRowsWork {
  RowList in, out;
};

/// Row i of `out` becomes the sum of the terms begin[i] to begin[i + 1] - 1: rows of inputs, each multiplied by the
/// gate weight of `expert` in the choice row if there is a `choice` buffer.
struct SumRowsWork {
  struct Term {
    std::int32_t input = 0;  // index in `inputs`
    std::int32_t row = 0;
    std::int32_t choice_row = 0;
    std::int32_t expert = 0;
  };
  std::vector<BufferId> inputs;
  RowList out;
  std::vector<std::int64_t> begin;  // size: rows of `out` + 1
  std::vector<Term> terms;
  std::optional<BufferId> choice;
};

/// The gate: selects the k largest logits of each row, ties to the lower index. A choice row holds k experts, as
/// numbers, followed by their weights, the softmax over the k logits.
struct TopKWork {
  RowList logits, choice;
  std::int64_t k = 1;
};
/// The gradient with respect to the logits, given that with respect to the weights of the choice.
struct TopKBackwardWork {
  RowList d_weights, logits, d_logits;
  std::int64_t k = 1;
};

/// The activation: gelu(x), or for a gated expert silu(first half of the columns) times the second half.
struct ActivationWork {
  RowList up, activated;
  bool gated = false;
};
struct ActivationBackwardWork {
  RowList d_activated, up, d_up;
  bool gated = false;
};

/// Row i of `out` becomes the norm of row i of `in`, times the row of `weights` (RMSNorm), or times the first of two
/// rows plus the second (LayerNorm).
struct NormWork {
  RowList in, weights, out;
  double epsilon = 0;  // added to the mean square, or to the variance
};
/// The gradients with respect to `in`, and with respect to `weights`, which are added to `d_weights`.
struct NormBackwardWork {
  RowList d_out, in, weights, d_in, d_weights;
  double epsilon = 0;
};

/// Row i of `out` becomes the sum of rows i of `a` and `b`. `out` may be the same rows as either.
struct AddWork {
  RowList a, b, out;
};

/// The gradients of the weighted sum of expert outputs, with respect to these outputs and to the gate weights. Entry i:
/// row `returned` contributed the output of `expert` to row `token`. Rows of `d_choice` are zero-filled first.
struct DecodeBackwardWork {
  struct Entry {
    std::int32_t returned = 0, d_returned = 0, token = 0, choice = 0, d_choice = 0, expert = 0;
  };
  BufferId d_out, returned, choice, d_returned;
  RowList d_choice;
  std::vector<Entry> entries;
};

/// Encodes row i of `rows` into row i of each list of `wire` (values, then per-row parameters), or decodes it.
struct CodecWork {
  WireFormat format = WireFormat::Fp16;
  bool decodes = false;
  RowList rows;
  std::vector<RowList> wire;
};

/// A range of consecutive elements of a buffer.
struct Run {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const Run&) const = default;
};

/// The elements of a transfer in the order in which they are sent. Adjacent ranges are merged.
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

/// Simultaneous sends and receives between this rank and its peers. Both ends of a pair pack the elements in the same
/// order. The rank's own part needs no network: elements `own_from` of `from` become elements `own_to` of `to`.
struct ExchangeWork {
  BufferId from, to;
  std::vector<Transfer> sends, receives;  // by peer; none is empty or addressed to this rank
  Packed own_from, own_to;
  bool adds = false;          // received data of all peers (and the own part) is summed, starting from zero
  Packed cleared;             // if `adds`: elements to zero-fill first
  std::int64_t messages = 1;  // messages per peer
};

/// A collective in which each member of a group owns one block of the data, by position. All-gather: from_blocks is the
/// own block, to_blocks are all blocks. Reduce-scatter: the reverse. All-reduce: both are all blocks. Broadcast: one
/// block, from position 0. The blocks of one position have the same length on every rank.
struct CollectiveWork {
  Collective collective = Collective::AllGather;
  std::vector<RankId> members;
  std::int64_t position = 0;
  BufferId from, to;
  std::vector<Packed> from_blocks, to_blocks;
};

/// A step of the optimizer on row i of the weights: Adam, with two moments, or SGD with momentum. A row of `states` has
/// the row's moments one after the other and, if it is one part wider, the weights in fp32.
struct OptimizerWork {
  RowList gradients, states, weights;
  std::int64_t moments = 2;
};

using Work = std::variant<GemmWork, CopyRowsWork, SumRowsWork, TopKWork, TopKBackwardWork, ActivationWork,
                          ActivationBackwardWork, NormWork, NormBackwardWork, AddWork, DecodeBackwardWork, CodecWork,
                          OptimizerWork, ExchangeWork, CollectiveWork>;

[[nodiscard]] constexpr bool communicates(const Work& work) {
  return std::holds_alternative<ExchangeWork>(work) || std::holds_alternative<CollectiveWork>(work);
}

}  // namespace moeplan::runtime
