// moeplan plan --framework, export, import megatron, eplb: from a plan to a job and back.
#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/cli/support/cli_json.hpp"

namespace moeplan::tests::framework_cli_test {

namespace {

const std::vector<std::string> kPlan{"plan",    "--cluster", "dgx_h100", "--model", "moonlight_16b_a3b",
                                     "--world", "16",        "--budget", "8",       "--quiet"};

}  // namespace

TEST_CASE("plan --framework says what it runs, and what one would have to implement") {
  const Cli cli;
  const Json plan = parsed(cli.run(with(kPlan, {"--framework", "megatron@0.15", "--json"})));
  CHECK(plan["framework"]["name"] == "megatron");
  CHECK(plan["framework"]["version"] == "0.15");
  CHECK(plan["best"]["schedule"] == "baseline");
  CHECK(plan["best"]["order"] == "listed");
  for (const Json& candidate : plan["candidates"]) CHECK(candidate["schedule"] == "baseline");
  if (plan["framework"].contains("beyond"))
    CHECK(plan["framework"]["beyond"]["makespan_s"].get<double>() < plan["best"]["makespan_s"].get<double>());
}

TEST_CASE("A plan goes to Megatron-LM and back unchanged") {
  const Cli cli;
  REQUIRE(cli.run(with(kPlan, {"--framework", "megatron", "--all-to-all", "deepep", "-o", "plan.yaml"})).code == 0);
  const Ran exported = cli.run({"export", "plan.yaml", "--to", "megatron", "-o", "run.sh"});
  CHECK(exported.code == 0);
  CHECK_THAT(exported.out, Catch::Contains("start it with: sbatch run.sh"));
  CHECK(cli.run({"export", "plan.yaml", "--to", "megatron"}).out == whole_file(cli.path("run.sh")));
  const Ran imported = cli.run({"import", "megatron", "run.sh", "--cluster", "dgx_h100", "-o", "again.yaml"});
  CAPTURE(imported.err);
  CHECK(imported.code == 0);
  CHECK_THAT(cli.run({"compare", "plan.yaml", "again.yaml"}).out, Catch::Contains("A and B take the same time"));
  REQUIRE(cli.run({"export", "again.yaml", "--to", "megatron", "-o", "again.sh"}).code == 0);
  CHECK(whole_file(cli.path("again.sh")) == whole_file(cli.path("run.sh")));
}

TEST_CASE("A job with a log is a plan with a measured time, or a row for score") {
  const Cli cli;
  std::filesystem::copy(MOEPLAN_SOURCE_DIR "/docs/examples/my_run.sh", cli.path("my_run.sh"));
  (void)cli.write("job.log",
                  " elapsed time per iteration (ms): 6000.0 |\n elapsed time per iteration (ms): 5500.0 |\n");
  const Ran plan =
      cli.run({"import", "megatron", "my_run.sh", "--cluster", "dgx_h100", "--log", "job.log", "-o", "mine.yaml"});
  CAPTURE(plan.err);
  CHECK(plan.code == 0);
  CHECK_THAT(plan.out, Catch::Contains("measured       5.500 s: the prediction is "));
  CHECK(cli.run({"simulate", "mine.yaml"}).code == 0);
  CHECK(cli.run({"import", "megatron", "my_run.sh", "--cluster", "dgx_h100", "--log", "job.log", "-o", "r.csv"}).code ==
        0);
  const Ran score = cli.run({"score", "r.csv"});
  CHECK(score.code == 0);
  SECTION("and a row of a table of runs is a plan") {
    CHECK(cli.run({"import", "run", "r.csv", "--id", "my_run", "-o", "row.yaml"}).code == 0);
    CHECK_THAT(cli.run({"compare", "mine.yaml", "row.yaml"}).out, Catch::Contains("A and B take the same time"));
    CHECK_THAT(cli.run({"import", "run", "r.csv", "--id", "my_runn", "-o", "row.yaml"}).err,
               Catch::Contains("did you mean \"my_run\"?"));
  }
}

TEST_CASE("Wrong words about frameworks are bad input") {
  const Cli cli;
  const auto error = [&](const std::vector<std::string>& words) {
    const Ran ran = cli.run(words, kStrict);
    CHECK(ran.code == 2);
    return ran.err;
  };
  CHECK_THAT(error(with(kPlan, {"--framework", "megatrom"})), Catch::Contains("did you mean \"megatron\"?"));
  CHECK_THAT(error(with(kPlan, {"--framework", "megatron@9"})), Catch::Contains("\"9\" is none of 0.13"));
  CHECK_THAT(error(with(kPlan, {"--framework", "megatron", "--schedule", "pipelined", "--placement", "eplb_global"})),
             Catch::Contains("--schedule: \"pipelined\" is not in Megatron-LM 0.16; it has baseline") &&
                 Catch::Contains("--placement: \"eplb_global\" is not in Megatron-LM 0.16; it has contiguous"));
  CHECK_THAT(error(with(kPlan, {"--framework", "deepspeed", "--zero", "3"})), Catch::Contains("is not in DeepSpeed"));
  (void)cli.write("none.sh", "#!/bin/bash\necho nothing\n");
  CHECK_THAT(error({"import", "megatron", "none.sh", "--cluster", "dgx_h100", "-o", "p.yaml"}),
             Catch::Contains("none.sh: --num-layers: is missing"));
  CHECK_FALSE(std::filesystem::exists(cli.path("p.yaml")));
}

TEST_CASE("eplb writes a map that SGLang loads") {
  const Cli cli;
  std::filesystem::copy(MOEPLAN_SOURCE_DIR "/docs/examples/expert_loads.json", cli.path("loads.json"));
  const Ran ran = cli.run({"eplb", "loads.json", "--gpus", "16", "--nodes", "2", "--redundant", "16", "--cluster",
                           "dgx_h100", "--model", "qwen3_30b_a3b", "--format", "sglang", "-o", "map.json"});
  CAPTURE(ran.err);
  CHECK(ran.code == 0);
  CHECK_THAT(ran.out, Catch::Contains("break-even  after"));
  const Json map = Json::parse(whole_file(cli.path("map.json")));
  CHECK(map["physical_to_logical_map"].size() == 48);
  CHECK(map["physical_to_logical_map"][0].size() == 128 + 16);
  CHECK(cli.run({"import", "sglang-counts", "loads.json", "--ranks", "4", "-o", "trace.csv.gz"}).code == 0);
  CHECK_THAT(cli.run({"import", "routing-trace", "trace.csv.gz"}).out,
             Catch::StartsWith("1 iterations (0 to 0), 48 layers, 4 ranks, 128 experts"));
  const Ran wrong = cli.run({"eplb", "loads.json", "--gpus", "16", "--redundant", "5", "-o", "none.json"}, kStrict);
  CHECK(wrong.code == 2);
  CHECK_THAT(wrong.err, Catch::Contains("128 experts and 5 redundant ones do not divide among 16 GPUs; 0 or 16 do"));
  CHECK_FALSE(std::filesystem::exists(cli.path("none.json")));
  CHECK_THAT(cli.run({"eplb", "loads.json", "--gpus", "16", "--format", "trtlm"}, kStrict).err,
             Catch::Contains("--format: \"trtlm\" is not known; did you mean \"trtllm\"?"));
  CHECK_THAT(cli.run({"eplb", "loads.json", "--gpus", "16", "--model", "qwen3_30b_a3b"}, kStrict).err,
             Catch::Contains("--cluster: is missing"));
}

}  // namespace moeplan::tests::framework_cli_test
