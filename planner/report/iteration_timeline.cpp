#include "planner/report/iteration_timeline.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "planner/candidate/stage_layout.hpp"
#include "planner/lowering/part_passes.hpp"

namespace moeplan::planner {

namespace {

using Intervals = std::vector<TimeInterval>;

/// Whether the rank's GPU or network is busy with a communication, rather than waiting for one.
bool communicates(const Operation& op) { return op.communication() || std::holds_alternative<Send>(op.work); }

/// The part of `a` that is in `b` (`inside`), or that is not; both ascending and disjoint.
Intervals cut_by(const Intervals& a, const Intervals& b, bool inside) {
  Intervals out;
  std::size_t j = 0;
  const auto add = [&](SimTime from, SimTime to) {
    if (from < to) out.push_back({from, to});
  };
  for (const TimeInterval& i : a) {
    while (j < b.size() && b[j].end <= i.start) ++j;
    SimTime at = i.start;
    for (std::size_t k = j; k < b.size() && b[k].start < i.end; ++k) {
      const SimTime from = std::max(b[k].start, i.start), to = std::min(b[k].end, i.end);
      if (inside) add(from, to);
      if (!inside) add(at, from);
      at = to;
    }
    if (!inside) add(at, i.end);
  }
  return out;
}

/// What a block is for, as far as a timeline shows it.
enum class Direction { Forward, Backward, Other };

struct BlockRole {
  Direction direction = Direction::Other;
  std::int32_t first_computation = -1;  // index of its first operation that computes; -1: none does
};

std::vector<BlockRole> roles_of(const Program& program) {
  std::vector<BlockRole> out(program.blocks.size());
  for (std::size_t b = 0; b < out.size(); ++b) {
    const Block& block = program.blocks[b];
    bool is_update = false;
    for (std::size_t i = 0; i < block.operations.size(); ++i) {
      const Operation& op = block.operations[i];
      if (!op.computes()) continue;
      is_update = is_update || op.op_class == OpClass::Optimizer;
      if (out[b].first_computation < 0) out[b].first_computation = static_cast<std::int32_t>(i);
    }
    if (!is_update) out[b].direction = block.backward_of ? Direction::Backward : Direction::Forward;
  }
  return out;
}

/// The passes of a rank from the starts of its units' passes: so many units make a pass through each part.
std::vector<TimedTask> timed_tasks(const std::vector<PipelineTask>& tasks, const std::vector<std::size_t>& units,
                                   Intervals starts, const Intervals& computing) {
  std::size_t expected = 0;
  for (const PipelineTask& t : tasks) expected += units[static_cast<std::size_t>(t.part)];
  if (starts.size() != expected) return {};
  std::sort(starts.begin(), starts.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  std::vector<TimedTask> out;
  std::size_t unit = 0, at = 0;
  for (const PipelineTask& t : tasks) {
    const SimTime start = starts[unit].start;
    unit += units[static_cast<std::size_t>(t.part)];
    SimTime end = start;
    for (; at < computing.size() && (unit == starts.size() || computing[at].start < starts[unit].start); ++at)
      end = std::max(end, computing[at].end);
    out.push_back({t, {start, end}});
  }
  return out;
}

/// The executions of a rank, by what they are.
struct RankExecutions {
  Intervals forward, backward, other, communication;
  Intervals unit_starts;

  void add(const TimelineSpan& span, const std::vector<SimTime>& offsets, const Operation& op, const BlockRole& role) {
    if (span.end <= span.start) return;
    Intervals* part = nullptr;
    if (op.computes()) {
      part = role.direction == Direction::Forward    ? &forward
             : role.direction == Direction::Backward ? &backward
                                                     : &other;
    } else if (communicates(op)) {
      part = &communication;
    }
    if (!part) return;
    const bool begins_unit = role.direction != Direction::Other && span.operation == role.first_computation;
    for (const SimTime offset : offsets) {
      part->push_back({span.start + offset, span.end + offset});
      if (begins_unit) unit_starts.push_back(part->back());
    }
  }
};

RankTimeline timeline_of(RankId rank, std::size_t stage, RankExecutions executions,
                         const std::vector<PipelineTask>& tasks, const std::vector<std::size_t>& units) {
  RankTimeline out{.rank = rank,
                   .stage = stage,
                   .tasks = {},
                   .forward = {},
                   .backward = {},
                   .other = {},
                   .exposed = {},
                   .hidden = {}};
  Intervals passes = executions.forward;
  passes.insert(passes.end(), executions.backward.begin(), executions.backward.end());
  std::sort(passes.begin(), passes.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  out.tasks = timed_tasks(tasks, units, std::move(executions.unit_starts), passes);
  out.forward = joined_intervals(std::move(executions.forward));
  out.backward = joined_intervals(std::move(executions.backward));
  out.other = joined_intervals(std::move(executions.other));
  passes.insert(passes.end(), out.other.begin(), out.other.end());
  const Intervals computing = joined_intervals(std::move(passes));
  const Intervals communication = joined_intervals(std::move(executions.communication));
  out.exposed = cut_by(communication, computing, /*inside=*/false);
  out.hidden = cut_by(communication, computing, /*inside=*/true);
  return out;
}

/// The number of units that a pass through each part of a stage consists of.
std::vector<std::size_t> units_of_stage(const std::vector<StagePart>& parts, std::int64_t stage,
                                        const Candidate& candidate) {
  std::vector<std::size_t> out;
  for (const std::size_t p : parts_of(candidate, stage)) out.push_back(number_of_units(parts[p]));
  return out;
}

}  // namespace

SimTime RankTimeline::total(std::vector<TimeInterval> RankTimeline::*part) const {
  SimTime sum;
  for (const TimeInterval& i : this->*part) sum += i.end - i.start;
  return sum;
}

std::vector<TimeInterval> joined_intervals(std::vector<TimeInterval> intervals, SimTime gap) {
  std::sort(intervals.begin(), intervals.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  std::vector<TimeInterval> out;
  for (const TimeInterval& i : intervals) {
    if (!out.empty() && i.start <= out.back().end + gap) {
      out.back().end = std::max(out.back().end, i.end);
    } else {
      out.push_back(i);
    }
  }
  return out;
}

std::vector<RankId> representative_ranks(const Timeline& timeline, std::int64_t world_size, std::size_t stages,
                                         RankId binding) {
  std::vector<RankId> out;
  if (stages > 1) {
    for (std::size_t s = 0; s < stages; ++s)
      out.emplace_back(
          static_cast<std::int32_t>(static_cast<std::int64_t>(s) * (world_size / static_cast<std::int64_t>(stages))));
    return out;
  }
  constexpr std::size_t kMost = 8;
  const std::size_t recorded = std::min(timeline.recorded_ranks(world_size), static_cast<std::size_t>(world_size));
  const std::size_t shown = std::min(recorded, kMost);
  for (std::size_t i = 0; i < shown; ++i) out.push_back(timeline.recorded_at(i * recorded / shown));
  const RankId bound = timeline.recorded(binding);
  if (std::find(out.begin(), out.end(), bound) == out.end()) out.back() = bound;
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<RankTimeline> rank_timelines(const Problem& problem, const Candidate& candidate, const Program& program,
                                         const Timeline& timeline, const std::vector<RankId>& ranks) {
  const std::vector<BlockRole> roles = roles_of(program);
  const std::vector<std::vector<SimTime>> offsets = repeat_offsets(timeline);
  const std::vector<SimTime> once{SimTime()};
  std::map<RankId, RankExecutions> executions;
  for (const RankId r : ranks) executions[r];
  for (const TimelineSpan& span : timeline.spans) {
    const auto it = executions.find(span.rank);
    if (it == executions.end()) continue;
    const Operation& op = program.operation(span.block, span.operation);
    it->second.add(span, span.repeat < 0 ? once : offsets[static_cast<std::size_t>(span.repeat)], op,
                   roles[span.block.index()]);
  }
  const Workload& workload = problem.workload();
  const std::vector<StagePart> parts = stage_parts(problem.model(), workload, candidate);
  const std::int64_t microbatches = workload.global_batch / (candidate.degrees.dp * candidate.micro_batch);
  std::vector<RankTimeline> out;
  for (const RankId r : ranks) {
    const std::size_t stage = program.stage_of(r);
    const auto number = static_cast<std::int64_t>(stage);
    const std::vector<PipelineTask> tasks =
        candidate.ep_overlap ? std::vector<PipelineTask>{}
                             : pipeline_tasks(candidate, number, microbatches, workload.mode == Mode::Train);
    out.push_back(timeline_of(r, stage, std::move(executions[r]), tasks, units_of_stage(parts, number, candidate)));
  }
  return out;
}

}  // namespace moeplan::planner
