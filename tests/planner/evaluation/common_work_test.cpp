#include "planner/evaluation/common_work.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "planner/evaluation/evaluation.hpp"
#include "planner/layer/all_to_all.hpp"
#include "planner/search/enumeration.hpp"
#include "planner/search/search_space.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::common_work_test {

using namespace moeplan::planner;

namespace {

/// The variants of an enumerated candidate that searches try, those without Program aside.
std::vector<Candidate> variants(const Problem& problem, const Candidate& base) {
  std::vector<Candidate> out;
  for (const std::int64_t micro_batch : micro_batches(problem.workload(), base.degrees)) {
    for (std::int64_t parts = 1; parts <= (base.degrees.pp > 1 ? 2 : 1); ++parts) {
      const WireFormat block = WireFormat::Fp8Block;
      const bool has_codec = !problem.workload().codecs.allowed.empty();
      for (const auto& [all_to_all, chunks, codec] : std::vector<std::tuple<std::string, std::int64_t, CodecPair>>{
               {"linear", 1, {}},
               {"linear", 3, {}},
               {"linear", 1, has_codec ? CodecPair{block, std::nullopt} : CodecPair{}},
               {"node_dedup", 1, {}},
               {"fused", 1, {}}}) {
        Candidate c = base;
        c.micro_batch = micro_batch;
        c.virtual_stages = parts;
        c.pipeline = PipelineShape::Interleaved;
        c.all_to_all = all_to_all;
        c.pipeline_degree = chunks;
        c.codec = codec;
        for (const bool overlaps : {false, true}) {
          c.ep_overlap = overlaps;
          c.delays_weight_gradients = overlaps && parts == 1;
          if (!evaluate(problem, c, Depth::Feasibility).infeasibility) out.push_back(c);
          if (parts == kPartsOfV) {
            Candidate& v = out.emplace_back(c);
            v.pipeline = PipelineShape::V;
            if (evaluate(problem, v, Depth::Feasibility).infeasibility) out.pop_back();
          }
          if (problem.model().num_mtp_layers == 0) continue;
          c.layout = even_layout(problem.model().num_layers(), 1, base.degrees.pp * parts);
          if (!evaluate(problem, c, Depth::Feasibility).infeasibility) out.push_back(c);
          c.layout = {};
        }
      }
    }
  }
  return out;
}

}  // namespace

TEST_CASE("The work that strategies have in common takes no longer than any iteration with it", "[slow]") {
  SmallCase c;
  c.moe_layers = 3;
  SECTION("balanced load") {}
  SECTION("without training") { c.mode = "forward"; }
  SECTION("skewed load on two nodes") {
    c.nodes = 2;
    c.gpus_per_node = 2;
    c.routing = "{shape: zipf, sampled: true, seed: 3}";
  }
  SECTION("experts that do not divide") { c.experts = 6; }
  SECTION("stages of four ranks on nodes of three") {
    c.nodes = 8;
    c.gpus_per_node = 3;
    c.moe_layers = 5;
    c.global_batch = 24;
    c.micro_batch = "1";
  }
  bool overlaps_gradients = true;
  SECTION("weights that are gathered and gradients that are reduced for longer than a microbatch takes") {
    c.hidden = c.expert_hidden = 2048;
    std::tie(c.zero_stage, overlaps_gradients) =
        GENERATE(table<std::int64_t, bool>({{0, true}, {1, true}, {1, false}, {3, true}}));
  }
  Small s = small(c);
  s.workload.overlap_gradients = overlaps_gradients;
  SECTION("a layer of multi-token prediction, planned by layouts and left out") { s.model.num_mtp_layers = 1; }
  SECTION("a layer of multi-token prediction, trained along") { s.model.num_mtp_layers = s.workload.mtp_layers = 1; }
  SECTION("rows that may be dispatched as the experts' operands") {
    s.workload.precision = Precision::Fp8Block;
    s.workload.codecs.allowed = {WireFormat::Fp8Block};
    s.workload.gate_weights = GateWeights::InExperts;
    s.cluster.gpu.peak[Dtype::Fp8] = FlopsPerSecond(200e12);
    if (GENERATE(false, true)) s.cluster.gpu.host_time_per_operation = Seconds(1e-3);
  }
  SECTION("a host that takes longer than its GPU") { s.cluster.gpu.host_time_per_operation = Seconds(1e-3); }
  const Problem problem(s.model, s.workload, s.cluster);
  CommonWork common_work(problem);
  std::size_t compared = 0;
  for (const Candidate& base : enumerated(problem, {}).feasible) {
    for (const Candidate& v : variants(problem, base)) {
      CAPTURE(v.degrees.pp, v.degrees.tp, v.degrees.ep, v.degrees.esp, v.micro_batch, v.virtual_stages);
      CAPTURE(v.schedule.name(), v.all_to_all.name(), v.pipeline_degree, codec_pair_name(v.codec), v.sequence_parallel,
              v.ep_overlap);
      const Evaluation e = evaluate(problem, v, Depth::Extrapolation, {.checks = Checks::AllButMemory});
      const Seconds bound = common_work.bound(v), rough = common_work.rough_bound(v), own = common_work.own_bound(v);
      CHECK(std::min({bound, rough, own}) > Seconds(0));
      for (const Seconds least : {bound, rough, own, common_work.shared_bound(v)}) {
        // Where no rank represents others, an estimate bounds a rank by its own traffic alone and may be the lower one.
        const bool is_below = least <= e.evaluated.estimate.lower_bound * (1 + 1e-9);
        CHECK((is_below || least <= simulated_makespan(problem, v).seconds() * (1 + 1e-9)));
      }
      ++compared;
    }
  }
  CHECK(compared > 100);
}

TEST_CASE("Bounds with their own exchange have all launches of a host that decides") {
  Small s = small({});
  s.cluster.gpu.host_time_per_operation = Seconds(1e-3);
  const Problem problem(s.model, s.workload, s.cluster);
  CommonWork common_work(problem);
  std::size_t compared = 0;
  for (const Candidate& c : enumerated(problem, {}).feasible) {
    if (c.degrees.pp > 1) continue;
    CAPTURE(c.degrees.tp, c.degrees.ep, c.degrees.esp, c.micro_batch, c.schedule.name());
    const Evaluation e = evaluate(problem, c, Depth::Extrapolation, {.checks = Checks::AllButMemory});
    CHECK(common_work.own_bound(c).value() / e.evaluated.estimate.lower_bound.value() > 0.95);
    ++compared;
  }
  CHECK(compared > 10);
}

TEST_CASE("Bounds for any number of chunks have no waves of tiles, which chunks may fill better") {
  Small s = small({});
  s.cluster.gpu.tile_rows = s.cluster.gpu.tile_columns = 1;
  s.cluster.gpu.num_sms = 1;
  const Problem without_waves(s.model, s.workload, s.cluster);
  Small waiting = small({});
  waiting.cluster.gpu = s.cluster.gpu;
  waiting.cluster.gpu.num_sms = 1000;
  const Problem with_waves(waiting.model, waiting.workload, waiting.cluster);
  CommonWork of_any(without_waves), of_waiting(with_waves);
  std::size_t longer = 0;
  for (const Candidate& c : enumerated(without_waves, {}).feasible) {
    CAPTURE(c.degrees.pp, c.degrees.tp, c.degrees.ep, c.degrees.esp, c.micro_batch, c.schedule.name());
    CHECK(of_waiting.bound(c) == of_any.bound(c));
    const EvaluationOptions options{.checks = Checks::AllButMemory};
    const auto estimate = [&](const Problem& problem) {
      return evaluate(problem, c, Depth::Extrapolation, options).evaluated.estimate.lower_bound;
    };
    if (estimate(with_waves) > estimate(without_waves)) ++longer;
  }
  CHECK(longer > 10);
}

}  // namespace moeplan::tests::common_work_test
