#include <catch2/catch.hpp>

#include "tests/cli/support/cli_json.hpp"
#include "tests/cli/support/run_cli.hpp"

namespace moeplan::tests::pricing_warnings_test {

TEST_CASE("plan says where collectives are priced far beyond what was measured") {
  const Cli cli;
  const auto page = [&](const char* world) {
    return cli
        .run({"plan", "--cluster", "gb300_nvl72", "--model", "schemoe_gpt2_tiny_moe", "--world", world, "--ep", "8",
              "--tp", "1", "--pp", "1", "--budget", "1"})
        .out;
  };
  CHECK_THAT(page("64"), Catch::Contains("collectives of up to 64 ranks are priced by figures fitted to at most 4: "
                                         "beyond their data"));
  CHECK_THAT(page("8"), !Catch::Contains("beyond their data"));
}

TEST_CASE("plan, simulate and explain say that a dispatcher's figures are those of other groups") {
  const Cli cli;
  const auto plan = [&](const char* world) {
    return cli.run({"plan", "--cluster", "hgx_b200", "--model", "schemoe_gpt2_tiny_moe", "--world", world, "--ep",
                    world, "--tp", "1", "--pp", "1", "--budget", "1", "--dispatcher", "deepep", "-o", "plan.yaml"});
  };
  const std::string warning =
      "exchanges of deepep normal on 2 nodes are priced by figures of groups inside one node: not measured";
  CHECK_THAT(unwrapped(plan("8").out), !Catch::Contains("exchanges of deepep"));
  CHECK(parsed(cli.run({"simulate", "plan.yaml", "--json"})).count("pricing_warnings") == 0);
  CHECK_THAT(unwrapped(plan("16").out), Catch::Contains(warning));
  for (const char* command : {"simulate", "explain"}) {
    CAPTURE(command);
    CHECK_THAT(unwrapped(cli.run({command, "plan.yaml"}).out), Catch::Contains(warning));
    CHECK(parsed(cli.run({command, "plan.yaml", "--json"})).at("pricing_warnings").front() == warning);
  }
  SECTION("and that without the cluster's figures links alone price a plan") {
    const Ran links = cli.run({"simulate", "plan.yaml", "-C", "cluster.collectives=none"});
    CHECK_THAT(unwrapped(links.out), Catch::Contains("exchanges of deepep normal on 2 nodes are priced by the links "
                                                     "alone: hgx_b200 has no figures of it"));
  }
}

TEST_CASE("plan says that kernels which their elements may bound are priced by their bytes") {
  const Cli cli;
  const auto page = [&](const char* cluster) {
    const Ran ran = cli.run({"plan", "--cluster", cluster, "--model", "gpt_oss_20b", "--world", "8", "--framework",
                             "megatron", "--ep", "8", "--tp", "1", "--pp", "1", "--budget", "1"});
    REQUIRE(ran.code == 0);
    return unwrapped(ran.out);
  };
  const std::string warning =
      "PyTorch's own kernels are priced by their bytes alone, which may be too fast: a100_sxm_80gb has no "
      "element_rates of general_pass";
  CHECK_THAT(page("dgx_a100"), Catch::Contains(warning));
  CHECK_THAT(page("dgx_h100"), !Catch::Contains("element_rates"));
}

TEST_CASE("simulate says that a measured all-reduce is priced as what it contains") {
  const Cli cli;
  REQUIRE(cli.run({"plan", "--cluster", "dgx_h100", "--model", "schemoe_gpt2_tiny_moe", "--world", "8", "--tp", "1",
                   "--pp", "1", "--zero", "0", "--budget", "1", "-o", "plan.yaml"})
              .code == 0);
  const auto page = [&](const std::string& beta) {
    return unwrapped(
        cli.run({"simulate", "plan.yaml", "-C", "cluster.origins={'': 'assumed: a test'}", "-C",
                 "cluster.collectives=[{collective: reduce_scatter, span: intra_node, ranks: 8, alpha: 10 us, beta: 4 "
                 "ps/B}, {collective: all_reduce, span: intra_node, ranks: 8, alpha: 10 us, beta: " +
                     beta + "}]"})
            .out);
  };
  const std::string warning =
      "1 measured all-reduce is priced as a slower collective that it contains: all_reduce "
      "intra_node of 8 ranks takes";
  CHECK_THAT(page("2 ps/B"), Catch::Contains(warning));
  CHECK_THAT(page("8 ps/B"), Catch::Contains("speed") && !Catch::Contains(warning));
}

TEST_CASE("plan and explain say that kernels of recurrences are not measured") {
  const Cli cli;
  const std::vector<std::string> plain{"plan",    "--cluster", "dgx_h100", "--model", "schemoe_gpt2_tiny_moe",
                                       "--world", "8",         "--tp",     "1",       "--pp",
                                       "1",       "--budget",  "1",        "-o",      "plan.yaml"};
  std::vector<std::string> recurrent = plain;
  recurrent.insert(recurrent.end(), {"-C",
                                     "model.attention={kind: delta_net, num_key_heads: 4, num_value_heads: 4, "
                                     "key_head_dim: 64, value_head_dim: 64}",
                                     "-C", "model.origins={'': 'assumed: a test'}"});
  const std::string note = "priced by attention's share of the peak: not measured";
  CHECK_THAT(unwrapped(cli.run(plain).out), !Catch::Contains(note));
  CHECK_THAT(unwrapped(cli.run(recurrent).out), Catch::Contains(note));
  CHECK_THAT(unwrapped(cli.run({"explain", "plan.yaml"}).out), Catch::Contains(note));
}

TEST_CASE("A dispatcher without figures on the cluster is refused instead of priced as something else") {
  const Cli cli;
  const auto plan = [&](const char* cluster, const char* dispatcher) {
    return cli.run({"plan", "--model", "schemoe_gpt2_tiny_moe", "--world", "8", "--budget", "1", "--cluster", cluster,
                    "--dispatcher", dispatcher},
                   kStrict);
  };
  const Ran refused = plan("dgx_a100", "deepep");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Catch::Contains("--dispatcher: there are no figures of deepep's kernels on dgx_a100") &&
                              Catch::Contains("those with figures: none"));
  CHECK_THAT(plan("mi300x_8", "hybridep").err, Catch::Contains("--dispatcher: there are no figures of hybridep's"));
  CHECK(plan("dgx_h100", "deepep").code == 0);
}

}  // namespace moeplan::tests::pricing_warnings_test
