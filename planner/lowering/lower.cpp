#include "planner/lowering/lower.hpp"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "model/base/to_index.hpp"
#include "planner/candidate/pipeline_tasks.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/layer/copy_parts.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/lowering/blocks/layer_writer.hpp"
#include "planner/lowering/blocks/lowering_context.hpp"
#include "planner/lowering/part_passes.hpp"
#include "planner/lowering/repeats.hpp"

namespace moeplan::planner {

namespace {

/// The layers before each part.
std::vector<PartPosition> layers_before(const std::vector<StagePart>& parts) {
  std::vector<PartPosition> before;
  PartPosition at;
  for (const StagePart& part : parts) {
    before.push_back(at);
    at.layers_before += static_cast<std::int64_t>(part.layers.size());
    at.moe_layers_before +=
        static_cast<std::size_t>(std::count_if(part.layers.begin(), part.layers.end(), [](const LayerSpec& layer) {
          return std::holds_alternative<Moe>(layer.ffn);
        }));
  }
  return before;
}

/// The position of part p, the own-th of a stage.
PartPosition position_of(std::size_t p, std::int64_t stage, std::int64_t own, const Candidate& candidate,
                         const std::vector<PartPosition>& before) {
  PartPosition out = before[p];
  const std::int64_t stages = candidate.degrees.pp;
  const bool goes_back = candidate.pipeline == PipelineShape::V && own == 1;
  if (p > 0) out.from_preceding = goes_back ? (stage + 1 < stages ? -1 : 0) : 1;
  if (p + 1 < before.size()) out.to_next = goes_back ? -1 : 1;
  if (candidate.pipeline == PipelineShape::V && own == 0 && stage + 1 == stages) out.to_next = 0;
  return out;
}

/// Writes the sequence of a stage from the passes through its parts.
class StageWriter {
 public:
  StageWriter(const LoweringContext& context, const ModelUnits& units, UnitBlocks& blocks,
              const std::vector<PartPasses>& parts, std::int64_t microbatches)
      : context_(context), units_(units), blocks_(blocks), parts_(parts), microbatches_(microbatches) {}

  /// The microbatches of a model in one part: each forward and backward before the next.
  void append_one_stage(Sequence& stage) const {
    const PartPasses& part = parts_.front();
    if (microbatches_ == 1) return append_repeat(stage, 1, joined(part.first_forward, part.last_backward));
    if (context_.candidate().ep_overlap) {
      append_repeat(stage, 1, part.first_forward);
      append_repeat(stage, microbatches_ - 1, paired_pass(context_, part, part, units_, blocks_));
      return append_repeat(stage, 1, part.last_backward);
    }
    const Sequence usual = joined(part.forward, part.backward);
    const Sequence first = joined(part.first_forward, part.backward);
    const Sequence last = joined(part.forward, part.last_backward);
    const std::int64_t begin = first == usual ? 0 : 1, end = last == usual ? 0 : 1;
    append_repeat(stage, begin, first);
    append_repeat(stage, microbatches_ - begin - end, usual);
    append_repeat(stage, end, last);
  }

  /// The microbatches of a pipeline stage in the order of its tasks.
  void append_tasks(Sequence& stage, const std::vector<PipelineTask>& tasks) const {
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (i + 1 < tasks.size() && are_paired(tasks[i], tasks[i + 1])) {
        append(stage, paired_pass(context_, part_of(tasks[i]), part_of(tasks[i + 1]), units_, blocks_));
        ++i;
      } else {
        append(stage, pass_of(tasks[i]));
      }
    }
  }

 private:
  static Sequence joined(Sequence first, const Sequence& second) {
    append(first, second);
    return first;
  }
  static void append(Sequence& sequence, const Sequence& steps) {
    sequence.insert(sequence.end(), steps.begin(), steps.end());
  }
  [[nodiscard]] const PartPasses& part_of(const PipelineTask& task) const {
    return parts_[static_cast<std::size_t>(task.part)];
  }
  [[nodiscard]] bool is_last(const PipelineTask& task) const { return task.microbatch == microbatches_ - 1; }
  [[nodiscard]] const Sequence& pass_of(const PipelineTask& task) const {
    const PartPasses& part = part_of(task);
    if (task.forward) return task.microbatch == 0 ? part.first_forward : part.forward;
    return is_last(task) ? part.last_backward : part.backward;
  }
  /// Whether a backward task runs concurrently with the forward task that follows it.
  [[nodiscard]] bool are_paired(const PipelineTask& task, const PipelineTask& next) const {
    return context_.candidate().ep_overlap && task.goes_with_next && !is_last(task) && next.microbatch > 0;
  }

  const LoweringContext& context_;
  const ModelUnits& units_;
  UnitBlocks& blocks_;
  const std::vector<PartPasses>& parts_;
  std::int64_t microbatches_;
};

std::vector<std::size_t> all_units(const std::vector<PartPasses>& parts) {
  std::vector<std::size_t> all;
  for (const PartPasses& part : parts) all.insert(all.end(), part.units.begin(), part.units.end());
  return all;
}

}  // namespace

LoweredIterations lower_iterations(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                                   std::int64_t ranks_per_node, const std::vector<std::int64_t>& microbatches) {
  LoweringContext context(model, workload, candidate, ranks_per_node);
  ModelUnits units(context);
  UnitBlocks blocks(context, units);
  const Degrees& d = candidate.degrees;
  const std::vector<std::size_t> kinds = routing_kinds(model, workload.recorded.has_value());
  const std::vector<StagePart> parts = stage_parts(model, workload, candidate);
  const std::vector<PartPosition> before = layers_before(parts);
  LoweredIterations out;
  out.stages.assign(microbatches.size(), std::vector<Sequence>(static_cast<std::size_t>(d.pp)));
  for (std::int64_t s = 0; s < d.pp; ++s) {
    StageParts of_stage;
    for (std::int64_t v = 0; v < candidate.virtual_stages; ++v) {
      const std::size_t p = to_index(part_of(candidate.pipeline, d.pp, s, v));
      of_stage.parts.push_back(parts[p]);
      of_stage.positions.push_back(position_of(p, s, v, candidate, before));
    }
    const std::vector<PartPasses> own = stage_passes(context, of_stage, kinds, units, blocks);
    for (std::size_t i = 0; i < microbatches.size(); ++i) {
      Sequence& stage = out.stages[i][static_cast<std::size_t>(s)];
      const StageWriter writer(context, units, blocks, own, microbatches[i]);
      if (parts.size() == 1) {
        writer.append_one_stage(stage);
      } else {
        writer.append_tasks(stage, pipeline_tasks(candidate, s, microbatches[i], context.trains()));
      }
    }
    if (!context.trains()) continue;
    const Step update{.block = blocks.update(all_units(own))};
    for (std::vector<Sequence>& stages : out.stages) stages[static_cast<std::size_t>(s)].push_back(update);
  }
  out.program = std::move(context).take_program();
  return out;
}

Program lower_iteration(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                        std::int64_t ranks_per_node) {
  const std::int64_t microbatches = workload.global_batch / (candidate.degrees.dp * candidate.micro_batch);
  LoweredIterations one = lower_iterations(model, workload, candidate, ranks_per_node, {microbatches});
  one.program.stages = std::move(one.stages.front());
  return std::move(one.program);
}

LoweredPasses lower_passes(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                           std::int64_t ranks_per_node, const std::optional<std::vector<std::size_t>>& units) {
  Workload on_gpu = workload;
  on_gpu.offload = Offload::None;
  LoweringContext context(model, on_gpu, candidate, ranks_per_node);
  ModelUnits of_model(context);
  UnitBlocks blocks(context, of_model);
  LoweredPasses out;
  const auto lower = [&](std::size_t unit) {
    out.forward.push_back(blocks.pass(unit, /*forward=*/true, {}));
    if (context.trains()) out.backward.push_back(blocks.pass(unit, /*forward=*/false, {}));
  };
  const std::vector<std::size_t> all =
      part_units(context, whole_model(model), {}, routing_kinds(model, workload.recorded.has_value()), of_model);
  if (units) {
    for (const std::size_t i : *units) lower(all[i]);
  } else {
    std::for_each(all.begin(), all.end(), lower);
  }
  out.program = std::move(context).take_program();
  return out;
}

LoweredEnds lower_ends(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                       std::int64_t ranks_per_node, const std::vector<std::vector<std::size_t>>& stages) {
  LoweringContext context(model, workload, candidate, ranks_per_node);
  ModelUnits units(context);
  UnitBlocks blocks(context, units);
  LoweredEnds out;
  const std::vector<std::size_t> all =
      part_units(context, whole_model(model), {}, routing_kinds(model, workload.recorded.has_value()), units);
  const ReplicaTransfers transfers = replica_transfers(context);
  for (const std::size_t unit : all) {
    if (transfers.gathers_always || transfers.gathers_once) out.gathers.push_back(blocks.gather_weights(unit));
    if (transfers.reduces_last) out.reductions.push_back(blocks.reduce_gradients(unit));
  }
  for (const std::vector<std::size_t>& stage : stages) {
    std::vector<std::size_t> held;
    for (const std::size_t i : stage) held.push_back(all[i]);
    out.updates.push_back(blocks.update(held));
  }
  out.program = std::move(context).take_program();
  return out;
}

Program lower_moe_layer(const Moe& moe, std::int64_t hidden_size, std::int64_t tokens, const Workload& workload,
                        const Candidate& candidate, std::int64_t ranks_per_node, bool moves_copies, std::size_t kind) {
  ModelSpec shell{};
  shell.hidden_size = hidden_size;
  LoweringContext context(shell, workload, candidate, ranks_per_node);
  MoeLayer layer = context.executed_layer(moe, kind, tokens);
  const Schedule& schedule = context.schedule_of(kind);
  const bool sends = context.trains() && moves_copies && context.has_copies(kind);
  Sequence& stage = context.program().stages.front();
  BlockBuilder forward(context.program(), "moe layer");
  layer.computes_copies_last = sends && context.has_blocking_transfers(kind);
  if (layer.computes_copies_last) {
    layer.during_dispatch = [&] {
      const std::vector<std::int32_t> before = forward.last();
      if (layer.copies_ready.empty()) send_own_copies(layer, forward);
      forward.continue_after(before);
    };
  } else if (sends) {
    send_own_copies(layer, forward);
  }
  layer.gathers_loads = context.replans() && sends;
  schedule.lower_forward(layer, forward);
  stage.push_back({.block = forward.finish()});
  if (context.trains()) {
    BlockBuilder backward(context.program(), "moe layer backward");
    layer.copies_ready.clear();
    layer.during_dispatch = {};
    layer.computes_copies_last = false;
    layer.gathers_loads = false;
    schedule.lower_backward(layer, backward);
    if (sends) CopyParts(layer, backward).collect_gradients();
    stage.push_back({.block = backward.finish(stage.back().block)});
  }
  return std::move(context).take_program();
}

}  // namespace moeplan::planner
