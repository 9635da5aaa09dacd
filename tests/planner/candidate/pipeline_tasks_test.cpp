#include "planner/candidate/pipeline_tasks.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <tuple>

#include "model/program/compose_stages.hpp"

namespace moeplan::tests::pipeline_tasks_test {

using namespace moeplan::planner;

namespace {

using Task = PipelineTask;
constexpr bool kForward = true, kBackward = false;

Candidate interleaved(std::int64_t stages, std::int64_t parts) {
  Candidate c;
  c.degrees.pp = stages;
  c.virtual_stages = parts;
  return c;
}
Candidate in_a_v(std::int64_t stages) {
  Candidate c = interleaved(stages, 2);
  c.pipeline = PipelineShape::V;
  return c;
}
std::vector<PipelineTask> interleaved_tasks(std::int64_t stages, std::int64_t stage, std::int64_t parts,
                                            std::int64_t microbatches, bool train) {
  std::vector<PipelineTask> tasks = pipeline_tasks(interleaved(stages, parts), stage, microbatches, train);
  for (PipelineTask& t : tasks) t.goes_with_next = false;
  return tasks;
}

/// The tasks of all stages as a Program of blocks that take 2 us forward and 3 us backward, with messages of no bytes.
Program program_of(const Candidate& candidate, std::int64_t microbatches, bool train) {
  const std::int64_t stages = candidate.degrees.pp, parts = stages * candidate.virtual_stages;
  Program p;
  p.world_size = stages;
  p.groups = {{"stages", stages, 1}};
  p.buffers = {{"message", 1, Dtype::Int8}};
  p.stages.assign(static_cast<std::size_t>(stages), {});
  const auto operation = [](auto work, Stream stream) {
    return Operation{.name = "",
                     .op_class = OpClass::Pipeline,
                     .stream = stream,
                     .work = work,
                     .reads = {{BufferId(0), Rows::fixed(0)}},
                     .writes = {},
                     .after = {}};
  };
  // By forward, stages from the sender, stages to the receiver.
  std::map<std::tuple<bool, std::int64_t, std::int64_t>, BlockId> blocks;
  for (std::int64_t s = 0; s < stages; ++s) {
    for (const PipelineTask& t : pipeline_tasks(candidate, s, microbatches, train)) {
      const std::int64_t part = part_of(candidate.pipeline, stages, s, t.part), step = t.forward ? 1 : -1;
      const auto shift = [&](std::int64_t from, std::int64_t to) {
        if (from < 0 || to < 0 || from == parts || to == parts) return std::int64_t{0};
        const std::int64_t moved =
            stage_of(candidate.pipeline, stages, to) - stage_of(candidate.pipeline, stages, from);
        return candidate.pipeline == PipelineShape::Interleaved ? step : moved;  // cyclic if interleaved
      };
      const std::int64_t from = shift(part - step, part), to = shift(part, part + step);
      const auto [it, is_new] = blocks.try_emplace({t.forward, from, to}, BlockId(p.blocks.size()));
      if (is_new) {
        const std::int32_t channel = t.forward ? 0 : 1;
        Block& b = p.blocks.emplace_back();
        if (from != 0) b.operations.push_back(operation(Receive{GroupId(0), from, channel}, Stream::Compute));
        b.operations.push_back(operation(Kernel::Add, Stream::Compute));
        if (to != 0) {
          b.operations.push_back(operation(Send{GroupId(0), to, channel}, Stream::Pipeline));
          b.operations.back().after = {static_cast<std::int32_t>(b.operations.size()) - 2};
        }
        b.name = t.forward ? "forward" : "backward";
      }
      p.stages[static_cast<std::size_t>(s)].push_back({.block = it->second});
    }
  }
  return p;
}

constexpr std::int64_t kForwardTime = 2, kBackwardTime = 3;

/// Time of the whole with messages that take no time.
std::int64_t composed(const Program& p) {
  const StageSegments segments = stage_segments(p);
  std::vector<SegmentTimes> times;
  for (const Segment& s : segments.segments) {
    SegmentTimes t;
    for (const Step& step : s.steps) {
      t.joined += SimTime(p.blocks[step.block.index()].name == "forward" ? kForwardTime : kBackwardTime);
    }
    t.sends.assign(s.sends.size(), t.joined);
    times.push_back(t);
  }
  return compose_stages(segments, std::vector<std::vector<SegmentTimes>>(p.stages.size(), times),
                        [](std::size_t, const StageMessage&) { return SimTime(); })
      .makespan.picoseconds();
}

}  // namespace

TEST_CASE("Every stage takes each microbatch through each of its parts, forward and then backward") {
  for (const auto& [stages, parts, microbatches] : std::vector<std::tuple<int, int, int>>{{1, 1, 3},
                                                                                          {2, 1, 1},
                                                                                          {2, 1, 5},
                                                                                          {4, 1, 3},
                                                                                          {4, 1, 9},
                                                                                          {2, 2, 2},
                                                                                          {2, 2, 4},
                                                                                          {2, 3, 6},
                                                                                          {4, 2, 4},
                                                                                          {4, 2, 8},
                                                                                          {3, 4, 9},
                                                                                          {8, 2, 16}}) {
    CAPTURE(stages, parts, microbatches);
    for (int s = 0; s < stages; ++s) {
      const std::vector<PipelineTask> tasks = interleaved_tasks(stages, s, parts, microbatches, true);
      CHECK(tasks.size() == 2U * static_cast<unsigned>(parts) * static_cast<unsigned>(microbatches));
      std::map<std::pair<std::int64_t, std::int64_t>, int> done;  // 1 after forward, 2 after backward
      std::int64_t in_flight = 0, most = 0;
      bool in_order = true;
      for (const PipelineTask& t : tasks) {
        int& state = done[{t.part, t.microbatch}];
        in_order = in_order && state == (t.forward ? 0 : 1);
        ++state;
        in_flight += t.forward ? 1 : -1;
        most = std::max(most, in_flight);
      }
      CHECK(in_order);
      CHECK(done.size() == static_cast<unsigned>(parts) * static_cast<unsigned>(microbatches));
      // Narayanan et al., SC'21: 1F1B keeps as many microbatches as stages are left; interleaved, with the warm-up of
      // 2 (stages - s - 1) + (parts - 1) stages, one more.
      const std::int64_t warm_up = parts == 1 ? stages - s - 1 : 2 * (stages - s - 1) + (parts - 1) * stages;
      CHECK(most == std::min<std::int64_t>(warm_up + 1, parts * microbatches));
      std::vector<PipelineTask> forward;
      std::copy_if(tasks.begin(), tasks.end(), std::back_inserter(forward), [](const Task& t) { return t.forward; });
      CHECK(interleaved_tasks(stages, s, parts, microbatches, false) == forward);
    }
    // No circle of stages that wait for each other, or this throws.
    const std::int64_t time = composed(program_of(interleaved(stages, parts), microbatches, true));
    const std::int64_t one = kForwardTime + kBackwardTime;
    // The bubble of SC'21 sec. 2.2: (stages - 1) passes of one part, where all microbatches fill the pipeline.
    CHECK(time == (microbatches * parts + stages - 1) * one);
    CHECK(composed(program_of(interleaved(stages, parts), microbatches, false)) ==
          (microbatches * parts + stages - 1) * kForwardTime);
  }
}

TEST_CASE("Stages of a V hold the first and the last part, the second and the last but one, and so on") {
  for (const std::int64_t stages : {2, 3, 8}) {
    for (std::int64_t s = 0; s < stages; ++s) {
      CHECK(part_of(PipelineShape::V, stages, s, 0) == s);
      CHECK(part_of(PipelineShape::V, stages, s, 1) == 2 * stages - 1 - s);
      for (const PipelineShape shape : {PipelineShape::V, PipelineShape::Interleaved}) {
        for (const std::int64_t own : {0, 1}) CHECK(stage_of(shape, stages, part_of(shape, stages, s, own)) == s);
      }
    }
  }
}

TEST_CASE("A V keeps as many activations on all stages, fewer than the first stage interleaved") {
  for (const auto& [stages, microbatches] :
       std::vector<std::pair<int, int>>{{2, 4}, {2, 7}, {3, 6}, {4, 8}, {4, 20}, {8, 16}, {8, 64}}) {
    CAPTURE(stages, microbatches);
    for (int s = 0; s < stages; ++s) {
      CAPTURE(s);
      std::map<std::pair<std::int64_t, std::int64_t>, int> done;  // 1 after forward, 2 after backward
      std::int64_t in_flight = 0, most = 0;
      bool is_in_order = true, is_paired_well = true;
      const std::vector<PipelineTask> tasks = pipeline_tasks(in_a_v(stages), s, microbatches, true);
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        const PipelineTask& t = tasks[i];
        int& state = done[{t.part, t.microbatch}];
        is_in_order = is_in_order && state == (t.forward ? 0 : 1);
        ++state;
        in_flight += t.forward ? 1 : -1;
        most = std::max(most, in_flight);
        if (t.goes_with_next) {
          const PipelineTask& next = tasks.at(i + 1);
          is_paired_well =
              is_paired_well && !t.forward && next.forward && next.part != t.part && next.microbatch > t.microbatch;
        }
      }
      CHECK(is_in_order);
      CHECK(is_paired_well);
      CHECK(tasks.size() == 4U * static_cast<unsigned>(microbatches));
      CHECK(done.size() == 2U * static_cast<unsigned>(microbatches));
      // 2 stages + 1 as published; interleaved, the first stage keeps 3 stages - 1.
      CHECK(most >= 2 * stages);
      CHECK(most <= 2 * stages + 1);
      if (s + 1 == stages) CHECK(most == 2 * stages + 1);
    }
    const std::int64_t time = composed(program_of(in_a_v(stages), microbatches, true));  // no deadlock, or this throws
    const std::int64_t one = kForwardTime + kBackwardTime;
    // Whole backward passes: the bubble is that of interleaved stages, or one part more.
    CHECK(time >= (2 * microbatches + stages - 1) * one);
    CHECK(time <= (2 * microbatches + stages) * one);
  }
}

TEST_CASE("Interleaved stages run in Megatron-LM's order") {
  // Two stages of two parts, four microbatches, by hand: groups of two microbatches go through part 0, then part 1,
  // backward through part 1, then part 0. Stage 0 warms up with 2 (2 - 0 - 1) + (2 - 1) 2 = 4 forward passes, stage 1
  // with 2.
  CHECK(interleaved_tasks(2, 0, 2, 4, true) == std::vector<Task>{{kForward, 0, 0},
                                                                 {kForward, 0, 1},
                                                                 {kForward, 1, 0},
                                                                 {kForward, 1, 1},
                                                                 {kForward, 0, 2},
                                                                 {kBackward, 1, 0},
                                                                 {kForward, 0, 3},
                                                                 {kBackward, 1, 1},
                                                                 {kForward, 1, 2},
                                                                 {kBackward, 0, 0},
                                                                 {kForward, 1, 3},
                                                                 {kBackward, 0, 1},
                                                                 {kBackward, 1, 2},
                                                                 {kBackward, 1, 3},
                                                                 {kBackward, 0, 2},
                                                                 {kBackward, 0, 3}});
  CHECK(interleaved_tasks(2, 1, 2, 4, true) == std::vector<Task>{{kForward, 0, 0},
                                                                 {kForward, 0, 1},
                                                                 {kForward, 1, 0},
                                                                 {kBackward, 1, 0},
                                                                 {kForward, 1, 1},
                                                                 {kBackward, 1, 1},
                                                                 {kForward, 0, 2},
                                                                 {kBackward, 0, 0},
                                                                 {kForward, 0, 3},
                                                                 {kBackward, 0, 1},
                                                                 {kForward, 1, 2},
                                                                 {kBackward, 1, 2},
                                                                 {kForward, 1, 3},
                                                                 {kBackward, 1, 3},
                                                                 {kBackward, 0, 2},
                                                                 {kBackward, 0, 3}});
}

}  // namespace moeplan::tests::pipeline_tasks_test
