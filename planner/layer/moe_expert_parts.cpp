// MoeParts: what the experts compute with the rows that they have received.
#include "planner/layer/moe_parts.hpp"

namespace moeplan::planner {

void MoeParts::quantise(const Slice& rows) const { operands().quantise(rows, OpClass::Expert); }

void MoeParts::quantise_dispatched(const Slice& rows, bool backward) const {
  if (!dispatches_operands(backward)) return quantise(rows);
  operands().quantise_received(rows, OpClass::Expert);
}

Gemm MoeParts::product(Gemm::Form form) const {
  return operands().product({.form = form, .grouped = true, .by_source = l_.expert_layout == ExpertLayout::BySource});
}

void MoeParts::sort_rows(const char* name, const Slice& rows) {
  const bool has_order = l_.degrees.ep > 1 && l_.moe.num_experts > l_.degrees.ep && !deduplicates();
  if (l_.expert_layout != ExpertLayout::Sorted || !has_order || l_.all_to_all->sorts_by_expert()) return;
  b_.then(kernel(name, OpClass::Permute, Kernel::SortRows, {rows}, {rows}));
}

void MoeParts::pad_rows(const char* name, const Slice& rows) {
  const bool arrive_padded = l_.fusions.has(Fusion::Padding) || l_.all_to_all->pads_rows() || !l_.host_reads_loads;
  if (!l_.precision || !l_.has_megatron_kernels || arrive_padded) return;
  expert_pass(name, {rows}, {rows});
}

void MoeParts::rows_to_products(const Slice& rows, bool backward) {
  sort_rows(backward ? "sort by source backward" : "sort by expert", rows);
  pad_rows(backward ? "unpad rows backward" : "pad rows", rows);
}

void MoeParts::rows_from_products(const Slice& rows, bool backward) {
  pad_rows(backward ? "pad rows backward" : "unpad rows", rows);
  sort_rows(backward ? "sort by expert backward" : "sort by source", rows);
}

void MoeParts::experts(const Path& path) {
  const Gemm grouped = product(Gemm::Form::NN);
  const Slice in = hidden("expert.in", l_.hidden_size, path), out = hidden("expert.out", l_.hidden_size, path);
  const Slice up = hidden("expert.up", up_columns(), path);
  rows_to_products(dispatched(in, /*backward=*/false), /*backward=*/false);
  quantise_dispatched(in, /*backward=*/false);
  b_.then(gemm("expert up projection", OpClass::Expert, grouped, operands().in_rows(in), w_up(), up));
  activate(path);
  b_.then(
      gemm("expert down projection", OpClass::Expert, grouped, operands().in_rows(down_operand(path)), w_down(), out));
  add_weighted_biases(path);
  rows_from_products(out, /*backward=*/false);
}

void MoeParts::experts_backward(const Path& path) {
  rows_to_products(dispatched(hidden("d.expert.out", l_.hidden_size, path), /*backward=*/true), /*backward=*/true);
  weighted_biases_backward(path);
  restore_from_fp8(path);
  activation_again(path);
  down_input_gradient(path);
  down_weight_gradient(path);
  weigh_backward(path, /*has_activated=*/l_.recompute_activations);
  activation_backward(path);
  up_weight_gradient(path);
  up_input_gradient(path);
  rows_from_products(hidden("d.expert.in", l_.hidden_size, path), /*backward=*/true);
}

void MoeParts::experts_input_gradients(const Path& path) {
  rows_to_products(dispatched(hidden("d.expert.out", l_.hidden_size, path), /*backward=*/true), /*backward=*/true);
  weighted_biases_backward(path);
  restore_from_fp8(path);
  down_input_gradient(path);
  weigh_backward(path, /*has_activated=*/false);
  activation_backward(path);
  up_input_gradient(path);
  rows_from_products(hidden("d.expert.in", l_.hidden_size, path), /*backward=*/true);
}

void MoeParts::experts_weight_gradients(const Path& path) {
  activation_again(path);
  down_weight_gradient(path);
  up_weight_gradient(path);
}

/// Between the products: what the down projection multiplies, from what the up projection wrote.
void MoeParts::activate(const Path& path) {
  if (fuses_mlp()) {
    b_.then(kernel("expert activation", OpClass::Expert, Kernel::Epilogue,
                   {activation_operand(path), arrived_choice(path)}, operands().copies_of(down_operand(path))));
    return;
  }
  if (l_.eager) {
    eager_activation(path);
    return quantise(down_operand(path));
  }
  clamp(path);
  then_in_kernel(activation(activation_operand(path), path));
  keep_in_fp8(path);
  weigh(path);
  quantise(down_operand(path));
}

/// Gradients accumulate over chunks and microbatches; gradients of gathered weights start from zero in each layer.
Gemm MoeParts::weight_gradient() const {
  Gemm out = product(Gemm::Form::TN);
  out.accumulates = !l_.gathers_weights || has_weight_gradients_;
  return out;
}

Operation MoeParts::activation(const Slice& operand, const Path& path) {
  if (!l_.has_megatron_kernels)
    return kernel("expert activation", OpClass::Expert, Kernel::Activation, {operand},
                  {hidden("expert.activated", shard_hidden(), path)});
  return kernel("expert activation", OpClass::Expert, Kernel::Activation, {operand, arrived_choice(path)},
                {down_operand(path)});
}

void MoeParts::keep_in_fp8(const Path& path) {
  if (l_.keeps_activation_inputs_in_fp8) planner::keep_in_fp8(b_, OpClass::Expert, activation_operand(path));
}

void MoeParts::restore_from_fp8(const Path& path) {
  if (l_.keeps_activation_inputs_in_fp8) planner::restore_from_fp8(b_, OpClass::Expert, activation_operand(path));
}

Slice MoeParts::kept_operand(const Path& path) {
  const Slice operand = activation_operand(path);
  return l_.keeps_activation_inputs_in_fp8 ? restored_from_fp8(b_, operand) : operand;
}

/// With the clamps before it, whose results are not kept either.
void MoeParts::activation_in_backward(const Path& path) {
  if (l_.eager) return eager_activation(path);
  if (!l_.keeps_activation_inputs_in_fp8) clamp(path);
  b_.then(activation(kept_operand(path), path));
}

Slice MoeParts::activation_operand(const Path& path, const std::string& prefix) {
  return hidden(prefix + (clamps_apart() ? "expert.clamped" : "expert.up"), up_columns(), path);
}

/// Each half into a tensor of its own, which are then joined.
void MoeParts::clamp(const Path& path) {
  if (!clamps_apart()) return;
  const Slice halves = hidden("expert.halves", up_columns(), path);
  expert_pass("clamp", {hidden("expert.up", up_columns(), path)}, {halves}, Kernel::GeneralPass, 2);
  expert_pass("join halves", {halves}, {activation_operand(path)});
}

/// Autograd's formulas: where the gate exceeds its limit, and where the linear half exceeds either of its two, as masks
/// of a byte a value; their conjunction; the gradients where they hold; the halves joined.
void MoeParts::clamp_backward(const Path& path) {
  if (!clamps_apart()) return;
  const std::int64_t half = shard_hidden();
  const auto masks = [&](std::int64_t count) {
    return b_.slice("expert.masks." + std::to_string(count), count * half, Dtype::Int8,
                    hidden("expert.up", up_columns(), path).rows);
  };
  const Slice d_clamped = activation_operand(path, "d."), d_halves = hidden("d.expert.halves", up_columns(), path);
  expert_pass("limits", {hidden("expert.up", up_columns(), path)}, {masks(3)}, Kernel::GeneralPass, 3);
  expert_pass("both limits", {masks(2)}, {masks(1)});
  expert_pass("clamp backward", {d_clamped, masks(2)}, {d_halves}, Kernel::GeneralPass, 2);
  expert_pass("join halves backward", {d_halves}, {hidden("d.expert.up", up_columns(), path)});
}

Slice MoeParts::down_operand(const Path& path, const std::string& prefix) {
  return hidden(prefix + (l_.weighs_in_experts ? "expert.weighted" : "expert.activated"), shard_hidden(), path);
}

void MoeParts::weigh(const Path& path) {
  if (!l_.weighs_in_experts || l_.has_megatron_kernels) return;
  b_.then(kernel("weigh", OpClass::Expert, Kernel::Decode,
                 {hidden("expert.activated", shard_hidden(), path), arrived_choice(path)}, {down_operand(path)}));
}

void MoeParts::weigh_backward(const Path& path, bool has_activated) {
  if (!l_.weighs_in_experts || l_.has_megatron_kernels) return;
  if (!has_activated) activation_in_backward(path);
  b_.then(kernel("weigh backward", OpClass::Expert, Kernel::DecodeBackward,
                 {down_operand(path, "d."), hidden("expert.activated", shard_hidden(), path), arrived_choice(path)},
                 {hidden("d.expert.activated", shard_hidden(), path), leaving_d_choice(path)}));
}

void MoeParts::expert_pass(const char* name, std::vector<Slice> reads, std::vector<Slice> writes, Kernel pass,
                           std::int64_t kernels) {
  b_.then(launched_as(kernels, kernel(name, OpClass::Expert, pass, std::move(reads), std::move(writes))));
}

Slice MoeParts::in_fp32(const std::string& name, const Path& path) {
  return b_.slice(name, l_.hidden_size, Dtype::Fp32, hidden("expert.out", l_.hidden_size, path).rows);
}

void MoeParts::add_weighted_biases(const Path& path) {
  if (!adds_weighted_biases()) return;
  const std::int64_t held = held_experts(b_.program(), l_.routing);  // a kernel for each expert
  const Slice out = hidden("expert.out", l_.hidden_size, path);
  const Slice biases = in_fp32("expert.biases", path), sums = in_fp32("expert.sums", path),
              joined = in_fp32("expert.joined", path);
  expert_pass("weigh biases", {arrived_choice(path)}, {biases}, Kernel::GeneralPass, held);
  expert_pass("add biases", {out, biases}, {sums}, Kernel::GeneralPass, held);
  expert_pass("join experts", {sums}, {joined});
  expert_pass("round", {joined}, {out});
}

void MoeParts::weighted_biases_backward(const Path& path) {
  if (!l_.has_megatron_kernels || !l_.moe.expert.bias) return;
  const Slice d_out = hidden("d.expert.out", l_.hidden_size, path);
  const Slice d_bias = b_.slice("d.expert.bias", l_.hidden_size, Dtype::Fp32, Rows::per_expert(l_.routing, 1));
  if (fuses_mlp()) {
    b_.then(kernel("gradients of biases and their weights", OpClass::Expert, Kernel::Copy,
                   {d_out, arrived_choice(path)}, {d_bias, leaving_d_choice(path)}));
    return;
  }
  const std::int64_t held = held_experts(b_.program(), l_.routing);  // a kernel for each expert
  const Slice wide = in_fp32("d.expert.sums", path), product = in_fp32("d.expert.biases", path);
  expert_pass("round backward", {d_out}, {wide}, Kernel::GeneralPass);
  expert_pass("weigh biases backward", {wide, arrived_choice(path)}, {product}, Kernel::GeneralPass, held);
  expert_pass("bias gradient", {product}, {d_bias}, Kernel::Copy, held);
  expert_pass("weights of biases backward", {wide}, {product}, Kernel::GeneralPass, held);
  expert_pass("gradient of weights of biases", {product}, {leaving_d_choice(path)}, Kernel::Copy, held);
  expert_pass("add biases backward", {wide}, {d_out}, Kernel::Copy, held);
  expert_pass("join experts backward", {d_out}, {d_out});
}

void MoeParts::activation_again(const Path& path) {
  if (!l_.recompute_activations) return;
  if (fuses_mlp()) {
    b_.then(kernel("expert activation", OpClass::Expert, Kernel::Activation,
                   {activation_operand(path), arrived_choice(path)}, {operands().in_columns(down_operand(path))}));
    return;
  }
  activation_in_backward(path);
  weigh(path);
  quantise(down_operand(path));
}

void MoeParts::down_input_gradient(const Path& path) {
  const Slice d_out = hidden("d.expert.out", l_.hidden_size, path);
  quantise_dispatched(d_out, /*backward=*/true);
  b_.then(gemm("expert down input gradient", OpClass::Expert, product(Gemm::Form::NT), operands().in_rows(d_out),
               w_down(), down_operand(path, "d.")));
}

void MoeParts::down_weight_gradient(const Path& path) {
  b_.then(gemm("expert down weight gradient", OpClass::Expert, weight_gradient(),
               operands().in_columns(down_operand(path)),
               operands().in_columns(hidden("d.expert.out", l_.hidden_size, path)), w_down("d.")));
}

void MoeParts::activation_backward(const Path& path) {
  if (l_.eager) {
    eager_activation_backward(path);
    return quantise(hidden("d.expert.up", up_columns(), path));
  }
  const Slice operand = kept_operand(path), gradient = activation_operand(path, "d.");
  if (fuses_mlp()) {
    std::vector<Slice> written = operands().copies_of(gradient);
    written.push_back(leaving_d_choice(path));
    b_.then(kernel("expert activation backward", OpClass::Expert, Kernel::Epilogue,
                   {down_operand(path, "d."), operand, arrived_choice(path)}, std::move(written)));
    return;
  }
  Operation backward = kernel("expert activation backward", OpClass::Expert, Kernel::ActivationBackward,
                              {hidden("d.expert.activated", shard_hidden(), path), operand}, {gradient});
  if (l_.has_megatron_kernels) {
    // One kernel of elements, and one that reads them again for the sums over rows.
    backward.reads = {down_operand(path, "d."), operand, arrived_choice(path), down_operand(path, "d."), operand};
    backward.writes = {gradient, leaving_d_choice(path)};
    backward.kernels = 2;
  }
  b_.then(std::move(backward));
  clamp_backward(path);
  quantise(hidden("d.expert.up", up_columns(), path));
}

void MoeParts::up_weight_gradient(const Path& path) {
  b_.then(gemm("expert up weight gradient", OpClass::Expert, weight_gradient(),
               operands().in_columns(hidden("expert.in", l_.hidden_size, path)),
               operands().in_columns(hidden("d.expert.up", up_columns(), path)), w_up("d.")));
  has_weight_gradients_ = true;
}

void MoeParts::up_input_gradient(const Path& path) {
  b_.then(gemm("expert up input gradient", OpClass::Expert, product(Gemm::Form::NT),
               operands().in_rows(hidden("d.expert.up", up_columns(), path)), w_up(),
               hidden("d.expert.in", l_.hidden_size, path)));
}

}  // namespace moeplan::planner
