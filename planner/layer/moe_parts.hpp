// The parts that schedules of an MoE layer are made of: gate, encode, exchange, experts, decode, forward and backward.
//
// Each appends to the block after what was appended last. Token buffers have hidden_size columns. `sources` is the path
// of a routed slice from a rank to the token sources whose rows it dispatches.
#pragma once

#include <utility>
#include <vector>

#include "planner/layer/schedule.hpp"

namespace moeplan::planner {

using Path = std::vector<RowStep>;

[[nodiscard]] inline RowStep union_of(GroupId group) { return {RowStep::Kind::Union, group}; }
[[nodiscard]] inline RowStep share_of(GroupId group) { return {RowStep::Kind::Share, group}; }
[[nodiscard]] inline RowStep copies_of(GroupId group) { return {RowStep::Kind::Copies, group}; }
[[nodiscard]] Path prepend(RowStep step, const Path& path);

/// A product C = A B of a block, or its backward forms.
[[nodiscard]] Operation gemm(std::string name, OpClass op_class, Gemm work, Slice a, Slice b, Slice c);
[[nodiscard]] Operation kernel(std::string name, OpClass op_class, Kernel work, std::vector<Slice> reads,
                               std::vector<Slice> writes);
[[nodiscard]] Operation collective(std::string name, OpClass op_class, Stream stream, Communication work, Slice in,
                                   Slice out);

class MoeParts {
 public:
  MoeParts(const MoeLayer& layer, BlockBuilder& block) : l_(layer), b_(block) {}

  /// The tokens, of hidden_size columns, of the sources of `path`.
  [[nodiscard]] Slice tokens(const std::string& name, const Path& path);
  [[nodiscard]] Slice routed(const std::string& name, Rows::Experts experts, Path path);
  /// Rows for all experts where they come from: each token's once where the all-to-all wants it so.
  [[nodiscard]] Slice at_sources(const std::string& name, Path path);
  /// Where an all-to-all that deduplicates ends: each token's row once, for all of the rank's experts.
  [[nodiscard]] Slice at_holders(const std::string& name, Path path);

  /// Weights of the experts that the rank computes, or with "d." their gradients.
  [[nodiscard]] Slice w_up(const std::string& prefix = "") {
    return weight(prefix + "expert.w_up", l_.hidden_size, up_columns());
  }
  [[nodiscard]] Slice w_down(const std::string& prefix = "") {
    return weight(prefix + "expert.w_down", shard_hidden(), l_.hidden_size);
  }

  // Of the tokens of the sources of `path`. A buffer may hold those of more sources: then these are a local split.
  void gate(const std::string& input, const Path& path);
  /// Adds to `gradient`, which encode_backward() has begun.
  void gate_backward(const std::string& input, const std::string& gradient, const Path& path);
  /// Tokens to rows in expert order.
  void encode(const std::string& input, const Path& path);
  void encode_backward(const std::string& gradient, const Path& path);
  /// Expert rows back to tokens, weighted by the gate.
  void decode(const Path& path, const std::string& output);
  void decode_backward(const std::string& gradient, const Path& path);
  // Where the all-to-all deduplicates, experts' rows are made and added up, weighted, where the experts are. The gate's
  // choice goes there with the tokens, and its gradient comes back with theirs. `own` and `held` are the paths of a
  // chunk at its source and at the holders.
  [[nodiscard]] std::pair<Slice, Slice> choice_there(const Path& own, const Path& held);
  [[nodiscard]] std::pair<Slice, Slice> d_choice_back(const Path& own, const Path& held);
  /// Rows that have arrived to the experts' rows, forward or as gradients.
  void write_out(const Path& held, bool backward);
  /// The experts' rows to those that go back.
  void add_up(const Path& held, bool backward);

  /// Adds the expert shards' partial sums where there are several.
  void sum_shards(const std::string& from, const std::string& to, const Path& path, Rows::Experts experts,
                  std::int64_t behind = 0, Stream stream = Stream::Compute);

  /// The expert FFNs over the rows of `path`: "expert.in" to "expert.out", backward "d.expert.out" to "d.expert.in".
  void experts(const Path& path);
  void experts_backward(const Path& path);
  /// The two halves of it: what goes back to the sources, and what stays.
  void experts_input_gradients(const Path& path);
  void experts_weight_gradients(const Path& path);

  /// Tensor-parallel or expert-sharding collectives between the tokens of `path` and those of the whole group.
  void all_gather(GroupId group, OpClass op_class, const std::string& from, const std::string& to, const Path& path);
  void reduce_scatter(GroupId group, OpClass op_class, const std::string& from, const std::string& to,
                      const Path& path);

 private:
  [[nodiscard]] std::int64_t shard_hidden() const { return l_.moe.expert.hidden_size / l_.degrees.esp; }
  [[nodiscard]] std::int64_t up_columns() const { return (l_.moe.expert.gated ? 2 : 1) * shard_hidden(); }
  [[nodiscard]] Slice weight(const std::string& name, std::int64_t rows_each, std::int64_t columns);
  [[nodiscard]] Slice tokens(const std::string& name, std::int64_t columns, Dtype dtype, const Path& path);
  [[nodiscard]] Slice gate_weight(const std::string& name);
  /// Of each token its experts and their weights, and the gradient by these.
  [[nodiscard]] Slice choice(const Path& path);
  [[nodiscard]] Slice d_choice(const Path& path);
  /// The same of distinct rows, under way.
  [[nodiscard]] Slice choice_of(const std::string& name, const Slice& rows);
  [[nodiscard]] Slice d_choice_of(const std::string& name, const Slice& rows);
  [[nodiscard]] bool deduplicates() const { return l_.all_to_all->deduplicates(); }
  /// At the sources: all rows, or if they are distinct, those of each chunk.
  [[nodiscard]] std::vector<Slice> all_chunks(const std::string& name, const Path& path);
  /// Dense encoding's 0 and 1: a row a token, a column for each of the experts' rows. Encode makes it; it stays until
  /// the layer's backward has used it.
  [[nodiscard]] Slice mask(const Path& path, const Slice& expert_rows);
  [[nodiscard]] Gemm product(Gemm::Form form) const;
  /// Rows of the experts that the rank computes.
  [[nodiscard]] Slice hidden(const std::string& name, std::int64_t columns, const Path& path);
  [[nodiscard]] Gemm weight_gradient() const;
  void tell_loads(const Path& path);
  void activation_again(const Path& path);
  void down_input_gradient(const Path& path);
  void down_weight_gradient(const Path& path);
  void activation_backward(const Path& path);
  void up_weight_gradient(const Path& path);
  void up_input_gradient(const Path& path);

  const MoeLayer& l_;
  BlockBuilder& b_;
  bool has_weight_gradients_ = false;  // of a chunk of the layer
};

}  // namespace moeplan::planner
