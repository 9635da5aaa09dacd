// Elementwise parts of a layer as PyTorch runs them one by one (PyTorchModules::Eager): each kernel's bytes, and what
// autograd keeps of its operands. Kernels of torchtitan: models/common/moe.py, token_dispatcher.py, rope.py,
// gpt_oss/moe.py.
#include "planner/layer/dense_parts.hpp"
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

void DenseParts::eager_rotary(const std::string& from, std::int64_t columns, bool backward) const {
  const std::string d = backward ? "d." : "", suffix = backward ? " backward" : "";
  const Slice first = rows(from, columns), rotated = rows(d + "attn.rotated", columns);
  const auto wide = [&](const char* name, std::int64_t of) {
    return block.slice(d + name, of, Dtype::Fp32, first.rows);
  };
  const Slice all = wide("attn.wide", columns), half = wide("attn.half", columns / 2);
  const Slice turned = wide("attn.turned", columns), other = wide("attn.other_half", columns);
  const Slice by_cosine = wide("attn.by_cosine", columns), by_sine = wide("attn.by_sine", columns);
  const auto pass = [&](const std::string& name, std::int64_t kernels, Kernel work, std::vector<Slice> reads,
                        std::vector<Slice> writes) {
    constexpr std::int64_t kOfEach = 2;  // queries, and keys
    block.then(launched_as(kernels * kOfEach,
                           kernel(name + suffix, OpClass::Attention, work, std::move(reads), std::move(writes))));
  };
  pass("cast", 1, Kernel::Copy, {first}, {all});
  if (!backward) {
    // A negated half, and both put together: a half is read once more, which has the bytes of `first`.
    pass("turn", 2, Kernel::Copy, {all, first}, {half, turned});
    pass("rotary", 2, Kernel::GeneralPass, {all, turned}, {by_cosine, by_sine});
    return pass("sum and cast", 2, Kernel::Copy, {by_cosine, by_sine, all}, {all, rotated});
  }
  pass("rotary", 2, Kernel::GeneralPass, {all, all}, {by_cosine, by_sine});
  // A negated half, and both halves copied into zeros of full size; the sum of these, and that with the other gradient.
  pass("turn", 5, Kernel::Copy, {by_sine, first}, {half, turned, other, turned});
  pass("sum and cast", 3, Kernel::Copy, {turned, other, by_cosine, all, all}, {all, all, rotated});
}

}  // namespace moeplan::planner
