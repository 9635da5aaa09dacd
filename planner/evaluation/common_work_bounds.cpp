// Lower bounds on iterations from the work of their stages.
#include <algorithm>
#include <utility>

#include "model/costs/block_price.hpp"
#include "model/costs/compute.hpp"
#include "planner/candidate/pipeline_tasks.hpp"
#include "planner/evaluation/common_work.hpp"
#include "planner/lowering/blocks/launches.hpp"
#include "planner/lowering/part_passes.hpp"

namespace moeplan::planner {

std::vector<CommonWork::Units> CommonWork::units_of_parts(const Candidate& candidate) {
  const std::pair key{candidate.degrees.pp * candidate.virtual_stages, candidate.pipeline};
  {
    const std::lock_guard lock(mutex_);
    const auto known = units_of_parts_.find(key);
    if (candidate.layout.empty() && known != units_of_parts_.end()) return known->second;
  }
  std::vector<Units> out;
  std::size_t next = 0;
  for (const StagePart& part : stage_parts(problem_.model(), problem_.workload(), candidate)) {
    const std::size_t first = next;
    next += number_of_units(part) - (part.head ? 1 : 0);
    out.push_back({first, next, part.head});
  }
  const std::lock_guard lock(mutex_);
  if (candidate.layout.empty()) units_of_parts_.emplace(key, out);
  return out;
}

Seconds CommonWork::bound(const Candidate& candidate) {
  const Seconds longest = longest_stage(passes(candidate, priced_of(candidate)), candidate);
  if (!candidate.ep_overlap) return longest;
  return std::max(longest, longest_stage(passes(candidate, Priced::Host), candidate));
}

/// Of the host, what all schedules launch. With other degrees than the candidate's, S1 does not gather weights, whose
/// gradients are then written in another format, and not added up.
Seconds CommonWork::shared_bound(const Candidate& candidate) {
  const std::optional<Degrees> degrees = candidate.schedule->least_as_s1(candidate.degrees);
  if (!degrees || !has_equal_ranks_) return {};
  const bool has_other_degrees = *degrees != candidate.degrees;
  Candidate least = candidate;
  least.degrees = *degrees;
  least.schedule = "s1_deferred";
  Priced of_dense = priced_of(candidate);
  if (of_dense == Priced::All && candidate.rank_order != RankOrder::Megatron) of_dense = Priced::WithoutCommunication;
  const Priced of_experts = of_dense == Priced::All ? Priced::WithoutCommunication : of_dense;
  const Passes streams = with_experts(work_without_experts(least, of_dense).streams,
                                      experts_without_links(least, of_experts, !has_other_degrees).streams);
  const Times& host = rough(candidate).host;
  if (!candidate.ep_overlap) return longest_stage({longer_of_each(streams, host.host), host.host}, candidate);
  return std::max(longest_stage({streams, {}}, candidate), longest_stage(host, candidate));
}

Seconds CommonWork::own_bound(const Candidate& candidate) {
  const std::int64_t pp = candidate.degrees.pp, period = problem_.stage_clusters().period(pp);
  if (candidate.ep_overlap) {
    if (period > 1) return bound(candidate);
    Seconds longest;
    const Streams& streams = own_streams(candidate);
    for (const auto& [stream, name] : kStreamNames) {
      if (is_background(stream)) continue;  // blocks do not wait for it
      const Passes& own = streams[static_cast<std::size_t>(stream)];
      longest = std::max(longest, longest_stage({own, stream == Stream::Host ? own : Passes{}}, candidate));
    }
    return longest;
  }
  const Seconds common = bound(candidate);
  if (period == 1) return std::max(common, longest_stage(own_passes(candidate, 0), candidate));
  const Times& of_others = passes(candidate, priced_of(candidate));
  const std::int64_t busiest = busiest_stage(of_others.longest, candidate);
  return std::max(common, longest_stage(of_others, candidate, busiest, own_passes(candidate, busiest % period)));
}

Seconds CommonWork::rough_bound(const Candidate& candidate) {
  const Rough& work = rough(candidate);
  if (candidate.all_to_all->is_fused()) return longest_stage(work.computation, candidate);
  if (!candidate.ep_overlap) return longest_stage(work.together, candidate);
  return std::max(longest_stage(work.computation, candidate), longest_stage(work.host, candidate));
}

std::vector<std::size_t> CommonWork::units_of_stage(const std::vector<Units>& parts, const Candidate& candidate,
                                                    std::int64_t stage, std::size_t units) {
  std::vector<std::size_t> out;
  for (const std::size_t part : parts_of(candidate, stage)) {
    const Units& own = parts[part];
    for (std::size_t u = own.first; u < own.last; ++u) out.push_back(u);
    if (own.head) out.push_back(units - 1);
  }
  return out;
}

const std::vector<std::int64_t>& CommonWork::weight_tensors(Candidate stage) {
  stage.degrees.tp = stage.degrees.cp = 1;  // a rank has a part of each tensor
  const Candidate c = on_fewest_ranks(std::move(stage));
  return known(weight_tensors_, key_of(c, Priced::Host), [&] {
    const LoweredPasses passes = lowered(problem_.model(), c);
    std::vector<std::int64_t> out;
    for (const BlockId block : passes.backward)
      out.push_back(updated_tensors(passes.program, passes.program.blocks[block.index()]));
    return out;
  });
}

const std::vector<CommonWork::Ends>& CommonWork::ends(const Candidate& candidate) {
  static const std::vector<Ends> kNone;
  if (problem_.workload().mode != Mode::Train || !candidate.layout.empty()) return kNone;
  const Degrees& d = candidate.degrees;
  const EndsKey key{d.pp, d.cp, d.tp, d.ep, d.esp, candidate.rank_order, candidate.virtual_stages, candidate.pipeline};
  return known(ends_, key, [&] {
    Candidate c = LayerStrategy{}.in(stage_alone(candidate));
    c.micro_batch = 1;
    c.recompute = {};
    c.sequence_parallel = false;
    const std::vector<Units> parts = units_of_parts(candidate);
    const std::size_t units = expert_flops_.size() - 1;
    std::vector<std::vector<std::size_t>> held;
    StageClusters& clusters = problem_.stage_clusters();
    for (std::int64_t s = 0; s < (clusters.are_equivalent(d.pp) ? d.pp : 1); ++s)
      held.push_back(units_of_stage(parts, candidate, s, units));
    const LoweredEnds lowered = lower_ends(problem_.model(), problem_.workload(), c, problem_.ranks_per_node(), held);
    BlockPricer pricer(lowered.program, clusters.first_of(d.pp), PricedRanks::First, &clusters.prices());
    const auto seconds = [&](const std::vector<BlockId>& blocks, std::size_t first, const Units& part) {
      double sum = 0;
      if (blocks.empty()) return sum;
      for (std::size_t u = first; u < part.last; ++u) sum += pricer.price(blocks[u]).ends.front().replicas;
      return sum + (part.head ? pricer.price(blocks.back()).ends.front().replicas : 0);
    };
    const Workload& workload = problem_.workload();
    const auto host = [&](std::int64_t operations) {
      return host_time(problem_.cluster().gpu, Launches{operations}).value();
    };
    const auto launched = [&](const std::vector<BlockId>& blocks, std::size_t first, const Units& part) {
      std::int64_t sum = 0;
      for (std::size_t u = first; u < part.last && !blocks.empty(); ++u)
        sum += launched_at_least(lowered.program.blocks[blocks[u].index()], workload);
      return host(sum);
    };
    const std::vector<std::int64_t>& tensors = weight_tensors(c);
    std::vector<Ends> out;
    for (std::size_t s = 0; s < held.size(); ++s) {
      const Units& part = parts[s];
      std::int64_t updated = 0;
      for (const std::size_t unit : held[s]) updated += tensors[unit];
      // The weights of the first unit are gathered before the stage receives activations.
      const std::size_t second = std::min(part.first + 1, part.last);
      out.push_back({.gather = seconds(lowered.gathers, second, part),
                     .reduce = seconds(lowered.reductions, part.first, part),
                     .update = std::max(pricer.price(lowered.updates[s]).ends.front().joined,
                                        host(launched_updates(updated, workload))),
                     .host_of_gather = launched(lowered.gathers, second, part),
                     .host_of_reduce = launched(lowered.reductions, part.first, part)});
    }
    return out;
  });
}

double CommonWork::of_part(const Units& units, const std::vector<double>& before) {
  if (before.size() < 2) return 0;
  return before[units.last] - before[units.first] + (units.head ? before.back() - before[before.size() - 2] : 0.0);
}

double CommonWork::of_stage(const std::vector<Units>& units, const Passes& work, const Candidate& candidate,
                            std::int64_t stage) {
  double sum = 0;
  for (const std::size_t part : parts_of(candidate, stage))
    sum += of_part(units[part], work.forward) + of_part(units[part], work.backward);
  return sum;
}

std::int64_t CommonWork::busiest_stage(const Passes& work, const Candidate& candidate) {
  const std::vector<Units> units = units_of_parts(candidate);
  std::int64_t busiest = 0;
  double most = 0;
  for (std::int64_t stage = 0; stage < candidate.degrees.pp; ++stage) {
    const double own = of_stage(units, work, candidate, stage);
    if (own > most) busiest = stage;
    most = std::max(most, own);
  }
  return busiest;
}

Seconds CommonWork::longest_stage(const Times& work, const Candidate& candidate, std::int64_t own_stage,
                                  const Times& of_own_stage) {
  const std::vector<Units> units = units_of_parts(candidate);
  const std::vector<Ends>& ends = this->ends(candidate);
  const auto microbatches = static_cast<double>(problem_.workload().global_batch) /
                            static_cast<double>(candidate.degrees.dp * candidate.micro_batch);
  double longest = 0, head = 0, tail = 0;  // until the first microbatch left the stage, since the last one came back
  for (std::int64_t stage = 0; stage < candidate.degrees.pp; ++stage) {
    const Times& own = stage == own_stage ? of_own_stage : work;
    const auto first = static_cast<std::size_t>(stage);
    const Units& part = units[first];
    const double forward = of_part(part, own.longest.forward), backward = of_part(part, own.longest.backward);
    const Ends e = first < ends.size() ? ends[first] : Ends{};
    head += std::max({forward, e.gather, of_part(part, own.host.forward) + e.host_of_gather});
    const double last = std::max({backward, e.reduce, of_part(part, own.host.backward) + e.host_of_reduce});
    tail = std::max(backward + tail, last + e.update);
    const double all = microbatches * of_stage(units, own.longest, candidate, stage);
    longest = std::max(longest, head + all - forward - backward + tail);
  }
  return Seconds(longest);
}

}  // namespace moeplan::planner
