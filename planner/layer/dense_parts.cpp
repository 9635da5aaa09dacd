#include "planner/layer/dense_parts.hpp"

#include <algorithm>
#include <cmath>

#include "model/base/whole_numbers.hpp"
#include "model/costs/memory.hpp"

namespace moeplan::planner {

namespace {

/// A projection of the attention part.
struct AttentionProjection {
  std::string name, in;
  std::int64_t in_columns;
  std::string out;
  std::int64_t out_columns;
};

/// The input projections in the order of the forward pass, without the output projection.
std::vector<AttentionProjection> input_projections(const ModelSpec& model, const AttentionHeads& heads) {
  const std::int64_t hidden = model.hidden_size;
  if (std::holds_alternative<HeadAttention>(model.attention)) {
    return {
        {"qkv", "attn.in", hidden, "attn.qkv", heads.query_columns() + heads.key_columns() + heads.value_columns()}};
  }
  const auto& latent = std::get<LatentAttention>(model.attention);
  std::vector<AttentionProjection> out;
  if (latent.q_lora_rank > 0) {
    out.push_back({"q_down", "attn.in", hidden, "attn.q_latent.in", latent.q_lora_rank});
    out.push_back({"q_up", "attn.q_latent", latent.q_lora_rank, "attn.q", heads.query_columns()});
  } else {
    out.push_back({"q", "attn.in", hidden, "attn.q", heads.query_columns()});
  }
  // The keys' rotary part needs no up projection.
  out.push_back({"kv_down", "attn.in", hidden, "attn.kv_latent.in", latent.kv_lora_rank + latent.qk_rope_head_dim});
  out.push_back({"kv_up", "attn.kv_latent", latent.kv_lora_rank, "attn.kv",
                 heads.query_heads * (latent.qk_nope_head_dim + latent.v_head_dim)});
  return out;
}

/// A buffer and its columns.
using Columns = std::pair<std::string, std::int64_t>;

/// What the attention kernel reads.
std::vector<Columns> attended(const ModelSpec& model, const AttentionHeads& heads) {
  if (std::holds_alternative<HeadAttention>(model.attention)) {
    return {{"attn.qkv", heads.query_columns() + heads.key_columns() + heads.value_columns()}};
  }
  return {{"attn.q", heads.query_columns()}, {"attn.k", heads.key_columns()}, {"attn.v", heads.value_columns()}};
}

}  // namespace

AttentionHeads attention_heads(const ModelSpec& model, std::int64_t tp) {
  if (const auto* h = std::get_if<HeadAttention>(&model.attention)) {
    return {h->num_heads / tp, ceil_div(h->num_kv_heads, tp), h->head_dim, h->head_dim};
  }
  const auto& l = std::get<LatentAttention>(model.attention);
  return {l.num_heads / tp, l.num_heads / tp, l.qk_nope_head_dim + l.qk_rope_head_dim, l.v_head_dim};
}

Slice DenseParts::rows(const std::string& name, std::int64_t columns) const {
  return block.slice(name, columns, workload.dtype, Rows::fixed(tokens));
}

Slice DenseParts::own(const std::string& name) const {
  return block.slice(name, model.hidden_size, workload.dtype, Rows::fixed(own_tokens()));
}

Slice DenseParts::weight(const std::string& name, std::int64_t in, std::int64_t out) const {
  return block.slice(name, out, workload.dtype, Rows::fixed(in));
}

std::string DenseParts::whole(const std::string& name) const { return sequence_parallel ? name + ".all" : name; }

void DenseParts::gather(const std::string& name) const {
  if (!sequence_parallel) return;
  block.then(collective("all-gather", OpClass::TensorParallel, Stream::Intra,
                        {.collective = Collective::AllGather, .group = groups.tp}, own(name), x(whole(name))));
}

void DenseParts::reduce(const std::string& partial, const std::string& sum) const {
  if (degrees.tp == 1) return;
  const auto kind = sequence_parallel ? Collective::ReduceScatter : Collective::AllReduce;
  block.then(collective(sequence_parallel ? "reduce-scatter" : "all-reduce", OpClass::TensorParallel, Stream::Intra,
                        {.collective = kind, .group = groups.tp}, x(partial), own(sum)));
}

void DenseParts::gather_concurrently(const std::string& input, const std::string& gradient,
                                     const std::function<void()>& input_gradients,
                                     const std::function<void()>& weight_gradients) const {
  const std::vector<std::int32_t> before = block.last();
  std::vector<std::int32_t> gathered;
  if (sequence_parallel) {
    gather(input);
    gathered = block.last();
    block.continue_after(before);
  }
  input_gradients();
  std::vector<std::int32_t> both = block.last();
  if (degrees.tp > 1) {
    reduce(whole(gradient), gradient);
    // The sum over ranks runs concurrently with the weight gradients.
    std::vector<std::int32_t> reduced = block.last();
    both.insert(both.end(), gathered.begin(), gathered.end());
    block.continue_after(both);
    weight_gradients();
    reduced.insert(reduced.end(), block.last().begin(), block.last().end());
    block.continue_after(reduced);
    return;
  }
  weight_gradients();
}

QuantisedOperands DenseParts::operands(OpClass op_class) const {
  const bool is_head = op_class == OpClass::Embedding;
  return {block, is_head ? std::nullopt : workload.precision, workload.mode == Mode::Train};
}

void DenseParts::quantise_gradient(OpClass op_class, const std::string& out, std::int64_t out_columns) const {
  operands(op_class).quantise(rows("d." + out, out_columns), op_class);
}

void DenseParts::quantise_gathered(OpClass op_class, const std::string& in) const {
  if (sequence_parallel) operands(op_class).quantise(x(whole(in)), op_class);
}

void DenseParts::project(const std::string& name, OpClass op_class, const std::string& in, std::int64_t in_columns,
                         const std::string& out, std::int64_t out_columns) const {
  const QuantisedOperands q = operands(op_class);
  const Slice input = rows(in, in_columns);
  q.quantise(input, op_class);
  block.then(gemm(name + " projection", op_class, q.product({}), q.in_rows(input),
                  weight("w." + name, in_columns, out_columns), rows(out, out_columns)));
}

void DenseParts::weight_gradient(const std::string& name, OpClass op_class, const std::string& in,
                                 std::int64_t in_columns, const std::string& out, std::int64_t out_columns) const {
  const QuantisedOperands q = operands(op_class);
  block.then(gemm(name + " weight gradient", op_class, q.product({.form = Gemm::Form::TN}),
                  q.in_columns(rows(in, in_columns)), q.in_columns(rows("d." + out, out_columns)),
                  weight("d.w." + name, in_columns, out_columns)));
}

void DenseParts::input_gradient(const std::string& name, OpClass op_class, const std::string& in,
                                std::int64_t in_columns, const std::string& out, std::int64_t out_columns) const {
  const QuantisedOperands q = operands(op_class);
  block.then(gemm(name + " input gradient", op_class, q.product({.form = Gemm::Form::NT}),
                  q.in_rows(rows("d." + out, out_columns)), weight("w." + name, in_columns, out_columns),
                  rows("d." + in, in_columns)));
}

void DenseParts::project_backward(const std::string& name, OpClass op_class, const std::string& in,
                                  std::int64_t in_columns, const std::string& out, std::int64_t out_columns) const {
  quantise_gradient(op_class, out, out_columns);
  weight_gradient(name, op_class, in, in_columns, out, out_columns);
  input_gradient(name, op_class, in, in_columns, out, out_columns);
}

void DenseParts::norm(const std::string& from, const std::string& to) const {
  block.then(kernel("norm", OpClass::Norm, Kernel::Norm, {own(from)}, {own(to)}));
}

void DenseParts::norm_backward(const std::string& gradient, const std::string& input, const std::string& to) const {
  block.then(kernel("norm backward", OpClass::Norm, Kernel::NormBackward, {own(gradient), own(input)}, {own(to)}));
}

void DenseParts::add(const std::string& a, const std::string& b, const std::string& to) const {
  block.then(kernel("residual add", OpClass::Norm, Kernel::Add, {own(a), own(b)}, {own(to)}));
}

/// The keys and values of the rank's part of the sequence.
Slice DenseParts::kv(const std::string& name) const {
  const AttentionHeads heads = attention_heads(model, degrees.tp);
  return block.slice(name, heads.key_columns() + heads.value_columns(), workload.dtype, Rows::fixed(tokens));
}

void DenseParts::exchange_context(bool backward) const {
  if (degrees.cp == 1) return;
  Slice all = kv(backward ? "d.attn.kv.context" : "attn.kv.context");
  all.rows = Rows::fixed(tokens * degrees.cp);
  const Slice part = kv(backward ? "d.attn.kv.own" : "attn.kv.own");
  if (backward) {
    block.then(collective("context reduce-scatter", OpClass::ContextParallel, Stream::Inter,
                          {.collective = Collective::ReduceScatter, .group = groups.cp}, all, part));
  } else {
    block.then(collective("context all-gather", OpClass::ContextParallel, Stream::Inter,
                          {.collective = Collective::AllGather, .group = groups.cp}, part, all));
  }
}

void DenseParts::attention_core(std::int64_t window, bool backward) const {
  const AttentionHeads heads = attention_heads(model, degrees.tp);
  Operation op;
  op.name = backward ? "attention backward" : "attention";
  op.op_class = OpClass::Attention;
  op.work = AttentionCore{.sequence_length = workload.sequence_length,
                          .window = window,
                          .causal = model.causal,
                          .backward = backward,
                          .heads = heads};
  std::vector<Slice> inputs, gradients;
  for (const auto& [name, columns] : attended(model, heads)) {
    inputs.push_back(rows(name, columns));
    gradients.push_back(rows("d." + name, columns));
  }
  if (degrees.cp > 1) {
    Slice all = kv("attn.kv.context"), d_all = kv("d.attn.kv.context");
    all.rows = d_all.rows = Rows::fixed(tokens * degrees.cp);
    inputs.push_back(all);
    gradients.push_back(d_all);
  }
  op.reads = inputs;
  op.writes = {rows("attn.core", heads.output_columns())};
  if (backward) {
    op.reads.push_back(rows("attn.core", heads.output_columns()));
    op.reads.push_back(rows("d.attn.core", heads.output_columns()));
    op.writes = gradients;
  }
  block.then(std::move(op));
}

void DenseParts::latent_norm(const std::string& latent, bool backward) const {
  const auto* a = std::get_if<LatentAttention>(&model.attention);
  if (!a) return;
  const bool is_query = latent == "attn.q_latent";
  const std::int64_t columns = is_query ? a->q_lora_rank : a->kv_lora_rank;
  const std::int64_t in_columns = columns + (is_query ? 0 : a->qk_rope_head_dim);
  const Slice in = rows(latent + ".in", in_columns);
  if (backward) {
    block.then(kernel("latent norm backward", OpClass::Norm, Kernel::NormBackward, {rows("d." + latent, columns), in},
                      {rows("d." + latent + ".in", in_columns)}));
  } else {
    block.then(kernel("latent norm", OpClass::Norm, Kernel::Norm, {in}, {rows(latent, columns)}));
  }
}

void DenseParts::head_positions(bool backward) const {
  const AttentionHeads heads = attention_heads(model, degrees.tp);
  const std::string d = backward ? "d." : "";
  const auto in_place = [&](const char* name, Kernel work, std::int64_t columns) {
    const Slice rotated = rows(d + "attn.rotated", columns);
    std::vector<Slice> read{rotated};
    if (work == Kernel::NormBackward) read.push_back(rows("attn.rotated", columns));
    block.then(kernel(name, OpClass::Attention, work, read, {rotated}));
  };
  const std::int64_t queries_and_keys = heads.query_columns() + heads.key_columns();
  if (const auto* a = std::get_if<HeadAttention>(&model.attention)) {
    const bool has_norm = a->qk_norm || a->qk_norm_whole;
    if (has_norm && !backward) in_place("query and key norm", Kernel::Norm, queries_and_keys);
    if (model.position_embeddings == 0) in_place("rotary", Kernel::Rotary, queries_and_keys);
    if (has_norm && backward) in_place("query and key norm backward", Kernel::NormBackward, queries_and_keys);
    return;
  }
  const auto& a = std::get<LatentAttention>(model.attention);
  const std::vector<Slice> whole_heads{rows(d + "attn.k", heads.key_columns()),
                                       rows(d + "attn.v", heads.value_columns())};
  const std::vector<Slice> parts{rows(d + "attn.kv", heads.query_heads * (a.qk_nope_head_dim + a.v_head_dim)),
                                 rows(d + "attn.k.rotary", a.qk_rope_head_dim)};
  in_place("rotary", Kernel::Rotary, heads.query_heads * a.qk_rope_head_dim);
  block.then(kernel(backward ? "split keys and values" : "assemble keys and values", OpClass::Attention, Kernel::Copy,
                    backward ? whole_heads : parts, backward ? parts : whole_heads));
}

void DenseParts::attention(std::int64_t window) const {
  const AttentionHeads heads = attention_heads(model, degrees.tp);
  norm("x", "attn.in");
  gather("attn.in");
  for (const auto& p : input_projections(model, heads)) {
    if (p.in != "attn.in") latent_norm(p.in, false);
    project(p.name, OpClass::Attention, p.in == "attn.in" ? whole(p.in) : p.in, p.in_columns, p.out, p.out_columns);
  }
  head_positions(false);
  exchange_context(false);
  attention_core(window, false);
  project("attention_out", OpClass::Attention, "attn.core", heads.output_columns(), whole("attn.out"),
          model.hidden_size);
  reduce(whole("attn.out"), "attn.out");
  add("x", "attn.out", "x.mid");
}

void DenseParts::attention_backward(std::int64_t window) const {
  const AttentionHeads heads = attention_heads(model, degrees.tp);
  const auto projections = input_projections(model, heads);
  gather("d.x");
  const std::string d_out = whole("d.x");
  const QuantisedOperands q = operands(OpClass::Attention);
  q.quantise(x(d_out), OpClass::Attention);
  block.then(gemm("attention_out weight gradient", OpClass::Attention, q.product({.form = Gemm::Form::TN}),
                  q.in_columns(rows("attn.core", heads.output_columns())), q.in_columns(x(d_out)),
                  weight("d.w.attention_out", heads.output_columns(), model.hidden_size)));
  block.then(gemm("attention_out input gradient", OpClass::Attention, q.product({.form = Gemm::Form::NT}),
                  q.in_rows(x(d_out)), weight("w.attention_out", heads.output_columns(), model.hidden_size),
                  rows("d.attn.core", heads.output_columns())));
  // A rank keeps its own keys and values and gathers those of the other ranks again.
  exchange_context(false);
  attention_core(window, true);
  exchange_context(true);
  head_positions(true);
  for (auto p = projections.rbegin(); p != projections.rend(); ++p) {
    if (p->in == "attn.in") continue;
    project_backward(p->name, OpClass::Attention, p->in, p->in_columns, p->out, p->out_columns);
    latent_norm(p->in, true);
  }
  const auto of_input = [&](const auto& write) {
    for (auto p = projections.rbegin(); p != projections.rend(); ++p) {
      if (p->in == "attn.in") write(*p);
    }
  };
  gather_concurrently(
      "attn.in", "d.attn.in",
      [&] {
        of_input([&](const AttentionProjection& p) { quantise_gradient(OpClass::Attention, p.out, p.out_columns); });
        of_input([&](const AttentionProjection& p) {
          input_gradient(p.name, OpClass::Attention, whole(p.in), p.in_columns, p.out, p.out_columns);
        });
      },
      [&] {
        quantise_gathered(OpClass::Attention, "attn.in");
        of_input([&](const AttentionProjection& p) {
          weight_gradient(p.name, OpClass::Attention, whole(p.in), p.in_columns, p.out, p.out_columns);
        });
      });
  norm_backward("d.attn.in", "x", "d.attn.x");
  add("d.x", "d.attn.x", "d.x");
}

void DenseParts::ffn(const Ffn& f, const std::string& prefix, OpClass op_class, const std::string& output) const {
  const std::int64_t shard = f.hidden_size / degrees.tp, up = (f.gated ? 2 : 1) * shard;
  gather("ffn.in");
  project(prefix + ".up", op_class, whole("ffn.in"), model.hidden_size, prefix + ".up", up);
  block.then(kernel(prefix + " activation", op_class, Kernel::Activation, {rows(prefix + ".up", up)},
                    {rows(prefix + ".activated", shard)}));
  project(prefix + ".down", op_class, prefix + ".activated", shard, whole(output), model.hidden_size);
  reduce(whole(output), output);
}

void DenseParts::ffn_backward(const Ffn& f, const std::string& prefix, OpClass op_class, const std::string& gradient,
                              const std::string& output) const {
  const std::int64_t shard = f.hidden_size / degrees.tp, up = (f.gated ? 2 : 1) * shard;
  const Slice d_activated = rows("d." + prefix + ".activated", shard), d_up = rows("d." + prefix + ".up", up);
  const Slice w_down = weight("w." + prefix + ".down", shard, model.hidden_size);
  const Slice w_up = weight("w." + prefix + ".up", model.hidden_size, up);
  const QuantisedOperands q = operands(op_class);
  const Gemm nt = q.product({.form = Gemm::Form::NT}), tn = q.product({.form = Gemm::Form::TN});
  const Slice activated = rows(prefix + ".activated", shard), d_out = x(whole(gradient));
  gather(gradient);
  q.quantise(d_out, op_class);
  if (workload.recompute.value_or(Recompute::None).has(RecomputeModule::FfnActivation) && !is_recomputed(op_class)) {
    block.then(kernel(prefix + " activation", op_class, Kernel::Activation, {rows(prefix + ".up", up)}, {activated}));
    q.quantise(activated, op_class);
  }
  block.then(gemm(prefix + ".down weight gradient", op_class, tn, q.in_columns(activated), q.in_columns(d_out),
                  weight("d.w." + prefix + ".down", shard, model.hidden_size)));
  block.then(gemm(prefix + ".down input gradient", op_class, nt, q.in_rows(d_out), w_down, d_activated));
  block.then(kernel(prefix + " activation backward", op_class, Kernel::ActivationBackward,
                    {d_activated, rows(prefix + ".up", up)}, {d_up}));
  q.quantise(d_up, op_class);
  gather_concurrently(
      "ffn.in", output,
      [&] { block.then(gemm(prefix + ".up input gradient", op_class, nt, q.in_rows(d_up), w_up, x(whole(output)))); },
      [&] {
        quantise_gathered(op_class, "ffn.in");
        block.then(gemm(prefix + ".up weight gradient", op_class, tn, q.in_columns(x(whole("ffn.in"))),
                        q.in_columns(d_up), weight("d.w." + prefix + ".up", model.hidden_size, up)));
      });
}

bool DenseParts::is_recomputed(OpClass op_class) const {
  return workload.recompute.value_or(Recompute::None)
      .has(op_class == OpClass::SharedExpert ? RecomputeModule::SharedExperts : RecomputeModule::Mlp);
}

void DenseParts::latent_up_projections() const {
  if (!std::holds_alternative<LatentAttention>(model.attention)) return;
  for (const auto& p : input_projections(model, attention_heads(model, degrees.tp))) {
    if (p.in != "attn.in") project(p.name, OpClass::Attention, p.in, p.in_columns, p.out, p.out_columns);
  }
  head_positions(false);
}

void DenseParts::mtp_input() const {
  const std::int64_t columns = ceil_div(model.hidden_size, degrees.tp), inputs = 2 * model.hidden_size;
  const std::string projected = degrees.tp > 1 ? "mtp.projected" : "x";
  block.then(kernel("embedding", OpClass::Embedding, Kernel::Embed, {x("embedding.rows")}, {x("mtp.embedding")}));
  block.then(
      kernel("mtp norms", OpClass::Norm, Kernel::Norm, {own("x"), x("mtp.embedding")}, {rows("mtp.in", inputs)}));
  project("mtp", OpClass::Embedding, "mtp.in", inputs, projected, columns);
  if (degrees.tp == 1) return;
  block.then(collective("all-gather", OpClass::TensorParallel, Stream::Intra,
                        {.collective = Collective::AllGather, .group = groups.tp}, rows(projected, columns),
                        x(whole("x"))));
}

void DenseParts::mtp_input_backward() const {
  const std::int64_t columns = ceil_div(model.hidden_size, degrees.tp), inputs = 2 * model.hidden_size;
  project_backward("mtp", OpClass::Embedding, "mtp.in", inputs, degrees.tp > 1 ? "mtp.projected" : "x", columns);
  block.then(kernel("mtp norms backward", OpClass::Norm, Kernel::NormBackward, {rows("d.mtp.in", inputs), own("x")},
                    {own("d.x")}));
}

void DenseParts::embed() const {
  block.then(kernel("embedding", OpClass::Embedding, Kernel::Embed, {x("embedding.rows")}, {x(whole("x"))}));
  reduce(whole("x"), "x");
}

void DenseParts::embed_backward() const {
  gather("d.x");
  block.then(kernel("embedding backward", OpClass::Embedding, Kernel::EmbedBackward, {x(whole("d.x"))},
                    {x("d.embedding.rows")}));
}

void DenseParts::head() const {
  const std::int64_t vocabulary = ceil_div(model.vocab_size, degrees.tp);
  norm("x", "head.in");
  gather("head.in");
  project("head", OpClass::Embedding, whole("head.in"), model.hidden_size, "head.logits", vocabulary);
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
  const auto project = [&](bool input) {
    const auto write = input ? &DenseParts::input_gradient : &DenseParts::weight_gradient;
    (this->*write)("head", OpClass::Embedding, whole("head.in"), model.hidden_size, "head.logits", vocabulary);
  };
  gather_concurrently(
      "head.in", "d.head.in", [&] { project(true); }, [&] { project(false); });
  norm_backward("d.head.in", "x", "d.x");
}

}  // namespace moeplan::planner
