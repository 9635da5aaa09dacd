#include "planner/layer/moe_parts.hpp"

#include <fmt/format.h>

#include "model/costs/memory.hpp"
#include "model/program/resolve.hpp"

namespace moeplan::planner {

namespace {

/// The GPU has nothing to do from the moment when the host has read the loads until it has launched the dispatch.
Operation reading_of_loads(std::vector<Slice> rows) {
  return {.name = "read loads",
          .op_class = OpClass::Host,
          .stream = Stream::Compute,
          .work = Launches{1},
          .reads = {},
          .writes = std::move(rows),
          .after = {}};
}

/// The GPU has nothing to do until the host knows which experts to shadow.
Operation search(std::int64_t launches) {
  return {.name = "search placement",
          .op_class = OpClass::PlacementPlan,
          .stream = Stream::Compute,
          .work = Launches{launches},
          .reads = {},
          .writes = {},
          .after = {}};
}

// Dense encoding as in Fairseq's top2gating and MOELayer ([Tutel] figure 20a): tensors over tokens and all rows of all
// experts, of which each pass reads and writes every element. Autograd keeps the locations that an outer product was
// made of, and Python every tensor of the gate until it returns.

/// The same rows and columns in another buffer.
Slice dense_like(const Slice& mask, const std::string& name, Dtype dtype, BlockBuilder& block) {
  return block.slice(name, block.program().buffer(mask.buffer).columns, dtype, mask.rows);
}

/// The weights of all rows, by which dense decoding multiplies.
Slice dense_weights(const Slice& mask, Dtype layer, BlockBuilder& block) {
  return dense_like(mask, "gate.weights", layer, block);
}

/// One row per token with a one where choice i of the token goes among the rows of its expert.
Slice dense_location(const Slice& mask, std::int64_t i, std::int64_t experts, Dtype dtype, BlockBuilder& block) {
  const std::int64_t capacity = block.program().buffer(mask.buffer).columns / experts;
  return block.slice(fmt::format("gate.location.{}", i), capacity, dtype, mask.rows);
}

void dense_pass(const char* name, Kernel work, std::vector<Slice> reads, const Slice& write, BlockBuilder& block) {
  block.then(kernel(name, OpClass::Permute, work, std::move(reads), {write}));
}

/// The locations of each choice, their outer products with the gates, the sum of these, and the mask of what is not
/// zero.
void append_dense_mask(const Slice& choice, const Slice& mask, const MoeLayer& l, BlockBuilder& block) {
  const Dtype gate = l.gate_dtype();
  const Slice returned = dense_weights(mask, l.dtype, block);
  const Slice weights = gate == l.dtype ? returned : dense_like(mask, "gate.weights.wide", gate, block);
  const Slice bits = dense_like(mask, "gate.mask.bits", Dtype::Int8, block);
  std::vector<Slice> products, local;
  for (std::int64_t i = 0; i < l.moe.top_k; ++i) {
    const Slice location = dense_location(mask, i, l.moe.num_experts, gate, block);
    const std::int64_t capacity = block.program().buffer(location.buffer).columns;
    // Whole numbers of 64 bits: as wide as two of 32.
    const Slice one_hot = block.slice(fmt::format("gate.one_hot.{}", i), 2 * capacity, Dtype::Fp32, mask.rows);
    dense_pass("one-hot location", Kernel::Mask, {choice}, one_hot, block);
    dense_pass("cast location", Kernel::Copy, {one_hot}, location, block);
    products.push_back(l.moe.top_k == 1 ? weights : dense_like(mask, fmt::format("gate.weights.{}", i), gate, block));
    dense_pass("dense weights", Kernel::Mask, {choice, location}, products.back(), block);
    local.push_back(one_hot);
    if (l.moe.top_k > 1) local.push_back(products.back());
  }
  if (l.moe.top_k > 1) dense_pass("add dense weights", Kernel::Add, products, weights, block);
  dense_pass("dense mask", Kernel::Mask, {weights}, bits, block);
  if (gate != l.dtype) {
    dense_pass("cast dense weights", Kernel::Copy, {weights}, returned, block);
    local.push_back(weights);
  }
  block.then({.name = "gate returns",
              .op_class = OpClass::Host,
              .stream = Stream::Compute,
              .work = Launches{0},
              .reads = std::move(local),
              .writes = {},
              .after = {}});
  dense_pass("cast dense mask", Kernel::Copy, {bits}, mask, block);
}

}  // namespace

Path prepend(RowStep step, const Path& path) {
  Path out{step};
  out.insert(out.end(), path.begin(), path.end());
  return out;
}

Slice MoeParts::tokens(const std::string& name, const Path& path) {
  return tokens(name, l_.hidden_size, l_.dtype, path);
}

Slice MoeParts::tokens(const std::string& name, std::int64_t columns, Dtype dtype, const Path& path) {
  return b_.slice(name, columns, dtype, Rows::tokens(l_.tokens / l_.degrees.tp, path));
}

Slice MoeParts::routed(const std::string& name, Rows::Experts experts, Path path) {
  return b_.slice(name, l_.hidden_size, l_.dtype, Rows::routed(l_.routing, experts, std::move(path)));
}

Slice MoeParts::at_sources(const std::string& name, Path path) {
  Slice s = routed(name, Rows::Experts::All, std::move(path));
  s.rows.distinct = deduplicates();
  return s;
}

Slice MoeParts::at_holders(const std::string& name, Path path) {
  Slice s = routed(name, l_.all_to_all->gathers() ? Rows::Experts::All : l_.computed, std::move(path));
  s.rows.distinct = true;
  return s;
}

std::vector<Slice> MoeParts::all_chunks(const std::string& name, const Path& path) {
  if (!deduplicates() || l_.chunks.size() == 1) return {at_sources(name, path)};
  std::vector<Slice> out;
  for (const RowStep& chunk : l_.chunks) out.push_back(at_sources(name, prepend(chunk, path)));
  return out;
}

Slice MoeParts::weight(const std::string& name, std::int64_t rows_each, std::int64_t columns) {
  const std::string_view suffix = l_.gathers_weights ? kGatheredWeights : "";
  return b_.slice(name + std::string(suffix), columns, l_.dtype, Rows::per_expert(l_.routing, rows_each, l_.computed));
}

Slice MoeParts::hidden(const std::string& name, std::int64_t columns, const Path& path) {
  return b_.slice(name, columns, l_.dtype, Rows::routed(l_.routing, l_.computed, path));
}

void MoeParts::then_in_kernel(Operation operation) const {
  b_.then(l_.all_to_all->is_fused() ? launched_as(0, std::move(operation)) : std::move(operation));
}

void MoeParts::gate(const std::string& input, const Path& path) {
  const Slice logits = tokens("gate.logits", l_.moe.num_experts, l_.dtype, path);
  b_.then(gemm("gate projection", OpClass::Gate, {}, gate_input(input, path), gate_weight("gate.weight"), logits));
  unfused_router("", logits);
  b_.then(launched_as(router_kernels(), kernel("top-k", OpClass::Gate, Kernel::TopK, {logits}, {choice(path)})));
  if (l_.gathers_loads) tell_loads(path);
  if (l_.search_launches > 0) b_.then(search(l_.search_launches));
}

/// [Pro-Prophet] algorithm 2: collects the loads that Plan needs from the other ranks, concurrently with this layer's
/// exchange.
void MoeParts::tell_loads(const Path& path) {
  const std::vector<std::int32_t> before = b_.last();
  const GroupId group = b_.program().routings[l_.routing.index()].holders;
  const auto loads = [&](std::int64_t ranks) {
    return b_.slice(ranks == 1 ? "gate.loads" : "gate.all_loads", 1, Dtype::Fp32,
                    Rows::fixed(ranks * l_.moe.num_experts));
  };
  b_.then(kernel("count tokens", OpClass::PlacementPlan, Kernel::CountTokens, {choice(path)}, {loads(1)}));
  b_.then(collective("tell loads", OpClass::PlacementPlan, Stream::Replicas,
                     {.collective = Collective::AllGather, .group = group}, loads(1),
                     loads(b_.program().group(group).size)));
  b_.continue_after(before);
}

void MoeParts::gate_backward(const std::string& input, const std::string& gradient, const Path& path) {
  const Slice d_logits = tokens("d.gate.logits", l_.moe.num_experts, l_.dtype, path);
  const Slice logits = tokens("gate.logits", l_.moe.num_experts, l_.dtype, path);
  b_.then(launched_as(router_kernels(), kernel("top-k backward", OpClass::Gate, Kernel::TopKBackward,
                                               {d_choice(path), logits}, {d_logits})));
  unfused_router(" backward", d_logits);
  b_.then(gemm("gate weight gradient", OpClass::Gate, {.form = Gemm::Form::TN, .accumulates = true},
               gate_input(input, path), d_logits, gate_weight("d.gate.weight")));
  b_.then(gemm("gate input gradient", OpClass::Gate, {.form = Gemm::Form::NT, .accumulates = true}, d_logits,
               gate_weight("gate.weight"), gate_input(gradient, path)));
}

void MoeParts::encode(const std::string& input, const Path& path) {
  const Slice in = tokens(input, path);
  if (is_dense(l_.encoding)) {
    const Slice out = at_sources("moe.encoded", path);
    append_dense_mask(choice(path), mask(path, out), l_, b_);
    b_.then(gemm("dense encode", OpClass::Permute, {.form = Gemm::Form::TN}, mask(path, out), in, out));
    return;
  }
  const std::vector<Slice> rows = all_chunks("moe.encoded", path);
  if (l_.all_to_all->is_fused() && l_.precision)
    b_.then(kernel("quantise", OpClass::Expert, Kernel::Quantise, {in},
                   {tokens("moe.tokens", l_.hidden_size, Dtype::Fp8, path)}));
  list_rows(path);
  then_in_kernel(kernel("encode", OpClass::Permute, Kernel::Encode, {in}, rows));
  if (choices_travel()) {
    std::vector<Slice> sent;
    for (const Slice& chunk : rows) sent.push_back(choice_of("gate.choice.sent", chunk));
    then_in_kernel(kernel("encode choices", OpClass::Permute, Kernel::Encode, {choice(path)}, sent));
  }
  if (l_.host_reads_loads && !has_read_loads_) b_.then(reading_of_loads(rows));
  has_read_loads_ = true;
}

void MoeParts::encode_backward(const std::string& gradient, const Path& path) {
  const Slice out = tokens(gradient, path);
  if (is_dense(l_.encoding)) {
    const Slice in = at_sources("d.moe.encoded", path);
    b_.then(gemm("dense encode backward", OpClass::Permute, {}, mask(path, in), in, out));
    return;
  }
  const std::vector<Slice> rows = all_chunks("d.moe.encoded", path);
  b_.then(kernel("encode backward", OpClass::Permute, addition(/*backward=*/true), rows, {out}));
  if (!choices_travel()) return;
  std::vector<Slice> returned;
  for (const Slice& chunk : rows) returned.push_back(d_choice_of("d.gate.choice.returned", chunk));
  b_.then(kernel("encode choices backward", OpClass::Permute, Kernel::EncodeBackward, returned, {d_choice(path)}));
}

void MoeParts::sum_shards(const std::string& from, const std::string& to, const Path& path, Rows::Experts experts,
                          std::int64_t behind, Stream stream) {
  if (l_.degrees.esp == 1) return;
  Slice in = routed(from, experts, prepend(copies_of(l_.groups.esp), path));
  Slice out = routed(to, experts, path);
  in.rows.behind = out.rows.behind = behind;
  Operation sum = kernel("local combine", OpClass::Permute, Kernel::SumShards, {in}, {out});
  sum.stream = stream;
  b_.then(std::move(sum));
}

void MoeParts::decode(const Path& path, const std::string& output) {
  const Slice out = tokens(output, path);
  if (is_dense(l_.encoding)) {
    const Slice in = at_sources("moe.returned", path);
    b_.then(gemm("dense decode", OpClass::Permute, {}, dense_weights(mask(path, in), l_.dtype, b_), in, out));
    return;
  }
  if (l_.eager && !choices_travel()) {
    b_.then(kernel("decode", OpClass::Permute, addition(/*backward=*/false), {eager_weigh(path)}, {out}));
    return;
  }
  std::vector<Slice> in = all_chunks("moe.returned", path);
  if (!choices_travel()) {
    for (const Slice& rows : in) weigh_apart("", rows, path);
    in.push_back(choice(path));
  }
  b_.then(kernel("decode", OpClass::Permute, choices_travel() ? addition(false) : Kernel::Decode, in, {out}));
}

void MoeParts::decode_backward(const std::string& gradient, const Path& path) {
  const Slice d_out = tokens(gradient, path);
  if (choices_travel()) {
    then_in_kernel(
        kernel("decode backward", OpClass::Permute, Kernel::Encode, {d_out}, all_chunks("d.moe.returned", path)));
    return;
  }
  if (l_.eager && !is_dense(l_.encoding)) return eager_weigh_backward(d_out, path);
  const Slice returned = at_sources("moe.returned", path), d_returned = at_sources("d.moe.returned", path);
  if (l_.encoding == Encoding::Sparse) {
    b_.then(kernel("decode backward", OpClass::Permute, Kernel::DecodeBackward, {d_out, returned, choice(path)},
                   {d_returned, d_choice(path)}));
    weigh_apart(" backward", d_returned, path);
    return;
  }
  const Slice dense = mask(path, d_returned);
  const Slice d_weights = dense_like(dense, "d.gate.weights", l_.dtype, b_);
  b_.then(gemm("dense decode backward", OpClass::Permute, {.form = Gemm::Form::TN}, dense_weights(dense, l_.dtype, b_),
               d_out, d_returned));
  b_.then(gemm("dense gate gradient", OpClass::Permute, {.form = Gemm::Form::NT}, d_out, returned, d_weights));
  Slice d_wide = d_weights;
  if (l_.gate_dtype() != l_.dtype) {
    d_wide = dense_like(dense, "d.gate.weights.wide", l_.gate_dtype(), b_);
    dense_pass("cast dense weights backward", Kernel::Copy, {d_weights}, d_wide, b_);
  }
  for (std::int64_t i = 0; i < l_.moe.top_k; ++i) {
    const Slice location = dense_location(dense, i, l_.moe.num_experts, l_.gate_dtype(), b_);
    dense_pass("dense weights backward", Kernel::Mask, {d_wide, location}, d_choice(path), b_);
  }
}

std::pair<Slice, Slice> MoeParts::dispatched_choice(const Path& own, const Path& held) {
  return {choice_of("gate.choice.sent", at_sources("moe.encoded", own)), arrived_choice(held)};
}

std::pair<Slice, Slice> MoeParts::combined_choice_gradient(const Path& own, const Path& held) {
  return {leaving_d_choice(held), d_choice_of("d.gate.choice.returned", at_sources("d.moe.encoded", own))};
}

bool MoeParts::dispatches_operands(bool backward) const {
  if (!l_.codec.dispatch || !is_operand(*l_.codec.dispatch, l_.precision)) return false;
  return !backward || (!adds_weighted_biases() && (l_.weighs_in_experts || !deduplicates()));
}

Slice MoeParts::dispatched(const Slice& rows, bool backward) const {
  return dispatches_operands(backward) ? operands().in_rows(rows) : rows;
}

void MoeParts::quantise_for_dispatch(const Slice& rows, const std::vector<Slice>& sent) const {
  then_in_kernel(kernel("quantise", OpClass::Codec, Kernel::Quantise, {rows}, sent));
}

void MoeParts::write_out(const Path& held, bool backward) {
  const Slice arrived = at_holders(backward ? "d.moe.arrived" : "moe.arrived", held);
  if (!backward) {
    b_.then(kernel("write out for experts", OpClass::Permute, Kernel::Encode, {dispatched(arrived, backward)},
                   {dispatched(hidden("expert.in", l_.hidden_size, held), backward)}));
    return;
  }
  const Slice d_out = hidden("d.expert.out", l_.hidden_size, held);
  if (l_.weighs_in_experts) {
    b_.then(kernel("add up experts backward", OpClass::Permute, Kernel::Encode, {dispatched(arrived, backward)},
                   {dispatched(d_out, backward)}));
    return;
  }
  b_.then(kernel("add up experts backward", OpClass::Permute, Kernel::DecodeBackward,
                 {arrived, hidden("expert.out", l_.hidden_size, held), arrived_choice(held)},
                 {d_out, leaving_d_choice(held)}));
}

void MoeParts::add_up(const Path& held, bool backward) {
  const Slice leaving = at_holders(backward ? "d.moe.leaving" : "moe.leaving", held);
  if (backward) {
    b_.then(kernel("write out for experts backward", OpClass::Permute, addition(/*backward=*/true),
                   {hidden("d.expert.in", l_.hidden_size, held)}, {leaving}));
    return;
  }
  std::vector<Slice> in{hidden("expert.out", l_.hidden_size, held)};
  if (!l_.weighs_in_experts) in.push_back(arrived_choice(held));
  b_.then(kernel("add up experts", OpClass::Permute, l_.weighs_in_experts ? addition(false) : Kernel::Decode, in,
                 {leaving}));
}

Slice MoeParts::gate_weight(const std::string& name) {
  return b_.slice(name, l_.moe.num_experts, l_.dtype, Rows::fixed(l_.gate_columns));
}

Slice MoeParts::choice(const Path& path) { return tokens("gate.choice", 2 * l_.moe.top_k, Dtype::Fp32, path); }
Slice MoeParts::d_choice(const Path& path) { return tokens("d.gate.choice", l_.moe.top_k, Dtype::Fp32, path); }

Slice MoeParts::choice_of(const std::string& name, const Slice& rows) {
  return b_.slice(name, 2 * l_.moe.top_k, Dtype::Fp32, rows.rows);
}

Slice MoeParts::d_choice_of(const std::string& name, const Slice& rows) {
  return b_.slice(name, l_.moe.top_k, Dtype::Fp32, rows.rows);
}

Slice MoeParts::arrived_choice(const Path& held) {
  return choice_of("gate.choice.arrived",
                   deduplicates() ? at_holders("moe.arrived", held) : routed("expert.in", l_.computed, held));
}

Slice MoeParts::leaving_d_choice(const Path& held) {
  return d_choice_of("d.gate.choice.leaving",
                     deduplicates() ? at_holders("d.moe.leaving", held) : routed("d.expert.in", l_.computed, held));
}

Slice MoeParts::mask(const Path& path, const Slice& expert_rows) {
  return tokens("gate.mask", row_count(b_.program(), expert_rows.rows, RankId(0)), l_.dtype, path);
}

QuantisedOperands MoeParts::operands() const {
  return {b_,
          l_.precision,
          l_.trains,
          l_.fusions,
          l_.has_megatron_kernels && !fuses_mlp() ? held_experts(b_.program(), l_.routing) : 1,
          l_.all_to_all->is_fused()};
}

/// Megatron-LM eb0783b, docs/discussions/deepseek-v3-gb200-optimization, 2.1.4 and 2.2.1, with fused router: 31 kernels
/// of the router and of the preparation of the exchange, 17 of them with DeepEP. One is the projection.
std::int64_t MoeParts::router_kernels() const {
  if (!l_.has_megatron_kernels) return 1;
  return deduplicates() ? 16 : 30;
}

/// 72 kernels instead of 31 (there, 2.1.4), elementwise over the logits: in three steps, each of which the host
/// launches as an operation (assumed).
void MoeParts::unfused_router(const std::string& suffix, const Slice& logits) const {
  if (l_.fusions.has(Fusion::Router)) return;
  for (const auto& [step, kernels] :
       {std::pair("router scores", 14), std::pair("routing map", 14), std::pair("auxiliary loss", 13)})
    b_.then(launched_as(kernels, kernel(step + suffix, OpClass::Gate, Kernel::Copy, {logits}, {logits})));
}

Kernel MoeParts::addition(bool backward) const {
  if (!permutes_apart()) return Kernel::EncodeBackward;
  return backward ? Kernel::IndexAdd : Kernel::ScatterAdd;
}

void MoeParts::weigh_apart(const std::string& suffix, const Slice& rows, const Path& path) {
  if (!permutes_apart()) return;
  b_.then(kernel("order rows" + suffix, OpClass::Permute, Kernel::SortRows, {rows}, {rows}));
  b_.then(kernel("weigh rows" + suffix, OpClass::Permute, Kernel::GeneralPass, {rows, choice(path)}, {rows}));
}

void MoeParts::list_rows(const Path& path) {
  constexpr std::int64_t kKernels = 17;  // counted: two masked_select of 6 each, two transposed copies, arange
  if (permutes_apart())
    b_.then(launched_as(kKernels, kernel("list rows", OpClass::Permute, Kernel::Copy, {choice(path)}, {choice(path)})));
}

void MoeParts::all_gather(GroupId group, OpClass op_class, const std::string& from, const std::string& to,
                          const Path& path) {
  if (b_.program().group(group).size == 1) return;
  b_.then(collective("all-gather", op_class, Stream::Intra, {.collective = Collective::AllGather, .group = group},
                     tokens(from, path), tokens(to, prepend(union_of(group), path))));
}

void MoeParts::reduce_scatter(GroupId group, OpClass op_class, const std::string& from, const std::string& to,
                              const Path& path) {
  if (b_.program().group(group).size == 1) return;
  b_.then(collective("reduce-scatter", op_class, Stream::Intra,
                     {.collective = Collective::ReduceScatter, .group = group},
                     tokens(from, prepend(union_of(group), path)), tokens(to, path)));
}

}  // namespace moeplan::planner
