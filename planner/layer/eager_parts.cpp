// Elementwise parts of an MoE layer as PyTorch runs them one by one (PyTorchModules::Eager): each kernel's bytes, and
// what autograd keeps of its operands. Kernels of torchtitan: models/common/moe.py, token_dispatcher.py,
// gpt_oss/moe.py.
#include "planner/layer/moe_parts.hpp"

namespace moeplan::planner {

namespace {

constexpr Kernel kStrided = Kernel::GeneralPass;  // halves of rows in which they alternate, or operands of other shapes

}  // namespace

void MoeParts::eager_activation(const Path& path) {
  const auto half = [&](const char* name) { return hidden(name, shard_hidden(), path); };
  const Slice up = hidden("expert.up", up_columns(), path), activated = half("expert.activated");
  if (!l_.moe.expert.gated) return expert_pass("activation", {up}, {activated});
  const Slice gate = half("expert.gate"), linear = half("expert.linear");
  if (!l_.moe.expert.clamped) {
    expert_pass("silu", {up}, {gate});  // with the bytes of the other half, which is multiplied next
    return expert_pass("multiply halves", {gate}, {activated});
  }
  const Slice sigmoid = half("expert.sigmoid"), gated = half("expert.gated");
  expert_pass("clamp", {up}, {gate, linear}, kStrided, 2);
  expert_pass("multiple of gate", {gate}, {sigmoid});
  expert_pass("sigmoid", {sigmoid}, {sigmoid});
  expert_pass("gate times sigmoid", {gate, sigmoid}, {gated});
  expert_pass("multiply halves", {gated, gated, linear}, {activated});
}

void MoeParts::eager_activation_backward(const Path& path) {
  const auto half = [&](const char* name) { return hidden(name, shard_hidden(), path); };
  const Slice up = hidden("expert.up", up_columns(), path), d_up = hidden("d.expert.up", up_columns(), path);
  const Slice d = half("d.expert.activated");
  if (!l_.moe.expert.gated) return expert_pass("activation backward", {d, up}, {d_up});
  const Slice gate = half("expert.gate"), d_gate = half("d.expert.gate");
  if (!l_.moe.expert.clamped) {
    expert_pass("multiply halves backward", {d, d, gate, up}, {d_gate}, Kernel::Copy, 2);
    return expert_pass("silu backward", {d_gate}, {d_up});
  }
  const Slice linear = half("expert.linear"), sigmoid = half("expert.sigmoid"), gated = half("expert.gated");
  const Slice d_linear = half("d.expert.linear"), d_gated = half("d.expert.gated"),
              d_sigmoid = half("d.expert.sigmoid");
  expert_pass("multiply halves backward", {d, linear, d, d, d, gated}, {d_gated, d_gated, d_linear}, Kernel::Copy, 3);
  expert_pass("gate times sigmoid backward", {d_gated, sigmoid, d_gated, gate}, {d_gate, d_sigmoid}, Kernel::Copy, 2);
  expert_pass("sigmoid backward", {d_sigmoid, sigmoid}, {d_sigmoid});
  expert_pass("multiple of gate backward", {d_sigmoid}, {d_sigmoid});
  expert_pass("sum of gate's gradients", {d_sigmoid, d_gate}, {d_gate});
  expert_pass("clamp backward", {d_gate, d_linear, up}, {d_gate, d_linear}, kStrided, 2);
  expert_pass("halves into zeros", {d_gate, d_linear}, {d_up, d_up, d_gate, d_linear}, kStrided, 4);
  expert_pass("sum of halves", {d_up, d_up}, {d_up});
}

Slice MoeParts::eager_weigh(const Path& path) {
  const Slice returned = at_sources("moe.returned", path), weighted = at_sources("moe.weighted", path);
  const Slice wide = wide_rows("moe.returned.fp32", path), product = wide_rows("moe.weighted.fp32", path);
  b_.then(kernel("cast rows", OpClass::Permute, Kernel::Copy, {returned}, {wide}));
  b_.then(kernel("weigh rows", OpClass::Permute, kStrided, {wide, choice(path)}, {product}));
  b_.then(kernel("cast rows", OpClass::Permute, Kernel::Copy, {product}, {weighted}));
  return weighted;
}

void MoeParts::eager_weigh_backward(const Slice& gradient, const Path& path) {
  const Slice d_weighted = at_sources("d.moe.weighted", path), d_returned = at_sources("d.moe.returned", path);
  const Slice wide = wide_rows("moe.returned.fp32", path), d_product = wide_rows("d.moe.weighted.fp32", path);
  const Slice d_wide = wide_rows("d.moe.returned.fp32", path), product = wide_rows("d.moe.product.fp32", path);
  b_.then(kernel("decode backward", OpClass::Permute, Kernel::Encode, {gradient}, {d_weighted}));
  b_.then(kernel("cast rows backward", OpClass::Permute, Kernel::Copy, {d_weighted}, {d_product}));
  b_.then(kernel("weigh rows backward", OpClass::Permute, kStrided, {d_product, choice(path)}, {d_wide}));
  b_.then(kernel("gradients of weights", OpClass::Permute, Kernel::Copy, {d_product, wide}, {product}));
  b_.then(kernel("sum of gradients of weights", OpClass::Permute, Kernel::Copy, {product}, {d_choice(path)}));
  b_.then(kernel("cast rows backward", OpClass::Permute, Kernel::Copy, {d_wide}, {d_returned}));
}

Slice MoeParts::wide_rows(const std::string& name, const Path& path) {
  return b_.slice(name, l_.hidden_size, Dtype::Fp32, at_sources("moe.returned", path).rows);
}

}  // namespace moeplan::planner
