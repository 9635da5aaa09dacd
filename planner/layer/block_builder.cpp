#include "planner/layer/block_builder.hpp"

#include <algorithm>
#include <cassert>

namespace moeplan::planner {

Groups add_groups(Program& program, const Degrees& d, RankOrder rank_order) {
  const bool replicas_inner = rank_order == RankOrder::ReplicasInner;
  assert((!replicas_inner || d.esp == 1) && "shards are neighbours");
  const std::int64_t holders = replicas_inner ? d.edp : 1;  // consecutive ranks that hold the same experts
  const auto add = [&](const char* name, std::int64_t size, std::int64_t stride) {
    program.groups.push_back({name, size, stride});
    return GroupId(program.groups.size() - 1);
  };
  Groups groups;
  groups.tp = add("tp", d.tp, 1);
  groups.cp = add("cp", d.cp, d.tp);
  groups.dp_cp = add("dp_cp", d.dp * d.cp, d.tp);
  groups.esp = add("esp", d.esp, 1);
  groups.ep = add("ep", d.ep, d.esp * holders);
  groups.ep_esp = add("ep_esp", d.ep * d.esp, holders);
  groups.edp = add("edp", d.edp, replicas_inner ? 1 : d.ep * d.esp);
  groups.stages = add("stages", d.pp, d.ranks_per_stage());
  groups.own = add("own", 1, 1);
  return groups;
}

Operation gemm(std::string name, OpClass op_class, Gemm work, Slice a, Slice b, Slice c) {
  return {.name = std::move(name),
          .op_class = op_class,
          .stream = Stream::Compute,
          .work = work,
          .reads = {std::move(a), std::move(b)},
          .writes = {std::move(c)},
          .after = {}};
}

Operation kernel(std::string name, OpClass op_class, Kernel work, std::vector<Slice> reads, std::vector<Slice> writes) {
  return {.name = std::move(name),
          .op_class = op_class,
          .stream = Stream::Compute,
          .work = work,
          .reads = std::move(reads),
          .writes = std::move(writes),
          .after = {}};
}

Operation launched_as(std::int64_t kernels, Operation operation) {
  operation.kernels = kernels;
  return operation;
}

Operation collective(std::string name, OpClass op_class, Stream stream, Communication work, Slice in, Slice out) {
  return {.name = std::move(name),
          .op_class = op_class,
          .stream = stream,
          .work = work,
          .reads = {std::move(in)},
          .writes = {std::move(out)},
          .after = {}};
}

Operation host_copy(std::string name, std::vector<Slice> reads, std::vector<Slice> writes) {
  return {.name = std::move(name),
          .op_class = OpClass::Offload,
          .stream = Stream::HostMemory,
          .work = HostCopy{},
          .reads = std::move(reads),
          .writes = std::move(writes),
          .after = {}};
}

BufferId BlockBuilder::buffer(const std::string& name, std::int64_t columns, Dtype dtype) {
  auto& buffers = program_.buffers;
  const auto it = std::find_if(buffers.begin(), buffers.end(), [&](const Buffer& b) {
    return b.name == name && b.columns == columns && b.dtype == dtype;
  });
  if (it != buffers.end()) return BufferId(static_cast<std::size_t>(it - buffers.begin()));
  buffers.push_back({name, columns, dtype});
  return BufferId(buffers.size() - 1);
}

GroupId BlockBuilder::group(const std::string& name, std::int64_t size, std::int64_t stride) {
  auto& groups = program_.groups;
  const GroupFamily family{name, size, stride};
  const auto it = std::find(groups.begin(), groups.end(), family);
  if (it != groups.end()) return GroupId(static_cast<std::size_t>(it - groups.begin()));
  groups.push_back(family);
  return GroupId(groups.size() - 1);
}

std::int32_t BlockBuilder::then(Operation operation) { return after(last_, std::move(operation)); }

std::int32_t BlockBuilder::after(std::vector<std::int32_t> dependencies, Operation operation) {
  operation.after = std::move(dependencies);
  block_.operations.push_back(std::move(operation));
  last_ = {static_cast<std::int32_t>(block_.operations.size() - 1)};
  return last_.front();
}

void BlockBuilder::make_parts(std::size_t first, std::int64_t parts) {
  for (std::size_t i = first; i < block_.operations.size(); ++i) {
    if (block_.operations[i].computes()) block_.operations[i].parts = parts;
  }
}

bool BlockBuilder::last_writes(Kernel kernel, const Slice& rows) const {
  if (block_.operations.empty()) return false;
  const Operation& last = block_.operations.back();
  return last.work == decltype(last.work)(kernel) &&
         std::find(last.writes.begin(), last.writes.end(), rows) != last.writes.end();
}

void BlockBuilder::also_writes(const std::vector<Slice>& rows) {
  std::vector<Slice>& writes = block_.operations.back().writes;
  writes.insert(writes.end(), rows.begin(), rows.end());
}

BlockId BlockBuilder::finish(std::optional<BlockId> backward_of, std::optional<BlockId> variant_of) {
  block_.backward_of = backward_of;
  block_.variant_of = variant_of;
  program_.blocks.push_back(std::move(block_));
  return BlockId(program_.blocks.size() - 1);
}

}  // namespace moeplan::planner
