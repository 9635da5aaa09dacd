#include "planner/candidate/stage_layout.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "model/base/random.hpp"
#include "model/costs/model_flops.hpp"
#include "model/program/compose_stages.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::stage_layout_test {

using namespace moeplan::planner;
using moeplan::tests::any_of;

namespace {

constexpr std::int64_t kSequence = 64;

/// Layers that cost different amounts: a dense layer each of these hidden sizes.
ModelSpec model_of(const std::vector<std::int64_t>& hidden_sizes, std::int64_t vocabulary = 1000) {
  tests::SmallCase c;
  c.vocabulary = vocabulary;
  ModelSpec model = read_model(tests::model_text_document(c));
  model.layers.clear();
  for (const std::int64_t h : hidden_sizes) model.layers.push_back({1, {{0, Ffn{h, true, false}}}});
  return model;
}

double cost_of(const ModelSpec& model, const std::vector<LayerSpec>& layers, bool head) {
  ModelSpec none = model;
  none.layers.clear();
  ModelSpec some = none;
  for (const LayerSpec& layer : layers) some.layers.push_back({1, {layer}});
  const double shell = forward_flops_per_token(none, kSequence);
  return forward_flops_per_token(some, kSequence) - (head ? 0 : shell);
}

/// The largest cost of a part, least over all ways to cut layers begin .. end into `parts`.
double least_maximum(const ModelSpec& model, const std::vector<LayerSpec>& layers, std::size_t begin,
                     std::int64_t parts) {
  const auto from = layers.begin() + static_cast<std::ptrdiff_t>(begin);
  if (parts == 1) return cost_of(model, {from, layers.end()}, true);
  double least = 1e300;
  for (std::size_t end = begin + 1; end + static_cast<std::size_t>(parts) - 1 <= layers.size(); ++end) {
    const double own = cost_of(model, {from, layers.begin() + static_cast<std::ptrdiff_t>(end)}, false);
    least = std::min(least, std::max(own, least_maximum(model, layers, end, parts - 1)));
  }
  return least;
}

using Task = PipelineTask;
constexpr bool kForward = true, kBackward = false;

/// The tasks of all stages as a Program of blocks that take 2 us forward and 3 us backward, with messages of no bytes.
Program program_of(std::int64_t stages, std::int64_t parts, std::int64_t microbatches, bool train) {
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
  // By forward, whether it receives, whether it sends.
  std::map<std::tuple<bool, bool, bool>, BlockId> blocks;
  for (std::int64_t s = 0; s < stages; ++s) {
    for (const PipelineTask& t : pipeline_tasks(stages, s, parts, microbatches, train)) {
      const bool first = s == 0 && t.part == 0, last = s == stages - 1 && t.part == parts - 1;
      const bool receives = t.forward ? !first : !last, sends = t.forward ? !last : !first;
      const auto [it, is_new] = blocks.try_emplace({t.forward, receives, sends}, BlockId(p.blocks.size()));
      if (is_new) {
        const std::int64_t shift = t.forward ? 1 : -1;
        const std::int32_t channel = t.forward ? 0 : 1;
        Block& b = p.blocks.emplace_back();
        if (receives) b.operations.push_back(operation(Receive{GroupId(0), shift, channel}, Stream::Compute));
        b.operations.push_back(operation(Kernel::Add, Stream::Compute));
        if (sends) {
          b.operations.push_back(operation(Send{GroupId(0), shift, channel}, Stream::Pipeline));
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

TEST_CASE("A model is cut into parts that cover it in order") {
  Random random(1);
  for (int i = 0; i < 60; ++i) {
    std::vector<std::int64_t> sizes(1 + random.below(8));
    for (std::int64_t& h : sizes) h = any_of<std::int64_t>(random, {16, 256, 1024, 4096});
    const ModelSpec model = model_of(sizes, any_of<std::int64_t>(random, {8, 1000, 50'000}));
    std::vector<LayerSpec> layers;
    for (const RepeatedLayers& run : model.layers) layers.push_back(run.pattern.front());
    for (std::int64_t parts = 1; parts <= std::ssize(sizes); ++parts) {
      CAPTURE(sizes, parts, model.vocab_size);
      const std::vector<StagePart> cut = stage_parts(model, kSequence, parts);
      REQUIRE(std::ssize(cut) == parts);
      std::vector<LayerSpec> all;
      double most = 0;
      for (std::size_t p = 0; p < cut.size(); ++p) {
        CHECK_FALSE(cut[p].layers.empty());
        CHECK(cut[p].embedding == (p == 0));
        CHECK(cut[p].head == (p + 1 == cut.size()));
        all.insert(all.end(), cut[p].layers.begin(), cut[p].layers.end());
        most = std::max(most, cost_of(model, cut[p].layers, cut[p].head));
      }
      CHECK(all == layers);
      // Against all ways to cut it.
      CHECK(most == Approx(least_maximum(model, layers, 0, parts)).epsilon(1e-9));
    }
  }
}

TEST_CASE("Of equally good cuts the one with the fullest last parts is taken because first stages keep the most") {
  const auto layers_by_part = [](const ModelSpec& model, std::int64_t parts) {
    std::vector<std::size_t> out;
    for (const StagePart& p : stage_parts(model, kSequence, parts)) out.push_back(p.layers.size());
    return out;
  };
  // A head of 8 words costs nearly nothing, but more than nothing.
  CHECK(layers_by_part(model_of(std::vector<std::int64_t>(6, 256), 8), 4) == std::vector<std::size_t>{1, 2, 2, 1});
  CHECK(layers_by_part(model_of(std::vector<std::int64_t>(7, 256), 8), 4) == std::vector<std::size_t>{2, 2, 2, 1});
  // Here one layer decides.
  CHECK(layers_by_part(model_of({4096, 16, 16, 16, 16}, 8), 3) == std::vector<std::size_t>{1, 1, 3});
}

TEST_CASE("Stages hold what their parts do, and all of them together the model") {
  tests::SmallCase c;
  c.moe_layers = 5;
  const ModelSpec model = read_model(tests::model_text_document(c));
  const Degrees degrees{.pp = 2, .dp = 4, .tp = 2, .edp = 2, .ep = 4};
  const auto sum = [&](std::int64_t virtual_stages) {
    UnitParameters total;
    for (const StageParameters& s : stage_parameters(model, kSequence, degrees, virtual_stages)) {
      total += s.all;
      CHECK(s.largest.dense <= s.all.dense);
      CHECK(s.largest.expert <= s.all.expert);
    }
    return total;
  };
  const auto experts = static_cast<double>(c.experts * c.moe_layers * 3 * c.expert_hidden * c.hidden);
  for (const std::int64_t v : {1, 2, 3}) {
    CAPTURE(v);
    CHECK(sum(v).expert == experts / 4);
    CHECK(sum(v).dense == (static_cast<double>(count_parameters(model).total) - experts) / 2);
  }
}

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
      const std::vector<PipelineTask> tasks = pipeline_tasks(stages, s, parts, microbatches, true);
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
      CHECK(pipeline_tasks(stages, s, parts, microbatches, false) == forward);
    }
    // No circle of stages that wait for each other, or this throws.
    const std::int64_t time = composed(program_of(stages, parts, microbatches, true));
    const std::int64_t one = kForwardTime + kBackwardTime;
    // The bubble of SC'21 sec. 2.2: (stages - 1) passes of one part, where all microbatches fill the pipeline.
    CHECK(time == (microbatches * parts + stages - 1) * one);
    CHECK(composed(program_of(stages, parts, microbatches, false)) ==
          (microbatches * parts + stages - 1) * kForwardTime);
  }
}

TEST_CASE("Interleaved stages run in Megatron-LM's order") {
  // Two stages of two parts, four microbatches, by hand: groups of two microbatches go through part 0, then part 1,
  // backward through part 1, then part 0. Stage 0 warms up with 2 (2 - 0 - 1) + (2 - 1) 2 = 4 forward passes, stage 1
  // with 2.
  CHECK(pipeline_tasks(2, 0, 2, 4, true) == std::vector<Task>{{kForward, 0, 0},
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
  CHECK(pipeline_tasks(2, 1, 2, 4, true) == std::vector<Task>{{kForward, 0, 0},
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

}  // namespace moeplan::tests::stage_layout_test
