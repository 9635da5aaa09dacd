// `moeplan plan -C path=value`: what overrides may name, and values at the edges.
#include "tests/cli/support/cli_json.hpp"

namespace moeplan::tests::plan_overrides_test {

namespace {

const std::vector<std::string> kBase{"plan", "--cluster", "dgx_h100", "--model", "schemoe_gpt2_tiny_moe"};

}  // namespace

TEST_CASE("An override may name another GPU, its operators, or models of collectives") {
  const Cli cli;
  const auto time = [&](const std::vector<std::string>& overrides) {
    return parsed(cli.run(with(with(kBase, {"--world", "8", "--ep", "8", "--json", "--budget", "1", "-C",
                                            "workload.cuda_graph=full_iteration"}),
                               overrides)))
        .at("best")
        .at("makespan_s")
        .get<double>();
  };
  const double own = time({});
  CHECK(time({"-C", "cluster.gpu=a100_sxm_80gb"}) > own);
  CHECK(time({"-C", "cluster.gpu.operators=a100_pcie"}) != own);
  CHECK(time({"-C", "cluster.collectives=none"}) != own);
  for (const auto& [override, expected] : std::vector<std::pair<std::string, std::string>>{
           {"cluster.gpu=h200_sxn", "did you mean \"h200_sxm\"?"},
           {"cluster.collectives=hgx_h201", "did you mean \"hgx_h200\"?"}}) {
    const Ran ran = cli.run(with(kBase, {"--world", "8", "-C", override}));
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, Catch::Contains("-C " + override) && Catch::Contains(expected));
  }
}

TEST_CASE("A page names kernels that are not fused, and what is kept in fp8") {
  const Cli cli;
  const auto page = [&](const std::vector<std::string>& overrides) {
    const Ran ran = cli.run(with(with(kBase, {"--world", "8", "--ep", "8", "--budget", "1"}), overrides));
    REQUIRE(ran.code == 0);
    return unwrapped(ran.out);
  };
  CHECK_THAT(page({}), !Catch::Contains("fusions") && !Catch::Contains("kept in fp8"));
  CHECK_THAT(page({"-C", "workload.fusions=none", "-C", "workload.fp8_activation_inputs=true"}),
             Catch::Contains("inputs of activation functions kept in fp8, fusions none"));
  CHECK_THAT(page({"-C", "workload.precision=fp8_current", "-C", "workload.fp8_modules=attention"}),
             Catch::Contains("fp8_current, attention too, adam"));
  CHECK_THAT(
      page({"-C", "workload.precision=fp8_current", "-C", "workload.fp8_modules=attention", "--verbose"}),
      Catch::Contains("attention by the shapes of PR 1254 fa3's kernels in bf16: there are none in fp8_current"));
}

TEST_CASE("A page says what layers of multi-token prediction are left out, or which stage has them") {
  const Cli cli;
  const auto page = [&](const std::vector<std::string>& more) {
    const Ran ran = cli.run(
        with(with(kBase, {"--world", "16", "--pp", "2", "--vp", "1", "--budget", "1", "-C", "model.num_mtp_layers=1"}),
             more));
    REQUIRE(ran.code == 0);
    return unwrapped(ran.out);
  };
  const std::string left_out = "1 layer of multi-token prediction is not trained along: -C workload.mtp_layers=1";
  CHECK_THAT(page({}), Catch::Contains(left_out));
  CHECK_THAT(page({"-C", "workload.mtp_layers=1"}),
             !Catch::Contains(left_out) && Catch::Contains("1 layer of multi-token prediction, dropless") &&
                 Catch::Contains(", 1 mtp, head"));
}

TEST_CASE("Extreme overrides are refused or answered, but never crash, hang or print what is no number") {
  const Cli cli;
  const std::vector<std::string> base = with(kBase, {"--world", "16", "--json", "--top", "1"});
  const auto code = [&](const std::vector<std::string>& overrides) {
    std::vector<std::string> arguments = base;
    for (const std::string& o : overrides) arguments = with(arguments, {"-C", o});
    const Ran ran = cli.run(arguments, kStrict);
    CAPTURE(overrides, ran.err);
    if (ran.code == 0) check_no_null_or_negative(Json::parse(ran.out), "");
    if (ran.code == 2) CHECK(ran.out.empty());
    if (ran.code == 2) CHECK_FALSE(ran.err.empty());
    CHECK_THAT(ran.out, !Catch::Contains("nan") && !Catch::Contains("inf\""));
    return ran.code;
  };
  SECTION("sizes") {
    CHECK(code({"workload.global_batch=16777216", "workload.sequence_length=256"}) == 0);
    CHECK(code({"workload.global_batch=16777217"}) == 2);
    CHECK(code({"workload.global_batch=1e30"}) == 2);
    CHECK(code({"workload.global_batch=99999999999999999999999"}) == 2);
    CHECK(code({"workload.sequence_length=1"}) == 0);
    CHECK(code({"workload.sequence_length=0"}) == 2);
    CHECK(code({"workload.capacity_factor=1e9"}) == 2);
    CHECK(code({"workload.capacity_factor=1000"}) != 2);
    CHECK(code({"workload.capacity_factor=0.001"}) == 0);
  }
  SECTION("machines") {
    CHECK(code({"cluster.gpu.memory=1 B"}) == 3);
    CHECK(code({"cluster.template.gpus_per_node=0"}) == 2);
    CHECK(code({"cluster.template.gpus_per_node=1000000"}) == 2);
    CHECK(code({"cluster.template.gpus_per_node=1024"}) != 2);
    CHECK(code({"cluster.template.nodes=0"}) == 2);
    CHECK(code({"cluster.ranks_per_gpu=2"}) != 2);
    CHECK(code({"cluster.ranks_per_gpu=1024"}) != 2);
    CHECK(code({"cluster.ranks_per_gpu=0"}) == 2);
    CHECK(code({"cluster.ranks_per_gpu=1025"}) == 2);
    CHECK(code({"cluster.ranks_per_gpu=2", "cluster.gpu.hbm_bandwidth=1e-320 B/s"}) == 2);
  }
  SECTION("rates and times outside the model's range") {
    for (const char* o :
         {"cluster.template.fabric.nic_bandwidth=1e-300 GB/s", "cluster.template.intra_node.bandwidth=1e-300 GB/s",
          "cluster.template.fabric.latency=1e300 s", "cluster.collective_startup=1e300 s",
          "cluster.gpu.launch_overhead=1e300 s", "cluster.gpu.hbm_bandwidth=1e-300 GB/s",
          "cluster.gpu.peak.bf16=1e-300 FLOP/s", "cluster.template.fabric.nic_bandwidth=1e-14 GB/s"}) {
      std::vector<std::string> arguments = with(base, {"-C", o});
      const Ran ran = cli.run(arguments, kStrict);
      CAPTURE(o);
      CHECK(ran.code == 2);
      CHECK(ran.out.empty());
      CHECK_THAT(ran.err, Catch::Contains("outside the model's range"));
    }
  }
  SECTION("a plan that does without what takes for ever is one") {
    CHECK(code({"cluster.template.intra_node.latency=1e300 s"}) == 0);
  }
  SECTION("rates that are nearly endless take no time, or nearly none") {
    CHECK(code({"cluster.template.fabric.nic_bandwidth=1e290 GB/s"}) == 0);
    CHECK(code({"cluster.template.intra_node.bandwidth=1e290 GB/s"}) == 0);
    CHECK(code({"cluster.gpu.peak.bf16=1e300 FLOP/s", "cluster.gpu.hbm_bandwidth=1e300 B/s",
                "cluster.gpu.launch_overhead=0"}) != -6);
  }
}

}  // namespace moeplan::tests::plan_overrides_test
