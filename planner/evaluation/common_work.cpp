#include "planner/evaluation/common_work.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "model/costs/block_price.hpp"
#include "planner/candidate/pipeline_tasks.hpp"
#include "planner/lowering/blocks/launches.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/lowering/part_passes.hpp"

namespace moeplan::planner {

namespace {

bool belongs_to_exchange(const Operation& operation) {
  switch (operation.op_class) {
    case OpClass::Dispatch:
    case OpClass::Combine:
    case OpClass::ExpertSharding:
    case OpClass::Codec:
    case OpClass::Permute: return true;
    default: return false;
  }
}

/// Removes operations; the remaining ones inherit their dependencies.
template <class Omitted>
void leave_out(Block& block, Omitted is_omitted) {
  std::vector<std::set<std::int32_t>> waits_for(block.operations.size());  // by old index: the new indices
  std::vector<Operation> kept;
  for (std::size_t i = 0; i < block.operations.size(); ++i) {
    Operation& operation = block.operations[i];
    std::set<std::int32_t> after;
    for (const std::int32_t before : operation.after) {
      const auto& of = waits_for[static_cast<std::size_t>(before)];
      after.insert(of.begin(), of.end());
    }
    if (is_omitted(operation)) {
      waits_for[i] = std::move(after);
      continue;
    }
    waits_for[i] = {static_cast<std::int32_t>(kept.size())};
    operation.after.assign(after.begin(), after.end());
    kept.push_back(std::move(operation));
  }
  block.operations = std::move(kept);
}

SubCluster without_waves(const Cluster& cluster) {
  SubCluster out = sub_cluster(cluster, 0, cluster.world_size());
  out.cluster.gpu.num_sms = 1;
  return out;
}

/// Whether a rank has the same rows however many replicas and stages there are.
bool has_equal_ranks(const Workload& workload) {
  return !workload.recorded && workload.routing.shape == RoutingShape::Uniform && !workload.routing.sampled &&
         workload.gate == Gate{};
}

}  // namespace

Program without_exchange(Program program, const CudaGraphs& graphs) {
  for (Block& block : program.blocks) {
    const std::int64_t before = launched_operations(block, graphs);
    leave_out(block, belongs_to_exchange);
    const std::int64_t omitted = before - launched_operations(block, graphs);
    for (Operation& operation : block.operations) {
      if (auto* launches = std::get_if<Launches>(&operation.work)) launches->operations -= omitted;
    }
  }
  return program;
}

CommonWork::CommonWork(const Problem& problem)
    : problem_(problem),
      without_waves_(without_waves(problem.cluster())),
      machines_(without_waves_.cluster),
      has_equal_ranks_(has_equal_ranks(problem.workload())) {}

CommonWork::Priced CommonWork::priced_of(const Candidate& candidate) {
  if (candidate.ep_overlap) return Priced::ComputeStream;
  return machines_.are_equivalent(candidate.degrees.pp) ? Priced::All : Priced::WithoutCommunication;
}

/// The candidate whose passes are priced for this one: on one stage's ranks. If ranks are equal, on as few of them as
/// the other degrees need.
Candidate CommonWork::representative(const Candidate& candidate, Priced operations) {
  Candidate c = stage_alone(candidate);
  if (!c.all_to_all->is_fused()) c.all_to_all = "linear";
  c.pipeline_degree = 1;
  c.codec = {};
  Degrees& d = c.degrees;
  const std::int64_t ranks = std::lcm(d.cp * d.tp, d.ep * d.esp);
  if (!has_equal_ranks_) return c;
  if (operations == Priced::All && !machines_.are_equivalent(problem_.cluster().world_size() / ranks)) return c;
  d.dp = ranks / (d.cp * d.tp);
  d.edp = ranks / (d.ep * d.esp);
  c.rank_order = RankOrder::Megatron;
  return c;
}

/// Passes on the ranks and links of the first stage.
CommonWork::Passes CommonWork::priced(const Candidate& representative, Priced operations) {
  LoweredPasses lowered =
      lower_passes(problem_.model(), problem_.workload(), representative, problem_.ranks_per_node());
  Program program = without_exchange(std::move(lowered.program), problem_.workload().cuda_graphs);
  if (operations != Priced::All) {
    for (Block& block : program.blocks) {
      leave_out(block, [&](const Operation& o) {
        return o.communication() || (operations == Priced::ComputeStream && o.stream != Stream::Compute);
      });
    }
  }
  const Cluster& ranks = machines_.first_of(problem_.cluster().world_size() / program.world_size);
  BlockPricer pricer(program, ranks, PricedRanks::First);
  const auto sums = [&](const std::vector<BlockId>& blocks) {
    std::vector<double> before{0.0};
    for (const BlockId block : blocks) before.push_back(before.back() + pricer.price(block).alone.front());
    return before;
  };
  return {.forward = sums(lowered.forward), .backward = sums(lowered.backward)};
}

const CommonWork::Passes& CommonWork::passes(const Candidate& candidate) {
  const Priced operations = priced_of(candidate);
  const Candidate c = representative(candidate, operations);
  const Degrees& d = c.degrees;
  const Key key{d.dp,
                d.cp,
                d.tp,
                d.edp,
                d.ep,
                d.esp,
                &*c.schedule,
                c.rank_order,
                c.micro_batch,
                c.sequence_parallel,
                c.recompute,
                operations,
                c.all_to_all->is_fused()};
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = passes_.find(key); known != passes_.end()) return known->second;
  }
  Passes of_key = priced(c, operations);
  const std::lock_guard lock(mutex_);
  return passes_.emplace(key, std::move(of_key)).first->second;
}

/// The index of the first unit of each part of the candidate's model, and the number of all units.
std::vector<std::size_t> CommonWork::first_units(const Candidate& candidate) {
  const std::int64_t parts = candidate.degrees.pp * candidate.virtual_stages;
  const bool is_even = candidate.layout.empty() && candidate.pipeline == PipelineShape::Interleaved;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = first_units_.find(parts); is_even && known != first_units_.end()) return known->second;
  }
  std::vector<std::size_t> first{0};
  for (const StagePart& part : stage_parts(problem_.model(), problem_.workload().sequence_length, candidate))
    first.push_back(first.back() + number_of_units(part));
  const std::lock_guard lock(mutex_);
  if (is_even) first_units_.emplace(parts, first);
  return first;
}

Seconds CommonWork::bound(const Candidate& candidate) {
  const Passes& work = passes(candidate);
  const std::vector<std::size_t> first = first_units(candidate);
  const auto stages = static_cast<std::size_t>(candidate.degrees.pp);
  const auto microbatches = static_cast<double>(problem_.workload().global_batch) /
                            static_cast<double>(candidate.degrees.dp * candidate.micro_batch);
  const auto of_part = [&](std::size_t part) {
    const auto between = [&](const std::vector<double>& before) {
      return before.size() == 1 ? 0.0 : before[first[part + 1]] - before[first[part]];
    };
    return between(work.forward) + between(work.backward);
  };
  double longest = 0, before = 0;  // of the preceding stages' first parts
  for (std::size_t stage = 0; stage < stages; ++stage) {
    double own = 0;
    for (const std::size_t part : parts_of(candidate, static_cast<std::int64_t>(stage))) own += of_part(part);
    longest = std::max(longest, before + microbatches * own);
    before += of_part(stage);
  }
  return Seconds(longest);
}

}  // namespace moeplan::planner
