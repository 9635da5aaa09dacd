// moeplan import, what is not a model.
#include <catch2/catch.hpp>

#include "tests/cli/run_cli.hpp"

namespace moeplan::tests::import_test {

TEST_CASE("import routing-trace checks a trace, prints its statistics and writes it in order") {
  const Cli cli;
  const std::string file = cli.write("t.csv", "iter,layer,rank,e0,e1\n1,0,1,3,1\n1,0,0,1,3\n31,0,0,4,0\n31,0,1,4,0\n");
  const std::string out = cli.path("out.csv");
  const Ran got = cli.run({"import", "routing-trace", file, "-o", out});
  CAPTURE(got.err);
  REQUIRE(got.code == 0);
  CHECK(got.out.find("2 iterations (1 to 31), 1 layers, 2 ranks, 2 experts\n") == 0);
  // max/mean: 1 and 2; entropy 1 and 0; half of the tokens move.
  CHECK(got.out.find("    0           1.500      2.000   0.5000      0.5000    0.5000\n") != std::string::npos);
  CHECK(whole_file(out) == "iteration,layer,rank,e0,e1\n1,0,0,1,3\n1,0,1,3,1\n31,0,0,4,0\n31,0,1,4,0\n");
  SECTION("for another number of ranks or experts by a named rule") {
    REQUIRE(cli.run({"import", "routing-trace", file, "-o", out, "--ranks", "1", "--rank-rule", "sum", "--experts", "4",
                     "--expert-rule", "split"})
                .code == 0);
    CHECK(whole_file(out) == "iteration,layer,rank,e0,e1,e2,e3\n1,0,0,2,2,2,2\n31,0,0,4,4,0,0\n");
  }
  SECTION("and not without one") {
    const Ran refused = cli.run({"import", "routing-trace", file, "--ranks", "4"});
    CHECK(refused.code == 2);
    CHECK(refused.err.find("has 2 ranks, not 4, and the rule \"none\" does not lead there") != std::string::npos);
  }
  SECTION("what is wrong is said with its line") {
    const std::string bad = cli.write("bad.csv", "iter,layer,rank,e0\n1,0,0,-3\n1,0,x,2\n");
    const Ran refused = cli.run({"import", "routing-trace", bad});
    CHECK(refused.code == 2);
    CHECK(refused.err.find(": e0 is \"-3\"") != std::string::npos);
    CHECK(refused.err.find(": rank is \"x\"") != std::string::npos);
  }
}

}  // namespace moeplan::tests::import_test
