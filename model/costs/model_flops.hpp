// The FLOPs that a model mathematically requires, independent of parallelisation and recomputation.
#pragma once

#include "model/transformer/model_spec.hpp"

namespace moeplan {

/// Forward FLOPs of one token of a sequence of `sequence_length` tokens: two per weight that multiplies it (top_k of
/// the routed experts, including the output projection) plus attention over the keys it sees (half the sequence if
/// causal; with an indexer its selection, and the indexer's scores of all keys), or the products of a recurrence
/// (scan_kernels.hpp). Training takes three times as many ([FasterMoE] sec. 3.2: backward is twice forward);
/// recomputation is not counted.
[[nodiscard]] double forward_flops_per_token(const ModelSpec& model, std::int64_t sequence_length);

/// What a layer of multi-token prediction adds to it: the product of two hidden states into one ([DeepSeek-V3] eq. 21),
/// the layer, and the output projection once more.
[[nodiscard]] double mtp_flops_per_token(const ModelSpec& model, std::int64_t sequence_length);

/// Keys that a query sees on average if it selects at most `most` of `candidates`, of which the i-th query has the
/// first i if causal.
[[nodiscard]] double selected_keys(std::int64_t candidates, std::int64_t most, bool causal);

/// Multiply-adds of a query that an indexer scores with this many keys; 0 if it uses another layer's selection.
[[nodiscard]] double indexer_multiply_adds(const Indexer& indexer, double keys);

/// What a query of compressed attention sees on average.
struct CompressedKeys {
  double near = 0;           // tokens of its window
  std::int64_t entries = 0;  // compressed entries of a sequence
  double scored = 0;         // entries before it
  double far = 0;            // entries that it sees
};
[[nodiscard]] CompressedKeys compressed_keys(const CompressedAttention& attention, const LayerSpec& layer, bool causal,
                                             std::int64_t sequence_length);

}  // namespace moeplan
