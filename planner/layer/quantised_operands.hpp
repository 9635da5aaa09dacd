// The operands of a linear layer's products: the rows themselves, or the copies that a recipe of mixed precision
// quantises.
#pragma once

#include <optional>

#include "model/operators/precision.hpp"
#include "model/workload/fusions.hpp"
#include "planner/layer/block_builder.hpp"

namespace moeplan::planner {

struct QuantisedOperands {
  BlockBuilder& block;
  std::optional<Precision> precision;  // none: products read the rows themselves
  bool trains;                         // backward needs copies in columns
  Fusions fusions;                     // what else mxfp8 launches
  std::int64_t matrices = 1;           // of which an operand consists; each is quantised by kernels of its own
  bool in_products = false;            // the products' kernels quantise their operands and results themselves

  /// Appends the kernels that quantise the rows of an input, or of a gradient, in rows and in columns; nothing without
  /// a recipe. A norm that has just written the rows writes the copies too, if that is fused.
  void quantise(const Slice& rows, OpClass op_class) const;
  /// Of operands that were quantised before an exchange: the copy in columns, if backward needs one.
  void quantise_received(const Slice& rows, OpClass op_class) const;

  /// The copies that quantise() writes, with a recipe.
  [[nodiscard]] std::vector<Slice> copies_of(const Slice& rows) const;
  /// The operand of a forward product or an input gradient.
  [[nodiscard]] Slice in_rows(Slice rows) const;
  /// The operand of a weight gradient.
  [[nodiscard]] Slice in_columns(Slice rows) const;
  /// The product, in the recipe's format.
  [[nodiscard]] Gemm product(Gemm gemm) const;

 private:
  /// Appends a pass over rows that takes so many kernels of its own.
  void then(std::int64_t kernels, Operation pass) const;
  /// The pass that writes the copies, in a number of kernels as Transformer Engine launches them.
  void then_cast(Operation cast) const;
  /// The scales of the copies; none where kernels of their own do not touch them.
  [[nodiscard]] std::vector<Slice> scales_of(const Slice& rows, Fusion unless) const;
};

// The inputs of activation functions may be kept for backward as fp8 values without scales (Megatron-LM's
// --activation-func-fp8-input-store): one kernel converts them after the function has read them, another one converts
// them back.

/// Appends the kernel that converts `input`.
void keep_in_fp8(BlockBuilder& block, OpClass op_class, const Slice& input);
/// Appends, in a backward block, the kernel that converts back what was kept of `input`.
void restore_from_fp8(BlockBuilder& block, OpClass op_class, const Slice& input);
/// What that kernel writes.
[[nodiscard]] Slice restored_from_fp8(BlockBuilder& block, const Slice& input);

}  // namespace moeplan::planner
