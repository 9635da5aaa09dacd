#include "planner/moe_parts.hpp"

#include "model/program/resolve.hpp"

namespace moeplan {

Path prepend(RowStep step, const Path& path) {
  Path out{step};
  out.insert(out.end(), path.begin(), path.end());
  return out;
}

Operation gemm(std::string name, OpClass op_class, Gemm work, Slice a, Slice b, Slice c) {
  return {.name = std::move(name),
          .op_class = op_class,
          .stream = Stream::Compute,
          .work = work,
          .reads = {std::move(a), std::move(b)},
          .writes = {std::move(c)},
          .after = {}};
}

Operation kernel(std::string name, OpClass op_class, Kernel work, std::vector<Slice> reads, std::vector<Slice> writes) {
  return {.name = std::move(name),
          .op_class = op_class,
          .stream = Stream::Compute,
          .work = work,
          .reads = std::move(reads),
          .writes = std::move(writes),
          .after = {}};
}

Operation collective(std::string name, OpClass op_class, Stream stream, Communication work, Slice in, Slice out) {
  return {.name = std::move(name),
          .op_class = op_class,
          .stream = stream,
          .work = work,
          .reads = {std::move(in)},
          .writes = {std::move(out)},
          .after = {}};
}

Slice MoeParts::tokens(const std::string& name, std::int64_t rows) {
  return b_.slice(name, l_.hidden_size, l_.dtype, Rows::fixed(rows));
}

Slice MoeParts::routed(const std::string& name, Rows::Experts experts, Path path) {
  return b_.slice(name, l_.hidden_size, l_.dtype, Rows::routed(l_.routing, experts, std::move(path)));
}

Slice MoeParts::at_sources(const std::string& name, Path path) {
  Slice s = routed(name, Rows::Experts::All, std::move(path));
  s.rows.distinct = l_.all_to_all->deduplicates();
  return s;
}

Slice MoeParts::weight(const std::string& name, std::int64_t rows_each, std::int64_t columns) {
  return b_.slice(name, columns, l_.dtype, Rows::per_expert(l_.routing, rows_each));
}

Slice MoeParts::hidden(const std::string& name, std::int64_t columns, const Path& path) {
  return b_.slice(name, columns, l_.dtype, Rows::routed(l_.routing, Rows::Experts::Local, path));
}

void MoeParts::gate(const std::string& input, std::int64_t rows) {
  const Slice logits = b_.slice("gate.logits", l_.moe.num_experts, l_.dtype, Rows::fixed(rows));
  b_.then(gemm("gate projection", OpClass::Gate, {}, tokens(input, rows),
               b_.slice("gate.weight", l_.moe.num_experts, l_.dtype, Rows::fixed(l_.hidden_size)), logits));
  b_.then(kernel("top-k", OpClass::Gate, Kernel::TopK, {logits}, {choice("gate.choice", 2, rows)}));
}

void MoeParts::gate_backward(const std::string& input, std::int64_t rows) {
  const Slice gradient = b_.slice("d.gate.logits", l_.moe.num_experts, l_.dtype, Rows::fixed(rows));
  const Slice w = b_.slice("gate.weight", l_.moe.num_experts, l_.dtype, Rows::fixed(l_.hidden_size));
  b_.then(kernel(
      "top-k backward", OpClass::Gate, Kernel::TopKBackward,
      {choice("d.gate.choice", 1, rows), b_.slice("gate.logits", l_.moe.num_experts, l_.dtype, Rows::fixed(rows))},
      {gradient}));
  b_.then(gemm("gate weight gradient", OpClass::Gate, {.form = Gemm::Form::TN}, tokens(input, rows), gradient,
               b_.slice("d.gate.weight", l_.moe.num_experts, l_.dtype, Rows::fixed(l_.hidden_size))));
  b_.then(gemm("gate input gradient", OpClass::Gate, {.form = Gemm::Form::NT}, gradient, w,
               tokens("d." + input + ".gate", rows)));
}

void MoeParts::encode(const std::string& input, std::int64_t rows, const Path& path) {
  const Slice in = tokens(input, rows), out = at_sources("moe.encoded", path);
  if (l_.encoding == Encoding::Sparse) {
    b_.then(kernel("encode", OpClass::Permute, Kernel::Encode, {in}, {out}));
  } else {
    b_.then(gemm("dense encode", OpClass::Permute, {.form = Gemm::Form::TN}, mask(rows, out), in, out));
  }
}

void MoeParts::encode_backward(const std::string& gradient, std::int64_t rows, const Path& path) {
  const Slice in = at_sources("d.moe.encoded", path), out = tokens(gradient, rows);
  if (l_.encoding == Encoding::Sparse) {
    b_.then(kernel("encode backward", OpClass::Permute, Kernel::EncodeBackward, {in}, {out}));
  } else {
    b_.then(gemm("dense encode backward", OpClass::Permute, {}, mask(rows, in), in, out));
  }
}

void MoeParts::sum_shards(const std::string& from, const std::string& to, const Path& path, Rows::Experts experts,
                          std::int64_t behind) {
  if (l_.degrees.esp == 1) return;
  Slice in = routed(from, experts, prepend(copies_of(l_.groups.esp), path));
  Slice out = routed(to, experts, path);
  in.rows.behind = out.rows.behind = behind;
  b_.then(kernel("local combine", OpClass::Permute, Kernel::SumShards, {in}, {out}));
}

void MoeParts::decode(std::int64_t rows, const Path& path, const std::string& output) {
  const Slice in = at_sources("moe.returned", path), out = tokens(output, rows);
  if (l_.encoding == Encoding::Sparse) {
    b_.then(kernel("decode", OpClass::Permute, Kernel::Decode, {in, choice("gate.choice", 2, rows)}, {out}));
  } else {
    b_.then(gemm("dense decode", OpClass::Permute, {}, mask(rows, in), in, out));
  }
}

void MoeParts::decode_backward(const std::string& gradient, std::int64_t rows, const Path& path) {
  const Slice d_out = tokens(gradient, rows), returned = at_sources("moe.returned", path);
  const Slice d_returned = at_sources("d.moe.returned", path);
  if (l_.encoding == Encoding::Sparse) {
    b_.then(kernel("decode backward", OpClass::Permute, Kernel::DecodeBackward, {d_out, returned},
                   {d_returned, choice("d.gate.choice", 1, rows)}));
    return;
  }
  b_.then(gemm("dense decode backward", OpClass::Permute, {.form = Gemm::Form::TN}, mask(rows, d_returned), d_out,
               d_returned));
  b_.then(gemm("dense gate gradient", OpClass::Permute, {.form = Gemm::Form::NT}, d_out, returned,
               choice("d.gate.choice", 1, rows)));
}

Slice MoeParts::choice(const std::string& name, std::int64_t values, std::int64_t rows) {
  return b_.slice(name, values * l_.moe.top_k, Dtype::Fp32, Rows::fixed(rows));
}

Slice MoeParts::mask(std::int64_t rows, const Slice& expert_rows) {
  return b_.slice("gate.mask", row_count(b_.program(), expert_rows.rows, RankId(0)), l_.dtype, Rows::fixed(rows));
}

Gemm MoeParts::product(Gemm::Form form) const {
  return {.form = form, .grouped = true, .by_source = l_.expert_layout == ExpertLayout::BySource};
}

void MoeParts::experts(const Path& path) {
  const Gemm grouped = product(Gemm::Form::NN);
  const Slice input = routed("expert.in", Rows::Experts::Local, path);
  const Slice up = hidden("expert.up", up_columns(), path);
  const Slice activated = hidden("expert.activated", shard_hidden(), path);
  b_.then(gemm("expert up projection", OpClass::Expert, grouped, input,
               weight("expert.w_up", l_.hidden_size, up_columns()), up));
  b_.then(kernel("expert activation", OpClass::Expert, Kernel::Activation, {up}, {activated}));
  b_.then(gemm("expert down projection", OpClass::Expert, grouped, activated,
               weight("expert.w_down", shard_hidden(), l_.hidden_size),
               routed("expert.out", Rows::Experts::Local, path)));
}

void MoeParts::experts_backward(const Path& path) {
  const Gemm nt = product(Gemm::Form::NT), tn = product(Gemm::Form::TN);
  const Slice d_out = routed("d.expert.out", Rows::Experts::Local, path);
  const Slice up = hidden("expert.up", up_columns(), path);
  const Slice activated = hidden("expert.activated", shard_hidden(), path);
  const Slice d_activated = hidden("d.expert.activated", shard_hidden(), path);
  const Slice d_up = hidden("d.expert.up", up_columns(), path);
  if (l_.recompute_activations) {
    b_.then(kernel("expert activation", OpClass::Expert, Kernel::Activation, {up}, {activated}));
  }
  b_.then(gemm("expert down input gradient", OpClass::Expert, nt, d_out,
               weight("expert.w_down", shard_hidden(), l_.hidden_size), d_activated));
  b_.then(gemm("expert down weight gradient", OpClass::Expert, tn, activated, d_out,
               weight("d.expert.w_down", shard_hidden(), l_.hidden_size)));
  b_.then(kernel("expert activation backward", OpClass::Expert, Kernel::ActivationBackward, {d_activated, up}, {d_up}));
  b_.then(gemm("expert up weight gradient", OpClass::Expert, tn, routed("expert.in", Rows::Experts::Local, path), d_up,
               weight("d.expert.w_up", l_.hidden_size, up_columns())));
  b_.then(gemm("expert up input gradient", OpClass::Expert, nt, d_up,
               weight("expert.w_up", l_.hidden_size, up_columns()), routed("d.expert.in", Rows::Experts::Local, path)));
}

void MoeParts::all_gather(GroupId group, OpClass op_class, const std::string& from, std::int64_t rows,
                          const std::string& to) {
  const std::int64_t size = b_.program().group(group).size;
  if (size == 1) return;
  b_.then(collective("all-gather", op_class, Stream::Intra, {.collective = Collective::AllGather, .group = group},
                     tokens(from, rows), tokens(to, rows * size)));
}

void MoeParts::reduce_scatter(GroupId group, OpClass op_class, const std::string& from, std::int64_t rows,
                              const std::string& to) {
  const std::int64_t size = b_.program().group(group).size;
  if (size == 1) return;
  b_.then(collective("reduce-scatter", op_class, Stream::Intra,
                     {.collective = Collective::ReduceScatter, .group = group}, tokens(from, rows),
                     tokens(to, rows / size)));
}

}  // namespace moeplan
