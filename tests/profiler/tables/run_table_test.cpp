#include "profiler/tables/run_table.hpp"

#include <catch2/catch.hpp>

#include "profiler/tables/table_kind.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::run_table_test {

TEST_CASE("A table of runs is read by its columns, and what is empty is absent") {
  const TemporaryDirectory files;
  const std::string path =
      files.write("t.csv",
                  "id,cluster,world,model,tp,sp,pp,micro_batch,step_time_s,tokens_s_gpu,peak_memory_gib,outcome,group\n"
                  "a,dgx_h100,16,m,2,1,,4,2.5,,10,ok,delta:x;rank:y\n"
                  ",dgx_h100,8,m,,,,,,1000,,,\n"
                  "b,dgx_h100,8,m,,,,,,,,oom,fit:z\n");
  CHECK(profiler::table_kind(path) == profiler::TableKind::Runs);
  const std::vector<profiler::RunRow> rows = profiler::read_run_table(path);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].id == "a");
  CHECK(rows[0].tp == 2);
  CHECK(rows[0].sp == 1);
  CHECK_FALSE(rows[0].pp);
  CHECK(rows[0].groups == std::vector<std::string>{"delta:x", "rank:y"});
  CHECK(rows[0].peak_memory->value() == 10.0 * 1024 * 1024 * 1024);
  CHECK(rows[0].measured_step(1e6)->value() == 2.5);
  SECTION("a row without an id is known by its line") { CHECK(rows[1].id == "3"); }
  SECTION("a step time follows from tokens per second of a GPU and the tokens of the batch") {
    CHECK(rows[1].measured_step(64'000)->value() == Approx(64'000.0 / (8 * 1000)));
  }
  SECTION("what ran out of memory has no time") {
    CHECK(rows[2].outcome == profiler::RunOutcome::OutOfMemory);
    CHECK_FALSE(rows[2].measured_step(1));
  }
}

TEST_CASE("Everything that is wrong in a table of runs is said, with line and column") {
  const TemporaryDirectory files;
  const auto errors = [&](const std::string& text) {
    const std::string path = files.write("t.csv", text);
    std::string out = error_of([&] { (void)profiler::read_run_table(path); });
    for (std::size_t at = out.find(path); at != std::string::npos; at = out.find(path)) out.erase(at, path.size());
    return out;
  };
  CHECK(errors("cluster,world,modell\n") ==
        ":1: \"modell\" is no column of a table of runs; did you mean \"model\"?\n:1: model: column is missing");
  CHECK(errors("cluster,world,model,tp,sp,zero,step_time_s,outcome\n,0,m,0,2,4,-1,fine\n") ==
        ":2: world: is \"0\"; expected a whole number from 1 on\n"
        ":2: tp: is 0; expected a number from 1 on\n"
        ":2: sp: is 2; expected a number from 0 to 1\n"
        ":2: zero: is 4; expected a number from 0 to 3\n"
        ":2: step_time_s: is \"-1\"; expected a number above 0\n"
        ":2: outcome: is \"fine\"; one of ok, oom\n"
        ":2: cluster: is empty");
  CHECK(errors("cluster,world,model,step_time_s,outcome\nc,1,m,2,oom\n") ==
        ":2: outcome: is \"oom\", but the row has a time");
}

}  // namespace moeplan::tests::run_table_test
