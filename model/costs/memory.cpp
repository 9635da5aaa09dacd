#include "model/costs/memory.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "model/base/whole_numbers.hpp"
#include "model/program/resolve.hpp"

namespace moeplan {

namespace {

/// The largest slice of each buffer that an operation touches, as an operation's slices name it.
using Touched = std::map<BufferId, std::vector<const Slice*>>;

std::int64_t largest(const Program& program, const std::vector<const Slice*>& slices, RankId rank) {
  std::int64_t bytes = 0;
  for (const Slice* s : slices) bytes = std::max(bytes, byte_count(program, *s, rank));
  return bytes;
}

/// Buffers that a block reads before it has written them.
std::set<BufferId> read_first(const Block& block) {
  std::set<BufferId> first, written;
  for (const Operation& op : block.operations) {
    for (const Slice& s : op.reads) {
      if (!written.contains(s.buffer)) first.insert(s.buffer);
    }
    for (const Slice& s : op.writes) written.insert(s.buffer);
  }
  return first;
}

Touched written_by(const Block& block) {
  Touched touched;
  for (const Operation& op : block.operations) {
    for (const Slice& s : op.writes) touched[s.buffer].push_back(&s);
  }
  return touched;
}

/// Ranks whose rows may differ: one of each, where every rank has the same counts.
std::vector<RankId> ranks_that_differ(const Program& program) {
  const bool equal = std::all_of(program.routings.begin(), program.routings.end(), [&](const RoutingTable& t) {
    return t.counts.is_uniform() && t.counts.experts() % program.group(t.holders).size == 0;
  });
  std::vector<RankId> ranks;
  for (std::int64_t r = 0; r < (equal ? 1 : program.world_size); ++r)
    ranks.push_back(RankId(static_cast<std::int32_t>(r)));
  return ranks;
}

}  // namespace

RankParameters rank_parameters(const ModelSpec& model, const Degrees& degrees) {
  double experts = 0, held = 0;
  for (const LayerRun& run : model.layers) {
    for (const LayerSpec& layer : run.pattern) {
      const Moe* moe = std::get_if<Moe>(&layer.ffn);
      if (!moe) continue;
      const auto one = static_cast<double>(ffn_parameters(moe->expert, model.hidden_size));
      const auto times = static_cast<double>(run.repeat);
      experts += times * static_cast<double>(moe->num_experts) * one;
      held += times * static_cast<double>(ceil_div(moe->num_experts, degrees.ep)) * one;
    }
  }
  const auto total = static_cast<double>(count_parameters(model).total);
  return {(total - experts) / static_cast<double>(degrees.tp), held / static_cast<double>(degrees.esp)};
}

std::int64_t optimizer_states(const Workload& workload) {
  const std::int64_t moments = workload.optimizer == Optimizer::Adam ? 2 : 1;
  return moments + (size_of(workload.dtype) < 4 ? 1 : 0);
}

MemoryUse state_memory(const ModelSpec& model, const Workload& workload, const Degrees& degrees) {
  const RankParameters p = rank_parameters(model, degrees);
  MemoryUse use{};
  use.weights = Bytes((p.dense + p.expert) * static_cast<double>(size_of(workload.dtype)));
  if (workload.mode == Mode::Forward) return use;
  use.gradients = Bytes((p.dense + p.expert) * 4);
  const bool sharded = workload.zero_stage >= 1;
  const double dense = sharded ? p.dense / static_cast<double>(degrees.dp * degrees.cp) : p.dense;
  const double expert = sharded ? p.expert / static_cast<double>(degrees.edp) : p.expert;
  use.optimizer = Bytes((dense + expert) * 4 * static_cast<double>(optimizer_states(workload)));
  return use;
}

MemoryUse memory_use(const Program& program, const ModelSpec& model, const Workload& workload, const Degrees& degrees,
                     std::int64_t microbatches) {
  MemoryUse use = state_memory(model, workload, degrees);
  const std::vector<std::int64_t> counts = block_counts(program);
  std::vector<std::set<BufferId>> kept(program.blocks.size());
  for (const Block& block : program.blocks) {
    if (block.backward_of) kept[block.backward_of->index()] = read_first(block);
  }
  // The flat buffers of the update block are the weights, gradients and states counted above.
  for (const RankId rank : ranks_that_differ(program)) {
    double activations = 0, working = 0;
    for (std::size_t b = 0; b < program.blocks.size(); ++b) {
      const bool is_update = std::any_of(program.blocks[b].operations.begin(), program.blocks[b].operations.end(),
                                         [](const Operation& op) { return op.op_class == OpClass::Optimizer; });
      if (is_update) continue;
      double saved = 0, rest = 0;
      for (const auto& [buffer, slices] : written_by(program.blocks[b])) {
        const bool weights =
            slices.front()->rows.kind == Rows::Kind::LocalExperts || program.buffer(buffer).name.starts_with("d.w.");
        if (weights) continue;
        const auto bytes = static_cast<double>(largest(program, slices, rank));
        (kept[b].contains(buffer) ? saved : rest) += bytes;
      }
      activations += saved * static_cast<double>(counts[b] / std::max<std::int64_t>(1, microbatches));
      working = std::max(working, rest);
    }
    if (activations + working > (use.activations + use.working).value()) {
      use.activations = Bytes(activations);
      use.working = Bytes(working);
    }
  }
  return use;
}

}  // namespace moeplan
