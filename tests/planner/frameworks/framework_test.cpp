#include "planner/frameworks/framework.hpp"

#include <catch2/catch.hpp>

#include "model/text/document.hpp"
#include "planner/plan/inputs.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::framework_test {

using namespace planner;

namespace {

constexpr const char* kFile = R"(framework: toy
title: Toy
versions: ["1", "2"]
schedules: {baseline: {}, pipelined: {as: overlap, since: "2"}}
recompute: {moe_act: {}, full: {}}
zero_stages: {0: {}, 1: {}}
precisions: {bf16: {}}
rules: [sequence_parallel_with_tp]
workload: {gate_weights: in_experts}
arguments: {layers: int, kind: [a, b], late: {type: float, since: "2"}}
sources: {schedules: "somewhere"}
)";

Framework toy(const std::string& version = "", std::string text = kFile) {
  return read_framework(parse_yaml(text, "toy.yaml"), version);
}

Workload workload(const std::string& more) {
  return read_workload(
      parse_yaml("name: w\nglobal_batch: 8\nsequence_length: 128\nmode: train\ndtype: bf16\n"
                 "capacity_factor: none\nrouting: {shape: uniform}\noptimizer: adam\n" +
                     more,
                 "w.yaml"));
}

}  // namespace

TEST_CASE("A framework has what its file lists for its version") {
  const Framework newest = toy();
  CHECK(newest.version == "2");
  CHECK(newest.has(FrameworkDecision::Schedules, "pipelined"));
  CHECK(newest.own_name(FrameworkDecision::Schedules, "pipelined") == "overlap");
  CHECK(newest.overrides == std::vector<std::string>{"workload.gate_weights=in_experts"});
  CHECK(newest.arguments.at("kind").choices == std::vector<std::string>{"a", "b"});
  CHECK(newest.arguments.at("late").type == FrameworkArgument::Type::Float);
  const Framework older = toy("1");
  CHECK(older.has(FrameworkDecision::Schedules, "baseline"));
  CHECK_FALSE(older.has(FrameworkDecision::Schedules, "pipelined"));
  CHECK_FALSE(older.arguments.contains("late"));
  CHECK_FALSE(older.has(FrameworkDecision::Overlaps, "ep_overlap"));
}

TEST_CASE("A framework's file is read strictly") {
  CHECK(error_of([] { (void)toy("3"); }) == "toy.yaml:3:11: versions: \"3\" is none of 1, 2");
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = kFile;
    text.replace(text.find(from), from.size(), to);
    return error_of([&] { (void)toy("", text); });
  };
  CHECK_THAT(with("baseline: {}", "basline: {}"), Catch::Contains("basline"));
  CHECK_THAT(with("since: \"2\"}}", "since: \"9\"}}"), Catch::Contains("\"9\" is no version of this file"));
  CHECK_THAT(with("layers: int", "layers: integer"), Catch::Contains("arguments.layers: \"integer\" is no type"));
  CHECK_THAT(with("sequence_parallel_with_tp", "sequence_parallel"), Catch::Contains("is no rule"));
  CHECK_THAT(with("sources:", "source:"), Catch::Contains("did you mean \"sources\""));
}

TEST_CASE("Every shipped framework reads in every version, and says where its facts are from") {
  for (const std::string& name : config_names("frameworks")) {
    CAPTURE(name);
    const Node document = load_document(find_config("frameworks", name));
    for (const Node& version : document.find("versions")->items) {
      CAPTURE(version.scalar);
      const Framework f = load_framework(name + "@" + version.scalar);
      CHECK(f.name == name);
      CHECK(f.has(FrameworkDecision::Schedules, "baseline"));
      CHECK_FALSE(f.arguments.empty());
      for (const char* key : {"all_to_alls", "precisions", "arguments"}) CHECK(f.sources.contains(key));
    }
  }
  CHECK(error_of([] { (void)load_framework("megatron-bridg"); }).find("did you mean \"megatron-bridge\"?") !=
        std::string::npos);
}

TEST_CASE("Of selective recomputation a framework does the modules that it has") {
  CHECK(recomputed_by(toy(), Recompute::Selective) == Recompute{RecomputeModule::MoeActivation});
  CHECK(recomputed_by(toy(), Recompute::Full) == Recompute::Full);
  CHECK(recomputed_by(toy(), Recompute::None) == Recompute::None);
}

TEST_CASE("A workload that a framework does not run is refused where it is written") {
  const auto error = [](const std::string& more) {
    const std::string text = "zero_stage: 1\nrecompute: none\n";
    const Node document = parse_yaml(more.empty() ? text : more, "w.yaml");
    return error_of([&] { check_workload(toy(), workload(more.empty() ? text : more), document); });
  };
  CHECK(error("").empty());
  CHECK(error("zero_stage: 3\nrecompute: none\n") == "w.yaml:1:13: zero_stage: \"3\" is not in Toy 2; it has 0, 1");
  CHECK_THAT(error("zero_stage: 0\nrecompute: mlp+moe_act\n"),
             Catch::Contains("recompute: ") && Catch::Contains("is not in Toy 2; it has full, moe_act"));
  CHECK(error("zero_stage: 0\nrecompute: selective\n").empty());
  CHECK_THAT(error("zero_stage: 0\nrecompute: full\nrecompute_layers: first:2\n"),
             Catch::Contains("recompute_layers: \"first:2\" is not in Toy 2"));
  const std::string graphs = "zero_stage: 1\nrecompute: full\ncuda_graph: attn+moe_router\n";
  CHECK_THAT(
      error_of([&] { check_workload(load_framework("megatron"), workload(graphs), parse_yaml(graphs, "w.yaml")); }),
      Catch::Contains("w.yaml:2:12: recompute: Megatron-LM recomputes nothing that CUDA graphs of modules "
                      "(attn+moe_router) capture; full does"));
  CHECK_FALSE(toy().serves());
  CHECK_THAT(
      error_of([] { check_workload(load_framework("sglang"), workload("zero_stage: 1\nrecompute: none\n"), {}); }),
      Catch::Contains("mode: SGLang serves: expected forward"));
}

}  // namespace moeplan::tests::framework_test
