#include "planner/layer/moe_parts.hpp"

#include "model/program/resolve.hpp"

namespace moeplan::planner {

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
  Slice s = routed(name, l_.computed, std::move(path));
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

void MoeParts::gate(const std::string& input, const Path& path) {
  const Slice logits = tokens("gate.logits", l_.moe.num_experts, l_.dtype, path);
  b_.then(gemm("gate projection", OpClass::Gate, {}, tokens(input, path), gate_weight("gate.weight"), logits));
  b_.then(kernel("top-k", OpClass::Gate, Kernel::TopK, {logits}, {choice(path)}));
  if (l_.gathers_loads) tell_loads(path);
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
  b_.then(kernel("top-k backward", OpClass::Gate, Kernel::TopKBackward,
                 {d_choice(path), tokens("gate.logits", l_.moe.num_experts, l_.dtype, path)}, {d_logits}));
  b_.then(gemm("gate weight gradient", OpClass::Gate, {.form = Gemm::Form::TN, .accumulates = true},
               tokens(input, path), d_logits, gate_weight("d.gate.weight")));
  b_.then(gemm("gate input gradient", OpClass::Gate, {.form = Gemm::Form::NT, .accumulates = true}, d_logits,
               gate_weight("gate.weight"), tokens(gradient, path)));
}

void MoeParts::encode(const std::string& input, const Path& path) {
  const Slice in = tokens(input, path);
  if (l_.encoding == Encoding::Dense) {
    const Slice out = at_sources("moe.encoded", path);
    b_.then(kernel("dense mask", OpClass::Permute, Kernel::Mask, {choice(path)}, {mask(path, out)}));
    b_.then(gemm("dense encode", OpClass::Permute, {.form = Gemm::Form::TN}, mask(path, out), in, out));
    return;
  }
  const std::vector<Slice> rows = all_chunks("moe.encoded", path);
  b_.then(kernel("encode", OpClass::Permute, Kernel::Encode, {in}, rows));
  if (!choices_travel()) return;
  std::vector<Slice> sent;
  for (const Slice& chunk : rows) sent.push_back(choice_of("gate.choice.sent", chunk));
  b_.then(kernel("encode choices", OpClass::Permute, Kernel::Encode, {choice(path)}, sent));
}

void MoeParts::encode_backward(const std::string& gradient, const Path& path) {
  const Slice out = tokens(gradient, path);
  if (l_.encoding == Encoding::Dense) {
    const Slice in = at_sources("d.moe.encoded", path);
    b_.then(gemm("dense encode backward", OpClass::Permute, {}, mask(path, in), in, out));
    return;
  }
  const std::vector<Slice> rows = all_chunks("d.moe.encoded", path);
  b_.then(kernel("encode backward", OpClass::Permute, Kernel::EncodeBackward, rows, {out}));
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
  if (l_.encoding == Encoding::Dense) {
    const Slice in = at_sources("moe.returned", path);
    b_.then(gemm("dense decode", OpClass::Permute, {}, mask(path, in), in, out));
    return;
  }
  std::vector<Slice> in = all_chunks("moe.returned", path);
  if (!choices_travel()) in.push_back(choice(path));
  b_.then(kernel("decode", OpClass::Permute, choices_travel() ? Kernel::EncodeBackward : Kernel::Decode, in, {out}));
}

void MoeParts::decode_backward(const std::string& gradient, const Path& path) {
  const Slice d_out = tokens(gradient, path);
  if (choices_travel()) {
    b_.then(kernel("decode backward", OpClass::Permute, Kernel::Encode, {d_out}, all_chunks("d.moe.returned", path)));
    return;
  }
  const Slice returned = at_sources("moe.returned", path), d_returned = at_sources("d.moe.returned", path);
  if (l_.encoding == Encoding::Sparse) {
    b_.then(kernel("decode backward", OpClass::Permute, Kernel::DecodeBackward, {d_out, returned, choice(path)},
                   {d_returned, d_choice(path)}));
    return;
  }
  b_.then(gemm("dense decode backward", OpClass::Permute, {.form = Gemm::Form::TN}, mask(path, d_returned), d_out,
               d_returned));
  b_.then(gemm("dense gate gradient", OpClass::Permute, {.form = Gemm::Form::NT}, d_out, returned, d_choice(path)));
}

std::pair<Slice, Slice> MoeParts::choice_there(const Path& own, const Path& held) {
  return {choice_of("gate.choice.sent", at_sources("moe.encoded", own)), arrived_choice(held)};
}

std::pair<Slice, Slice> MoeParts::d_choice_back(const Path& own, const Path& held) {
  return {leaving_d_choice(held), d_choice_of("d.gate.choice.returned", at_sources("d.moe.encoded", own))};
}

void MoeParts::write_out(const Path& held, bool backward) {
  const Slice arrived = at_holders(backward ? "d.moe.arrived" : "moe.arrived", held);
  if (!backward) {
    b_.then(kernel("write out for experts", OpClass::Permute, Kernel::Encode, {arrived},
                   {hidden("expert.in", l_.hidden_size, held)}));
    return;
  }
  const Slice d_out = hidden("d.expert.out", l_.hidden_size, held);
  if (l_.weighs_in_experts) {
    b_.then(kernel("add up experts backward", OpClass::Permute, Kernel::Encode, {arrived}, {d_out}));
    return;
  }
  b_.then(kernel("add up experts backward", OpClass::Permute, Kernel::DecodeBackward,
                 {arrived, hidden("expert.out", l_.hidden_size, held), arrived_choice(held)},
                 {d_out, leaving_d_choice(held)}));
}

void MoeParts::add_up(const Path& held, bool backward) {
  const Slice leaving = at_holders(backward ? "d.moe.leaving" : "moe.leaving", held);
  if (backward) {
    b_.then(kernel("write out for experts backward", OpClass::Permute, Kernel::EncodeBackward,
                   {hidden("d.expert.in", l_.hidden_size, held)}, {leaving}));
    return;
  }
  std::vector<Slice> in{hidden("expert.out", l_.hidden_size, held)};
  if (!l_.weighs_in_experts) in.push_back(arrived_choice(held));
  b_.then(kernel("add up experts", OpClass::Permute, l_.weighs_in_experts ? Kernel::EncodeBackward : Kernel::Decode, in,
                 {leaving}));
}

Slice MoeParts::gate_weight(const std::string& name) {
  return b_.slice(name, l_.moe.num_experts, l_.dtype, Rows::fixed(l_.hidden_size));
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

QuantisedOperands MoeParts::operands() const { return {b_, l_.precision, l_.trains}; }

void MoeParts::quantise(const Slice& rows) const { operands().quantise(rows, OpClass::Expert); }

Gemm MoeParts::product(Gemm::Form form) const {
  return operands().product({.form = form, .grouped = true, .by_source = l_.expert_layout == ExpertLayout::BySource});
}

void MoeParts::experts(const Path& path) {
  const Gemm grouped = product(Gemm::Form::NN);
  const Slice in = hidden("expert.in", l_.hidden_size, path);
  const Slice up = hidden("expert.up", up_columns(), path);
  quantise(in);
  b_.then(gemm("expert up projection", OpClass::Expert, grouped, operands().in_rows(in), w_up(), up));
  activation(path);
  weigh(path);
  quantise(down_operand(path));
  b_.then(gemm("expert down projection", OpClass::Expert, grouped, operands().in_rows(down_operand(path)), w_down(),
               hidden("expert.out", l_.hidden_size, path)));
  add_weighted_biases(path);
}

void MoeParts::experts_backward(const Path& path) {
  weighted_biases_backward(path);
  activation_again(path);
  down_input_gradient(path);
  down_weight_gradient(path);
  weigh_backward(path, /*has_activated=*/l_.recompute_activations);
  activation_backward(path);
  up_weight_gradient(path);
  up_input_gradient(path);
}

void MoeParts::experts_input_gradients(const Path& path) {
  weighted_biases_backward(path);
  down_input_gradient(path);
  weigh_backward(path, /*has_activated=*/false);
  activation_backward(path);
  up_input_gradient(path);
}

void MoeParts::experts_weight_gradients(const Path& path) {
  activation_again(path);
  down_weight_gradient(path);
  up_weight_gradient(path);
}

/// Gradients accumulate over chunks and microbatches; gradients of gathered weights start from zero in each layer.
Gemm MoeParts::weight_gradient() const {
  Gemm out = product(Gemm::Form::TN);
  out.accumulates = !l_.gathers_weights || has_weight_gradients_;
  return out;
}

void MoeParts::activation(const Path& path) {
  b_.then(kernel("expert activation", OpClass::Expert, Kernel::Activation, {hidden("expert.up", up_columns(), path)},
                 {hidden("expert.activated", shard_hidden(), path)}));
}

Slice MoeParts::down_operand(const Path& path, const std::string& prefix) {
  return hidden(prefix + (l_.weighs_in_experts ? "expert.weighted" : "expert.activated"), shard_hidden(), path);
}

void MoeParts::weigh(const Path& path) {
  if (!l_.weighs_in_experts) return;
  b_.then(kernel("weigh", OpClass::Expert, Kernel::Decode,
                 {hidden("expert.activated", shard_hidden(), path), arrived_choice(path)}, {down_operand(path)}));
}

void MoeParts::weigh_backward(const Path& path, bool has_activated) {
  if (!l_.weighs_in_experts) return;
  if (!has_activated) activation(path);
  b_.then(kernel("weigh backward", OpClass::Expert, Kernel::DecodeBackward,
                 {down_operand(path, "d."), hidden("expert.activated", shard_hidden(), path), arrived_choice(path)},
                 {hidden("d.expert.activated", shard_hidden(), path), leaving_d_choice(path)}));
}

Slice MoeParts::in_fp32(const std::string& name, const Path& path) {
  return b_.slice(name, l_.hidden_size, Dtype::Fp32, hidden("expert.out", l_.hidden_size, path).rows);
}

void MoeParts::add_weighted_biases(const Path& path) {
  if (!l_.adds_weighted_biases) return;
  const Slice out = hidden("expert.out", l_.hidden_size, path);
  const Slice biases = in_fp32("expert.biases", path), sums = in_fp32("expert.sums", path);
  const auto add = [&](const char* name, Kernel work, std::vector<Slice> reads, Slice writes) {
    b_.then(kernel(name, OpClass::Expert, work, std::move(reads), {std::move(writes)}));
  };
  add("weigh biases", Kernel::Copy, {arrived_choice(path)}, biases);
  add("add biases", Kernel::Add, {out, biases}, sums);
  add("join experts", Kernel::Copy, {sums}, in_fp32("expert.joined", path));
  add("round", Kernel::Copy, {in_fp32("expert.joined", path)}, out);
}

void MoeParts::weighted_biases_backward(const Path& path) {
  if (!l_.adds_weighted_biases) return;
  const Slice d_out = hidden("d.expert.out", l_.hidden_size, path);
  const Slice wide = in_fp32("d.expert.sums", path), product = in_fp32("d.expert.biases", path);
  const Slice d_bias = b_.slice("d.expert.bias", l_.hidden_size, Dtype::Fp32, Rows::per_expert(l_.routing, 1));
  const auto add = [&](const char* name, std::vector<Slice> reads, Slice writes) {
    b_.then(kernel(name, OpClass::Expert, Kernel::Copy, std::move(reads), {std::move(writes)}));
  };
  add("round backward", {d_out}, wide);
  add("weigh biases backward", {wide, arrived_choice(path)}, product);
  add("bias gradient", {product}, d_bias);
  add("weights of biases backward", {wide}, product);
  add("gradient of weights of biases", {product}, leaving_d_choice(path));
  add("add biases backward", {wide}, d_out);
  add("join experts backward", {d_out}, d_out);
}

void MoeParts::activation_again(const Path& path) {
  if (!l_.recompute_activations) return;
  activation(path);
  weigh(path);
  quantise(down_operand(path));
}

void MoeParts::down_input_gradient(const Path& path) {
  const Slice d_out = hidden("d.expert.out", l_.hidden_size, path);
  quantise(d_out);
  b_.then(gemm("expert down input gradient", OpClass::Expert, product(Gemm::Form::NT), operands().in_rows(d_out),
               w_down(), down_operand(path, "d.")));
}

void MoeParts::down_weight_gradient(const Path& path) {
  b_.then(gemm("expert down weight gradient", OpClass::Expert, weight_gradient(),
               operands().in_columns(down_operand(path)),
               operands().in_columns(hidden("d.expert.out", l_.hidden_size, path)), w_down("d.")));
}

void MoeParts::activation_backward(const Path& path) {
  b_.then(kernel("expert activation backward", OpClass::Expert, Kernel::ActivationBackward,
                 {hidden("d.expert.activated", shard_hidden(), path), hidden("expert.up", up_columns(), path)},
                 {hidden("d.expert.up", up_columns(), path)}));
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
