#include "model/costs/parm.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "model/costs/estimate.hpp"

namespace moeplan {

namespace {

struct ParmGroup {
  std::int64_t size;
  std::int64_t stride;
};

/// Megatron-LM's rank order: shards are neighbours, then expert-parallel ranks.
ParmGroup group_of(const ParmProblem& p, ParmCollective collective) {
  switch (collective) {
    case ParmCollective::AllToAllEp: return {p.N_EP, p.N_ESP};
    case ParmCollective::AllToAllEpEsp:
    case ParmCollective::Overlapped: return {p.N_EP * p.N_ESP, 1};
    case ParmCollective::AllGatherEsp:
    case ParmCollective::ReduceScatterEsp:
    case ParmCollective::AllReduceEsp: return {p.N_ESP, 1};
    case ParmCollective::AllGatherMp: return {p.N_MP, 1};
  }
  return {1, 1};
}

Collective kind_of(ParmCollective collective) {
  switch (collective) {
    case ParmCollective::AllToAllEp:
    case ParmCollective::AllToAllEpEsp:
    case ParmCollective::Overlapped: return Collective::AllToAll;
    case ParmCollective::AllGatherEsp:
    case ParmCollective::AllGatherMp: return Collective::AllGather;
    case ParmCollective::ReduceScatterEsp: return Collective::ReduceScatter;
    case ParmCollective::AllReduceEsp: return Collective::AllReduce;
  }
  return Collective::AllToAll;
}

/// Zero for a group of one.
Seconds parm_cost(const ParmProblem& problem, const ParmCosts& costs, ParmCollective collective, Bytes n) {
  return group_of(problem, collective).size == 1 ? Seconds(0) : costs(collective, n);
}

/// Appends a communication over n bytes to the program's only block, on a stream of its own.
void append_communication(Program& program, Communication communication, ParmGroup group, Bytes n, Stream stream) {
  const auto id = static_cast<std::int32_t>(program.groups.size());
  program.groups.push_back({"group", group.size, group.stride});
  program.buffers.push_back({"data", 1, Dtype::Int8});
  communication.group = GroupId(id);
  const bool gathers = communication.collective == Collective::AllGather;
  const double input = gathers ? n.value() / static_cast<double>(group.size) : n.value();
  const Slice data{BufferId(program.buffers.size() - 1), Rows::fixed(static_cast<std::int64_t>(std::llround(input)))};
  program.blocks.front().operations.push_back({.name = "collective",
                                               .op_class = OpClass::Dispatch,
                                               .stream = stream,
                                               .work = communication,
                                               .reads = {data},
                                               .writes = {data},
                                               .after = {}});
}

Program one_collective_block(const Cluster& cluster, std::int64_t world) {
  Program program;
  program.world_size = world;
  program.ranks_per_node = cluster.ranks_per_node();
  program.blocks.push_back({.name = "collectives", .operations = {}});
  program.stages.front().push_back({.block = BlockId(0)});
  return program;
}

}  // namespace

Bytes ParmProblem::blm() const {
  return Bytes(static_cast<double>(B) * static_cast<double>(L) * static_cast<double>(M) * static_cast<double>(b));
}

Bytes ParmProblem::etm() const { return blm() * (f * static_cast<double>(k)); }

Bytes ParmProblem::y() const { return etm() * (static_cast<double>(N_ESP) / static_cast<double>(N_MP)); }

ParmCosts parm_costs(const ParmProblem& problem, const ParmAlphaBeta& measured) {
  return [problem, measured](ParmCollective collective, Bytes n) {
    switch (collective) {
      case ParmCollective::AllToAllEp: return measured.all_to_all_ep.time(n);
      case ParmCollective::AllToAllEpEsp: return measured.all_to_all_ep_esp.time(n);
      case ParmCollective::AllGatherEsp: return measured.all_gather_esp.time(n);
      case ParmCollective::ReduceScatterEsp: return measured.reduce_scatter_esp.time(n);
      case ParmCollective::AllReduceEsp: return measured.all_reduce_esp.time(n);
      case ParmCollective::AllGatherMp: return measured.all_gather_mp.time(n);
      case ParmCollective::Overlapped: break;
    }
    if (measured.overlapped) return measured.overlapped->time(n);
    return measured.all_to_all_ep_esp.time(n) + measured.all_gather_mp.time(problem.etm());
  };
}

ParmCosts parm_costs(const ParmProblem& problem, const Cluster& cluster) {
  return [problem, &cluster](ParmCollective collective, Bytes n) {
    const ParmGroup group = group_of(problem, collective);
    if (collective != ParmCollective::Overlapped) {
      return group_collective_time(cluster, problem.P, kind_of(collective), group.size, group.stride, n);
    }
    Program both = one_collective_block(cluster, problem.P);
    append_communication(both, {.collective = Collective::AllToAll}, group, n, Stream::Inter);
    append_communication(both, {.collective = Collective::AllGather}, group_of(problem, ParmCollective::AllGatherMp),
                         problem.etm(), Stream::Intra);
    const Estimate e = estimate(both, cluster);
    return std::max(e.closed_form, e.links);
  };
}

Seconds group_collective_time(const Cluster& cluster, std::int64_t world, Collective collective, std::int64_t size,
                              std::int64_t stride, Bytes n) {
  return group_part_time(cluster, world, {.collective = collective}, size, stride, n);
}

Seconds group_part_time(const Cluster& cluster, std::int64_t world, const Communication& part, std::int64_t size,
                        std::int64_t stride, Bytes n) {
  assert(world % (size * stride) == 0 && "groups cover the ranks");
  if (size == 1) return Seconds(0);
  Program program = one_collective_block(cluster, world);
  append_communication(program, part, {size, stride}, n, Stream::Inter);
  return estimate(program, cluster).closed_form;
}

Seconds parm_baseline_time(const ParmProblem& p, const ParmCosts& costs, ParmGathered gathered) {
  const double shards = static_cast<double>(p.N_ESP);
  const Bytes first = gathered == ParmGathered::Blm ? p.blm() : p.etm();
  return parm_cost(p, costs, ParmCollective::AllGatherEsp, first * shards) +
         parm_cost(p, costs, ParmCollective::AllReduceEsp, p.etm() * shards) +
         parm_cost(p, costs, ParmCollective::AllToAllEp, p.etm() * shards) * 2;
}

Seconds parm_s1_time(const ParmProblem& p, const ParmCosts& costs) {
  return parm_cost(p, costs, ParmCollective::AllToAllEpEsp, p.y()) * 2 +
         parm_cost(p, costs, ParmCollective::AllGatherMp, p.blm());
}

Seconds parm_s2_time(const ParmProblem& p, const ParmCosts& costs) {
  if (p.N_MP == 1) return parm_s1_time(p, costs);
  if (p.N_EP * p.N_ESP == 1) return parm_s2_time_in_turn(p, costs);  // nothing to overlap with the all-gather
  return parm_cost(p, costs, ParmCollective::AllToAllEpEsp, p.y()) +
         parm_cost(p, costs, ParmCollective::Overlapped, p.y());
}

Seconds parm_s2_time_in_turn(const ParmProblem& p, const ParmCosts& costs) {
  return parm_cost(p, costs, ParmCollective::AllToAllEpEsp, p.y()) * 2 +
         parm_cost(p, costs, ParmCollective::AllGatherMp, p.etm());
}

Seconds parm_t_d1(const ParmProblem& p, AlphaBeta all_to_all, AlphaBeta all_gather) {
  return all_to_all.time(p.y()) * 2 + all_gather.time(p.blm());
}

Seconds parm_t_d2(const ParmProblem& p, AlphaBeta all_to_all, AlphaBeta overlapped) {
  return all_to_all.time(p.y()) + overlapped.time(p.y());
}

ParmChoice parm_choice(const ParmProblem& p, AlphaBeta all_to_all, AlphaBeta all_gather, AlphaBeta overlapped) {
  const Seconds t_d1 = parm_t_d1(p, all_to_all, all_gather);
  const Seconds t_d2 = parm_t_d2(p, all_to_all, overlapped);
  return t_d1 <= t_d2 ? ParmChoice::S1 : ParmChoice::S2;
}

}  // namespace moeplan
