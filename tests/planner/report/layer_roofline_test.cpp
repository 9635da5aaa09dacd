#include "planner/report/layer_roofline.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "model/costs/parm.hpp"
#include "planner/lowering/blocks/gated_routing.hpp"
#include "tests/support/small_cases.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::layer_roofline_test {

using namespace moeplan::planner;

namespace {

const LayerPoint& named(const std::vector<LayerPoint>& points, const std::string& name) {
  const auto it = std::find_if(points.begin(), points.end(), [&](const LayerPoint& p) { return p.name == name; });
  INFO(name);
  REQUIRE(it != points.end());
  return *it;
}

/// Four GPUs with an expert each, one of which a token selects.
tests::SmallCase four_experts() {
  tests::SmallCase c;
  c.hidden = 1024;
  c.expert_hidden = 2048;
  c.experts = 4;
  c.top_k = 1;
  c.sequence = 2048;
  c.dtype = "fp32";
  c.zero_stage = 0;
  c.startup = "0";
  c.message_overhead = "0";
  c.recompute = "none";
  return c;
}

Candidate expert_parallel() {
  Candidate plan;
  plan.degrees = {.dp = 4, .ep = 4};
  return plan;
}

std::vector<LayerPoint> points_of(const tests::Small& s, const Candidate& plan) {
  return layer_roofline({s.model, s.workload, s.cluster}, plan);
}

}  // namespace

TEST_CASE("An MoE layer's points on the DDL-roofline") {
  const tests::Small s = tests::small(four_experts());
  const std::vector<LayerPoint> points = points_of(s, expert_parallel());
  const double tokens = 2048, H = 1024, ffn = 2048, N = 4, b = 4;
  const double flops = 3 * 6 * tokens * H * ffn;  // a GPU's, gated, backward twice forward
  SECTION("all of them compute the same products, so only times set them apart") {
    for (const LayerPoint& p : points) {
      CAPTURE(p.name);
      // Forward all gathered tokens gate, backward each rank's own.
      const double gate = 2 * tokens * H * N * (p.name == "model parallelism" ? N + 2 : 3);
      CHECK(p.roofline.average.value() * p.makespan.seconds().value() == Approx(flops + gate));
    }
  }
  SECTION("balanced expert parallelism in turn lies on eq. (6): Lat_e2e = 3 Lat_comp + 4 Lat_comm") {
    const DdlRoofline& r = named(points, "expert parallelism").roofline;
    CHECK(r.average.value() == Approx(r.semi_ideal.value()).epsilon(1e-6));
    // Four all-to-alls of B H elements, of which a quarter stays, at 200 GB/s, and a latency of two hops each.
    CHECK(r.communication.value() == Approx(4 * (0.75 * tokens * H * b / 200e9 + 2 * 0.5e-6)).epsilon(1e-3));
    CHECK(named(points, "this plan").roofline.average == r.average);
  }
  SECTION("data parallelism all-reduces the gradients of all experts, beside the rest of the backward pass") {
    const LayerPoint& p = named(points, "data parallelism");
    const Seconds all_reduce =
        group_collective_time(s.cluster, 4, Collective::AllReduce, 4, 1, Bytes(N * 3 * H * ffn * 4));
    CHECK(p.roofline.communication.value() == Approx(all_reduce.value()).epsilon(1e-3));
    CHECK(p.roofline.average > p.roofline.semi_ideal);  // "slightly above the semi-ideal curve"
    CHECK(p.roofline.ratio < named(points, "expert parallelism").roofline.ratio);
  }
  SECTION("model parallelism gathers tokens and sums results, and nothing hides") {
    const LayerPoint& p = named(points, "model parallelism");
    const auto time = [&](Collective collective) {
      return group_collective_time(s.cluster, 4, collective, 4, 1, Bytes(N * tokens * H * b)).value();
    };
    CHECK(p.roofline.communication.value() ==
          Approx(2 * time(Collective::AllGather) + time(Collective::AllReduce) + time(Collective::ReduceScatter))
              .epsilon(1e-3));
    CHECK(p.roofline.average.value() == Approx(p.roofline.semi_ideal.value()).epsilon(1e-6));
  }
  SECTION(
      "chunks hide communication: the best schedule is above eq. (6), and below eq. (5) where compute is not slowed") {
    const auto best = std::min_element(points.begin() + 4, points.end(), [](const LayerPoint& a, const LayerPoint& b2) {
      return a.makespan < b2.makespan;
    });
    REQUIRE(best != points.end());
    CHECK(best->candidate.pipeline_degree > 1);
    CHECK(best->roofline.average > best->roofline.semi_ideal);
    CHECK(best->makespan < named(points, "expert parallelism").makespan);
  }
}

TEST_CASE("Load imbalance puts expert parallelism far below eq. (6)") {
  tests::SmallCase c = four_experts();
  c.routing = "{shape: hot_expert, hot_fraction: 0.25, hot_factor: 9}";
  const tests::Small s = tests::small(c);
  const std::vector<LayerPoint> points = points_of(s, expert_parallel());
  const DdlRoofline& r = named(points, "expert parallelism").roofline;
  const Moe& moe = std::get<Moe>(s.model.layers.back().pattern.front().ffn);
  const std::vector<std::int64_t> load = routing_counts(moe, s.workload, 2048, expert_parallel().degrees).expert_load();
  const double most = static_cast<double>(*std::max_element(load.begin(), load.end()));
  REQUIRE(most / (2048.0 * 4) == Approx(9.0 / 12));
  // P_avg counts the mean's FLOPs, eq. (6) those of the worker that all wait for; the gate's are all that differs.
  CHECK(r.average / r.semi_ideal == Approx(2048.0 / most).epsilon(0.01));
  const tests::Small even = tests::small(four_experts());
  const std::vector<LayerPoint> even_points = points_of(even, expert_parallel());
  const DdlRoofline& balanced = named(even_points, "expert parallelism").roofline;
  // Eq. (1): three times the products, which are most of what it computes.
  CHECK(r.computation / balanced.computation > 2);
  CHECK(r.computation / balanced.computation < most / 2048);
}

TEST_CASE("Data parallelism sends alpha H / B times what model parallelism does, as FasterMoE says") {
  // [FasterMoE] sec. 3.3, on its cluster johnny with MoE-GPT (H = 2048, alpha H = 4096, N = 16 experts): all-reduces of
  // 2 N alpha H^2 against two of N B H elements. Here model parallelism gathers its input once more, 5 / 4 of it for
  // one expert a token, and gradients are fp32.
  ModelSpec model = read_model(load_document(tests::kConfigs / "models" / "fastermoe_moe_gpt.yaml"));
  for (RepeatedLayers& run : model.layers) {
    for (LayerSpec& layer : run.pattern) {
      if (Moe* moe = std::get_if<Moe>(&layer.ffn)) moe->top_k = 1;
    }
  }
  Workload workload = read_workload(load_document(tests::kConfigs / "workloads" / "default.yaml"));
  workload.dtype = Dtype::Fp32;
  workload.sequence_length = 1024;
  const Cluster cluster = tests::built_cluster("fastermoe_johnny");
  Candidate plan;
  plan.degrees = {.dp = 16, .ep = 16};
  const std::vector<LayerPoint> points = layer_roofline({model, workload, cluster}, plan);
  const double data = named(points, "data parallelism").roofline.communication.value();
  const double tensor = named(points, "model parallelism").roofline.communication.value();
  const double B = 1024, alpha_H = 4096;
  CHECK(data / tensor == Approx(alpha_H / B / (5.0 / 4)).epsilon(0.05));
}

TEST_CASE("A layer of a pipeline's stage is what it is without the other stages") {
  tests::SmallCase c = four_experts();
  c.nodes = 2;
  const tests::Small both = tests::small(c);
  Candidate plan = expert_parallel();
  plan.degrees.pp = 2;
  const std::vector<LayerPoint> of_stage = points_of(both, plan);
  const std::vector<LayerPoint> alone = points_of(tests::small(four_experts()), expert_parallel());
  REQUIRE(of_stage.size() == alone.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    CAPTURE(alone[i].name);
    CHECK(of_stage[i].name == alone[i].name);
    CHECK(of_stage[i].makespan == alone[i].makespan);
  }
}

TEST_CASE("Points of very many ranks that all differ are left out, but for the plan itself") {
  tests::SmallCase c = four_experts();
  c.nodes = 32;
  c.gpus_per_node = 8;
  c.experts = 256;
  c.sequence = 64;
  c.global_batch = 256;
  c.routing = "{shape: zipf, sampled: true, seed: 1}";
  const tests::Small skewed = tests::small(c);
  c.routing = "{shape: uniform}";
  const tests::Small even = tests::small(c);
  Candidate plan;
  plan.degrees = {.dp = 256, .edp = 8, .ep = 32};
  const auto has = [](const std::vector<LayerPoint>& points, const std::string& name) {
    return std::any_of(points.begin(), points.end(), [&](const LayerPoint& p) { return p.name == name; });
  };
  CHECK(has(points_of(even, plan), "expert parallelism"));
  const std::vector<LayerPoint> points = points_of(skewed, plan);
  CHECK(has(points, "this plan"));
  CHECK(has(points, "data parallelism"));
  CHECK_FALSE(has(points, "expert parallelism"));
}

TEST_CASE("A model without MoE layers has no points") {
  tests::Small s = tests::small(four_experts());
  s.model.layers.pop_back();
  Candidate plan;
  plan.degrees = {.dp = 4, .edp = 4};
  CHECK(points_of(s, plan).empty());
}

}  // namespace moeplan::tests::layer_roofline_test
