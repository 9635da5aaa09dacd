// Positions of DenseParts: rotary embedding of queries and keys, and the norms before it.
#include "planner/layer/dense_parts.hpp"

namespace moeplan::planner {

void DenseParts::rotary(const std::string& from, std::int64_t columns, bool is_scaled, bool backward) const {
  const std::string name = backward ? "d.attn.rotated" : "attn.rotated";
  const Slice rotated = rows(name, columns), first = rows(from, columns);
  std::vector<Slice> reads{first}, writes{rotated};
  if (is_scaled && has_megatron_kernels(workload)) {
    // Forward, t cos + (-t2, t1) sin: product, negated half, concatenation, product, sum, and a concatenation with the
    // columns that are not rotated, which are none: 6.5 times read, 5.5 times written. Backward the same of the
    // gradient without the last, then the gradients of the columns that are rotated and of the others, each copied into
    // zeros of full size, and their sum: 8.5 times each. Temporary tensors are freed at once.
    reads.insert(reads.end(), backward ? 7 : 5, rotated);
    writes.assign(backward ? 8 : 5, rotated);
    const Slice half = rows(name + ".half", columns / 2);
    reads.push_back(half);
    writes.push_back(half);
  }
  block.then(kernel("rotary", OpClass::Attention, Kernel::Rotary, reads, writes));
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

void DenseParts::head_positions(bool backward) const {
  const AttentionHeads heads = this->heads();
  const std::string d = backward ? "d." : "";
  // Queries and keys come from their projections (kUnrotated), so that a pass that is computed again reads nothing of
  // the one before.
  const std::string from = backward ? "d.attn.rotated" : kUnrotated;
  const std::int64_t queries_and_keys = heads.query_columns() + heads.key_columns();
  if (const auto* a = std::get_if<HeadAttention>(&token_mixer())) {
    const bool has_norm = a->qk_norm || a->qk_norm_whole;
    const Slice rotated = rows("attn.rotated", queries_and_keys), gradient = rows("d.attn.rotated", queries_and_keys);
    if (has_norm && !backward)
      block.then(
          kernel("query and key norm", OpClass::Attention, Kernel::Norm, {rows(from, queries_and_keys)}, {rotated}));
    const std::string normed = has_norm && !backward ? "attn.rotated" : from;
    if (model.position_embeddings == 0) {
      if (workload.pytorch_modules == PyTorchModules::Eager)
        eager_rotary(normed, queries_and_keys, backward);
      else
        rotary(normed, queries_and_keys, a->scaled_rotary, backward);
    }
    if (has_norm && backward)
      block.then(kernel("query and key norm backward", OpClass::Attention, Kernel::NormBackward, {gradient, rotated},
                        {gradient}));
    return;
  }
  const auto& a = std::get<LatentAttention>(token_mixer());
  const std::vector<Slice> whole_heads{rows(d + "attn.k", heads.key_columns()),
                                       rows(d + "attn.v", heads.value_columns())};
  const std::vector<Slice> parts{rows(d + "attn.kv", heads.query_heads * (a.qk_nope_head_dim + a.v_head_dim)),
                                 rows(d + "attn.k.rotary", a.qk_rope_head_dim)};
  rotary(from, heads.query_heads * a.qk_rope_head_dim, /*is_scaled=*/false, backward);
  block.then(kernel(backward ? "split keys and values" : "assemble keys and values", OpClass::Attention, Kernel::Copy,
                    backward ? whole_heads : parts, backward ? parts : whole_heads));
}

}  // namespace moeplan::planner
