#include "planner/dense_parts.hpp"

#include <algorithm>
#include <cmath>

#include "model/base/whole_numbers.hpp"
#include "model/costs/memory.hpp"
#include "planner/moe_parts.hpp"

namespace moeplan {

namespace {

/// A projection of the attention part. `attended`: the attention kernel reads what it writes.
struct AttentionProjection {
  std::string name, in;
  std::int64_t in_columns;
  std::string out;
  std::int64_t out_columns;
  bool attended;
};

/// In the order of the forward pass, the output projection apart.
std::vector<AttentionProjection> input_projections(const ModelSpec& model, const AttentionShape& shape,
                                                   std::int64_t tp) {
  const std::int64_t hidden = model.hidden_size;
  if (std::holds_alternative<HeadAttention>(model.attention)) {
    return {{"qkv", "attn.in", hidden, "attn.qkv", shape.query_columns + shape.key_columns + shape.stored_value_columns,
             true}};
  }
  const auto& latent = std::get<LatentAttention>(model.attention);
  const std::int64_t heads = latent.num_heads / tp;
  std::vector<AttentionProjection> out;
  if (latent.q_lora_rank > 0) {
    out.push_back({"q_down", "attn.in", hidden, "attn.q_latent", latent.q_lora_rank, false});
    out.push_back({"q_up", "attn.q_latent", latent.q_lora_rank, "attn.q", shape.query_columns, true});
  } else {
    out.push_back({"q", "attn.in", hidden, "attn.q", shape.query_columns, true});
  }
  out.push_back({"kv_down", "attn.in", hidden, "attn.kv_latent", latent.kv_lora_rank + latent.qk_rope_head_dim, false});
  out.push_back({"kv_up", "attn.kv_latent", latent.kv_lora_rank + latent.qk_rope_head_dim, "attn.kv",
                 heads * (latent.qk_nope_head_dim + latent.v_head_dim), true});
  return out;
}

}  // namespace

AttentionShape attention_shape(const ModelSpec& model, std::int64_t tp) {
  if (const auto* h = std::get_if<HeadAttention>(&model.attention)) {
    const std::int64_t kv_heads = ceil_div(h->num_kv_heads, tp);  // fewer heads than ranks: copies
    return {h->num_heads / tp * h->head_dim, kv_heads * h->head_dim, h->num_heads / tp * h->head_dim,
            kv_heads * h->head_dim};
  }
  const auto& l = std::get<LatentAttention>(model.attention);
  const std::int64_t heads = l.num_heads / tp, qk = heads * (l.qk_nope_head_dim + l.qk_rope_head_dim);
  return {qk, qk, heads * l.v_head_dim, heads * l.v_head_dim};
}

Slice DenseParts::rows(const std::string& name, std::int64_t columns) const {
  return block.slice(name, columns, workload.dtype, Rows::fixed(tokens));
}

Slice DenseParts::weight(const std::string& name, std::int64_t in, std::int64_t out) const {
  return block.slice(name, out, workload.dtype, Rows::fixed(in));
}

void DenseParts::project(const std::string& name, OpClass op_class, const std::string& in, std::int64_t in_columns,
                         const std::string& out, std::int64_t out_columns) const {
  block.then(gemm(name + " projection", op_class, {}, rows(in, in_columns),
                  weight("w." + name, in_columns, out_columns), rows(out, out_columns)));
}

void DenseParts::project_backward(const std::string& name, OpClass op_class, const std::string& in,
                                  std::int64_t in_columns, const std::string& out, std::int64_t out_columns) const {
  const Slice gradient = rows("d." + out, out_columns);
  block.then(gemm(name + " weight gradient", op_class, {.form = Gemm::Form::TN}, rows(in, in_columns), gradient,
                  weight("d.w." + name, in_columns, out_columns)));
  block.then(gemm(name + " input gradient", op_class, {.form = Gemm::Form::NT}, gradient,
                  weight("w." + name, in_columns, out_columns), rows("d." + in, in_columns)));
}

void DenseParts::all_reduce(const std::string& what) const {
  if (degrees.tp == 1) return;
  block.then(collective("all-reduce", OpClass::TensorParallel, Stream::Intra,
                        {.collective = Collective::AllReduce, .group = groups.tp}, x(what), x(what)));
}

void DenseParts::norm(const std::string& from, const std::string& to) const {
  block.then(kernel("norm", OpClass::Norm, Kernel::Norm, {x(from)}, {x(to)}));
}

void DenseParts::norm_backward(const std::string& gradient, const std::string& input, const std::string& to) const {
  block.then(kernel("norm backward", OpClass::Norm, Kernel::NormBackward, {x(gradient), x(input)}, {x(to)}));
}

void DenseParts::add(const std::string& a, const std::string& b, const std::string& to) const {
  block.then(kernel("residual add", OpClass::Norm, Kernel::Add, {x(a), x(b)}, {x(to)}));
}

void DenseParts::attention_core(std::int64_t window, bool backward) const {
  const AttentionShape shape = attention_shape(model, degrees.tp);
  Operation op;
  op.name = backward ? "attention backward" : "attention";
  op.op_class = OpClass::Attention;
  op.work = AttentionCore{.sequence_length = workload.sequence_length,
                          .window = window,
                          .causal = model.causal,
                          .backward = backward,
                          .query_columns = shape.query_columns,
                          .value_columns = shape.value_columns};
  std::vector<Slice> inputs, gradients;
  for (const auto& p : input_projections(model, shape, degrees.tp)) {
    if (!p.attended) continue;
    inputs.push_back(rows(p.out, p.out_columns));
    gradients.push_back(rows("d." + p.out, p.out_columns));
  }
  op.reads = inputs;
  op.writes = {rows("attn.core", shape.value_columns)};
  if (backward) {
    op.reads.push_back(rows("attn.core", shape.value_columns));
    op.reads.push_back(rows("d.attn.core", shape.value_columns));
    op.writes = gradients;
  }
  block.then(std::move(op));
}

void DenseParts::attention(std::int64_t window) const {
  const AttentionShape shape = attention_shape(model, degrees.tp);
  norm("x", "attn.in");
  for (const auto& p : input_projections(model, shape, degrees.tp)) {
    project(p.name, OpClass::Attention, p.in, p.in_columns, p.out, p.out_columns);
  }
  attention_core(window, false);
  project("attention_out", OpClass::Attention, "attn.core", shape.value_columns, "attn.out", model.hidden_size);
  all_reduce("attn.out");
  add("x", "attn.out", "x.mid");
}

void DenseParts::attention_backward(std::int64_t window) const {
  const AttentionShape shape = attention_shape(model, degrees.tp);
  project_backward("attention_out", OpClass::Attention, "attn.core", shape.value_columns, "attn.out",
                   model.hidden_size);
  attention_core(window, true);
  const auto projections = input_projections(model, shape, degrees.tp);
  for (auto p = projections.rbegin(); p != projections.rend(); ++p) {
    project_backward(p->name, OpClass::Attention, p->in, p->in_columns, p->out, p->out_columns);
  }
  all_reduce("d.attn.in");
  norm_backward("d.attn.in", "x", "d.attn.x");
  add("d.x", "d.attn.x", "d.x");
}

void DenseParts::ffn(const Ffn& f, const std::string& prefix, OpClass op_class, const std::string& output) const {
  const std::int64_t shard = f.hidden_size / degrees.tp, up = (f.gated ? 2 : 1) * shard;
  project(prefix + ".up", op_class, "ffn.in", model.hidden_size, prefix + ".up", up);
  block.then(kernel(prefix + " activation", op_class, Kernel::Activation, {rows(prefix + ".up", up)},
                    {rows(prefix + ".activated", shard)}));
  project(prefix + ".down", op_class, prefix + ".activated", shard, output, model.hidden_size);
  all_reduce(output);
}

void DenseParts::ffn_backward(const Ffn& f, const std::string& prefix, OpClass op_class, const std::string& gradient,
                              const std::string& output) const {
  const std::int64_t shard = f.hidden_size / degrees.tp, up = (f.gated ? 2 : 1) * shard;
  const Slice d_activated = rows("d." + prefix + ".activated", shard), d_up = rows("d." + prefix + ".up", up);
  const Slice w_down = weight("w." + prefix + ".down", shard, model.hidden_size);
  const Slice w_up = weight("w." + prefix + ".up", model.hidden_size, up);
  const Gemm nt{.form = Gemm::Form::NT}, tn{.form = Gemm::Form::TN};
  if (workload.recompute == Recompute::Selective) {
    block.then(kernel(prefix + " activation", op_class, Kernel::Activation, {rows(prefix + ".up", up)},
                      {rows(prefix + ".activated", shard)}));
  }
  block.then(gemm(prefix + ".down weight gradient", op_class, tn, rows(prefix + ".activated", shard), x(gradient),
                  weight("d.w." + prefix + ".down", shard, model.hidden_size)));
  block.then(gemm(prefix + ".down input gradient", op_class, nt, x(gradient), w_down, d_activated));
  block.then(kernel(prefix + " activation backward", op_class, Kernel::ActivationBackward,
                    {d_activated, rows(prefix + ".up", up)}, {d_up}));
  block.then(gemm(prefix + ".up weight gradient", op_class, tn, x("ffn.in"), d_up,
                  weight("d.w." + prefix + ".up", model.hidden_size, up)));
  block.then(gemm(prefix + ".up input gradient", op_class, nt, d_up, w_up, x(output)));
  all_reduce(output);
}

void DenseParts::embed() const {
  block.then(kernel("embedding", OpClass::Embedding, Kernel::Embed, {x("embedding.rows")}, {x("x")}));
  all_reduce("x");
}

void DenseParts::embed_backward() const {
  block.then(
      kernel("embedding backward", OpClass::Embedding, Kernel::EmbedBackward, {x("d.x")}, {x("d.embedding.rows")}));
}

void DenseParts::head() const {
  const std::int64_t vocabulary = ceil_div(model.vocab_size, degrees.tp);
  norm("x", "head.in");
  project("head", OpClass::Embedding, "head.in", model.hidden_size, "head.logits", vocabulary);
  block.then(kernel("loss", OpClass::Embedding, Kernel::Loss, {rows("head.logits", vocabulary)},
                    {block.slice("loss", 2, Dtype::Fp32, Rows::fixed(tokens))}));
  if (degrees.tp == 1) return;
  const Slice sums = block.slice("loss", 2, Dtype::Fp32, Rows::fixed(tokens));
  block.then(collective("all-reduce of softmax sums", OpClass::TensorParallel, Stream::Intra,
                        {.collective = Collective::AllReduce, .group = groups.tp}, sums, sums));
}

void DenseParts::head_backward() const {
  const std::int64_t vocabulary = ceil_div(model.vocab_size, degrees.tp);
  block.then(kernel("loss backward", OpClass::Embedding, Kernel::LossBackward, {rows("head.logits", vocabulary)},
                    {rows("d.head.logits", vocabulary)}));
  project_backward("head", OpClass::Embedding, "head.in", model.hidden_size, "head.logits", vocabulary);
  all_reduce("d.head.in");
  norm_backward("d.head.in", "x", "d.x");
}

void DenseParts::update(const std::string& name, double parameters, GroupId replicas) const {
  const std::int64_t size = block.program().group(replicas).size;
  const bool sharded = workload.zero_stage >= 1 && size > 1;
  const auto whole = static_cast<std::int64_t>(std::ceil(parameters));
  // Shards are padded to whole 64 elements, as Megatron-LM's gradient buffers are.
  const std::int64_t shard =
      sharded ? ceil_div(ceil_div(whole, size), 64) * 64 : ceil_div(whole, 64 * size) * 64 * size;
  // Gradients are kept and reduced in fp32, as Megatron-LM does by default for 16-bit training.
  const auto flat = [&](const std::string& buffer, Dtype dtype, std::int64_t n, std::int64_t columns = 1) {
    return block.slice(name + "." + buffer, columns, dtype, Rows::fixed(n));
  };
  const Slice gradients = flat("gradients", Dtype::Fp32, sharded ? shard * size : shard);
  if (size > 1) {
    const auto kind = sharded ? Collective::ReduceScatter : Collective::AllReduce;
    block.then(collective(name + (sharded ? " gradient reduce-scatter" : " gradient all-reduce"), OpClass::Gradient,
                          Stream::Inter, {.collective = kind, .group = replicas}, gradients,
                          flat("gradients", Dtype::Fp32, shard)));
  }
  const std::int64_t states = optimizer_states(workload);
  block.then(kernel(name + " optimizer", OpClass::Optimizer, Kernel::Optimizer,
                    {flat("gradients", Dtype::Fp32, shard), flat("states", Dtype::Fp32, shard, states)},
                    {flat("states", Dtype::Fp32, shard, states), flat("weights", workload.dtype, shard)}));
  if (!sharded) return;
  block.then(collective(name + " weight all-gather", OpClass::Gradient, Stream::Inter,
                        {.collective = Collective::AllGather, .group = replicas},
                        flat("weights", workload.dtype, shard), flat("weights", workload.dtype, shard * size)));
}

}  // namespace moeplan
