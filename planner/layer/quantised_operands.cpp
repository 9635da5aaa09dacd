#include "planner/layer/quantised_operands.hpp"

namespace moeplan::planner {

namespace {

Slice copy_of(BlockBuilder& block, Slice rows, std::string_view suffix) {
  const Buffer buffer = block.program().buffer(rows.buffer);
  rows.buffer = block.buffer(buffer.name + std::string(suffix), buffer.columns, Dtype::Fp8);
  return rows;
}

}  // namespace

void QuantisedOperands::quantise(const Slice& rows, OpClass op_class) const {
  if (!precision) return;
  std::vector<Slice> read{rows};
  if (*precision == Precision::Fp8Current) {
    const std::string name = block.program().buffer(rows.buffer).name + ".scale";
    const Slice scale = block.slice(name, 1, Dtype::Fp32, Rows::fixed(1));
    block.then(launched_as(matrices, kernel("largest magnitude", op_class, Kernel::LargestMagnitude, {rows}, {scale})));
    read.push_back(scale);
  }
  std::vector<Slice> copies{in_rows(rows)};
  if (trains) copies.push_back(in_columns(rows));
  block.then(launched_as(matrices, kernel("quantise", op_class, Kernel::Quantise, read, copies)));
}

void QuantisedOperands::quantise_received(const Slice& rows, OpClass op_class) const {
  if (!trains) return;
  block.then(launched_as(matrices,
                         kernel("quantise columns", op_class, Kernel::Quantise, {in_rows(rows)}, {in_columns(rows)})));
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

}  // namespace moeplan::planner
