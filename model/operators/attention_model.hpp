// The time of self-attention without cache, forward or backward, from its shape: tiles of 128 queries by 128 keys,
// blocks over SMs (the longest first), softmax concurrent with the products, and traffic that both do not hide.
// docs/operators.md derives it and lists the fitted numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/base/quantity.hpp"
#include "model/operators/math_format.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

struct AttentionShape {
  std::int64_t batch = 1, sequence_length = 1, query_heads = 1, kv_heads = 1;
  std::int64_t head_dim = 128;    // of queries and keys
  std::int64_t v_head_dim = 128;  // of values and the output
  bool is_causal = true;
  bool is_backward = false;
  std::int64_t window = 0;  // causal: the keys that a query meets, itself and those before it; 0: all
};

/// FLOPs of the two products (backward: five); half of them if causal, less with a window.
[[nodiscard]] double attention_flops(const AttentionShape& shape);

/// What a measured call does to queries, keys and values before attention reads them.
enum class AttentionPreparation {
  None,
  RotaryAndCache,  // reads them in 16 bits, rotates, writes them in the operands' format
  Cache            // copies keys and values into a paged cache
};

/// The numbers of a GPU's attention in one format and direction with one library.
struct AttentionModel {
  MathFormat format = MathFormat::Bf16;
  std::string library;
  bool is_backward = false;
  // How the kernel divides the work: not fitted.
  std::int64_t subtiles = 1;       // of 128 queries in a thread block, up to head_dim 128
  std::int64_t subtiles_wide = 1;  // beyond
  AttentionPreparation preparation = AttentionPreparation::None;
  // Fitted.
  Seconds launch;         // all kernels of the call
  FlopsPerSecond math;    // of the products' loop on all SMs
  double softmax = 0;     // elements per second on all SMs; does not depend on head_dim
  Seconds start;          // start-up and end of a full block
  double tail = 0;        // fraction of the longest block by which the last wave overhangs the even share
  BytesPerSecond memory;  // HBM bandwidth over the share of the traffic that the products do not hide
  Seconds token;          // kernels of the framework, per token
  Seconds split;          // splitting keys over idle SMs and combining; 0: the kernel does not split
  double wide = 1;        // factor on a step for head_dim > 128: padded operands of the backward pass
  double power = 0;       // exponent: calls above 1e12 FLOPs slow down by (FLOPs / 1e12)^power
  bool fits_all = false;  // fitted to all rows, too few to hold any out
  Seconds host;           // the measuring host cannot issue calls faster; not the GPU's time
  bool operator==(const AttentionModel&) const = default;
};

/// The time of a call, and how it comes about.
struct AttentionCost {
  Seconds launch, blocks, memory, tokens;  // blocks: products and softmax of the slowest SM
  [[nodiscard]] Seconds time() const { return launch + blocks + memory + tokens; }
  /// "launch", "math" or "memory": the longest part.
  [[nodiscard]] std::string_view bound() const;
};

/// The cost of the GPU's kernels on `num_sms` SMs. `slowdown`: factor on the time of the blocks, 1.13 if the clock is
/// lower by that than the clock of the figures.
[[nodiscard]] AttentionCost attention_cost(const AttentionModel& model, std::int64_t num_sms,
                                           const AttentionShape& shape, double slowdown = 1);

/// The time of the GPU's kernels on `num_sms` SMs.
[[nodiscard]] Seconds attention_time(const AttentionModel& model, std::int64_t num_sms, const AttentionShape& shape);

/// The time of one call as it was measured: at least `host`.
[[nodiscard]] Seconds attention_call_time(const AttentionModel& model, std::int64_t num_sms,
                                          const AttentionShape& shape);

/// Reads one entry of the list `attention` of a file in configs/operators.
[[nodiscard]] AttentionModel read_attention_model(MapReader entry);

}  // namespace moeplan
