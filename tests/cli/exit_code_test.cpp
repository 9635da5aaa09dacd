// The exit codes of `moeplan` and its commands, and what they say on standard error.
#include "tests/cli/support/cli_json.hpp"

namespace moeplan::tests::exit_code_test {

namespace {

const std::vector<std::string> kSmall{"plan",    "--cluster", "dgx_h100", "--model", "schemoe_gpt2_tiny_moe",
                                      "--world", "8"};

}  // namespace

TEST_CASE("The exit code says how it went") {
  const Cli cli;
  SECTION("0: done") {
    CHECK(cli.run(kSmall).code == 0);
    CHECK(cli.run({"--help"}).code == 0);
    CHECK(cli.run({"--version"}).code == 0);
    CHECK(cli.run({"list", "clusters"}).code == 0);
  }
  SECTION("2: bad input, with nothing on standard output") {
    for (const std::vector<std::string>& bad :
         std::vector<std::vector<std::string>>{{},
                                               {"plann"},
                                               {"plan"},
                                               {"list", "nothing"},
                                               {"simulate", "none.yaml"},
                                               with(kSmall, {"--nonsense"}),
                                               with(kSmall, {"--world", "-1"}),
                                               with(kSmall, {"--world", "0"}),
                                               with(kSmall, {"--world", "1048577"}),
                                               with(kSmall, {"--world", "8.5"}),
                                               with(kSmall, {"--top", "0"}),
                                               with(kSmall, {"--tp", "3"}),
                                               with(kSmall, {"--pp", "3"}),
                                               with(kSmall, {"--cluster", "no_such"})}) {
      CAPTURE(bad);
      const Ran ran = cli.run(bad);
      CHECK(ran.code == 2);
      CHECK(ran.out.empty());
      CHECK_FALSE(ran.err.empty());
    }
  }
  SECTION("2: an output that cannot be written, and nothing half-written stays") {
    for (const char* option : {"-o", "--trace"}) {
      const std::size_t files = cli.dir().files();
      const Ran ran = cli.run(with(kSmall, {option, "no/such/directory/file"}));
      CHECK(ran.code == 2);
      CHECK(ran.out.empty());
      CHECK_THAT(ran.err, Catch::StartsWith("no/such/directory/file: cannot be written: No such file or directory"));
      CHECK(cli.dir().files() <= files + 2);  // what the test itself keeps of stdout and stderr
    }
  }
  SECTION("3: nothing feasible, with what lacks how much") {
    const std::vector<std::string> deepseek{"plan", "--cluster", "dgx_h100", "--model", "deepseek_v3", "--world", "8"};
    const Ran page = cli.run(deepseek);
    CHECK(page.code == 3);
    CHECK_THAT(page.err, Catch::Contains("no feasible plan among") && Catch::Contains("memory") &&
                             Catch::Contains("lacks ") && Catch::Contains(" GiB per GPU"));
    const Ran ran = cli.run(with(deepseek, {"--json"}));
    CHECK(ran.code == 3);
    const Json j = Json::parse(ran.out);
    CHECK(j.at("best").is_null());
    CHECK(j.at("rejected").at("memory").get<int>() > 0);
    const Json& miss = j.at("nearest_miss");
    const Json& parts = miss.at("memory_parts_bytes");
    CHECK(miss.at("lacking_bytes").get<double>() ==
          Approx(parts.at("total").get<double>() - 79.2 * 1073741824));  // of an H100
    CHECK(parts.at("total").get<double>() ==
          Approx(parts.at("weights").get<double>() + parts.at("gradients").get<double>() +
                 parts.at("optimizer").get<double>() + parts.at("activations").get<double>() +
                 parts.at("working").get<double>() + parts.at("runtime").get<double>()));
  }
  SECTION("3 too where a number of GPUs divides nothing") {
    const Ran ran = cli.run({"plan", "--cluster", "dgx_h100", "--model", "mixtral_8x7b", "--world", "7", "-C",
                             "workload.global_batch=256"});
    CHECK(ran.code == 3);
    CHECK_THAT(ran.err, Catch::Contains("dp does not divide the global batch"));
  }
}

}  // namespace moeplan::tests::exit_code_test
