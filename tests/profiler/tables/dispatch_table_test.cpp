#include "profiler/tables/dispatch_table.hpp"

#include <catch2/catch.hpp>

#include "profiler/scores/dispatch_score.hpp"
#include "profiler/tables/table_kind.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::dispatch_table_test {

namespace {

const std::string kHeader =
    "cluster,dispatcher,mode,sms,ranks,nodes,tokens,hidden,top_k,experts,dispatch_dtype,combine_dtype,dispatch_us,"
    "combine_us,source\n";

/// A machine with a dispatcher that takes 10 us there and 20 us back, on one node.
CollectiveModels toy() {
  CollectiveModels m{.cluster = "toy", .ranks_per_node = 8, .measured_ranks = 8};
  m.dispatchers.push_back({.dispatcher = "deepep", .mode = "normal", .combine_format = "", .measured_ranks = 8});
  m.dispatchers[0].dispatch.base = Seconds(10e-6);
  m.dispatchers[0].combine.base = Seconds(20e-6);
  return m;
}

}  // namespace

TEST_CASE("A row of a table of dispatches gives a dispatch and a combine") {
  const TemporaryDirectory files;
  const auto path = files.write("t.csv", kHeader +
                                             "toy,deepep,normal,20,8,1,64,7168,8,256,fp8_block,bf16,5,40,log\n"
                                             "toy,deepep,low_latency,,8,1,64,7168,8,256,fp8_block,bf16,5,40,log\n"
                                             "toy,deepep,normal,,16,2,64,7168,8,256,fp8_block,bf16,5,40,log\n"
                                             "toy,deepep,normal,,8,1,64,7168,8,256,int3,bf16,5,40,log\n");
  CHECK(profiler::table_kind(path) == profiler::TableKind::Dispatches);
  const auto table = profiler::read_dispatch_table(path);
  REQUIRE(table.size() == 4);
  CHECK(table[0].sms == 20);
  CHECK_FALSE(table[1].sms);
  CHECK(table[0].combine.value() == Approx(40e-6));
  const auto rows = profiler::score_dispatches(table, {{"toy", toy()}});
  REQUIRE(rows.size() == 8);
  CHECK(rows[0].id == "2/dispatch");
  CHECK(rows[0].error() == Approx(10.0 / 5 - 1));
  CHECK(rows[0].groups == std::vector<std::string>{"dispatch deepep normal toy 1 node"});
  CHECK(rows[1].id == "2/combine");
  CHECK(rows[1].error() == Approx(20.0 / 40 - 1));
  CHECK(rows[2].reason == "configs/collectives/toy.yaml has no figures of deepep low_latency on one node");
  CHECK(rows[4].reason == "configs/collectives/toy.yaml has no figures of deepep normal on several nodes");
  CHECK(rows[6].reason == "\"int3\" is no format of a row");
  CHECK(rows[7].predicted->value() == Approx(20e-6));
}

TEST_CASE("A table of dispatches says what is wrong with it") {
  const TemporaryDirectory files;
  try {
    (void)profiler::read_dispatch_table(
        files.write("t.csv", kHeader + "toy,deepep,normal,x,8,3,64,7168,9,8,fp8_block,bf16,5,40,log\n"));
    FAIL("the table was read");
  } catch (const InputError& e) {
    REQUIRE(e.diagnostics().size() == 3);
    CHECK(e.diagnostics()[0].message == "is \"x\"; expected a whole number");
    CHECK(e.diagnostics()[1].message == "is \"3\"; expected a divisor of the 8 ranks");
    CHECK(e.diagnostics()[2].message == "is 9 of 8 experts");
  }
}

}  // namespace moeplan::tests::dispatch_table_test
