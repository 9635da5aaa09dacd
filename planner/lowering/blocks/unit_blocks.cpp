#include "planner/lowering/blocks/unit_blocks.hpp"

#include <fmt/format.h>

#include <string>

#include "planner/lowering/blocks/launches.hpp"
#include "planner/lowering/blocks/layer_writer.hpp"
#include "planner/lowering/blocks/paired_blocks.hpp"

namespace moeplan::planner {

BlockId UnitBlocks::pass(std::size_t index, bool forward, const UnitDuties& duties) {
  Passes& known = passes_[index];
  if (const auto it = known.blocks.find({forward, duties}); it != known.blocks.end()) return it->second;
  const ModelUnit& unit = units_[index];
  std::string name = unit.name + (forward ? "" : " backward");
  if (duties.gathers) name += ", gathering weights";
  if (duties.sends_copies) name += ", sending copies";
  if (duties.reduces || duties.reduces_preceding) name += ", reducing gradients";
  BlockBuilder block(context_.program(), name);
  const ReplicaParts replicas = context_.replica_parts(block);
  if (duties.waits_for_weights) {
    replicas.wait(OpClass::WeightGather);
    replicas.copy_out(unit.parameters);
  }
  if (duties.gathers) replicas.gather_weights(units_[*duties.gathers].parameters);
  if (duties.reduces_preceding) reduce_gradients(units_[*duties.reduces_preceding].parameters, block);
  const std::vector<OffloadedModule>& away = offloaded(index);
  if (!forward) begin_with_copies(away, block);
  forward ? write_forward(unit, duties, block) : write_backward(unit, duties, block);
  forward ? copy_to_host(away, block) : copy_from_host(away, block);
  if (duties.reduces) reduce_gradients(unit.parameters, block);
  const CudaGraphs& graphs = context_.workload().cuda_graphs;
  launch(launched_operations(block.block(), context_.workload()) +
             (unit.layer ? checkpoints(context_.model(), *unit.layer, unit.recompute, graphs) : 0),
         block);
  const BlockId id = forward ? block.finish(std::nullopt, known.forward) : block.finish(known.forward);
  if (!known.forward) known.forward = id;
  known.blocks[{forward, duties}] = id;
  return id;
}

BlockId UnitBlocks::pair(std::size_t backward, std::size_t forward) {
  const auto [it, is_new] = pairs_.try_emplace({backward, forward});
  if (is_new) {
    const BlockId on = pass(forward, /*forward=*/true, {}), back = pass(backward, /*forward=*/false, {});
    std::vector<Block>& blocks = context_.program().blocks;
    blocks.push_back(paired(blocks[back.index()], blocks[on.index()], context_.candidate().delays_weight_gradients));
    it->second = BlockId(blocks.size() - 1);
  }
  return it->second;
}

const std::vector<OffloadedModule>& UnitBlocks::offloaded(std::size_t unit) {
  const auto [it, is_new] = offloaded_.try_emplace(unit);
  if (is_new && !units_[unit].keeps) {
    BlockBuilder forward(context_.program(), ""), backward(context_.program(), "");
    write_forward(units_[unit], {}, forward);
    write_backward(units_[unit], {}, backward);
    it->second = planner::offloaded(context_.program(), context_.workload().offload, forward.block(), backward.block());
  }
  return it->second;
}

void UnitBlocks::launch(std::int64_t operations, BlockBuilder& block) const {
  const bool is_modelled = context_.trains() && !context_.workload().cuda_graphs.has(GraphModule::WholeIteration);
  if (is_modelled && operations > 0) block.after({}, launches(operations));
}

void UnitBlocks::write_forward(const ModelUnit& unit, const UnitDuties& duties, BlockBuilder& block) {
  CopyTransfers copies{.plans = duties.plans_placement, .waits = duties.waits_for_copies};
  if (duties.sends_copies) copies.next = moe_layer(*duties.sends_copies);
  if (unit.layer) return write_layer(context_, unit, copies, block);
  if (copies.next) planner::send_copies(*copies.next, block);
  if (unit.is_mtp_input) return context_.dense(block).mtp_input();
  unit.is_head ? context_.dense(block).head() : context_.dense(block).embed();
}

void UnitBlocks::write_backward(const ModelUnit& unit, const UnitDuties& duties, BlockBuilder& block) {
  if (unit.is_mtp_input) return context_.dense(block).mtp_input_backward();
  if (!unit.layer) {
    return unit.is_head ? context_.dense(block).head_backward() : context_.dense(block).embed_backward();
  }
  if (unit.recompute.has(RecomputeModule::WholeLayer)) write_layer(context_, unit, {}, block);
  write_layer_backward(context_, unit, {.collects = duties.collects_copies}, block);
}

BlockId UnitBlocks::once(std::map<std::size_t, BlockId>& known, std::size_t unit, const char* suffix,
                         const std::function<void(BlockBuilder&)>& write) {
  const auto [it, is_new] = known.try_emplace(unit);
  if (is_new) {
    BlockBuilder block(context_.program(), units_[unit].name + suffix);
    write(block);
    it->second = block.finish();
  }
  return it->second;
}

BlockId UnitBlocks::gather_weights(std::size_t unit) {
  return once(gathers_, unit, " weights",
              [&](BlockBuilder& block) { context_.replica_parts(block).gather_weights(units_[unit].parameters); });
}

BlockId UnitBlocks::reduce_gradients(std::size_t unit) {
  return once(reductions_, unit, " gradients",
              [&](BlockBuilder& block) { reduce_gradients(units_[unit].parameters, block); });
}

void UnitBlocks::reduce_gradients(const UnitParameters& parameters, BlockBuilder& block) const {
  context_.replica_parts(block).average_gradients(parameters);
  context_.replica_parts(block).reduce_gradients(parameters);
}

BlockId UnitBlocks::send_copies(std::size_t unit) {
  return once(copies_, unit, " copies", [&](BlockBuilder& block) { planner::send_copies(moe_layer(unit), block); });
}

BlockId UnitBlocks::message(bool forward, bool sends, std::int64_t shift) {
  const auto [it, is_new] = messages_.try_emplace({forward, sends, shift});
  if (!is_new) return it->second;
  const std::string name = fmt::format("{} {}", sends ? "send" : "receive", forward ? "activations" : "gradients");
  const GroupId stages = context_.groups().stages;
  BlockBuilder block(context_.program(), name);
  const Slice message = context_.dense(block).residual(forward ? "x" : "d.x");
  const std::int32_t channel = forward ? 0 : 1;
  Operation op{.name = name,
               .op_class = OpClass::Pipeline,
               .stream = sends ? Stream::Pipeline : Stream::Compute,
               .work = Send{stages, shift, channel},
               .reads = {},
               .writes = {},
               .after = {}};
  if (sends) {
    op.reads = {message};
  } else {
    op.work = Receive{stages, shift, channel};
    op.writes = {message};
  }
  block.then(std::move(op));
  it->second = block.finish();
  return it->second;
}

std::int64_t UnitBlocks::tensors_of(std::size_t unit) const {
  const auto known = passes_.find(unit);
  if (known == passes_.end()) return 0;
  for (const auto& [key, block] : known->second.blocks) {
    if (!key.first) return updated_tensors(context_.program(), context_.program().blocks[block.index()]);
  }
  return 0;
}

BlockId UnitBlocks::update(const std::vector<std::size_t>& units) {
  UnitParameters sum;
  for (const std::size_t u : units) sum += units_[u].parameters;
  for (const auto& [known, id] : updates_) {
    if (known == sum) return id;
  }
  BlockBuilder block(context_.program(), "optimizer");
  const ReplicaParts replicas = context_.replica_parts(block);
  const bool at_once = !context_.workload().overlap_gradients;
  if (at_once) replicas.average_gradients(sum);
  write_optimizer(context_, sum, /*clips=*/true, block);
  replicas.clear_gradients(sum);
  if (at_once && context_.has_replicas() && context_.workload().zero_stage > 0) {
    replicas.gather_weights(sum);
    replicas.wait(OpClass::WeightGather);
  }
  std::int64_t tensors = 0;
  for (const std::size_t u : units) tensors += tensors_of(u);
  launch(launched_updates(tensors, context_.workload()), block);
  updates_.emplace_back(sum, block.finish());
  return updates_.back().second;
}

}  // namespace moeplan::planner
