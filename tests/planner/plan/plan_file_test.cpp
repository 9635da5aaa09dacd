#include <catch2/catch.hpp>

#include "planner/plan/plan.hpp"
#include "tests/support/checks.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::plan_file_test {

using namespace moeplan::planner;
using moeplan::tests::error_of;
using moeplan::tests::small;
using moeplan::tests::SmallCase;
using moeplan::tests::TemporaryDirectory;

namespace {

Plan some_plan() {
  SmallCase c;
  c.routing = "{shape: zipf, zipf_exponent: 0.7, sampled: true, seed: 12}";
  const tests::Small s = small(c);
  Plan plan;
  plan.inputs = s.documents;
  plan.inputs.overrides = {"cluster.gpu.memory=40 GB", "workload.routing={shape: zipf}"};
  plan.world_size = 4;
  plan.candidate.degrees = {.pp = 1, .dp = 2, .cp = 1, .tp = 2, .edp = 1, .ep = 2, .esp = 2};
  plan.candidate.schedule = "parm_s1";
  plan.candidate.micro_batch = 2;
  plan.candidate.recompute = Recompute::Selective;  // as its workload says
  const Prediction p = predict({s.model, s.workload, s.cluster}, plan.candidate);
  plan.makespan = p.makespan;
  plan.estimate = p.estimate;
  plan.global_bound = Seconds(0.9 * p.estimate.lower_bound.value());
  return plan;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("A plan file reads back as the plan that was written") {
  const TemporaryDirectory dir;
  const Plan plan = some_plan();
  const auto path = dir.path() / "plan.yaml";
  write_plan(plan, path);
  const Plan read = read_plan(path);
  SECTION("decisions") {
    CHECK(read.candidate == plan.candidate);
    CHECK(read.world_size == plan.world_size);
  }
  SECTION("the order of operations too") {
    Plan searched = plan;
    searched.candidate.order = OperationOrder::Searched;
    write_plan(searched, path);
    CHECK(read_plan(path).candidate == searched.candidate);
  }
  SECTION("modules are a set: their order in the workload does not matter") {
    Plan modules = plan;
    modules.candidate.recompute = *parse_recompute("layernorm+moe_act");
    modules.inputs.workload.set("recompute", Node::text("moe_act+layernorm"));
    write_plan(modules, path);
    CHECK(read_plan(path).candidate.recompute == modules.candidate.recompute);
  }
  SECTION("layers that run apart too") {
    Plan other = plan;
    other.candidate.runs = {{"parm_s1", "linear", 2}, {"opt_sche", "2dh", 3, *parse_codec_pair("int8/none")}};
    write_plan(other, path);
    CHECK(read_plan(path).candidate == other.candidate);
  }
  SECTION("how rows travel too") {
    Plan other = plan;
    other.candidate.all_to_all = "2dh";
    other.candidate.pipeline_degree = 4;
    other.candidate.codec = *parse_codec_pair("zfp/none");
    write_plan(other, path);
    CHECK(read_plan(path).candidate == other.candidate);
  }
  SECTION("predictions, to the last bit") {
    CHECK(read.makespan == plan.makespan);
    CHECK(read.estimate.closed_form == plan.estimate.closed_form);
    CHECK(read.estimate.lower_bound == plan.estimate.lower_bound);
    CHECK(read.estimate.bound_by == plan.estimate.bound_by);
    CHECK(read.global_bound == plan.global_bound);
    CHECK(read.optimality_gap() == plan.optimality_gap());
    CHECK(read.schedule_gap() == plan.schedule_gap());
  }
  SECTION("a pipeline's too") {
    Plan pipeline = plan;
    pipeline.candidate.degrees = {.pp = 2, .dp = 1, .cp = 1, .tp = 2, .edp = 1, .ep = 2, .esp = 1};
    pipeline.candidate.virtual_stages = 2;
    pipeline.candidate.pipeline = PipelineShape::V;
    pipeline.candidate.sequence_parallel = true;
    pipeline.candidate.ep_overlap = pipeline.candidate.delays_weight_gradients = true;
    pipeline.candidate.rank_order = RankOrder::ReplicasInner;
    pipeline.candidate.recompute = Recompute::Full;
    pipeline.inputs.workload.set("recompute", Node::text("full"));
    write_plan(pipeline, path);
    CHECK(read_plan(path).candidate == pipeline.candidate);
  }
  SECTION("inputs, where they came from and what was overridden") {
    CHECK(read.inputs.cluster.same_content(plan.inputs.cluster));
    CHECK(read.inputs.model.same_content(plan.inputs.model));
    CHECK(read.inputs.workload.same_content(plan.inputs.workload));
    CHECK(read.inputs.cluster_source == plan.inputs.cluster_source);
    CHECK(read.inputs.overrides == plan.inputs.overrides);
  }
  SECTION("the same plan is the same bytes, and so is the plan that was read") {
    write_plan(plan, dir.path() / "again.yaml");
    write_plan(read, dir.path() / "read.yaml");
    CHECK(read_text_file(dir.path() / "again.yaml") == read_text_file(path));
    CHECK(read_text_file(dir.path() / "read.yaml") == read_text_file(path));
  }
  SECTION("the plan that was read predicts the same time") {
    const Cluster cluster = build_cluster(read_cluster(read.inputs.cluster), read.world_size);
    const Prediction p =
        predict({read_model(read.inputs.model), read_workload(read.inputs.workload), cluster}, read.candidate);
    CHECK(p.makespan == plan.makespan);
  }
}

TEST_CASE("A plan file that was edited badly is refused with what is wrong") {
  const TemporaryDirectory dir;
  write_plan(some_plan(), dir.path() / "plan.yaml");
  const std::string good = read_text_file(dir.path() / "plan.yaml");
  const auto error = [&](const std::string& text) {
    const auto path = dir.write("bad.yaml", text);
    return error_of([&] {
      const Plan plan = read_plan(path);
      (void)read_cluster(plan.inputs.cluster);
      (void)read_model(plan.inputs.model);
      (void)read_workload(plan.inputs.workload);
    });
  };
  CHECK(error(good).empty());
  SECTION("a decision that contradicts the workload") {
    const std::string edited = replaced(good, "  recompute: selective\n  schedule", "  recompute: full\n  schedule");
    CHECK_THAT(
        error(edited),
        Catch::Contains("decision.recompute: \"full\" contradicts this plan's workload.recompute, \"selective\"; "
                        "change that too, or set it to auto"));
    const std::size_t workload = edited.find("\nworkload:");
    CHECK(
        error(edited.substr(0, workload) + replaced(edited.substr(workload), "recompute: selective", "recompute: auto"))
            .empty());
  }
  SECTION("an unknown key") {
    CHECK_THAT(error(good + "extra: 1\n"), Catch::Contains("bad.yaml:") && Catch::Contains("extra: unknown key"));
    CHECK_THAT(error(replaced(good, "decision:\n  tp: 2", "decision:\n  tpp: 2")),
               Catch::Contains("decision.tp") && Catch::Contains("decision.tpp"));
  }
  SECTION("degrees that do not make the ranks") {
    CHECK_THAT(
        error(replaced(good, "  dp: 2", "  dp: 4")),
        Catch::Contains("the degrees do not make 4 ranks: pp 1 x dp 4 x cp 1 x tp 2, pp 1 x edp 1 x ep 2 x esp 2"));
  }
  SECTION("degrees whose product would overflow") {
    std::string text = replaced(good, "  ep: 2", "  ep: 1048576");
    text = replaced(text, "  esp: 2", "  esp: 1048576");
    text = replaced(text, "  edp: 1", "  edp: 1048576");
    CHECK_THAT(error(text), Catch::Contains("the degrees do not make 4 ranks"));
  }
  SECTION("an unknown schedule, with the nearest") {
    CHECK_THAT(error(replaced(good, "schedule: parm_s1", "schedule: parm_s7")),
               Catch::Contains("decision.schedule: \"parm_s7\" is not known; did you mean \"parm_s1\"?"));
  }
  SECTION("an unknown all-to-all or codec, with the nearest, and too many chunks") {
    CHECK_THAT(error(replaced(good, "all_to_all: linear", "all_to_all: 2dg")),
               Catch::Contains("decision.all_to_all: \"2dg\" is not known; did you mean \"2dh\"?"));
    CHECK_THAT(error(replaced(good, "codec: none", "codec: zfp/int4")),
               Catch::Contains("decision.codec: \"int4\" is not known; did you mean \"int8\"?"));
    CHECK_THAT(error(replaced(good, "pipeline_degree: 1", "pipeline_degree: 65")),
               Catch::Contains("decision.pipeline_degree: 65 is out of range"));
  }
  SECTION("a pair of one codec is read in its short form") {
    CHECK(read_plan(dir.write("zfp.yaml", replaced(good, "codec: none", "codec: zfp/zfp"))).candidate.codec ==
          parse_codec_pair("zfp"));
  }
  SECTION("decisions that this version does not know") {
    CHECK_THAT(error(replaced(good, "order: listed", "order: best")),
               Catch::Contains("decision.order: \"best\" is not known; one of listed, searched"));
    CHECK_THAT(error(replaced(good, "  pp: 1", "  pp: 0")), Catch::Contains("decision.pp: 0 is out of range"));
    CHECK_THAT(error(replaced(good, "  pp: 1", "  pp: 2")), Catch::Contains("the degrees do not make 4 ranks: pp 2"));
    CHECK_THAT(error(replaced(good, "sequence_parallel: false", "sequence_parallel: 3")),
               Catch::Contains("decision.sequence_parallel"));
  }
  SECTION("a later schema") {
    CHECK_THAT(error(replaced(good, "schema_version: 1", "schema_version: 2")),
               Catch::Contains("schema_version: 2 is out of range; expected 1"));
  }
  SECTION("overrides that are no texts") {
    CHECK_THAT(error(replaced(good, "cluster.gpu.memory=40 GB", "{a: b}")), Catch::Contains("sources.overrides[0]"));
  }
  SECTION("cut off anywhere, or empty") {
    for (std::size_t twentieth = 0; twentieth < 20; ++twentieth) {
      const std::size_t length = good.size() * twentieth / 20;
      CAPTURE(length);
      CHECK_THAT(error(good.substr(0, length)), Catch::Contains("bad.yaml"));
    }
  }
  SECTION("no file at all") {
    CHECK_THAT(error_of([&] { (void)read_plan(dir.path() / "none.yaml"); }),
               Catch::Contains("none.yaml: no such file"));
  }
}

}  // namespace moeplan::tests::plan_file_test
