// Parts of DenseParts next to the mixers and FFNs: the residual stream, or the streams of hyper-connections, and the
// projections of tokens to and from the columns of their experts.
#include "planner/layer/dense_parts.hpp"

namespace moeplan::planner {

Slice DenseParts::stream_weights(const std::string& from, const std::string& prefix) const {
  const std::int64_t streams = model.residual_streams;
  // What a layer's part reads, writes and mixes; the head reads alone.
  return own(prefix + from + ".streams", layer ? streams * (streams + 2) : streams);
}

void DenseParts::read_residual(const std::string& from, const std::string& to) const {
  if (model.residual_streams == 1) return norm(from, to);
  const Slice all = residual(from), weights = stream_weights(from);
  const std::int64_t in = model.residual_streams * model.hidden_size;
  block.then(gemm("stream weights", OpClass::Norm, {}, all,
                  weight("w." + from + ".streams", in, block.program().buffer(weights.buffer).columns), weights));
  block.then(kernel("read streams", OpClass::Norm, Kernel::Add, {all, weights}, {own(from + ".read")}));
  norm(from + ".read", to);
}

void DenseParts::write_residual(const std::string& from, const std::string& output, const std::string& sum) const {
  if (model.residual_streams == 1) return add(from, output, sum);
  block.then(kernel("write streams", OpClass::Norm, Kernel::Add, {residual(from), own(output), stream_weights(from)},
                    {residual(sum)}));
}

void DenseParts::write_residual_backward(const std::string& from, const std::string& output) const {
  if (model.residual_streams == 1) return;
  block.then(kernel("write streams backward", OpClass::Norm, Kernel::Add,
                    {residual("d.x"), residual(from), own(output), stream_weights(from)},
                    {own("d.x"), residual("d.mixed"), stream_weights(from, "d.")}));
}

void DenseParts::read_residual_backward(const std::string& from, const std::string& to,
                                        const std::string& other) const {
  const std::string d_in = "d." + to;
  if (model.residual_streams == 1) {
    norm_backward(d_in, from, other);
    return add("d.x", other, "d.x");
  }
  const Slice all = residual(from), d_weights = stream_weights(from, "d.");
  const std::int64_t in = model.residual_streams * model.hidden_size;
  const std::int64_t columns = block.program().buffer(d_weights.buffer).columns;
  norm_backward(d_in, from + ".read", other);
  std::vector<Slice> reads{own(other), all, stream_weights(from)};
  if (layer) reads.push_back(residual("d.mixed"));  // the head has no other path
  block.then(kernel("read streams backward", OpClass::Norm, Kernel::Add, reads, {residual("d.x"), d_weights}));
  block.then(gemm("stream weights weight gradient", OpClass::Norm, {.form = Gemm::Form::TN}, all, d_weights,
                  weight("d.w." + from + ".streams", in, columns)));
  block.then(gemm("stream weights input gradient", OpClass::Norm, {.form = Gemm::Form::NT, .accumulates = true},
                  d_weights, weight("w." + from + ".streams", in, columns), residual("d.x")));
}

void DenseParts::copy_to_streams() const {
  if (model.residual_streams == 1) return;
  block.then(kernel("copy to streams", OpClass::Embedding, Kernel::Copy, {own("x")}, {residual("x")}));
}

void DenseParts::add_streams() const {
  if (model.residual_streams == 1) return;
  block.then(kernel("add streams", OpClass::Embedding, Kernel::Add, {residual("d.x")}, {own("d.x")}));
}

void DenseParts::to_latent(const Moe& moe) const {
  if (moe.latent_size == 0) return;
  block.then(gemm("to latent projection", OpClass::Gate, {}, own("ffn.in"),
                  weight("w.to_latent", model.hidden_size, moe.latent_size), own("ffn.in", moe.latent_size)));
}

void DenseParts::from_latent(const Moe& moe) const {
  if (moe.latent_size == 0) return;
  block.then(gemm("from latent projection", OpClass::Gate, {}, own("moe.out", moe.latent_size),
                  weight("w.from_latent", moe.latent_size, model.hidden_size), own("moe.out")));
}

void DenseParts::from_latent_backward(const Moe& moe) const {
  if (moe.latent_size == 0) return;
  block.then(gemm("from latent weight gradient", OpClass::Gate, {.form = Gemm::Form::TN},
                  own("moe.out", moe.latent_size), own("d.x"),
                  weight("d.w.from_latent", moe.latent_size, model.hidden_size)));
  block.then(gemm("from latent input gradient", OpClass::Gate, {.form = Gemm::Form::NT}, own("d.x"),
                  weight("w.from_latent", moe.latent_size, model.hidden_size), own("d.moe.out", moe.latent_size)));
}

void DenseParts::to_latent_backward(const Moe& moe) const {
  if (moe.latent_size == 0) return;
  const Slice d_in = own("d.ffn.in", moe.latent_size);
  block.then(gemm("to latent weight gradient", OpClass::Gate, {.form = Gemm::Form::TN}, own("ffn.in"), d_in,
                  weight("d.w.to_latent", model.hidden_size, moe.latent_size)));
  block.then(gemm("to latent input gradient", OpClass::Gate, {.form = Gemm::Form::NT, .accumulates = true}, d_in,
                  weight("w.to_latent", model.hidden_size, moe.latent_size), own("d.ffn.in")));
}

}  // namespace moeplan::planner
