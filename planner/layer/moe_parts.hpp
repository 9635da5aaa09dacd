// The parts from which schedules of an MoE layer are composed: gate, encode, exchange, experts and decode, forward and
// backward.
//
// Each part is appended to the block after the operation appended last. Token buffers have hidden_size columns. A
// `path` leads from a rank to the token sources whose rows it processes.
#pragma once

#include <utility>
#include <vector>

#include "planner/layer/quantised_operands.hpp"
#include "planner/layer/schedule.hpp"

namespace moeplan::planner {

using Path = std::vector<RowStep>;

[[nodiscard]] inline RowStep union_of(GroupId group) { return {RowStep::Kind::Union, group}; }
[[nodiscard]] inline RowStep share_of(GroupId group) { return {RowStep::Kind::Share, group}; }
[[nodiscard]] inline RowStep copies_of(GroupId group) { return {RowStep::Kind::Copies, group}; }
[[nodiscard]] Path prepend(RowStep step, const Path& path);

/// Writes the parts of one layer into a block.
class MoeParts {
 public:
  MoeParts(const MoeLayer& layer, BlockBuilder& block) : l_(layer), b_(block) {}

  /// The tokens, with hidden_size columns, of the sources of `path`.
  [[nodiscard]] Slice tokens(const std::string& name, const Path& path);
  [[nodiscard]] Slice routed(const std::string& name, Rows::Experts experts, Path path);
  /// Rows for all experts at their sources; if the all-to-all deduplicates, each token's row once.
  [[nodiscard]] Slice at_sources(const std::string& name, Path path);
  /// Rows received by a deduplicating all-to-all: each token's row once for all experts of the rank.
  [[nodiscard]] Slice at_holders(const std::string& name, Path path);

  /// The weights of the experts that the rank computes, or with the prefix "d." their gradients.
  [[nodiscard]] Slice w_up(const std::string& prefix = "") {
    return weight(prefix + "expert.w_up", l_.hidden_size, up_columns());
  }
  [[nodiscard]] Slice w_down(const std::string& prefix = "") {
    return weight(prefix + "expert.w_down", shard_hidden(), l_.hidden_size);
  }

  // The following parts process the tokens of the sources of `path`. If a buffer holds tokens of more sources, this is
  // a local split.
  void gate(const std::string& input, const Path& path);
  /// Accumulates into `gradient`, which encode_backward() has written before.
  void gate_backward(const std::string& input, const std::string& gradient, const Path& path);
  /// Permutes tokens into rows in expert order.
  void encode(const std::string& input, const Path& path);
  void encode_backward(const std::string& gradient, const Path& path);
  /// Combines expert rows into tokens, weighted by the gate.
  void decode(const Path& path, const std::string& output);
  void decode_backward(const std::string& gradient, const Path& path);
  // Where experts or a deduplicating all-to-all weigh rows at the holders, the gate's choice is dispatched with the
  // tokens, and its gradient is combined with theirs. `own` and `held` are the paths of a chunk at its source and at
  // the holders.
  [[nodiscard]] std::pair<Slice, Slice> dispatched_choice(const Path& own, const Path& held);
  [[nodiscard]] std::pair<Slice, Slice> combined_choice_gradient(const Path& own, const Path& held);
  /// Whether the codec's format is that of the experts' operands, and nothing but copies of rows is between the
  /// dispatch and the products: the experts then multiply what arrives, and no codec decodes it.
  [[nodiscard]] bool dispatches_operands(bool backward) const;
  /// The rows as they are then sent and received; otherwise the rows themselves.
  [[nodiscard]] Slice dispatched(const Slice& rows, bool backward) const;
  /// Quantises rows at their sources into what is sent: the rows, and the scales of their blocks.
  void quantise_for_dispatch(const Slice& rows, const std::vector<Slice>& sent) const;

  // With a deduplicating all-to-all, the experts' rows are expanded and summed at the holders.
  /// Expands received rows into the experts' rows, forward or as gradients.
  void write_out(const Path& held, bool backward);
  /// Sums the experts' rows into the rows to return.
  void add_up(const Path& held, bool backward);

  /// Sums the partial results of the expert shards if there are several.
  void sum_shards(const std::string& from, const std::string& to, const Path& path, Rows::Experts experts,
                  std::int64_t behind = 0, Stream stream = Stream::Compute);

  /// The expert FFNs over the rows of `path`: "expert.in" to "expert.out", backward "d.expert.out" to "d.expert.in".
  void experts(const Path& path);
  void experts_backward(const Path& path);
  /// The two halves of experts_backward(): the gradients that return to the sources, and those that stay.
  void experts_input_gradients(const Path& path);
  void experts_weight_gradients(const Path& path);

  /// Tensor-parallel or expert-sharding collectives between the tokens of `path` and the tokens of the whole group.
  void all_gather(GroupId group, OpClass op_class, const std::string& from, const std::string& to, const Path& path);
  void reduce_scatter(GroupId group, OpClass op_class, const std::string& from, const std::string& to,
                      const Path& path);

 private:
  [[nodiscard]] std::int64_t shard_hidden() const { return l_.moe.expert.hidden_size / l_.degrees.esp; }
  [[nodiscard]] std::int64_t up_columns() const { return (l_.moe.expert.gated ? 2 : 1) * shard_hidden(); }
  [[nodiscard]] Slice weight(const std::string& name, std::int64_t rows_each, std::int64_t columns);
  [[nodiscard]] Slice tokens(const std::string& name, std::int64_t columns, Dtype dtype, const Path& path);
  [[nodiscard]] Slice gate_weight(const std::string& name);
  [[nodiscard]] Slice gate_input(const std::string& name, const Path& path) {
    return tokens(name, l_.gate_columns, l_.dtype, path);
  }
  /// For each token, its experts and their weights; and the gradient with respect to these weights.
  [[nodiscard]] Slice choice(const Path& path);
  [[nodiscard]] Slice d_choice(const Path& path);
  /// The same for rows in transit.
  [[nodiscard]] Slice choice_of(const std::string& name, const Slice& rows);
  [[nodiscard]] Slice d_choice_of(const std::string& name, const Slice& rows);
  [[nodiscard]] Slice arrived_choice(const Path& held);
  [[nodiscard]] Slice leaving_d_choice(const Path& held);
  [[nodiscard]] bool choices_travel() const { return deduplicates() || l_.weighs_in_experts; }
  [[nodiscard]] bool deduplicates() const { return l_.all_to_all->deduplicates(); }
  /// Appends an operation that a fused dispatcher's kernels do on the way.
  void then_in_kernel(Operation operation) const;
  /// The rows at the sources: all of them, or one slice per chunk if they are distinct.
  [[nodiscard]] std::vector<Slice> all_chunks(const std::string& name, const Path& path);
  /// The 0/1 matrix of dense encoding: one row per token, one column per expert row. Encode creates it, and it is kept
  /// until the layer's backward pass has used it.
  [[nodiscard]] Slice mask(const Path& path, const Slice& expert_rows);
  [[nodiscard]] QuantisedOperands operands() const;
  /// Kernels that select experts, from the logits to what the exchange needs, and as many for their gradients
  /// (assumed).
  [[nodiscard]] std::int64_t router_kernels() const;
  /// Appends the router's kernels that Fusion::Router does without.
  void unfused_router(const std::string& suffix, const Slice& logits) const;
  /// Whether rows are moved by index as Megatron-Core does it without Fusion::Permute.
  [[nodiscard]] bool permutes_apart() const {
    return l_.trains && !l_.fusions.has(Fusion::Permute) && !l_.all_to_all->is_fused();
  }
  /// Appends the kernels before the sum of rows that the gate weighs, or after its gradient (`suffix`), if permutations
  /// are not fused: Megatron-Core 0.9's unpermute() puts rows in the order of tokens, then multiplies them.
  void weigh_apart(const std::string& suffix, const Slice& rows, const Path& path);
  /// How rows without weights are added to those of their tokens; `backward`: gradients.
  [[nodiscard]] Kernel addition(bool backward) const;
  /// Appends the kernels that find the rows of each expert, which permute() then reads, if it is not fused.
  void list_rows(const Path& path);
  void quantise(const Slice& rows) const;
  /// The input of the up projection, or backward the gradient of the output of the down projection.
  void quantise_dispatched(const Slice& rows, bool backward) const;
  [[nodiscard]] Gemm product(Gemm::Form form) const;
  /// Rows of the experts that the rank computes.
  [[nodiscard]] Slice hidden(const std::string& name, std::int64_t columns, const Path& path);
  [[nodiscard]] Gemm weight_gradient() const;
  void tell_loads(const Path& path);
  /// ExpertLayout::Sorted: rows of several experts from several sources, in another order. In place, so that the copy
  /// takes time but no memory.
  void sort_rows(const char* name, const Slice& rows);
  /// Copies rows to rows padded for products in 8 bits, or back, unless they arrive padded; those of a capacity do.
  void pad_rows(const char* name, const Slice& rows);
  /// Both, of rows that the experts' products then read, and of those that they wrote; `backward`: gradients.
  void rows_to_products(const Slice& rows, bool backward);
  void rows_from_products(const Slice& rows, bool backward);
  [[nodiscard]] Operation activation(const Slice& operand, const Path& path);
  void activate(const Path& path);
  void activation_in_backward(const Path& path);
  void activation_again(const Path& path);
  // MoeLayer::keeps_activation_inputs_in_fp8.
  void keep_in_fp8(const Path& path);
  void restore_from_fp8(const Path& path);
  /// The input of the activation function as backward reads it.
  [[nodiscard]] Slice kept_operand(const Path& path);
  /// The rows that the activation function is applied to; with the prefix "d." their gradients.
  [[nodiscard]] Slice activation_operand(const Path& path, const std::string& prefix = "");
  /// Parts of MoeLayer::has_megatron_kernels.
  [[nodiscard]] bool fuses_mlp() const { return l_.has_megatron_kernels && l_.fusions.has(Fusion::GroupedMlp); }
  [[nodiscard]] bool clamps_apart() const { return l_.has_megatron_kernels && l_.moe.expert.clamped && !fuses_mlp(); }
  [[nodiscard]] bool adds_weighted_biases() const {
    return l_.has_megatron_kernels && l_.moe.expert.bias && !fuses_mlp();
  }
  // eager_parts.cpp
  void eager_activation(const Path& path);
  void eager_activation_backward(const Path& path);
  /// The rows that the gate weighs at the sources, in fp32, which is kept for the gradients of the weights; backward
  /// from the gradient of their sums.
  [[nodiscard]] Slice eager_weigh(const Path& path);
  void eager_weigh_backward(const Slice& gradient, const Path& path);
  [[nodiscard]] Slice wide_rows(const std::string& name, const Path& path);
  /// A pass over rows of the experts, of which only the bytes, or the elements, that it reads and writes matter.
  void expert_pass(const char* name, std::vector<Slice> reads, std::vector<Slice> writes, Kernel pass = Kernel::Copy,
                   std::int64_t kernels = 1);
  void clamp(const Path& path);
  void clamp_backward(const Path& path);
  /// The rows that the down projection multiplies, weighted if the experts do that; with the prefix "d." their
  /// gradients.
  [[nodiscard]] Slice down_operand(const Path& path, const std::string& prefix = "");
  /// The experts' results, in fp32.
  [[nodiscard]] Slice in_fp32(const std::string& name, const Path& path);
  void add_weighted_biases(const Path& path);
  void weighted_biases_backward(const Path& path);
  /// Multiplies the experts' activations by the gate's weights, if that is where it is done and not fused.
  void weigh(const Path& path);
  /// Needs the activations, which are not kept: `has_activated` if the block has them already.
  void weigh_backward(const Path& path, bool has_activated);
  void down_input_gradient(const Path& path);
  void down_weight_gradient(const Path& path);
  void activation_backward(const Path& path);
  void up_weight_gradient(const Path& path);
  void up_input_gradient(const Path& path);

  const MoeLayer& l_;
  BlockBuilder& b_;
  bool has_read_loads_ = false;        // whether a chunk of the layer was encoded before
  bool has_weight_gradients_ = false;  // whether a chunk of the layer already has weight gradients
};

}  // namespace moeplan::planner
