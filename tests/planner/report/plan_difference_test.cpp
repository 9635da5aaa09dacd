#include "planner/report/plan_difference.hpp"

#include <catch2/catch.hpp>

#include "model/text/document.hpp"

namespace moeplan::tests::plan_difference_test {

using namespace moeplan::planner;

namespace {

RankTime rank_time(std::vector<ClassTime> classes) {
  RankTime t{};
  t.classes = std::move(classes);
  return t;
}

}  // namespace

TEST_CASE("two plans differ by class, by memory part, by decision and by input") {
  Plan a, b;
  a.world_size = b.world_size = 16;
  a.candidate.degrees = {.dp = 16, .edp = 2, .ep = 8};
  b.candidate.degrees = {.dp = 8, .tp = 2, .edp = 2, .ep = 8};
  b.candidate.schedule = "parm_s1";
  b.candidate.order = OperationOrder::Searched;
  Prediction of_a, of_b;
  // Dispatch is compared by what is exposed, 3 s and 1 s; attention by all of it, 5 s in both; norms 1 s and 1.5 s.
  of_a.binding = rank_time({{OpClass::Attention, Seconds(5), Seconds(0), Seconds(5)},
                            {OpClass::Dispatch, Seconds(10), Seconds(3), Seconds(3)},
                            {OpClass::Norm, Seconds(1), Seconds(0), Seconds(1)}});
  of_b.binding = rank_time({{OpClass::Attention, Seconds(5), Seconds(0), Seconds(5)},
                            {OpClass::Dispatch, Seconds(9), Seconds(1), Seconds(1)},
                            {OpClass::TensorParallel, Seconds(1), Seconds(0.25), Seconds(0.25)},
                            {OpClass::Norm, Seconds(1.5), Seconds(0), Seconds(1.5)}});
  of_a.memory = {Bytes(10), Bytes(20), Bytes(30), Bytes(40), Bytes(50), Bytes(60), Bytes(0)};
  of_b.memory = {Bytes(10), Bytes(20), Bytes(15), Bytes(40), Bytes(50), Bytes(60), Bytes(0)};
  a.inputs.cluster = b.inputs.cluster = parse_yaml("{gpu: {memory: 80 GB}, nodes: 2}", "a");
  a.inputs.model = parse_yaml("{layers: [1, 2], name: m}", "a");
  b.inputs.model = parse_yaml("{layers: [1, 3], bias: true}", "b");
  a.inputs.workload = b.inputs.workload = parse_yaml("{batch: 1}", "a");
  const PlanDifference d = plan_difference(a, of_a, b, of_b);

  SECTION("classes by the size of the change, those of one plan alone too") {
    REQUIRE(d.classes.size() == 4);
    CHECK(d.classes[0].op_class == OpClass::Dispatch);
    CHECK(d.classes[0].visible.second - d.classes[0].visible.first == Seconds(1 - 3));
    CHECK(d.classes[0].exposed.first == Seconds(3));
    CHECK(d.classes[1].op_class == OpClass::Norm);
    CHECK(d.classes[2].op_class == OpClass::TensorParallel);
    CHECK(d.classes[2].visible.first == Seconds(0));
    CHECK(d.classes[3].op_class == OpClass::Attention);
  }
  SECTION("every part of the memory") {
    REQUIRE(d.memory.size() == 6);
    CHECK(d.memory[2].first == "optimizer");
    CHECK(d.memory[2].second.second - d.memory[2].second.first == Bytes(15 - 30));
  }
  SECTION("only the decisions that differ") {
    REQUIRE(d.decisions.size() == 4);
    CHECK(d.decisions[0].first == "schedule");
    CHECK(d.decisions[1].first == "order");
    CHECK(d.decisions[1].second.second == "searched");
    CHECK(d.decisions[2].first == "tp");
    CHECK(d.decisions[2].second.second == "2");
    CHECK(d.decisions[3].first == "dp");
  }
  SECTION("inputs by key path: changed, gone and new") {
    CHECK(d.inputs == std::vector<std::string>{"model.layers", "model.name (gone)", "model.bias (new)"});
  }
  SECTION("no more key paths than asked for") { CHECK(plan_difference(a, of_a, b, of_b, 2).inputs.size() == 2); }
}

}  // namespace moeplan::tests::plan_difference_test
