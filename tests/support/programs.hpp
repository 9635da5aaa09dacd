// Small Programs that several tests share.
#pragma once

#include <utility>

#include "model/program/program.hpp"

namespace moeplan::tests {

inline constexpr std::int64_t kColumns = 64, kHidden = 96;  // row widths of tokens and inside an expert

/// Tokens by source and expert of a table, summed over all slots of an expert.
inline RoutingCounts expert_counts(const RoutingTable& table) {
  if (table.slots.empty()) return table.counts;
  const std::int64_t sources = table.counts.sources(), experts = table.num_experts();
  std::vector<std::int64_t> sums(static_cast<std::size_t>(sources * experts), 0);
  for (std::size_t slot = 0; slot < table.slots.size(); ++slot) {
    if (!table.slots[slot]) continue;
    for (std::int64_t s = 0; s < sources; ++s) {
      sums[static_cast<std::size_t>(s * experts) + table.slots[slot]->expert.index()] +=
          table.counts.at(RankId(static_cast<std::int32_t>(s)), ExpertId(slot));
    }
  }
  return RoutingCounts::dense(sources, experts, std::move(sums));
}

/// An all-to-all over group 0 on the inter-node stream.
inline Operation all_to_all(const char* name, OpClass op_class, Slice from, Slice to) {
  Operation op;
  op.name = name;
  op.op_class = op_class;
  op.stream = Stream::Inter;
  op.work = Communication{.collective = Collective::AllToAll, .group = GroupId(0)};
  op.reads = {std::move(from)};
  op.writes = {std::move(to)};
  return op;
}

/// The forward pass of one MoE layer, repeated `layers` times, then an all-reduce of gradients. Each group of `ep`
/// consecutive ranks holds all experts. Group 0 is "ep"; group 1, "dp", joins the ranks at equal positions in these.
/// Buffers: 0 x, 1 dispatched, 2 w, 3 hidden, 4 y (all bf16), 5 gradients (fp32).
inline Program moe_program(std::int64_t world, std::int64_t ep, RoutingCounts counts, std::int64_t layers = 1) {
  using Experts = Rows::Experts;
  Program p;
  p.world_size = world;
  p.groups = {{"ep", ep, 1}, {"dp", world / ep, ep}};
  p.routings = {{std::move(counts), GroupId(0)}};
  p.buffers = {{"x", kColumns, Dtype::Bf16},     {"dispatched", kColumns, Dtype::Bf16}, {"w", kHidden, Dtype::Bf16},
               {"hidden", kHidden, Dtype::Bf16}, {"y", kColumns, Dtype::Bf16},          {"gradients", 1, Dtype::Fp32}};
  const RoutingId routing(0);
  const Rows mine = Rows::routed(routing, Experts::All, {});
  const Rows held = Rows::routed(routing, Experts::Local, {{.kind = RowStep::Kind::Union, .group = GroupId(0)}});
  Operation dispatch = all_to_all("dispatch", OpClass::Dispatch, {BufferId(0), mine}, {BufferId(1), held});
  Operation expert;
  expert.name = "expert";
  expert.op_class = OpClass::Expert;
  expert.work = Gemm{.form = Gemm::Form::NN, .grouped = true};
  expert.reads = {{BufferId(1), held}, {BufferId(2), Rows::per_expert(routing, kColumns)}};
  expert.writes = {{BufferId(3), held}};
  expert.after = {0};
  Operation combine = all_to_all("combine", OpClass::Combine, {BufferId(1), held}, {BufferId(4), mine});
  combine.after = {1};
  Operation reduce;
  reduce.name = "gradients";
  reduce.op_class = OpClass::Gradient;
  reduce.stream = Stream::Inter;
  reduce.work = Communication{.collective = Collective::AllReduce, .group = GroupId(1)};
  reduce.reads = reduce.writes = {{BufferId(5), Rows::fixed(1 << 20)}};
  p.blocks = {{"layer", {dispatch, expert, combine}}, {"update", {reduce}}};
  p.stages.front() = {{.block = {}, .count = layers, .body = {{.block = BlockId(0)}}}, {.block = BlockId(1)}};
  return p;
}

}  // namespace moeplan::tests
