#include "planner/layer/quantised_operands.hpp"

#include <utility>

#include "model/base/whole_numbers.hpp"

namespace moeplan::planner {

namespace {

constexpr std::int64_t kMxBlock = 32;  // values of mxfp8 with one scale

Slice copy_of(BlockBuilder& block, Slice rows, std::string_view suffix, std::optional<Dtype> dtype = Dtype::Fp8) {
  const Buffer buffer = block.program().buffer(rows.buffer);
  rows.buffer = block.buffer(buffer.name + std::string(suffix), buffer.columns, dtype.value_or(buffer.dtype));
  return rows;
}

Kernel kernel_of(Precision precision) {
  const bool is_per_tensor = precision == Precision::Fp8Delayed || precision == Precision::Fp8Current;
  return is_per_tensor ? Kernel::QuantiseTensor : Kernel::Quantise;
}

Slice kept_in_fp8(BlockBuilder& block, const Slice& input) { return copy_of(block, input, ".kept"); }

}  // namespace

void QuantisedOperands::then(std::int64_t kernels, Operation pass) const {
  block.then(launched_as(in_products ? 0 : kernels, std::move(pass)));
}

/// Transformer Engine 006b336, csrc/quantizer.cpp and csrc/extensions/cast.cpp: with scales of earlier steps one kernel
/// casts all matrices in rows and columns; a matrix's own largest magnitude becomes its scale in a kernel of its own.
void QuantisedOperands::then_cast(Operation cast) const {
  if (*precision == Precision::Fp8Delayed && trains) return then(1, std::move(cast));
  then(*precision == Precision::Fp8Current ? 2 * matrices : matrices, std::move(cast));
}

void QuantisedOperands::quantise(const Slice& rows, OpClass op_class) const {
  if (!precision) return;
  std::vector<Slice> read{rows};
  if (*precision == Precision::Fp8Current) {
    const std::string name = block.program().buffer(rows.buffer).name + ".scale";
    const Slice scale = block.slice(name, 1, Dtype::Fp32, Rows::fixed(1));
    constexpr std::int64_t kKernels = 2;  // the first sets the result to zero
    then(kKernels * matrices, kernel("largest magnitude", op_class, Kernel::LargestMagnitude, {rows}, {scale}));
    read.push_back(scale);
  }
  std::vector<Slice> copies = copies_of(rows);
  if (fusions.has(Fusion::NormQuantise) && block.last_writes(Kernel::Norm, rows)) return block.also_writes(copies);
  if (const auto scales = scales_of(rows, Fusion::ScaleBuffers); !scales.empty())
    then(matrices * std::ssize(scales), kernel("set scales to zero", op_class, Kernel::Copy, {scales.front()}, scales));
  const std::vector<Slice> swizzled = scales_of(rows, Fusion::ScaleSwizzle);
  copies.insert(copies.end(), swizzled.begin(), swizzled.end());
  then_cast(kernel("quantise", op_class, kernel_of(*precision), read, copies));
  if (!swizzled.empty())
    then(matrices * std::ssize(swizzled), kernel("swizzle scales", op_class, Kernel::Copy, swizzled, swizzled));
}

std::vector<Slice> QuantisedOperands::copies_of(const Slice& rows) const {
  std::vector<Slice> copies{in_rows(rows)};
  if (trains) copies.push_back(in_columns(rows));
  return copies;
}

std::vector<Slice> QuantisedOperands::scales_of(const Slice& rows, Fusion unless) const {
  if (precision != Precision::Mxfp8 || fusions.has(unless)) return {};
  const Buffer buffer = block.program().buffer(rows.buffer);
  std::vector<Slice> out;
  for (const char* copy : {".scales", ".scales of columns"}) {
    out.push_back(block.slice(buffer.name + copy, ceil_div(buffer.columns, kMxBlock), Dtype::Int8, rows.rows));
    if (!trains) break;
  }
  return out;
}

void QuantisedOperands::quantise_received(const Slice& rows, OpClass op_class) const {
  if (!trains) return;
  then(matrices, kernel("quantise columns", op_class, Kernel::Quantise, {in_rows(rows)}, {in_columns(rows)}));
}

Slice QuantisedOperands::in_rows(Slice rows) const {
  return precision ? copy_of(block, std::move(rows), ".quantised") : rows;
}

Slice QuantisedOperands::in_columns(Slice rows) const {
  return precision ? copy_of(block, std::move(rows), ".quantised columns") : rows;
}

Gemm QuantisedOperands::product(Gemm gemm) const {
  if (precision) gemm.format = format_of(*precision);
  return gemm;
}

void keep_in_fp8(BlockBuilder& block, OpClass op_class, const Slice& input) {
  block.then(kernel("keep in fp8", op_class, Kernel::Copy, {input}, {kept_in_fp8(block, input)}));
}

void restore_from_fp8(BlockBuilder& block, OpClass op_class, const Slice& input) {
  block.then(kernel("restore from fp8", op_class, Kernel::Copy, {kept_in_fp8(block, input)},
                    {restored_from_fp8(block, input)}));
}

Slice restored_from_fp8(BlockBuilder& block, const Slice& input) {
  return copy_of(block, input, ".restored", std::nullopt);
}

}  // namespace moeplan::planner
