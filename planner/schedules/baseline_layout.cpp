#include "planner/schedules/baseline_layout.hpp"

namespace moeplan::planner {

namespace {

std::string gathered(const std::string& name, const MoeLayer& l) {
  return l.degrees.esp > 1 ? name + ".gathered" : name;
}

Path own(const MoeLayer& l) { return {union_of(l.groups.tp)}; }
Path sources(const MoeLayer& l) { return prepend(union_of(l.groups.esp), own(l)); }

}  // namespace

ExpertRound BaselineLayout::round(std::int64_t chunks) const {
  ExpertRound out;
  out.order = task_by_task(chunks);
  return out;
}

void BaselineLayout::lower_forward(const MoeLayer& l, BlockBuilder& b) const {
  MoeParts parts(l, b);
  const std::string input = gathered("ffn.in", l);
  parts.all_gather(l.groups.esp, OpClass::ExpertSharding, "ffn.in", input, own(l));
  parts.gate(input, sources(l));
  parts.encode(input, sources(l));
  ExpertRound expert_round = round(std::ssize(l.chunks));
  if (expert_round.by_groups && l.computes_copies_last)
    expert_round.order = opt_sche_first_chunk_last(std::ssize(l.chunks));
  expert_round.group = l.groups.ep;
  expert_round.sources = sources(l);
  expert_round.after_experts = [&](std::int64_t, const Path& held) {
    if (l.degrees.esp == 1) return;
    const Slice out = parts.routed("expert.out", Rows::Experts::Local, held);
    b.then(collective("expert all-reduce", OpClass::ExpertSharding, Stream::Intra,
                      {.collective = Collective::AllReduce, .group = l.groups.esp}, out, out));
  };
  append(expert_round, l, b);
  parts.decode(sources(l), "moe.out");
}

void BaselineLayout::lower_backward(const MoeLayer& l, BlockBuilder& b) const {
  MoeParts parts(l, b);
  const std::string gradient = gathered("d.ffn.in", l);
  parts.all_gather(l.groups.esp, OpClass::ExpertSharding, "d.moe.out", gathered("d.moe.out", l), own(l));
  parts.decode_backward(gathered("d.moe.out", l), sources(l));
  ExpertRound expert_round = round(std::ssize(l.chunks));
  expert_round.group = l.groups.ep;
  expert_round.sources = sources(l);
  expert_round.backward = true;
  append(expert_round, l, b);
  parts.encode_backward(gradient, sources(l));
  parts.reduce_scatter(l.groups.esp, OpClass::ExpertSharding, gradient, "d.ffn.in", own(l));
  // The gate's gradient is the same on all shards; each adds that of its own tokens afterwards.
  parts.gate_backward("ffn.in", "d.ffn.in", own(l));
}

}  // namespace moeplan::planner
