// The kernels of recurrences along a sequence, which are computed in chunks: within a chunk as products of matrices,
// between chunks through states. Both are listed as their public kernels run them, each with what it reads and writes
// in device memory.
//
// Gated DeltaNet: chunk_gated_delta_rule of flash-linear-attention (chunks of 64 tokens; queries and keys are repeated
// for the value heads; backward computes w, u and the states again). Mamba-2: mamba_split_conv1d_scan_combined of
// mamba_ssm (backward computes states and scores again).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/transformer/token_mixer.hpp"

namespace moeplan {

/// A buffer of such a kernel: rows of `columns` values, one for every `tokens` tokens.
struct ScanBuffer {
  std::string name;
  std::int64_t columns = 0;
  std::int64_t tokens = 1;
  bool is_fp32 = false;  // else the model's number format
  bool operator==(const ScanBuffer&) const = default;
};

/// A kernel: `multiply_adds` a token in products of matrices; 0: memory-bound.
struct ScanKernel {
  std::string name;
  std::vector<ScanBuffer> reads;
  std::vector<ScanBuffer> writes;
  std::int64_t multiply_adds = 0;
};

/// A recurrence on one of `tp` tensor-parallel ranks, which divide heads and groups: projections of the layer's input
/// into `inputs`, the kernels, and the buffer that the output projection reads. Backward turns the gradients of
/// `output` into those of `inputs` (names with "d." before them).
struct Scan {
  std::vector<ScanBuffer> inputs;
  ScanBuffer output;
  std::vector<ScanKernel> forward;
  std::vector<ScanKernel> backward;
};
[[nodiscard]] Scan scan_kernels(const GatedDeltaNet& mixer, std::int64_t tp);
[[nodiscard]] Scan scan_kernels(const Mamba2& mixer, std::int64_t tp);

/// Multiply-adds of a token in the products of a kernel list.
[[nodiscard]] double multiply_adds(const std::vector<ScanKernel>& kernels);

}  // namespace moeplan
