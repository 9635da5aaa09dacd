// The dense parts of a model on tensor-parallel ranks (Megatron-LM's column- and row-parallel layers): token mixer,
// dense FFN, embedding, output head, gradient traffic and optimizer.
//
// Every rank of a tensor-parallel group holds all `tokens` rows of the residual stream "x". [Megatron-LM] sec. 3: one
// all-reduce after attention and one after the FFN in the forward pass, and as many in the backward pass.
//
// With sequence parallelism ([Korthikanti] sec. 4.2) every rank holds only its own part of the rows, on which norms and
// additions work. Each all-reduce becomes an all-gather before the matrix products and a reduce-scatter after them;
// backward gathers the products' input once more for the weight gradient, concurrently with the input gradient.
//
// With context parallelism a rank has its part of every sequence; attention first gathers the keys and values of the
// group (as in Llama 3, sec. 3.3.2), and backward reduce-scatters their gradients.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/costs/scan_kernels.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/layer/block_builder.hpp"
#include "planner/layer/quantised_operands.hpp"

namespace moeplan::planner {

/// The columns of queries and keys that norms and rotary embedding read, as projected.
inline constexpr const char* kUnrotated = "attn.unrotated";

/// Writes the dense parts into a block.
struct DenseParts {
  const ModelSpec& model;
  const Workload& workload;
  Degrees degrees;
  Groups groups;
  std::int64_t tokens;  // rows that a tensor-parallel group works on
  bool sequence_parallel;
  BlockBuilder& block;
  const LayerSpec* layer;  // whose mixer and norms are written; null: none
  Recompute recompute;     // of the layer
  /// Norms of the hidden state read their weights, as executors need; otherwise these few bytes are neglected.
  bool norms_read_weights = false;

  /// The layer's token mixer, from the residual stream `from` to `to`, and its backward pass, from "d.x" to "d.x".
  /// Recurrences, sparse and compressed attention: mixer_parts.cpp.
  void mixer(const std::string& from, const std::string& to) const;
  void mixer_backward(const std::string& from) const;
  /// For backward what RecomputeModule::Projections computes again, if the mixer is attention over heads: keys, with
  /// the norms and rotary embedding of queries and keys; and the sum after the output projection, unless
  /// tensor-parallel ranks would have to add it up again.
  void heads_again() const;
  void output_again(const std::string& from, const std::string& to) const;
  /// The fused attention kernel alone; no operation for recurrences. Again: for backward, which then reads this output;
  /// the first one is kept, too, for the weight gradient of the output projection.
  enum class CorePass { Forward, Again, Backward };
  void attention_core(CorePass pass) const;

  /// A norm of the residual stream `from` in `to`, the input of a part of the layer; and the sum of the stream and the
  /// part's output in `sum`. With hyper-connections ([DeepSeek-V4] sec. 2.2) the streams are read, written and mixed
  /// with weights that all streams give.
  void read_residual(const std::string& from, const std::string& to) const;
  void write_residual(const std::string& from, const std::string& output, const std::string& sum) const;
  /// Their backward passes: from "d.x" of the sum to the gradient of the part's output, which is "d.x" too; and from
  /// the gradient of the part's input, "d.`to`", to "d.x" of the stream. `other`: the buffer of the gradient in
  /// between.
  void write_residual_backward(const std::string& from, const std::string& output) const;
  void read_residual_backward(const std::string& from, const std::string& to, const std::string& other) const;

  /// The projections of tokens before the dispatch and after the combine to and from Moe::latent_size columns; no
  /// operation without one.
  void to_latent(const Moe& moe) const;
  void from_latent(const Moe& moe) const;
  void to_latent_backward(const Moe& moe) const;
  void from_latent_backward(const Moe& moe) const;

  /// An FFN whose hidden size is sharded over the tensor-parallel ranks, from "ffn.in" to `output`, and its backward
  /// pass from the gradient of the output.
  void ffn(const Ffn& ffn, const std::string& prefix, OpClass op_class, const std::string& output) const;
  void ffn_backward(const Ffn& ffn, const std::string& prefix, OpClass op_class, const std::string& gradient,
                    const std::string& output) const;

  /// The backward pass is from `gradient`, which is "d." and the name of the norm's result.
  void norm(const std::string& from, const std::string& to) const;
  void norm_backward(const std::string& gradient, const std::string& input, const std::string& to) const;
  void add(const std::string& a, const std::string& b, const std::string& to) const;

  /// The projections of the latents of latent attention to queries, keys and values (without a latent of queries,
  /// theirs from the hidden state), with rotary embedding, again for backward; no operation for other attention.
  void latent_up_projections() const;

  /// The input of a multi-token-prediction layer: the hidden state and the next token's embedding, normed and projected
  /// into one hidden state ([DeepSeek-V3] eq. 21). Its output is priced as a copy of "x".
  void mtp_input() const;
  void mtp_input_backward() const;

  void embed() const;
  void embed_backward() const;
  /// The norm before the output head, logits and loss; backward their gradients. With Workload::loss_chunks, all but
  /// the norm is in backward, where logits of one chunk after the other are computed, of which none are kept.
  void head() const;
  void head_backward() const;

  /// The number of residual-stream rows on a rank.
  [[nodiscard]] std::int64_t own_tokens() const { return sequence_parallel ? tokens / degrees.tp : tokens; }
  [[nodiscard]] Slice own(const std::string& name) const { return own(name, model.hidden_size); }
  /// The residual stream, or all streams of hyper-connections.
  [[nodiscard]] Slice residual(const std::string& name) const {
    return own(name, model.residual_streams * model.hidden_size);
  }

 private:
  /// A product that mixes the input `in`, or a latent of it; backward gives no gradient of a detached input.
  struct Projection {
    std::string name, in;
    std::int64_t in_columns;
    std::string out;
    std::int64_t out_columns;
    bool is_detached = false;
  };

  [[nodiscard]] const TokenMixer& token_mixer() const { return mixer_of(model, *layer); }
  [[nodiscard]] std::int64_t window() const { return layer->attention_window; }
  [[nodiscard]] AttentionHeads heads() const;
  /// The input projections in the order of the forward pass, without the output projection.
  [[nodiscard]] std::vector<Projection> input_projections() const;
  /// What is between the input projections and the output projection, which reads core_output().
  void core(bool backward) const;
  [[nodiscard]] Projection output_projection() const;
  /// The output projection, and its sum with the residual stream `from` in `to`.
  void output(const std::string& from, const std::string& to) const;
  [[nodiscard]] bool computes_projections_again() const;
  void copy_in_passing(const std::string& from, const std::string& to) const;
  // mixer_parts.cpp
  [[nodiscard]] std::vector<Projection> input_projections(const LatentAttention& a) const;
  [[nodiscard]] std::vector<Projection> input_projections(const CompressedAttention& a) const;
  void sparse_core(const LatentAttention& a, bool backward) const;
  void sparse_attention(const LatentAttention& a, bool backward) const;
  void compressed_core(const CompressedAttention& a, bool backward) const;
  void compressed_attention(const CompressedAttention& a, bool backward) const;
  void compress(const std::string& what, const std::string& entries, std::int64_t columns, const CompressedAttention& a,
                bool backward) const;
  void index(const Indexer& indexer, std::int64_t entries, double keys, double target, bool backward) const;
  [[nodiscard]] Slice selected(const Indexer& indexer, std::int64_t entries) const;
  void scan(const std::vector<ScanKernel>& kernels) const;
  void output_gate(const HeadAttention& a, bool backward) const;
  void fused(const std::string& name, double multiply_adds, std::vector<Slice> reads, std::vector<Slice> writes) const;
  void mixer_kernel(const std::string& name, Kernel work, std::vector<Slice> reads, std::vector<Slice> writes) const;
  // residual_parts.cpp
  void copy_to_streams() const;
  void add_streams() const;
  /// Weights from all residual streams for the part of the layer whose input is made of `from`.
  [[nodiscard]] Slice stream_weights(const std::string& from, const std::string& prefix = "") const;

  [[nodiscard]] Slice own(const std::string& name, std::int64_t columns) const;
  /// Whether the inputs of activation functions are kept in fp8.
  [[nodiscard]] bool keeps_fp8_inputs() const;
  /// Whether backward computes all of this FFN again.
  [[nodiscard]] bool is_recomputed(OpClass op_class) const;
  [[nodiscard]] Slice rows(const std::string& name, std::int64_t columns) const;
  [[nodiscard]] Slice x(const std::string& name) const { return rows(name, model.hidden_size); }
  /// The name of the buffer with all rows of `name`, which matrix products read.
  [[nodiscard]] std::string whole(const std::string& name) const;
  [[nodiscard]] std::int64_t columns(const Slice& slice) const;
  /// Gathers own rows of `name`, of hidden size unless `columns` are given, into all rows in whole(name); no operation
  /// without sequence parallelism.
  void gather(const std::string& name, std::optional<std::int64_t> columns = {}) const;
  /// Sums the partial sums of all rows in `partial` into own rows in `sum`.
  void reduce(const std::string& partial, const std::string& sum, std::optional<std::int64_t> columns = {}) const;
  /// Appends the input and weight gradients of the products that read `input`. The sum of the input gradients over
  /// ranks, in `gradient`, overlaps with the weight gradients; with sequence parallelism `input` is gathered again
  /// concurrently with the input gradients.
  void gather_concurrently(const std::string& input, const std::string& gradient,
                           const std::function<void()>& input_gradients, const std::function<void()>& weight_gradients,
                           std::optional<std::int64_t> columns = {}) const;
  [[nodiscard]] Slice weight(const std::string& name, std::int64_t in, std::int64_t out) const;
  /// The weights of the norm with this result: a row of factors and, for LayerNorm, one of summands.
  [[nodiscard]] Slice norm_weights(const std::string& prefix, const std::string& result) const;
  /// The operands of the products of a part of this class. The output head stays in 16 bits.
  [[nodiscard]] QuantisedOperands operands(OpClass op_class) const;
  /// Quantises the input that backward has gathered again; nothing without sequence parallelism.
  void quantise_gathered(OpClass op_class, const Slice& in) const;
  void project(const std::string& name, OpClass op_class, const Slice& in, const Slice& out) const;
  /// From the gradient of the product's output.
  void input_gradient(const std::string& name, OpClass op_class, const Slice& d_in, const Slice& gradient) const;
  void weight_gradient(const std::string& name, OpClass op_class, const Slice& in, const Slice& gradient) const;
  [[nodiscard]] bool has_loss_chunks() const;
  void loss_by_chunks() const;
  void logits_and_loss() const;
  void head_gradients() const;
  /// Cross entropy; its backward pass returns the gradient of the logits.
  void loss(const Slice& logits) const;
  [[nodiscard]] Slice loss_backward(const Slice& logits) const;
  [[nodiscard]] Slice wide_logits(const Slice& logits) const;
  /// Of attention that is not fused, the matrix of each head: a product writes it, the softmax reads and writes it; and
  /// the same of its gradient. What the products compute is priced as the fused kernel, which reads their results.
  void attention_softmax(const std::vector<Slice>& inputs, const Slice& softmax, bool backward) const;
  [[nodiscard]] Slice kv(const std::string& name) const;
  void exchange_context(bool backward) const;
  /// Whether latents are made of a rank's own rows and gathered before their up projections, as Megatron-Core does with
  /// sequence parallelism; their rotary columns are neglected.
  [[nodiscard]] bool gathers_latents() const;
  [[nodiscard]] bool reads_own_rows(const Projection& p) const;
  /// The input of a projection, or with "d." its gradient; and its output.
  [[nodiscard]] Slice input(const Projection& p, const std::string& prefix = "") const;
  [[nodiscard]] Slice output(const Projection& p, const std::string& prefix = "") const;
  /// Rows of a latent before and after its norm.
  [[nodiscard]] Slice latent_rows(const std::string& name, std::int64_t columns) const;
  /// The norm between the down and the up projections of latents.
  void latent_norm(const std::string& latent, bool backward) const;
  void latent_projections_backward(const std::vector<Projection>& projections) const;
  void input_projections_backward(const std::vector<Projection>& projections) const;
  /// Rotates `from`, queries and keys or a part of them, to "attn.rotated"; backward the gradient in place. With
  /// Megatron-Core's kernels a scaled rotation is a sequence of elementwise operations, priced as one: TE's fused
  /// kernel does not scale (rope_utils.py, apply_rotary_pos_emb).
  void rotary(const std::string& from, std::int64_t columns, bool is_scaled, bool backward) const;
  /// The same of heads with PyTorchModules::Eager: in fp32, kernel by kernel (torchtitan's models/common/rope.py,
  /// CosSinRoPE).
  void eager_rotary(const std::string& from, std::int64_t columns, bool backward) const;
  /// Norms of queries and keys, rotary embedding, and the keys and values of latent attention put together.
  void head_positions(bool backward) const;
};

}  // namespace moeplan::planner
