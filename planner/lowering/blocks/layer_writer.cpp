#include "planner/lowering/blocks/layer_writer.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "planner/layer/copy_parts.hpp"
#include "planner/layer/dense_parts.hpp"

namespace moeplan::planner {

namespace {

/// The residual stream between the mixer and the feed-forward part.
std::string middle(const LayerSpec& layer) { return has_mixer(layer) ? "x.mid" : "x"; }

}  // namespace

void write_experts(const Schedule& schedule, MoeLayer& layer, BlockBuilder& block, bool forward,
                   const std::function<void()>& shared_experts, const std::function<void()>& during) {
  std::vector<std::int32_t> shared;
  bool is_done = false;
  const std::vector<std::int32_t> ready = block.last();
  layer.during_dispatch = [&] {
    if (is_done) return;
    is_done = true;
    const std::vector<std::int32_t> before = block.last();
    if (layer.moe.shared.hidden_size > 0) {
      block.continue_after(ready);
      shared_experts();
      shared = block.last();
      block.continue_after(before);
    }
    if (during) during();
    block.continue_after(before);
  };
  forward ? schedule.lower_forward(layer, block) : schedule.lower_backward(layer, block);
  layer.during_dispatch();
  layer.during_dispatch = {};
  std::vector<std::int32_t> both = block.last();
  both.insert(both.end(), shared.begin(), shared.end());
  block.continue_after(both);
}

void send_copies(const MoeLayer& layer, BlockBuilder& block) {
  CopyParts copies(layer, block);
  copies.send_up();
  copies.send_down();
}

void send_own_copies(MoeLayer& layer, BlockBuilder& block) {
  send_copies(layer, block);
  layer.copies_ready = {CopyParts(layer, block).wait(/*at_start=*/false)};
}

void write_layer(LoweringContext& context, const ModelUnit& unit, const CopyTransfers& copies, BlockBuilder& block) {
  const LayerSpec& layer = *unit.layer;
  const std::size_t routing = unit.routing;
  const DenseParts d = context.dense(block, &layer, unit.recompute);
  const Ffn* ffn = std::get_if<Ffn>(&layer.ffn);
  const std::string mid = middle(layer);
  if (ffn && copies.next) send_copies(*copies.next, block);
  std::vector<std::int32_t> copies_ready;
  const bool sends_own = copies.waits && context.has_blocking_transfers(routing);
  if (copies.waits && !sends_own) {
    // Segments of pipelines start with their waits; without a pipeline only the experts wait.
    const MoeLayer own = context.moe_layer(*unit.moe(), routing, unit.recompute);
    copies_ready.push_back(CopyParts(own, block).wait(/*at_start=*/context.degrees().pp > 1));
  }
  if (has_mixer(layer)) d.mixer("x", has_ffn(layer) ? mid : "x");
  if (!has_ffn(layer)) return;
  d.read_residual(mid, "ffn.in");
  if (ffn) {
    d.ffn(*ffn, "ffn", OpClass::DenseFfn, "ffn.out");
    d.write_residual(mid, "ffn.out", "x");
    return;
  }
  d.to_latent(*unit.moe());
  MoeLayer moe = context.moe_layer(*unit.moe(), routing, unit.recompute);
  moe.copies_ready = std::move(copies_ready);
  moe.gathers_loads = copies.plans;
  if (copies.plans && context.has_blocking_transfers(routing)) moe.search_launches = context.search_launches(routing);
  moe.computes_copies_last = sends_own;
  write_experts(
      context.schedule_of(routing), moe, block, /*forward=*/true,
      [&] { d.ffn(moe.moe.shared, "shared", OpClass::SharedExpert, "shared.out"); },
      [&] {
        if (sends_own) send_own_copies(moe, block);
        if (copies.next) CopyParts(*copies.next, block).send_up();
      });
  if (copies.next) CopyParts(*copies.next, block).send_down();
  d.from_latent(moe.moe);
  if (moe.moe.shared.hidden_size > 0) d.add("moe.out", "shared.out", "moe.out");
  d.write_residual(mid, "moe.out", "x");
}

namespace {

/// The backward pass of the feed-forward part, from "d.x" to "d.ffn.in".
void write_ffn_backward(LoweringContext& context, const ModelUnit& unit, const CopyTransfers& copies,
                        BlockBuilder& block, const DenseParts& d) {
  const LayerSpec& layer = *unit.layer;
  const Recompute recompute = unit.recompute;
  const std::size_t routing = unit.routing;
  const std::string mid = middle(layer);
  if (const Ffn* ffn = std::get_if<Ffn>(&layer.ffn)) {
    d.write_residual_backward(mid, "ffn.out");
    if (recompute.has(RecomputeModule::Mlp)) d.ffn(*ffn, "ffn", OpClass::DenseFfn, "ffn.out");
    d.ffn_backward(*ffn, "ffn", OpClass::DenseFfn, "d.x", "d.ffn.in");
  } else {
    MoeLayer moe = context.moe_layer(*unit.moe(), routing, recompute);
    d.write_residual_backward(mid, "moe.out");
    const auto shared_again = [&] { d.ffn(moe.moe.shared, "shared", OpClass::SharedExpert, "shared.out"); };
    if (recompute.has(RecomputeModule::Moe))
      write_experts(context.schedule_of(routing), moe, block, /*forward=*/true, shared_again);
    d.from_latent_backward(moe.moe);
    write_experts(context.schedule_of(routing), moe, block, /*forward=*/false, [&] {
      if (recompute.has(RecomputeModule::SharedExperts) && !recompute.has(RecomputeModule::Moe)) shared_again();
      d.ffn_backward(moe.moe.shared, "shared", OpClass::SharedExpert, "d.x", "d.shared.in");
    });
    if (copies.collects) CopyParts(moe, block).collect_gradients();
    if (copies.collects && context.has_blocking_transfers(routing)) CopyParts(moe, block).wait(/*at_start=*/true);
    d.to_latent_backward(moe.moe);
    if (moe.moe.shared.hidden_size > 0) d.add("d.ffn.in", "d.shared.in", "d.ffn.in");
  }
}

}  // namespace

void write_layer_backward(LoweringContext& context, const ModelUnit& unit, const CopyTransfers& copies,
                          BlockBuilder& block) {
  const LayerSpec& layer = *unit.layer;
  const Recompute recompute = unit.recompute;
  const DenseParts d = context.dense(block, &layer, recompute);
  const std::string mid = middle(layer);
  // FlashAttention stores no scores in any case, and its backward FLOPs include their recomputation.
  const bool norms_again = recompute.has(RecomputeModule::Layernorm);
  if (has_ffn(layer)) {
    if (has_mixer(layer)) d.output_again("x", mid);
    if (norms_again) d.read_residual(mid, "ffn.in");
    write_ffn_backward(context, unit, copies, block, d);
    d.read_residual_backward(mid, "ffn.in", "d.ffn.x");
  }
  if (!has_mixer(layer)) return;
  if (norms_again) d.read_residual("x", "attn.in");
  if (recompute.has(RecomputeModule::MlaUpProjection)) d.latent_up_projections();
  d.heads_again();
  if (recompute.has(RecomputeModule::CoreAttention)) d.attention_core(DenseParts::CorePass::Again);
  d.mixer_backward("x");
}

void write_optimizer(const LoweringContext& context, const UnitParameters& parameters, bool clips,
                     BlockBuilder& block) {
  const ReplicaParts replicas = context.replica_parts(block);
  if (context.has_replicas()) {
    if (!context.workload().overlap_gradients) replicas.reduce_gradients(parameters);
    replicas.wait(OpClass::Gradient);
  }
  if (clips) replicas.clip_gradients(parameters);
  replicas.update(parameters);
}

}  // namespace moeplan::planner
