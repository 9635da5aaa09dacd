// Token mixers of DenseParts: attention, and what all mixers share.
#include <algorithm>
#include <string_view>
#include <utility>

#include "model/base/whole_numbers.hpp"
#include "planner/layer/dense_parts.hpp"

namespace moeplan::planner {

namespace {

/// A buffer and its columns.
using Columns = std::pair<std::string, std::int64_t>;

/// How the names of latents before their norm end.
constexpr std::string_view kLatentInput = "_latent.in";

/// What the attention kernel reads.
std::vector<Columns> attended(const TokenMixer& mixer, const AttentionHeads& heads) {
  if (std::holds_alternative<HeadAttention>(mixer)) {
    return {{"attn.qkv", heads.query_columns() + heads.key_columns() + heads.value_columns()}};
  }
  return {{"attn.q", heads.query_columns()}, {"attn.k", heads.key_columns()}, {"attn.v", heads.value_columns()}};
}

/// Whether the layer's attention runs as one fused kernel over keys and values of its heads.
bool is_plain(const TokenMixer& mixer) {
  const auto* latent = std::get_if<LatentAttention>(&mixer);
  return std::holds_alternative<HeadAttention>(mixer) || (latent && !latent->indexer);
}

/// A latent, and its columns in and after the norm.
struct Latent {
  std::int64_t in_columns, columns;
};

Latent latent_of(const TokenMixer& mixer, const std::string& name) {
  if (const auto* c = std::get_if<CompressedAttention>(&mixer)) return {c->q_lora_rank, c->q_lora_rank};
  const auto& a = std::get<LatentAttention>(mixer);
  if (name == "attn.q_latent") return {a.q_lora_rank, a.q_lora_rank};
  return {a.kv_lora_rank + a.qk_rope_head_dim, a.kv_lora_rank};
}

}  // namespace

/// With fewer key and value heads than ranks, each rank has a copy of one.
AttentionHeads DenseParts::heads() const {
  const std::int64_t tp = degrees.tp;
  if (const auto* h = std::get_if<HeadAttention>(&token_mixer())) {
    return {h->num_heads / tp, ceil_div(h->num_kv_heads, tp), h->head_dim, h->value_dim()};
  }
  const auto& l = std::get<LatentAttention>(token_mixer());
  return {l.num_heads / tp, l.num_heads / tp, l.qk_nope_head_dim + l.qk_rope_head_dim, l.v_head_dim};
}

std::vector<DenseParts::Projection> DenseParts::input_projections() const {
  const std::int64_t hidden = model.hidden_size;
  if (const auto* a = std::get_if<HeadAttention>(&token_mixer())) {
    const AttentionHeads h = heads();
    std::vector<Projection> out{
        {"qkv", "attn.in", hidden, "attn.qkv", h.query_columns() + h.key_columns() + h.value_columns()}};
    if (a->output_gate == OutputGate::Heads) out.push_back({"gate", "attn.in", hidden, "attn.gate", h.query_heads});
    if (a->output_gate == OutputGate::Values)
      out.push_back({"gate", "attn.in", hidden, "attn.gate", h.output_columns()});
    return out;
  }
  if (const auto* c = std::get_if<CompressedAttention>(&token_mixer())) return input_projections(*c);
  if (const auto* l = std::get_if<LatentAttention>(&token_mixer())) return input_projections(*l);
  std::vector<Projection> out;
  const auto add = [&](const Scan& scan) {
    for (const ScanBuffer& in : scan.inputs) out.push_back({in.name, "attn.in", hidden, in.name, in.columns});
  };
  if (const auto* d = std::get_if<GatedDeltaNet>(&token_mixer())) add(scan_kernels(*d, degrees.tp));
  if (const auto* m = std::get_if<Mamba2>(&token_mixer())) add(scan_kernels(*m, degrees.tp));
  return out;
}

DenseParts::Projection DenseParts::output_projection() const {
  std::string in = "attn.core";
  std::int64_t columns = 0;
  if (const auto* c = std::get_if<CompressedAttention>(&token_mixer())) {
    in = "attn.low";
    columns = c->output_groups / degrees.tp * c->output_rank;
  } else if (const auto* d = std::get_if<GatedDeltaNet>(&token_mixer())) {
    in = "scan.core";
    columns = d->value_columns() / degrees.tp;
  } else if (const auto* m = std::get_if<Mamba2>(&token_mixer())) {
    in = "scan.core";
    columns = m->inner_columns() / degrees.tp;
  } else {
    columns = heads().output_columns();
  }
  return {"attention_out", in, columns, "attn.out", model.hidden_size};
}

/// The keys and values of the rank's part of the sequence.
Slice DenseParts::kv(const std::string& name) const {
  const AttentionHeads heads = this->heads();
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

void DenseParts::attention_core(CorePass pass) const {
  const bool backward = pass == CorePass::Backward;
  if (const auto* c = std::get_if<CompressedAttention>(&token_mixer())) return compressed_attention(*c, backward);
  if (const auto* l = std::get_if<LatentAttention>(&token_mixer()); l && l->indexer)
    return sparse_attention(*l, backward);
  if (!is_plain(token_mixer())) return;
  const AttentionHeads heads = this->heads();
  const auto* plain = std::get_if<HeadAttention>(&token_mixer());
  const bool is_gated = plain && plain->output_gate != OutputGate::None;
  const std::string output = is_gated ? "attn.core.ungated" : "attn.core";
  const bool is_again = recompute.has(RecomputeModule::CoreAttention);
  const std::string own_output = pass == CorePass::Again || (backward && is_again) ? output + ".again" : output;
  QuantisedOperands q = operands(OpClass::Attention);
  if (!workload.fp8_modules.has(Fp8Module::Attention)) q.precision.reset();
  Operation op;
  op.name = backward ? "attention backward" : "attention";
  op.op_class = OpClass::Attention;
  op.work = AttentionCore{.sequence_length = workload.sequence_length,
                          .window = window(),
                          .causal = model.causal,
                          .backward = backward,
                          .heads = heads,
                          .format = q.precision ? std::optional(format_of(*q.precision)) : std::nullopt};
  std::vector<Slice> inputs, gradients;
  for (const auto& [name, columns] : attended(token_mixer(), heads)) {
    inputs.push_back(rows(name, columns));
    gradients.push_back(rows("d." + name, columns));
  }
  if (degrees.cp > 1) {
    Slice all = kv("attn.kv.context"), d_all = kv("d.attn.kv.context");
    all.rows = d_all.rows = Rows::fixed(tokens * degrees.cp);
    inputs.push_back(all);
    gradients.push_back(d_all);
  }
  for (const Slice& in : inputs) {
    if (!backward) q.quantise(in, OpClass::Attention);
    op.reads.push_back(backward ? q.in_columns(in) : q.in_rows(in));
  }
  op.writes = {rows(own_output, heads.output_columns())};
  if (backward) {
    const Slice d_output = rows("d." + output, heads.output_columns());
    q.quantise(d_output, OpClass::Attention);
    op.reads.push_back(rows(own_output, heads.output_columns()));
    op.reads.push_back(q.in_rows(d_output));
    op.writes = gradients;
  }
  if (!workload.fusions.has(Fusion::Attention)) {
    const std::int64_t columns = heads.query_heads * workload.sequence_length;
    const Slice softmax = rows(is_again ? "attn.softmax.again" : "attn.softmax", columns);
    op.reads.push_back(softmax);
    if (backward) op.reads.push_back(rows("d.attn.scores", columns));
    attention_softmax(inputs, softmax, backward);
  }
  block.then(std::move(op));
}

void DenseParts::attention_softmax(const std::vector<Slice>& inputs, const Slice& softmax, bool backward) const {
  const auto like = [&](const char* name) { return rows(name, columns(softmax)); };
  const auto pass = [&](const char* name, std::vector<Slice> reads, const Slice& write) {
    block.then(kernel(name, OpClass::Attention, Kernel::Copy, std::move(reads), {write}));
  };
  if (!backward) {
    pass("attention scores", inputs, like("attn.scores"));
    pass("attention softmax", {like("attn.scores")}, softmax);
    return;
  }
  pass("attention scores backward", inputs, like("d.attn.softmax"));
  pass("attention softmax backward", {softmax, like("d.attn.softmax")}, like("d.attn.scores"));
}

bool DenseParts::reads_own_rows(const Projection& p) const {
  return gathers_latents() && p.in == "attn.in" && p.out.ends_with(kLatentInput);
}

bool DenseParts::gathers_latents() const {
  const auto* latent = std::get_if<LatentAttention>(&token_mixer());
  return sequence_parallel && latent && !latent->indexer;
}

Slice DenseParts::latent_rows(const std::string& name, std::int64_t columns) const {
  return gathers_latents() ? own(name, columns) : rows(name, columns);
}

Slice DenseParts::input(const Projection& p, const std::string& prefix) const {
  const bool is_of_latent = p.in != "attn.in";
  if (is_of_latent) return rows(gathers_latents() ? whole(prefix + p.in) : prefix + p.in, p.in_columns);
  return reads_own_rows(p) ? own(prefix + p.in, p.in_columns) : rows(whole(prefix + p.in), p.in_columns);
}

Slice DenseParts::output(const Projection& p, const std::string& prefix) const {
  return reads_own_rows(p) ? own(prefix + p.out, p.out_columns) : rows(prefix + p.out, p.out_columns);
}

void DenseParts::latent_norm(const std::string& latent, bool backward) const {
  const auto [in_columns, columns] = latent_of(token_mixer(), latent);
  const Slice in = latent_rows(latent + ".in", in_columns);
  if (backward) {
    block.then(kernel("latent norm backward", OpClass::Norm, Kernel::NormBackward,
                      {latent_rows("d." + latent, columns), in}, {latent_rows("d." + latent + ".in", in_columns)}));
  } else {
    block.then(kernel("latent norm", OpClass::Norm, Kernel::Norm, {in}, {latent_rows(latent, columns)}));
  }
}

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

/// The output of attention times the sigmoid of the gate's projection, for each head or each value.
void DenseParts::output_gate(const HeadAttention& a, bool backward) const {
  if (a.output_gate == OutputGate::None) return;
  const AttentionHeads h = heads();
  const std::int64_t columns = h.output_columns();
  const Slice ungated = rows("attn.core.ungated", columns), gated = rows("attn.core", columns);
  const std::int64_t gate_columns = a.output_gate == OutputGate::Heads ? h.query_heads : columns;
  const Slice gate = rows("attn.gate", gate_columns);
  if (!backward) return mixer_kernel("output gate", Kernel::Activation, {ungated, gate}, {gated});
  mixer_kernel("output gate backward", Kernel::ActivationBackward, {rows("d.attn.core", columns), ungated, gate},
               {rows("d.attn.core.ungated", columns), rows("d.attn.gate", gate_columns)});
}

void DenseParts::core(bool backward) const {
  if (const auto* d = std::get_if<GatedDeltaNet>(&token_mixer())) {
    const Scan kernels = scan_kernels(*d, degrees.tp);
    return scan(backward ? kernels.backward : kernels.forward);
  }
  if (const auto* m = std::get_if<Mamba2>(&token_mixer())) {
    const Scan kernels = scan_kernels(*m, degrees.tp);
    return scan(backward ? kernels.backward : kernels.forward);
  }
  if (const auto* c = std::get_if<CompressedAttention>(&token_mixer())) return compressed_core(*c, backward);
  if (const auto* l = std::get_if<LatentAttention>(&token_mixer()); l && l->indexer) return sparse_core(*l, backward);
  const auto* plain = std::get_if<HeadAttention>(&token_mixer());
  if (!backward) {
    head_positions(false);
    exchange_context(false);
    attention_core(CorePass::Forward);
    if (plain) output_gate(*plain, false);
    return;
  }
  if (plain) output_gate(*plain, true);
  // A rank keeps its own keys and values and gathers those of the other ranks again.
  exchange_context(false);
  attention_core(CorePass::Backward);
  exchange_context(true);
  head_positions(true);
}

void DenseParts::mixer(const std::string& from, const std::string& to) const {
  read_residual(from, "attn.in");
  const std::vector<Projection> projections = input_projections();
  const bool reads_all = std::any_of(projections.begin(), projections.end(),
                                     [&](const Projection& p) { return p.in == "attn.in" && !reads_own_rows(p); });
  if (reads_all) gather("attn.in");
  std::vector<std::string> normed;
  for (const Projection& p : projections) {
    const bool is_latent = p.in != "attn.in";
    if (is_latent && std::find(normed.begin(), normed.end(), p.in) == normed.end()) {
      latent_norm(p.in, false);
      if (gathers_latents()) gather(p.in, p.in_columns);
      normed.push_back(p.in);
    }
    project(p.name, OpClass::Attention, input(p), output(p));
  }
  if (computes_projections_again()) copy_in_passing("attn.qkv", "attn.kept");
  core(false);
  output(from, to);
}

void DenseParts::output(const std::string& from, const std::string& to) const {
  const Projection out = output_projection();
  project(out.name, OpClass::Attention, rows(out.in, out.in_columns), x(whole(out.out)));
  reduce(whole("attn.out"), "attn.out");
  write_residual(from, "attn.out", to);
}

bool DenseParts::computes_projections_again() const {
  const auto* heads = std::get_if<HeadAttention>(&token_mixer());
  return recompute.has(RecomputeModule::Projections) && heads && !heads->bias;
}

/// Queries and values are kept, in one buffer with those that are computed again.
void DenseParts::copy_in_passing(const std::string& from, const std::string& to) const {
  const AttentionHeads h = heads();
  const auto slice = [&](const std::string& name) {
    const bool is_kept = name == "attn.kept";
    return rows(name, h.query_columns() + h.value_columns() + (is_kept ? 0 : h.key_columns()));
  };
  block.then(launched_as(0, kernel(from + " and " + to, OpClass::Attention, Kernel::Copy, {slice(from)}, {slice(to)})));
}

void DenseParts::heads_again() const {
  if (!computes_projections_again()) return;
  project("key", OpClass::Attention, x(whole("attn.in")), rows("attn.k.again", heads().key_columns()));
  copy_in_passing("attn.kept", "attn.qkv");
  head_positions(/*backward=*/false);
}

void DenseParts::output_again(const std::string& from, const std::string& to) const {
  if (computes_projections_again() && degrees.tp == 1) output(from, to);
}

void DenseParts::mixer_backward(const std::string& from) const {
  const auto projections = input_projections();
  write_residual_backward(from, "attn.out");
  gather("d.x");
  const std::string d_out = whole("d.x");
  const QuantisedOperands q = operands(OpClass::Attention);
  const Projection out = output_projection();
  q.quantise(x(d_out), OpClass::Attention);
  block.then(gemm("attention_out weight gradient", OpClass::Attention, q.product({.form = Gemm::Form::TN}),
                  q.in_columns(rows(out.in, out.in_columns)), q.in_columns(x(d_out)),
                  weight("d.w.attention_out", out.in_columns, model.hidden_size)));
  block.then(gemm("attention_out input gradient", OpClass::Attention, q.product({.form = Gemm::Form::NT}),
                  q.in_rows(x(d_out)), weight("w.attention_out", out.in_columns, model.hidden_size),
                  rows("d." + out.in, out.in_columns)));
  core(true);
  latent_projections_backward(projections);
  input_projections_backward(projections);
  read_residual_backward(from, "attn.in", "d.attn.x");
}

void DenseParts::latent_projections_backward(const std::vector<Projection>& projections) const {
  const QuantisedOperands q = operands(OpClass::Attention);
  for (auto p = projections.rbegin(); p != projections.rend(); ++p) {
    if (p->in == "attn.in") continue;
    const Slice gradient = output(*p, "d.");
    q.quantise(gradient, OpClass::Attention);
    const auto of_weight = [&] { weight_gradient(p->name, OpClass::Attention, input(*p), gradient); };
    const auto of_input = [&] { input_gradient(p->name, OpClass::Attention, input(*p, "d."), gradient); };
    if (gathers_latents()) {
      const auto gathered = [&] {
        quantise_gathered(OpClass::Attention, input(*p));
        of_weight();
      };
      gather_concurrently(p->in, "d." + p->in, of_input, gathered, p->in_columns);
    } else {
      of_weight();
      if (p->is_detached) continue;
      of_input();
    }
    latent_norm(p->in, true);
  }
}

void DenseParts::input_projections_backward(const std::vector<Projection>& projections) const {
  const QuantisedOperands q = operands(OpClass::Attention);
  std::vector<Projection> own_rows, all_rows;  // from the last one on
  for (auto p = projections.rbegin(); p != projections.rend(); ++p) {
    if (p->in == "attn.in") (reads_own_rows(*p) ? own_rows : all_rows).push_back(*p);
  }
  const auto gradients = [&](const std::vector<Projection>& of) {
    for (const Projection& p : of) q.quantise(output(p, "d."), OpClass::Attention);
    for (const Projection& p : of) {
      if (!p.is_detached) input_gradient(p.name, OpClass::Attention, input(p, "d."), output(p, "d."));
    }
  };
  const auto weights = [&](const std::vector<Projection>& of) {
    for (const Projection& p : of) weight_gradient(p.name, OpClass::Attention, input(p), output(p, "d."));
  };
  gradients(own_rows);
  weights(own_rows);
  if (all_rows.empty()) return;
  gather_concurrently(
      "attn.in", "d.attn.in", [&] { gradients(all_rows); },
      [&] {
        quantise_gathered(OpClass::Attention, x(whole("attn.in")));
        weights(all_rows);
      });
}

void DenseParts::latent_up_projections() const {
  const auto* latent = std::get_if<LatentAttention>(&token_mixer());
  if (!latent || latent->indexer) return;
  if (latent->q_lora_rank == 0) gather("attn.in");
  for (const Projection& p : input_projections()) {
    if (p.out.ends_with(kLatentInput)) continue;
    if (p.in != "attn.in" && gathers_latents()) gather(p.in, p.in_columns);
    project(p.name, OpClass::Attention, input(p), output(p));
  }
  head_positions(false);
}

}  // namespace moeplan::planner
