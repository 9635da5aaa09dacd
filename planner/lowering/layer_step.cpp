#include "planner/lowering/layer_step.hpp"

#include <algorithm>
#include <cassert>
#include <set>
#include <utility>
#include <vector>

#include "planner/layer/dense_parts.hpp"
#include "planner/layer/replica_parts.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/lowering/blocks/layer_writer.hpp"
#include "planner/lowering/blocks/lowering_context.hpp"

namespace moeplan::planner {

namespace {

/// The weights that a forward pass reads: rows of no token that it has not written itself.
std::vector<Slice> weights_read_by(const Block& forward) {
  std::set<BufferId> written, known;
  for (const Operation& operation : forward.operations) {
    for (const Slice& s : operation.writes) written.insert(s.buffer);
  }
  std::vector<Slice> out;
  for (const Operation& operation : forward.operations) {
    for (const Slice& s : operation.reads) {
      const bool is_weight = s.rows.kind == Rows::Kind::Fixed || s.rows.kind == Rows::Kind::PerExpert;
      if (is_weight && !written.contains(s.buffer) && known.insert(s.buffer).second) out.push_back(s);
    }
  }
  return out;
}

class StepWriter {
 public:
  StepWriter(LoweringContext& context, const Moe& moe, bool has_norm, std::int64_t tokens)
      : context_(context), has_norm_(has_norm), tokens_(tokens), layer_(context.executed_layer(moe, 0, tokens)) {}

  void write() {
    const std::int64_t zero_stage = context_.workload().zero_stage;
    const bool gathers = context_.has_replicas() && zero_stage >= 1;
    const BlockId forward = write_forward(gathers);
    const BlockId backward = write_backward(forward, gathers && zero_stage == 3);
    const BlockId update = write_update();
    Sequence& stage = context_.program().stages.front();
    if (gathers) stage.push_back({.block = write_gathering()});
    for (const BlockId block : {forward, backward, update}) stage.push_back({.block = block});
  }

 private:
  [[nodiscard]] DenseParts dense(BlockBuilder& block) const {
    DenseParts parts = context_.dense(block, nullptr, context_.recompute());
    parts.tokens = tokens_;
    parts.norms_read_weights = true;
    return parts;
  }
  [[nodiscard]] bool has_shared() const { return layer_.moe.shared.hidden_size > 0; }
  void write_shared(BlockBuilder& block) const {
    dense(block).ffn(layer_.moe.shared, "shared", OpClass::SharedExpert, "shared.out");
  }

  BlockId write_gathering() {
    BlockBuilder block(context_.program(), "moe layer weights");
    context_.replica_parts(block).gather_weights(parameters_);
    return block.finish();
  }

  BlockId write_forward(bool waits) {
    BlockBuilder block(context_.program(), "moe layer");
    if (waits) context_.replica_parts(block).wait(OpClass::WeightGather);
    if (has_norm_) dense(block).read_residual("x.mid", "ffn.in");
    write_experts(context_.schedule_of(0), layer_, block, /*forward=*/true, [&] { write_shared(block); });
    if (has_shared()) dense(block).add("moe.out", "shared.out", "moe.out");
    if (has_norm_) dense(block).write_residual("x.mid", "moe.out", "x");
    weights_ = weights_read_by(block.block());
    parameters_ = context_.replica_parts(block).place(weights_);
    return block.finish();
  }

  BlockId write_backward(BlockId forward, bool gathers) {
    BlockBuilder block(context_.program(), "moe layer backward");
    const ReplicaParts replicas = context_.replica_parts(block);
    if (gathers) {
      replicas.gather_weights(parameters_);
      replicas.wait(OpClass::WeightGather);
    }
    const Recompute recompute = context_.recompute();
    if (has_norm_ && recompute.has(RecomputeModule::Layernorm)) dense(block).read_residual("x.mid", "ffn.in");
    write_experts(context_.schedule_of(0), layer_, block, /*forward=*/false, [&] {
      if (recompute.has(RecomputeModule::SharedExperts)) write_shared(block);
      dense(block).ffn_backward(layer_.moe.shared, "shared", OpClass::SharedExpert, "d.moe.out", "d.shared.in");
    });
    if (has_shared()) dense(block).add("d.ffn.in", "d.shared.in", "d.ffn.in");
    if (has_norm_) {
      dense(block).norm_backward("d.ffn.in", "x.mid", "d.ffn.x");
      dense(block).add("d.moe.out", "d.ffn.x", "d.x");
    }
    replicas.place_gradients(weights_);
    if (context_.has_replicas() && context_.workload().overlap_gradients) replicas.reduce_gradients(parameters_);
    return block.finish(forward);
  }

  BlockId write_update() {
    BlockBuilder block(context_.program(), "optimizer");
    write_optimizer(context_, parameters_, /*clips=*/false, block);
    return block.finish();
  }

  LoweringContext& context_;
  bool has_norm_;
  std::int64_t tokens_;
  MoeLayer layer_;
  std::vector<Slice> weights_{};
  UnitParameters parameters_{};
};

}  // namespace

Program lower_layer_step(const Moe& moe, std::optional<Norm> norm, std::int64_t hidden_size, std::int64_t tokens,
                         const Workload& workload, const Candidate& candidate, std::int64_t ranks_per_node) {
  assert(workload.mode == Mode::Train && candidate.expert_places.empty() && "a step of training, without copies");
  ModelSpec shell{};
  shell.hidden_size = hidden_size;
  shell.norm = norm.value_or(Norm::Rms);
  Workload on_gpu = workload;
  on_gpu.offload = Offload::None;
  LoweringContext context(shell, on_gpu, candidate, ranks_per_node);
  StepWriter(context, moe, norm.has_value(), tokens).write();
  return std::move(context).take_program();
}

}  // namespace moeplan::planner
