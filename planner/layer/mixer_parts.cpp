// Token mixers of DenseParts other than plain attention: recurrences, sparse and compressed attention. Kernels whose
// time is not that of their bytes are fused products (FusedProducts), with the number of keys that a query sees on
// average.
#include <algorithm>
#include <utility>

#include "model/base/whole_numbers.hpp"
#include "model/costs/model_flops.hpp"
#include "model/program/resolve.hpp"
#include "planner/layer/dense_parts.hpp"

namespace moeplan::planner {

namespace {

double product(std::int64_t a, std::int64_t b, std::int64_t c = 1) {
  return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

}  // namespace

void DenseParts::fused(const std::string& name, double multiply_adds, std::vector<Slice> reads,
                       std::vector<Slice> writes) const {
  Operation op;
  op.name = name;
  op.op_class = OpClass::Attention;
  op.work = FusedProducts{multiply_adds};
  op.reads = std::move(reads);
  op.writes = std::move(writes);
  block.then(std::move(op));
}

void DenseParts::mixer_kernel(const std::string& name, Kernel work, std::vector<Slice> reads,
                              std::vector<Slice> writes) const {
  block.then(kernel(name, OpClass::Attention, work, std::move(reads), std::move(writes)));
}

void DenseParts::scan(const std::vector<ScanKernel>& kernels) const {
  const auto slices = [&](const std::vector<ScanBuffer>& buffers) {
    std::vector<Slice> out;
    for (const ScanBuffer& b : buffers) {
      out.push_back(block.slice(b.name, b.columns, b.is_fp32 ? Dtype::Fp32 : workload.dtype,
                                Rows::fixed(ceil_div(tokens, b.tokens))));
    }
    return out;
  };
  for (const ScanKernel& k : kernels) {
    if (k.multiply_adds == 0) {
      mixer_kernel(k.name, Kernel::Recurrence, slices(k.reads), slices(k.writes));
    } else {
      fused(k.name, static_cast<double>(k.multiply_adds), slices(k.reads), slices(k.writes));
    }
  }
}

/// A query's selection of keys by an indexer (DSA, CSA). The scores of all keys, `entries` of a sequence and `keys` on
/// average before a query, go through memory. In training the indexer learns from the attention that the selected keys
/// get ([DeepSeek-V3.2] eq. (4)), apart from the model: its scores and their gradients, and that attention, of
/// `target` multiply-adds, once more for `keys` selected keys; no gradient of the layer's input.
void DenseParts::index(const Indexer& indexer, std::int64_t entries, double keys, double target, bool backward) const {
  if (indexer.is_shared) return;
  const std::int64_t queries = indexer.num_heads * indexer.head_dim;
  const std::int64_t key_rows = ceil_div(tokens * entries, workload.sequence_length);
  const auto key = [&](const std::string& name) {
    return block.slice(name, indexer.head_dim, workload.dtype, Rows::fixed(key_rows));
  };
  const Slice q = rows("index.q", queries), k = key("index.k"), w = rows("index.w", indexer.num_heads);
  const Slice scores = block.slice("index.scores", entries, Dtype::Fp32, Rows::fixed(tokens));
  if (backward) {
    fused("indexer backward", 3 * indexer_multiply_adds(indexer, keys) + target, {q, k, w, selected(indexer, entries)},
          {rows("d.index.q", queries), key("d.index.k"), rows("d.index.w", indexer.num_heads)});
    return;
  }
  mixer_kernel("index norm and rotary", Kernel::Norm, {q, k}, {q, k});
  fused("index scores", indexer_multiply_adds(indexer, keys), {q, k, w}, {scores});
  mixer_kernel("index top-k", Kernel::TopK, {scores}, {selected(indexer, entries)});
}

/// The indices of the selected keys, 4 bytes each.
Slice DenseParts::selected(const Indexer& indexer, std::int64_t entries) const {
  return block.slice("index.selected", std::min(indexer.top_k, entries), Dtype::Fp32, Rows::fixed(tokens));
}

std::vector<DenseParts::Projection> DenseParts::input_projections(const LatentAttention& a) const {
  const std::int64_t hidden = model.hidden_size, own_heads = a.num_heads / degrees.tp;
  const std::int64_t queries = own_heads * (a.qk_nope_head_dim + a.qk_rope_head_dim);
  std::vector<Projection> out;
  if (a.q_lora_rank > 0) {
    out.push_back({"q_down", "attn.in", hidden, "attn.q_latent.in", a.q_lora_rank});
    out.push_back({"q_up", "attn.q_latent", a.q_lora_rank, "attn.q", queries});
  } else {
    out.push_back({"q", "attn.in", hidden, "attn.q", queries});
  }
  // The keys' rotary part needs no up projection.
  out.push_back({"kv_down", "attn.in", hidden, "attn.kv_latent.in", a.kv_lora_rank + a.qk_rope_head_dim});
  if (!a.indexer) {
    out.push_back(
        {"kv_up", "attn.kv_latent", a.kv_lora_rank, "attn.kv", own_heads * (a.qk_nope_head_dim + a.v_head_dim)});
    return out;
  }
  if (a.indexer->is_shared) return out;
  // Every tensor-parallel rank has the whole indexer.
  const Indexer& i = *a.indexer;
  out.push_back({"index_q", "attn.q_latent", a.q_lora_rank, "index.q", i.num_heads * i.head_dim, true});
  out.push_back({"index_k", "attn.in", hidden, "index.k", i.head_dim, true});
  out.push_back({"index_w", "attn.in", hidden, "index.w", i.num_heads, true});
  return out;
}

/// Sparse attention over the latents as one key-value head ([DeepSeek-V3.2] sec. 2.1): the keys' up projection is
/// applied to the queries, that of the values to the output. The selected latents are read from the cache of the GPU:
/// their bytes are those of all latents.
void DenseParts::sparse_attention(const LatentAttention& a, bool backward) const {
  const std::int64_t own_heads = a.num_heads / degrees.tp, length = workload.sequence_length;
  const double keys = selected_keys(length, a.indexer->top_k, model.causal);
  const double work = keys * product(own_heads, 2 * a.kv_lora_rank + a.qk_rope_head_dim);
  const Slice q = rows("attn.q.absorbed", own_heads * (a.kv_lora_rank + a.qk_rope_head_dim));
  const Slice latents = rows("attn.kv_latent", a.kv_lora_rank), rotary = rows("attn.k.rotary", a.qk_rope_head_dim);
  const Slice out = rows("attn.latent.out", own_heads * a.kv_lora_rank);
  const Slice chosen = selected(*a.indexer, length);
  if (!backward) return fused("sparse attention", work, {q, latents, rotary, chosen}, {out});
  fused("sparse attention backward", kAttentionBackwardProducts * work,
        {q, latents, rotary, chosen, out, rows("d.attn.latent.out", own_heads * a.kv_lora_rank)},
        {rows("d.attn.q.absorbed", own_heads * (a.kv_lora_rank + a.qk_rope_head_dim)),
         rows("d.attn.kv_latent", a.kv_lora_rank), rows("d.attn.k.rotary", a.qk_rope_head_dim)});
}

void DenseParts::sparse_core(const LatentAttention& a, bool backward) const {
  const std::int64_t own_heads = a.num_heads / degrees.tp, length = workload.sequence_length;
  const std::int64_t queries = own_heads * (a.qk_nope_head_dim + a.qk_rope_head_dim);
  const std::int64_t absorbed = own_heads * (a.kv_lora_rank + a.qk_rope_head_dim);
  const std::int64_t latents = own_heads * a.kv_lora_rank, values = own_heads * a.v_head_dim;
  const double absorbing = product(own_heads, a.qk_nope_head_dim, a.kv_lora_rank);
  const double expanding = product(own_heads, a.v_head_dim, a.kv_lora_rank);
  const double selected_of_query = selected_keys(length, a.indexer->top_k, model.causal);
  const double target = selected_of_query * product(own_heads, a.kv_lora_rank + a.qk_rope_head_dim);
  const Slice w_k = weight("w.k_up", a.kv_lora_rank, own_heads * a.qk_nope_head_dim);
  const Slice w_v = weight("w.v_up", a.kv_lora_rank, values);
  const Slice q = rows("attn.q", queries);
  const Slice rotated = rows(backward ? "d.attn.rotated" : "attn.rotated", (own_heads + 1) * a.qk_rope_head_dim);
  if (!backward) {
    latent_norm("attn.kv_latent", false);
    mixer_kernel("rotary", Kernel::Rotary, {rows(kUnrotated, columns(rotated))}, {rotated});
    fused("key absorption", absorbing, {q, w_k}, {rows("attn.q.absorbed", absorbed)});
    index(*a.indexer, length, selected_keys(length, length, model.causal), 0, false);
    sparse_attention(a, false);
    fused("value expansion", expanding, {rows("attn.latent.out", latents), w_v}, {rows("attn.core", values)});
    return;
  }
  fused("value expansion backward", 2 * expanding, {rows("d.attn.core", values), rows("attn.latent.out", latents), w_v},
        {rows("d.attn.latent.out", latents), weight("d.w.v_up", a.kv_lora_rank, values)});
  sparse_attention(a, true);
  index(*a.indexer, length, selected_of_query, target, true);
  fused("key absorption backward", 2 * absorbing, {rows("d.attn.q.absorbed", absorbed), q, w_k},
        {rows("d.attn.q", queries), weight("d.w.k_up", a.kv_lora_rank, own_heads * a.qk_nope_head_dim)});
  mixer_kernel("rotary", Kernel::Rotary, {rotated}, {rotated});
  latent_norm("attn.kv_latent", true);
}

std::vector<DenseParts::Projection> DenseParts::input_projections(const CompressedAttention& a) const {
  const std::int64_t hidden = model.hidden_size;
  std::vector<Projection> out{
      {"q_down", "attn.in", hidden, "attn.q_latent.in", a.q_lora_rank},
      {"q_up", "attn.q_latent", a.q_lora_rank, "attn.q", a.num_heads / degrees.tp * a.head_dim},
      {"kv", "attn.in", hidden, "attn.kv.in", a.head_dim}};  // on every tensor-parallel rank, as what follows
  if (a.compression == 0) return out;
  out.push_back({"compress_kv", "attn.in", hidden, "compress.kv", a.overlap() * a.head_dim});
  out.push_back({"compress_gate", "attn.in", hidden, "compress.gate", a.overlap() * a.head_dim});
  if (!a.indexer) return out;
  const Indexer& i = *a.indexer;
  out.push_back({"index_kv", "attn.in", hidden, "index.kv", a.overlap() * i.head_dim, true});
  out.push_back({"index_gate", "attn.in", hidden, "index.gate", a.overlap() * i.head_dim, true});
  out.push_back({"index_q", "attn.q_latent", a.q_lora_rank, "index.q", i.num_heads * i.head_dim, true});
  out.push_back({"index_w", "attn.in", hidden, "index.w", i.num_heads, true});
  return out;
}

/// Sums of the entries of every window of tokens, weighted by their gates, with a norm ([DeepSeek-V4] eqs. (9)-(12)).
void DenseParts::compress(const std::string& what, const std::string& entries, std::int64_t columns,
                          const CompressedAttention& a, bool backward) const {
  const std::int64_t width = a.overlap() * columns;
  const Slice kv = rows(what + ".kv", width), gate = rows(what + ".gate", width);
  const auto sums = [&](const std::string& prefix) {
    return block.slice(prefix + entries, columns, workload.dtype, Rows::fixed(ceil_div(tokens, a.compression)));
  };
  if (!backward) return mixer_kernel("compress", Kernel::Recurrence, {kv, gate}, {sums("")});
  mixer_kernel("compress backward", Kernel::Recurrence, {sums("d."), kv, gate},
               {rows("d." + what + ".kv", width), rows("d." + what + ".gate", width)});
}

void DenseParts::compressed_attention(const CompressedAttention& a, bool backward) const {
  const std::int64_t own_heads = a.num_heads / degrees.tp, columns = own_heads * a.head_dim;
  const CompressedKeys keys = compressed_keys(a, *layer, model.causal, workload.sequence_length);
  const double work = (keys.near + keys.far) * 2 * product(own_heads, a.head_dim);
  const auto entries = [&](const std::string& name) {
    return block.slice(name, a.head_dim, workload.dtype, Rows::fixed(ceil_div(tokens, a.compression)));
  };
  const Slice out = rows("attn.core", columns);
  std::vector<Slice> reads{rows("attn.q", columns), rows("attn.kv", a.head_dim)};
  std::vector<Slice> gradients{rows("d.attn.q", columns), rows("d.attn.kv", a.head_dim)};
  if (a.compression > 0) {
    reads.push_back(entries("compress.entries"));
    gradients.push_back(entries("d.compress.entries"));
  }
  if (a.indexer) reads.push_back(selected(*a.indexer, keys.entries));
  if (!backward) return fused("compressed attention", work, reads, {out});
  reads.insert(reads.end(), {out, rows("d.attn.core", columns)});
  fused("compressed attention backward", kAttentionBackwardProducts * work, reads, gradients);
}

void DenseParts::compressed_core(const CompressedAttention& a, bool backward) const {
  const std::int64_t own_heads = a.num_heads / degrees.tp, columns = own_heads * a.head_dim;
  const std::int64_t low = a.output_groups / degrees.tp * a.output_rank;
  const double projecting = product(columns, a.output_rank);
  const CompressedKeys keys = compressed_keys(a, *layer, model.causal, workload.sequence_length);
  const double target = keys.far * product(own_heads, a.head_dim);
  const Slice q = rows("attn.q", columns), kv_in = rows("attn.kv.in", a.head_dim), kv = rows("attn.kv", a.head_dim);
  const Slice w = weight("w.output_groups", a.num_heads / a.output_groups * a.head_dim, low);
  const Slice rotated = rows(backward ? "d.attn.rotated" : "attn.rotated", own_heads * a.rope_head_dim);
  if (!backward) {
    mixer_kernel("query and key norm, rotary", Kernel::Norm, {q, kv_in}, {q, kv});
    if (a.compression > 0) compress("compress", "compress.entries", a.head_dim, a, false);
    if (a.indexer) {
      compress("index", "index.k", a.indexer->head_dim, a, false);
      index(*a.indexer, keys.entries, keys.scored, 0, false);
    }
    compressed_attention(a, false);
    mixer_kernel("rotary of outputs", Kernel::Rotary, {rows(kUnrotated, this->columns(rotated))}, {rotated});
    return fused("grouped output projection", projecting, {rows("attn.core", columns), w}, {rows("attn.low", low)});
  }
  fused("grouped output projection backward", 2 * projecting, {rows("d.attn.low", low), rows("attn.core", columns), w},
        {rows("d.attn.core", columns), weight("d.w.output_groups", a.num_heads / a.output_groups * a.head_dim, low)});
  mixer_kernel("rotary of outputs", Kernel::Rotary, {rotated}, {rotated});
  compressed_attention(a, true);
  if (a.indexer) {
    index(*a.indexer, keys.entries, keys.far, target, true);
    compress("index", "index.k", a.indexer->head_dim, a, true);
  }
  if (a.compression > 0) compress("compress", "compress.entries", a.head_dim, a, true);
  mixer_kernel("query and key norm, rotary backward", Kernel::NormBackward,
               {rows("d.attn.q", columns), rows("d.attn.kv", a.head_dim), q, kv_in},
               {rows("d.attn.q", columns), rows("d.attn.kv.in", a.head_dim)});
}

}  // namespace moeplan::planner
