// The dense parts of a model on tensor-parallel ranks (Megatron-LM's column- and row-parallel layers): attention, dense
// FFN, embedding, output head, gradient traffic and optimizer.
//
// Every rank of a tensor-parallel group holds all `tokens` rows of the residual stream "x". [Megatron-LM] sec. 3: one
// all-reduce after attention and one after the FFN forward, as many backward.
#pragma once

#include "model/specs/model_spec.hpp"
#include "model/specs/workload.hpp"
#include "planner/block_builder.hpp"

namespace moeplan {

struct DenseParts {
  const ModelSpec& model;
  const Workload& workload;
  Degrees degrees;
  Groups groups;
  std::int64_t tokens;
  BlockBuilder& block;

  void attention(std::int64_t window) const;
  void attention_backward(std::int64_t window) const;
  /// The fused attention kernel alone: what selective recomputation runs again.
  void attention_core(std::int64_t window, bool backward) const;

  /// From "ffn.in" to "ffn.out" (and back) with a hidden size cut over the tensor-parallel ranks.
  void ffn(const Ffn& ffn, const std::string& prefix, OpClass op_class, const std::string& output) const;
  void ffn_backward(const Ffn& ffn, const std::string& prefix, OpClass op_class, const std::string& gradient,
                    const std::string& output) const;

  void norm(const std::string& from, const std::string& to) const;
  void norm_backward(const std::string& gradient, const std::string& input, const std::string& to) const;
  void add(const std::string& a, const std::string& b, const std::string& to) const;

  void embed() const;
  void embed_backward() const;
  void head() const;
  void head_backward() const;

  /// Gradients of `parameters` (on this rank) over the replicas, the optimizer's step, and what ZeRO gathers
  /// afterwards.
  void update(const std::string& name, double parameters, GroupId replicas) const;

 private:
  [[nodiscard]] Slice rows(const std::string& name, std::int64_t columns) const;
  [[nodiscard]] Slice x(const std::string& name) const { return rows(name, model.hidden_size); }
  [[nodiscard]] Slice weight(const std::string& name, std::int64_t in, std::int64_t out) const;
  void project(const std::string& name, OpClass op_class, const std::string& in, std::int64_t in_columns,
               const std::string& out, std::int64_t out_columns) const;
  void project_backward(const std::string& name, OpClass op_class, const std::string& in, std::int64_t in_columns,
                        const std::string& out, std::int64_t out_columns) const;
  void all_reduce(const std::string& what) const;
};

/// Columns of the attention projections on one tensor-parallel rank.
struct AttentionShape {
  std::int64_t query_columns;  // heads of the rank times the dimension of queries and keys
  std::int64_t key_columns;
  std::int64_t value_columns;         // heads of the rank times the dimension of values
  std::int64_t stored_value_columns;  // of the values as stored: fewer heads with grouped queries
};
[[nodiscard]] AttentionShape attention_shape(const ModelSpec& model, std::int64_t tp);

}  // namespace moeplan
