// moeplan import, what is not a model.
#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/cli/support/run_cli.hpp"

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

TEST_CASE("import megatron makes a row that score reads, and its model") {
  const Cli cli;
  const std::string arguments =
      "pretrain_gpt.py --num-layers 4 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 \\\n"
      " --max-position-embeddings 2048 --position-embedding-type rope --swiglu --disable-bias-linear \\\n"
      " --normalization RMSNorm --num-experts 8 --moe-router-topk 2 --moe-grouped-gemm --vocab-size 32000 \\\n"
      " --expert-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 16 --bf16 \\\n"
      " --moe-token-dispatcher-type alltoall --use-distributed-optimizer --lr 1e-4\n";
  const std::string file = cli.write("job.args", arguments), out = cli.path("runs.csv");
  const std::string log = cli.write("job.log",
                                    " iteration 1/ 4 | elapsed time per iteration (ms): 9000.0 | lr\n"
                                    " iteration 2/ 4 | elapsed time per iteration (ms): 120.0 | lr\n"
                                    " iteration 3/ 4 | elapsed time per iteration (ms): 110.0 | lr\n"
                                    " iteration 4/ 4 | elapsed time per iteration (ms): 112.0 | lr\n");
  const Ran got =
      cli.run({"import", "megatron", file, "--cluster", "dgx_h100", "--world", "8", "--log", log, "-o", out});
  CAPTURE(got.err);
  REQUIRE(got.code == 0);
  CHECK(got.out.find("an iteration takes 0.112 s\nwithout effect on the row: --max-position-embeddings "
                     "--moe-grouped-gemm --lr\n") == 0);
  CHECK(whole_file(cli.path("runs.model.yaml")).find("num_experts: 8") != std::string::npos);
  const Ran scored = cli.run({"score", out});
  CHECK(scored.code == 0);
  CHECK(scored.out.find("1 measured runs, 1 scored") != std::string::npos);
  SECTION("what is missing or wrong is said together, and nothing is written") {
    const std::string bad = cli.write("bad.args", "--hidden-size wide --num-attention-heads 16 --seq-length 2048");
    const std::string none = cli.path("none.csv");
    const Ran refused = cli.run({"import", "megatron", bad, "--cluster", "dgx_h100", "--world", "8", "-o", none});
    CHECK(refused.code == 2);
    CHECK(refused.err.find("--hidden-size: \"wide\" is no number") != std::string::npos);
    CHECK(refused.err.find("--num-layers: is missing") != std::string::npos);
    CHECK(refused.err.find("--micro-batch-size: is missing") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(none));
  }
  SECTION("a log without times is refused") {
    const std::string empty = cli.write("empty.log", "nothing\n");
    const Ran refused =
        cli.run({"import", "megatron", file, "--cluster", "dgx_h100", "--world", "8", "--log", empty, "-o", out});
    CHECK(refused.code == 2);
    CHECK(refused.err.find("elapsed time per iteration (ms)") != std::string::npos);
  }
}

}  // namespace moeplan::tests::import_test
