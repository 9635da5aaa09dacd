// Copies of placed experts in whole iterations: what is sent when, what it costs in time and memory.
#include "planner/layer/copy_parts.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <utility>

#include "model/program/resolve.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/placement/slots.hpp"
#include "planner/placement/strategies/strategy.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::copy_parts_test {

using namespace moeplan::planner;

namespace {

RankId rank(std::int64_t r) { return RankId(static_cast<std::int32_t>(r)); }

/// Four ranks with two experts each; expert 0, which is hot, has a copy on rank 2.
Candidate with_copy(Degrees degrees = {.dp = 4, .ep = 4}) {
  Candidate c;
  c.degrees = degrees;
  Placement placement = contiguous_placement(8, degrees.ep);
  add_holder(placement.experts[0], rank(2), 1);
  c.expert_places = {placement};
  return c;
}

SmallCase skewed() { return {.routing = "{shape: hot_expert, hot_factor: 12}"}; }

/// How often each class of operations runs in an iteration.
std::map<OpClass, std::int64_t> runs(const Program& program) {
  std::map<OpClass, std::int64_t> out;
  for (std::size_t s = 0; s < program.stages.size(); ++s) {
    const std::vector<std::int64_t> counts = block_counts(program, s);
    for (std::size_t b = 0; b < counts.size(); ++b) {
      for (const Operation& op : program.blocks[b].operations) {
        if (op.communication()) out[op.op_class] += counts[b];
      }
    }
  }
  return out;
}

const TimelineSpan* first_span(const Program& program, const Timeline& t, std::string_view name, std::int64_t r,
                               std::size_t skip = 0) {
  for (const TimelineSpan& s : t.spans) {
    if (s.rank == rank(r) &&
        program.blocks[s.block.index()].operations[static_cast<std::size_t>(s.operation)].name == name && skip-- == 0) {
      return &s;
    }
  }
  return nullptr;
}

/// Whether the rank computes while an operation of this name runs.
bool computes_during(const Prediction& p, std::string_view name, std::int64_t r) {
  const auto computes = [&](const TimelineSpan& s) {
    const Operation& op = p.program.blocks[s.block.index()].operations[static_cast<std::size_t>(s.operation)];
    return s.rank == rank(r) && op.stream == Stream::Compute && op.op_class != OpClass::ExpertTransfer;
  };
  bool found = false;
  for (std::size_t skip = 0; const TimelineSpan* span = first_span(p.program, p.timeline, name, r, skip); ++skip) {
    found = found || std::any_of(p.timeline.spans.begin(), p.timeline.spans.end(), [&](const TimelineSpan& s) {
              return computes(s) && s.start < span->end && s.end > span->start;
            });
  }
  return found;
}

}  // namespace

TEST_CASE("Copies get weights and give gradients once an iteration, whatever the number of microbatches") {
  const Small s = small(skewed());
  Candidate c = with_copy();
  for (const std::int64_t micro_batch : {1, 2}) {
    c.micro_batch = micro_batch;
    auto times = runs(lower_iteration(s.model, s.workload, c, 1));
    CHECK(times[OpClass::ExpertTransfer] == 2 * 2);  // two layers, two matrices
    CHECK(times[OpClass::ExpertGradientTransfer] == 2 * 2);
    CHECK(times[OpClass::PlacementPlan] == 0);
  }
  SECTION("where placements are planned every iteration, loads are told as often") {
    c.placement = "pro_prophet";
    CHECK(runs(lower_iteration(s.model, s.workload, c, 1))[OpClass::PlacementPlan] == 2);
  }
  SECTION("in a pipeline every stage does so for its own layers") {
    c = with_copy({.pp = 2, .dp = 2, .ep = 2});
    c.expert_places = {contiguous_placement(8, 2)};
    add_holder(c.expert_places[0].experts[0], rank(1), 1);
    auto times = runs(lower_iteration(s.model, s.workload, c, 1));
    CHECK(times[OpClass::ExpertTransfer] == 2 * 2);
    const Prediction p = predict({s.model, s.workload, s.cluster}, c);
    CHECK(p.makespan.seconds() >= p.estimate.lower_bound);
  }
  SECTION("where nothing trains they stay, and nothing moves") {
    SmallCase forward = skewed();
    forward.mode = "forward";
    const Small f = small(forward);
    auto times = runs(lower_iteration(f.model, f.workload, c, 1));
    CHECK(times[OpClass::ExpertTransfer] == 0);
    CHECK(times[OpClass::ExpertGradientTransfer] == 0);
  }
}

TEST_CASE("FasterMoE's layers wait until the host has planned them, every iteration") {
  const Small s = small(skewed());
  const auto searches = [&](const Candidate& c) {
    const Program program = lower_iteration(s.model, s.workload, c, 1);
    std::vector<std::int64_t> launches;
    for (const Block& block : program.blocks) {
      for (const Operation& op : block.operations) {
        const auto* host = std::get_if<Launches>(&op.work);
        if (host && op.op_class == OpClass::PlacementPlan && op.stream == Stream::Compute)
          launches.push_back(host->operations);
      }
    }
    return launches;
  };
  Candidate c = with_copy();
  c.placement = "fastermoe_code";
  const std::int64_t one_copy = 8 + 8 + 9 * 2 + 3, none = 8 + 8 + 9 * 1 + 3;
  CHECK(searches(c) == std::vector{one_copy, one_copy});  // two layers
  c.expert_places = {contiguous_placement(8, 4)};
  CHECK(searches(c) == std::vector{none, none});
  for (const char* hidden : {"contiguous", "pro_prophet"}) {
    c.placement = hidden;
    CHECK(searches(c).empty());
  }
}

TEST_CASE("Weights of a layer's copies travel beside the layer before") {
  SmallCase wide = skewed();
  wide.dense_layers = 0;
  wide.sequence = 1024;
  const Small s = small(wide);
  for (const std::int64_t zero : {0, 1, 3}) {
    Workload w = s.workload;
    w.zero_stage = zero;
    const Candidate c = with_copy();
    const Prediction p = predict({s.model, w, s.cluster}, c);
    CHECK(p.makespan.seconds() >= p.estimate.lower_bound);
    const TimelineSpan *first = first_span(p.program, p.timeline, "expert up weights", 2),
                       *second = first_span(p.program, p.timeline, "expert up weights", 2, 1),
                       *experts = first_span(p.program, p.timeline, "expert up projection", 2),
                       *next = first_span(p.program, p.timeline, "expert up projection", 2, 1);
    REQUIRE((first && second && experts && next));
    INFO("zero stage " << zero);
    CHECK(first->end <= experts->start);
    CHECK(second->start < experts->end);
    CHECK(second->end <= next->start);
  }
}

TEST_CASE("Blocking transfers run between a layer's own dispatch and combine, and after its backward pass") {
  SmallCase wide = skewed();
  wide.dense_layers = 0;
  wide.sequence = 1024;
  const Small s = small(wide);
  Candidate c = with_copy();
  const Prediction block_wise = predict({s.model, s.workload, s.cluster}, c);
  c.placement = "fastermoe";
  const Prediction p = predict({s.model, s.workload, s.cluster}, c);
  SECTION("the same operations as block-wise") {
    auto times = runs(p.program);
    CHECK(times[OpClass::ExpertTransfer] == 2 * 2);
    CHECK(times[OpClass::ExpertGradientTransfer] == 2 * 2);
  }
  SECTION("weights after the layer's own dispatch, before its experts") {
    for (const std::size_t layer : {0U, 1U}) {
      const TimelineSpan *dispatch = first_span(p.program, p.timeline, "dispatch", 2, layer),
                         *weights = first_span(p.program, p.timeline, "expert up weights", 2, layer),
                         *experts = first_span(p.program, p.timeline, "expert up projection", 2, layer);
      REQUIRE((dispatch && weights && experts));
      CHECK(dispatch->end <= weights->start);
      CHECK(weights->end <= experts->start);
    }
  }
  SECTION("the backward pass of attention waits for the gradients") {
    CHECK_FALSE(computes_during(p, "expert up gradients", 2));
    CHECK(computes_during(block_wise, "expert up gradients", 2));
  }
  SECTION("nothing hides them, so the iteration is longer than with block-wise transfers") {
    CHECK(p.makespan > block_wise.makespan);
    CHECK(p.makespan.seconds() >= p.estimate.lower_bound);
  }
  SECTION("in the smart schedule only the rows of the rank's own group wait for them, and come last") {
    Candidate smart = with_copy();
    smart.expert_places[0].experts[0].holders.back().share = 0;  // the copy takes its own rank's tokens alone
    smart.placement = "fastermoe";
    smart.schedule = "smart";
    smart.pipeline_degree = 2;
    const Prediction q = predict({s.model, s.workload, s.cluster}, smart);
    const TimelineSpan *weights = first_span(q.program, q.timeline, "expert down weights", 2),
                       *first = first_span(q.program, q.timeline, "expert up projection", 2),
                       *last = first_span(q.program, q.timeline, "expert up projection", 2, 1);
    REQUIRE((weights && first && last));
    CHECK(first->start < weights->end);
    CHECK(weights->end <= last->start);
    CHECK(q.makespan.seconds() >= q.estimate.lower_bound);
  }
  SECTION("in a pipeline they are block-wise") {
    c = with_copy({.pp = 2, .dp = 2, .ep = 2});
    c.expert_places = {contiguous_placement(8, 2)};
    add_holder(c.expert_places[0].experts[0], rank(1), 1);
    const SimTime without = predict({s.model, s.workload, s.cluster}, c).makespan;
    c.placement = "pro_prophet_planner";
    Candidate planned = c;
    planned.placement = "pro_prophet";  // its ranks tell their loads, too
    CHECK(predict({s.model, s.workload, s.cluster}, c).makespan ==
          predict({s.model, s.workload, s.cluster}, planned).makespan);
    CHECK(without <= predict({s.model, s.workload, s.cluster}, c).makespan);
  }
}

TEST_CASE("Copies take memory: weights and gradients, no optimizer states") {
  const Small s = small(skewed());
  const Candidate c = with_copy();
  Candidate plain = c;
  plain.expert_places.clear();
  const double expert = 3.0 * 256 * 512;  // parameters, gated
  const auto with = stage_parameters(s.model, s.workload, c), without = stage_parameters(s.model, s.workload, plain);
  CHECK(with.front().all.copied == 2 * expert);
  CHECK(with.front().all.expert == without.front().all.expert);
  const MemoryUse more = state_memory(with.front(), s.workload, c.degrees),
                  less = state_memory(without.front(), s.workload, c.degrees);
  CHECK((more.weights - less.weights).value() == Approx(2 * expert * 2));
  CHECK((more.gradients - less.gradients).value() == Approx(2 * expert * 4));
  CHECK(more.optimizer == less.optimizer);
}

TEST_CASE("The fullest rank of a placement is one of the ranks, over all layers of a stage") {
  // Rank 0: three homes. Rank 1: one home and two copies. Ranks 2 and 3: two homes and one copy.
  SmallCase unsharded = skewed();
  unsharded.zero_stage = 0;
  const Small s = small(unsharded);
  Candidate c = with_copy();
  Placement placement = placement_of_homes({0, 0, 0, 1, 2, 2, 3, 3});
  for (const auto& [expert, to] : {std::pair(0, 1), std::pair(1, 1), std::pair(0, 2), std::pair(0, 3)}) {
    add_holder(placement.experts[static_cast<std::size_t>(expert)], rank(to), 1);
  }
  c.expert_places = {placement};
  Candidate plain = c;
  plain.expert_places.clear();
  const double expert = 3.0 * 256 * 512, layers = 2;
  const auto with = stage_parameters(s.model, s.workload, c), without = stage_parameters(s.model, s.workload, plain);
  const double home_bytes = 2 + 4 + 12;  // bf16 weights, fp32 gradients, Adam's two moments and master copy in fp32
  const double copy_bytes = 2 + 4;
  const auto held = [&](double homes, double copies) { return homes * home_bytes + copies * copy_bytes; };
  const double fullest = std::max({held(3, 0), held(1, 2), held(2, 1)});
  const auto total = [&](const StageParameters& stage) { return state_memory(stage, s.workload, c.degrees).total(); };
  CHECK((total(with.front()) - total(without.front())).value() == Approx(layers * expert * (fullest - held(2, 0))));
  CHECK(with.front().all.expert == layers * 3 * expert);
  CHECK(with.front().all.copied == 0);
}

TEST_CASE("A placement that evens the loads makes the iteration faster") {
  SmallCase wide = skewed();
  wide.hidden = 1024;
  wide.expert_hidden = 4096;
  wide.sequence = 2048;
  wide.experts = 8;
  const Small s = small(wide);
  Candidate plain = with_copy();
  plain.expert_places.clear();
  Candidate placed = plain;
  Placement p = contiguous_placement(8, 4);
  for (const int r : {1, 2, 3}) add_holder(p.experts[0], rank(r), 1);
  // Which expert is hot is drawn: give all of them copies everywhere.
  for (ExpertPlacement& e : p.experts) {
    for (int r = 0; r < 4; ++r) {
      if (!e.holder(rank(r))) add_holder(e, rank(r), 1);
    }
  }
  placed.expert_places = {p};
  const auto time = [&](const Candidate& c) { return predict({s.model, s.workload, s.cluster}, c).makespan; };
  CHECK(time(placed) < time(plain));
}

TEST_CASE("An iteration with placed experts is simulated within its bounds, however they are placed") {
  Random random(5);
  for (int i = 0; i < 60; ++i) {
    SmallCase any = random_case(random);
    any.capacity = "none";
    const Small s = small(any);
    const std::int64_t world = s.cluster.world_size(), experts = any.experts;
    Candidate c;
    c.degrees = {.dp = world, .edp = 1, .ep = world};
    if (world % 2 == 0 && random.below(2) == 0) c.degrees = {.dp = world, .edp = 2, .ep = world / 2};
    c.placement = random.below(2) == 0 ? "pro_prophet" : "auto";
    Placement p;
    p.nearest = random.below(2) == 0 ? Nearest::Rank : Nearest::Node;
    for (std::int64_t e = 0; e < experts; ++e) {
      ExpertPlacement place;
      for (std::uint64_t h = random.below(3) + 1; h > 0; --h)
        add_holder(place, rank(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(c.degrees.ep)))), 1);
      place.home = place.holders[random.below(place.holders.size())].rank;
      p.experts.push_back(std::move(place));
    }
    c.expert_places = {p};
    if (infeasibility(s.model, s.workload, c, s.cluster.ranks_per_node())) continue;
    const Prediction prediction = predict({s.model, s.workload, s.cluster}, c);
    INFO("case " << i << " of " << world << " ranks");
    CHECK(prediction.makespan.seconds().value() >= prediction.estimate.lower_bound.value() * (1 - 1e-9));
  }
}

}  // namespace moeplan::tests::copy_parts_test
