// moeplan validate, as users run it: on CPU ranks, left out where MPI is missing.
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "tests/cli/support/cli_json.hpp"
#include "tests/cli/support/gpu.hpp"
#include "tests/cli/support/host_ranks.hpp"
#include "tests/cli/support/json_schema.hpp"

namespace moeplan::tests::validate_test {

namespace {

/// Two ranks, in a few milliseconds a run.
std::string small_plan(const Cli& cli) {
  const Ran ran = cli.run(
      with(host_plan("2"), {"--placement", "contiguous", "--schedule", "baseline", "-C", "model.hidden_size=32", "-C",
                            "model.ffns.moe.expert.hidden_size=32", "-C", "workload.sequence_length=32"}));
  CAPTURE(ran.err);
  REQUIRE(ran.code == 0);
  return "p.yaml";
}

}  // namespace

TEST_CASE("An MoE layer of a plan is executed on CPU ranks and compared with its prediction", "[alone]") {
  if (!has_host_ranks()) {
    WARN("skipped: built without MPI");
    return;
  }
  const Cli cli;
  const std::string plan = small_plan(cli);
  const std::vector<std::string> base{"validate", plan, "--backend", "host", "--iterations", "7"};
  SECTION("as JSON that follows its schema") {
    const Json document = parsed(cli.run(with(base, {"--json", "--trace", "t.json"})));
    CHECK(schema_errors(document, "validate.json") == std::vector<std::string>{});
    CHECK(document["values_ok"] == true);
    CHECK(document["values"]["output"].get<double>() < 1e-5);
    CHECK(document["ranks"] == 2);
    CHECK(document["runs"] == 7);
    CHECK(document["layer"]["measured_low_s"] <= document["layer"]["measured_s"]);
    const double error =
        document["layer"]["predicted_s"].get<double>() / document["layer"]["measured_s"].get<double>() - 1;
    CHECK(document["layer"]["error"].get<double>() == Approx(error));
    const Json trace = Json::parse(whole_file(cli.path("t.json")));
    CHECK(trace["traceEvents"].size() > 100);
  }
  SECTION("as a page that says on what") {
    const Ran ran = cli.run(base);
    CHECK(ran.code == 0);
    CHECK(ran.err.find("mpirun -n 2") != std::string::npos);
    CHECK(ran.out.find("2 ranks, host back end, 1 machine") != std::string::npos);
    CHECK(ran.out.find("values         right") != std::string::npos);
    CHECK_THAT(unwrapped(ran.out), Catch::Contains(" times the predicted time; without --max-error the exit code does "
                                                   "not depend on it"));
    CHECK_THAT(unwrapped(cli.run(with(base, {"--max-error", "1e6%"})).out),
               Catch::Contains("--max-error 1e+06% is kept"));
  }
  SECTION("as a page without an interval where runs are too few for one") {
    const Ran ran = cli.run({"validate", plan, "--backend", "host", "--iterations", "2"});
    CHECK(ran.code == 0);
    CHECK_THAT(unwrapped(ran.out), Catch::Contains("(too few runs for an interval; 2 runs, iterations)"));
    CHECK(ran.out.find("()") == std::string::npos);
  }
  SECTION("with exit code 1 where the prediction is worse than allowed, because a check must be able to fail") {
    CHECK(cli.run(with(base, {"--max-error", "0%", "--quiet"})).code == 1);
    CHECK(cli.run(with(base, {"--max-error", "1e6%", "--quiet"})).code == 0);
  }
  SECTION("without a half-written trace where the disk is full") {
    const Ran ran = cli.run(with(base, {"--trace", "/dev/full"}));
    CHECK(ran.code == 2);
    CHECK(ran.err.find("/dev/full") != std::string::npos);
  }
}

TEST_CASE("A training step of a plan's layer is executed on CPU ranks and compared with its prediction", "[alone]") {
  if (!has_host_ranks()) {
    WARN("skipped: built without MPI");
    return;
  }
  const Cli cli;
  const Ran planned = cli.run({"plan",
                               "--cluster",
                               "host",
                               "--model",
                               "host_moe",
                               "--workload",
                               "host",
                               "--world",
                               "2",
                               "--pp",
                               "1",
                               "--tp",
                               "1",
                               "--ep",
                               "1",
                               "--esp",
                               "1",
                               "--placement",
                               "contiguous",
                               "--schedule",
                               "baseline",
                               "-C",
                               "model.hidden_size=32",
                               "-C",
                               "model.ffns.moe.expert.hidden_size=32",
                               "-C",
                               "model.ffns.moe.shared={hidden_size: 24, gated: true, bias: false}",
                               "-C",
                               "workload.sequence_length=32",
                               "-C",
                               "workload.zero_stage=1",
                               "-o",
                               "p.yaml"});
  CAPTURE(planned.err);
  REQUIRE(planned.code == 0);
  const std::vector<std::string> base{"validate", "p.yaml", "--backend", "host", "--iterations", "7", "--step"};
  SECTION("as JSON that follows its schema") {
    const Json document = parsed(cli.run(with(base, {"--json"})));
    CHECK(schema_errors(document, "validate.json") == std::vector<std::string>{});
    CHECK(document["values_ok"] == true);
    CHECK(document["values"]["weight_gradient"].get<double>() < 1e-5);
    CHECK(document["values"]["update"].get<double>() < 1e-5);
    CHECK(document["layer_shape"]["shared_ffn_size"] == 24);
    CHECK(document["step"] == true);
    std::set<std::string> classes;
    for (const Json& item : document["operations"]) classes.insert(item["class"].get<std::string>());
    for (const char* name : {"norm_and_add", "shared_expert", "gradient_sync", "weight_gather", "optimizer"}) {
      INFO(name);
      CHECK(classes.contains(name));
    }
  }
  SECTION("as a page that names what is left out") {
    const std::string page = unwrapped(cli.run(base).out);
    CHECK_THAT(page, Catch::Contains("forward, backward, reduction of gradients, optimizer; neither executed nor "
                                     "predicted: attention with its norm and weights"));
    CHECK_THAT(page, !Catch::Contains("residual stream"));
    CHECK_THAT(page, Catch::Contains("(updated weights)"));
    CHECK_THAT(page, Catch::Contains("2: ep 1 etp 1 tp 1 dp 2 edp 2"));
  }
}

TEST_CASE("A suite executes many ways to run a layer", "[alone]") {
  if (!has_host_ranks()) {
    WARN("skipped: built without MPI");
    return;
  }
  const Cli cli;
  const std::string suite = cli.write("s.yaml",
                                      "name: tiny\ncluster: host\nmodel: host_moe\nworkload: host\n"
                                      "overrides: [model.hidden_size=16, model.ffns.moe.expert.hidden_size=16, "
                                      "workload.sequence_length=16]\ndegrees: {ep: 2}\n"
                                      "schedules: [baseline, pipelined, s1_deferred]\nall_to_alls: [linear]\n"
                                      "pipeline_degrees: [1, 2, 4]\ncodecs: [none]\n");
  const std::vector<std::string> base{"validate", "--suite", suite, "--backend", "host", "--iterations", "3", "--json"};
  const Ran ran = cli.run(base);
  const Json first = parsed(ran);
  CHECK(ran.err.find("mpirun") == ran.err.rfind("mpirun"));  // once for all cases
  CHECK(first["failed"].empty());
  CHECK(schema_errors(first, "validate_suite.json") == std::vector<std::string>{});
  CHECK(first["cases"].size() == 6);  // baseline in one piece, pipelined in two and four, s1_deferred in all
  CHECK(first["refused"].empty());
  CHECK(first["values_ok"] == true);
  CHECK(first["rank_correlation"].get<double>() >= -1);
  CHECK(first["regret"].get<double>() >= 0);
  SECTION("and goes on where it was interrupted, with what it has measured") {
    const Json again = parsed(cli.run(with(base, {"--resume"})));
    CHECK(again["cases"] == first["cases"]);
  }
}

TEST_CASE("What cannot be validated is said before anything runs") {
  const Cli cli;
  const std::string plan = small_plan(cli);
  const auto refused = [&](const std::vector<std::string>& more, const std::string& text) {
    const Ran ran = cli.run(with({"validate", "--backend", "host"}, more), kStrict);
    CAPTURE(ran.err);
    CHECK(ran.code == 2);
    CHECK(ran.err.find(text) != std::string::npos);
    CHECK(ran.out == "");
  };
  refused({}, "needs a plan or a --suite");
  refused({plan, "--layer", "9"}, "host_moe has layers 0 to 1, not 9");
  refused({plan, "--timeout", "0s"}, "--timeout: expected more than 0");
  refused({plan, "--budget", "5"}, "has no unit");
  refused({plan, "--max-error", "-1%"}, "not negative");
  refused({plan, "--resume"}, "is of a suite");
  refused({plan, "--gpu-parts", "50GB/s"}, "--gpu-parts: is of --backend nccl");
  const Ran no_unit = cli.run({"validate", plan, "--backend", "nccl", "--gpu-parts", "50"}, kStrict);
  CHECK(no_unit.code == 2);
  CHECK(no_unit.err.find("\"50\" has no unit") != std::string::npos);
  refused({"--suite", "host_small", "--step"}, "--step: is of one plan, not of a suite");
  refused({plan, "--step", "-C", "workload.mode=forward"}, "--step: needs a workload that trains");
  refused({plan, "--scale", "3"}, "3 does not divide");
  refused({"--suite", "no_such"}, "no_such");
  const Ran nccl = cli.run({"validate", plan, "--backend", "nccl", "--iterations", "3"}, kStrict);
  CAPTURE(nccl.err);
  if (!has_gpu_ranks()) {
    CHECK(nccl.code == 2);
    CHECK(nccl.err.find("nccl is not installed: there is no moeplan-cuda-worker next to moeplan") != std::string::npos);
  } else if (!has_gpu()) {
    CHECK(nccl.code == 1);
    CHECK(nccl.err.find("no GPU: cuda") != std::string::npos);
    CHECK(nccl.out == "");
  } else {
    CHECK(nccl.code == 0);
    CHECK(nccl.out.find("nccl back end") != std::string::npos);
  }
  SECTION("a layer too large for the machine among it, with figures and the scale that would do") {
    const Ran ran = cli.run(with(host_plan("2"), {"--placement", "contiguous", "-C", "model.hidden_size=262144", "-C",
                                                  "model.ffns.moe.expert.hidden_size=1048576", "-C",
                                                  "workload.sequence_length=8", "-C", "cluster.gpu.memory=10000 TB"}));
    CAPTURE(ran.err);
    REQUIRE(ran.code == 0);
    refused({"p.yaml"}, "validate: the layer is too large for this machine: its 2 ranks take at least ");
    refused({"p.yaml"}, " available; no --scale makes it small enough");
  }
  SECTION("too few ranks among it, with how many are needed and what would help") {
    const Ran ran = cli.run(
        {"plan",    "--cluster", "host", "--model",     "host_moe",   "--workload", "host",
         "--world", "8",         "--pp", "1",           "--tp",       "1",          "--ep",
         "8",       "--esp",     "1",    "--placement", "contiguous", "-C",         "cluster.template.gpus_per_node=8",
         "-o",      "large.yaml"});
    CAPTURE(ran.err);
    REQUIRE(ran.code == 0);
    ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    refused({"large.yaml"},
            "the layer needs 8 ranks; mpirun or srun has started 2; --scale 4 makes it a layer of 2 ranks");
    ::unsetenv("OMPI_COMM_WORLD_RANK");
    ::unsetenv("OMPI_COMM_WORLD_SIZE");
  }
}

}  // namespace moeplan::tests::validate_test
