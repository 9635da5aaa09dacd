#include "planner/layer/dense_parts.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "model/base/whole_numbers.hpp"
#include "model/costs/memory.hpp"

namespace moeplan::planner {

Slice DenseParts::rows(const std::string& name, std::int64_t columns) const {
  std::vector<RowStep> whole_group;
  if (degrees.tp > 1) whole_group = {{RowStep::Kind::Union, groups.tp}};
  return block.slice(name, columns, workload.dtype, Rows::tokens(tokens / degrees.tp, std::move(whole_group)));
}

Slice DenseParts::own(const std::string& name, std::int64_t columns) const {
  if (!sequence_parallel) return rows(name, columns);
  return block.slice(name, columns, workload.dtype, Rows::tokens(tokens / degrees.tp, {}));
}

Slice DenseParts::weight(const std::string& name, std::int64_t in, std::int64_t out) const {
  return block.slice(name, out, workload.dtype, Rows::fixed(in));
}

std::string DenseParts::whole(const std::string& name) const { return sequence_parallel ? name + ".all" : name; }

void DenseParts::gather(const std::string& name, std::optional<std::int64_t> columns) const {
  if (!sequence_parallel) return;
  const std::int64_t width = columns.value_or(model.hidden_size);
  block.then(collective("all-gather", OpClass::TensorParallel, Stream::Intra,
                        {.collective = Collective::AllGather, .group = groups.tp}, own(name, width),
                        rows(whole(name), width)));
}

void DenseParts::reduce(const std::string& partial, const std::string& sum, std::optional<std::int64_t> columns) const {
  if (degrees.tp == 1) return;
  const std::int64_t width = columns.value_or(model.hidden_size);
  const auto kind = sequence_parallel ? Collective::ReduceScatter : Collective::AllReduce;
  block.then(collective(sequence_parallel ? "reduce-scatter" : "all-reduce", OpClass::TensorParallel, Stream::Intra,
                        {.collective = kind, .group = groups.tp}, rows(partial, width), own(sum, width)));
}

void DenseParts::gather_concurrently(const std::string& input, const std::string& gradient,
                                     const std::function<void()>& input_gradients,
                                     const std::function<void()>& weight_gradients,
                                     std::optional<std::int64_t> columns) const {
  const std::vector<std::int32_t> before = block.last();
  std::vector<std::int32_t> gathered;
  if (sequence_parallel) {
    gather(input, columns);
    gathered = block.last();
    block.continue_after(before);
  }
  input_gradients();
  std::vector<std::int32_t> both = block.last();
  if (degrees.tp > 1) {
    reduce(whole(gradient), gradient, columns);
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
  const bool is_wide = op_class == OpClass::Embedding && !workload.fp8_modules.has(Fp8Module::OutputHead);
  return {block, is_wide ? std::nullopt : workload.precision, workload.mode == Mode::Train, workload.fusions};
}

std::int64_t DenseParts::columns(const Slice& slice) const { return block.program().buffer(slice.buffer).columns; }

void DenseParts::quantise_gathered(OpClass op_class, const Slice& in) const {
  if (sequence_parallel) operands(op_class).quantise(in, op_class);
}

void DenseParts::project(const std::string& name, OpClass op_class, const Slice& in, const Slice& out) const {
  const QuantisedOperands q = operands(op_class);
  q.quantise(in, op_class);
  block.then(gemm(name + " projection", op_class, q.product({}), q.in_rows(in),
                  weight("w." + name, columns(in), columns(out)), out));
}

void DenseParts::weight_gradient(const std::string& name, OpClass op_class, const Slice& in,
                                 const Slice& gradient) const {
  const QuantisedOperands q = operands(op_class);
  block.then(gemm(name + " weight gradient", op_class, q.product({.form = Gemm::Form::TN, .accumulates = true}),
                  q.in_columns(in), q.in_columns(gradient), weight("d.w." + name, columns(in), columns(gradient))));
}

void DenseParts::input_gradient(const std::string& name, OpClass op_class, const Slice& d_in,
                                const Slice& gradient) const {
  const QuantisedOperands q = operands(op_class);
  block.then(gemm(name + " input gradient", op_class, q.product({.form = Gemm::Form::NT}), q.in_rows(gradient),
                  weight("w." + name, columns(d_in), columns(gradient)), d_in));
}

Slice DenseParts::norm_weights(const std::string& prefix, const std::string& result) const {
  return weight(prefix + "w.norm." + result, model.norm == Norm::Layer ? 2 : 1, model.hidden_size);
}

void DenseParts::norm(const std::string& from, const std::string& to) const {
  Operation norm = kernel("norm", OpClass::Norm, Kernel::Norm, {own(from)}, {own(to)});
  if (norms_read_weights) norm.reads.push_back(norm_weights("", to));
  block.then(std::move(norm));
}

void DenseParts::norm_backward(const std::string& gradient, const std::string& input, const std::string& to) const {
  Operation norm = kernel("norm backward", OpClass::Norm, Kernel::NormBackward, {own(gradient), own(input)}, {own(to)});
  if (norms_read_weights) {
    const std::string result = gradient.substr(std::string_view("d.").size());
    norm.reads.push_back(norm_weights("", result));
    norm.writes.push_back(norm_weights("d.", result));
  }
  block.then(std::move(norm));
}

void DenseParts::add(const std::string& a, const std::string& b, const std::string& to) const {
  block.then(kernel("residual add", OpClass::Norm, Kernel::Add, {own(a), own(b)}, {own(to)}));
}

void DenseParts::ffn(const Ffn& f, const std::string& prefix, OpClass op_class, const std::string& output) const {
  const std::int64_t shard = f.hidden_size / degrees.tp, up = (f.gated ? 2 : 1) * shard;
  gather("ffn.in");
  project(prefix + ".up", op_class, x(whole("ffn.in")), rows(prefix + ".up", up));
  block.then(kernel(prefix + " activation", op_class, Kernel::Activation, {rows(prefix + ".up", up)},
                    {rows(prefix + ".activated", shard)}));
  if (keeps_fp8_inputs()) keep_in_fp8(block, op_class, rows(prefix + ".up", up));
  project(prefix + ".down", op_class, rows(prefix + ".activated", shard), x(whole(output)));
  reduce(whole(output), output);
}

void DenseParts::ffn_backward(const Ffn& f, const std::string& prefix, OpClass op_class, const std::string& gradient,
                              const std::string& output) const {
  const std::int64_t shard = f.hidden_size / degrees.tp, up = (f.gated ? 2 : 1) * shard;
  const Slice d_activated = rows("d." + prefix + ".activated", shard), d_up = rows("d." + prefix + ".up", up);
  const Slice w_down = weight("w." + prefix + ".down", shard, model.hidden_size);
  const Slice w_up = weight("w." + prefix + ".up", model.hidden_size, up);
  const QuantisedOperands q = operands(op_class);
  const Gemm nt = q.product({.form = Gemm::Form::NT}), tn = q.product({.form = Gemm::Form::TN, .accumulates = true});
  const Slice activated = rows(prefix + ".activated", shard), d_out = x(whole(gradient));
  const Slice own_input = rows(prefix + ".up", up);
  const Slice input = keeps_fp8_inputs() ? restored_from_fp8(block, own_input) : own_input;
  gather(gradient);
  if (keeps_fp8_inputs()) restore_from_fp8(block, op_class, own_input);
  q.quantise(d_out, op_class);
  if (recompute.has(RecomputeModule::FfnActivation) && !is_recomputed(op_class)) {
    block.then(kernel(prefix + " activation", op_class, Kernel::Activation, {input}, {activated}));
    q.quantise(activated, op_class);
  }
  block.then(gemm(prefix + ".down weight gradient", op_class, tn, q.in_columns(activated), q.in_columns(d_out),
                  weight("d.w." + prefix + ".down", shard, model.hidden_size)));
  block.then(gemm(prefix + ".down input gradient", op_class, nt, q.in_rows(d_out), w_down, d_activated));
  block.then(
      kernel(prefix + " activation backward", op_class, Kernel::ActivationBackward, {d_activated, input}, {d_up}));
  q.quantise(d_up, op_class);
  gather_concurrently(
      "ffn.in", output,
      [&] { block.then(gemm(prefix + ".up input gradient", op_class, nt, q.in_rows(d_up), w_up, x(whole(output)))); },
      [&] {
        quantise_gathered(op_class, x(whole("ffn.in")));
        block.then(gemm(prefix + ".up weight gradient", op_class, tn, q.in_columns(x(whole("ffn.in"))),
                        q.in_columns(d_up), weight("d.w." + prefix + ".up", model.hidden_size, up)));
      });
}

bool DenseParts::keeps_fp8_inputs() const { return workload.mode == Mode::Train && workload.fp8_activation_inputs; }

bool DenseParts::is_recomputed(OpClass op_class) const {
  return recompute.has(op_class == OpClass::SharedExpert ? RecomputeModule::SharedExperts : RecomputeModule::Mlp);
}

void DenseParts::mtp_input() const {
  const std::int64_t columns = ceil_div(model.hidden_size, degrees.tp), inputs = 2 * model.hidden_size;
  const std::string projected = degrees.tp > 1 ? "mtp.projected" : "x";  // one stream
  block.then(kernel("embedding", OpClass::Embedding, Kernel::Embed, {x("embedding.rows")}, {x("mtp.embedding")}));
  block.then(
      kernel("mtp norms", OpClass::Norm, Kernel::Norm, {residual("x"), x("mtp.embedding")}, {rows("mtp.in", inputs)}));
  project("mtp", OpClass::Embedding, rows("mtp.in", inputs), rows(projected, columns));
  if (degrees.tp > 1) {
    block.then(collective("all-gather", OpClass::TensorParallel, Stream::Intra,
                          {.collective = Collective::AllGather, .group = groups.tp}, rows(projected, columns),
                          x(whole("x"))));
  }
  copy_to_streams();
}

void DenseParts::mtp_input_backward() const {
  const std::int64_t columns = ceil_div(model.hidden_size, degrees.tp), inputs = 2 * model.hidden_size;
  add_streams();
  const Slice gradient = rows(degrees.tp > 1 ? "d.mtp.projected" : "d.x", columns);
  operands(OpClass::Embedding).quantise(gradient, OpClass::Embedding);
  weight_gradient("mtp", OpClass::Embedding, rows("mtp.in", inputs), gradient);
  input_gradient("mtp", OpClass::Embedding, rows("d.mtp.in", inputs), gradient);
  block.then(kernel("mtp norms backward", OpClass::Norm, Kernel::NormBackward,
                    {rows("d.mtp.in", inputs), residual("x")}, {residual("d.x")}));
}

void DenseParts::embed() const {
  block.then(kernel("embedding", OpClass::Embedding, Kernel::Embed, {x("embedding.rows")}, {x(whole("x"))}));
  reduce(whole("x"), "x");
  copy_to_streams();
}

void DenseParts::embed_backward() const {
  add_streams();
  gather("d.x");
  block.then(kernel("embedding backward", OpClass::Embedding, Kernel::EmbedBackward, {x(whole("d.x"))},
                    {x("d.embedding.rows")}));
}

void DenseParts::head() const {
  read_residual("x", "head.in");
  gather("head.in");
  if (!has_loss_chunks()) logits_and_loss();
}

/// Logits of the rows of head.in, and the loss.
void DenseParts::logits_and_loss() const {
  const Slice logits = rows("head.logits", ceil_div(model.vocab_size, degrees.tp));
  project("head", OpClass::Embedding, x(whole("head.in")), logits);
  loss(logits);
  if (degrees.tp == 1) return;
  const Slice sums = block.slice("loss", 2, Dtype::Fp32, Rows::fixed(tokens));
  block.then(collective("all-reduce of softmax sums", OpClass::TensorParallel, Stream::Intra,
                        {.collective = Collective::AllReduce, .group = groups.tp}, sums, sums));
}

bool DenseParts::has_loss_chunks() const { return workload.loss_chunks > 1; }

/// Each part of the rows after the other, in the same buffers: logits, loss and the gradients of both operands.
void DenseParts::loss_by_chunks() const {
  DenseParts chunk = *this;
  chunk.tokens = ceil_div(tokens / degrees.tp, workload.loss_chunks) * degrees.tp;
  for (std::int64_t i = 0; i < workload.loss_chunks; ++i) {
    chunk.logits_and_loss();
    chunk.head_gradients();
  }
}

void DenseParts::loss(const Slice& logits) const {
  const Slice sums = block.slice("loss", 2, Dtype::Fp32, Rows::fixed(tokens));
  Operation loss = kernel("loss", OpClass::Embedding, Kernel::Loss, {logits}, {sums});
  if (!workload.fusions.has(Fusion::CrossEntropy)) {
    // Megatron-Core's VocabParallelCrossEntropy: the logits in fp32 and their maximum; exponentials in their place;
    // the sums of these; the softmax in their place, which is kept for backward.
    const Slice softmax = wide_logits(logits);
    loss.work = Kernel::Copy;
    loss.reads.insert(loss.reads.end(), 3, softmax);
    loss.writes.insert(loss.writes.end(), 3, softmax);
    loss.kernels = 4;
  } else if (has_megatron_kernels(workload)) {
    // Transformer Engine's parallel_cross_entropy: one kernel for the sums of the softmax; one that reads the logits
    // again and writes their gradients in their place, which backward scales.
    loss.reads.push_back(logits);
    loss.writes.push_back(logits);
    loss.kernels = 2;
  }
  block.then(std::move(loss));
}

Slice DenseParts::loss_backward(const Slice& logits) const {
  Slice gradient = rows("d.head.logits", columns(logits));
  Operation backward = kernel("loss backward", OpClass::Embedding, Kernel::LossBackward, {logits}, {gradient});
  if (!workload.fusions.has(Fusion::CrossEntropy)) {
    // Scaled in place, and rounded.
    const Slice softmax = wide_logits(logits);
    backward.work = Kernel::Copy;
    backward.reads = {softmax, softmax};
    backward.writes.push_back(softmax);
    backward.kernels = 2;
  } else if (has_megatron_kernels(workload)) {
    gradient = logits;
    backward.writes = {gradient};
  }
  block.then(std::move(backward));
  return gradient;
}

Slice DenseParts::wide_logits(const Slice& logits) const {
  return block.slice("head.softmax", columns(logits), Dtype::Fp32, logits.rows);
}

/// Gradients of the rows of head.in and of the head's weights, from those of the logits.
void DenseParts::head_gradients() const {
  const Slice gradient = loss_backward(rows("head.logits", ceil_div(model.vocab_size, degrees.tp)));
  operands(OpClass::Embedding).quantise(gradient, OpClass::Embedding);
  gather_concurrently(
      "head.in", "d.head.in", [&] { input_gradient("head", OpClass::Embedding, x(whole("d.head.in")), gradient); },
      [&] {
        quantise_gathered(OpClass::Embedding, x(whole("head.in")));
        weight_gradient("head", OpClass::Embedding, x(whole("head.in")), gradient);
      });
}

void DenseParts::head_backward() const {
  has_loss_chunks() ? loss_by_chunks() : head_gradients();
  if (model.residual_streams == 1) return norm_backward("d.head.in", "x", "d.x");
  read_residual_backward("x", "head.in", "d.head.x");
}

}  // namespace moeplan::planner
