#include <catch2/catch.hpp>

#include "tests/cli/support/cli_json.hpp"
#include "tests/cli/support/run_cli.hpp"

namespace moeplan::tests::price_test {

namespace {

std::vector<std::string> gemm(const std::string& gpu, const std::vector<std::string>& more) {
  std::vector<std::string> out{"price", "gemm", "--gpu", gpu, "--m", "4096", "--n", "4096", "--k", "4096"};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

}  // namespace

TEST_CASE("price says what one product takes, and what bounds it") {
  const Cli cli;
  const Json price = parsed(cli.run(gemm("h200_sxm", {"--json"})));
  const double flops = 2.0 * 4096 * 4096 * 4096;
  CHECK(price.at("flops") == flops);
  CHECK(price.at("time_s").get<double>() > flops / 989.4e12);
  CHECK(price.at("bound") == "math");
  const Json& parts = price.at("parts_s");
  CHECK(price.at("time_s").get<double>() ==
        Approx(parts.at("launch").get<double>() + parts.at("quantisation").get<double>() +
               parts.at("overlapped").get<double>() + parts.at("extra").get<double>()));
  SECTION("as score predicts it") {
    (void)cli.write("t.csv",
                    "gpu,kind,phase,dtype,m,n,k,time_us,source\n"
                    "h200_sxm,gemm,forward,bf16,4096,4096,4096,200,a trtllm log\n");
    const Json table = parsed(cli.run({"score", "t.csv", "--json"})).at("tables").at(0);
    CHECK(table.at("rows").at(0).at("predicted_s") == price.at("time_s"));
  }
  SECTION("at sustained clocks, whose factors the file gives, math takes longer") {
    const Json trained = parsed(cli.run(gemm("h200_sxm", {"--json", "--library", "TransformerEngine"})));
    CHECK(trained.at("parts_s").at("math").get<double>() > parts.at("math").get<double>());
    CHECK_THAT(trained.at("library").get<std::string>(), Catch::EndsWith("times slower in math"));
    CHECK_THAT(trained.at("origin").get<std::string>(), Catch::Contains("; in training: assumed: "));
  }
  SECTION("and the cast of an operand is no part of a training step's product") {
    const auto fp8 = [&](const std::string& library) {
      return parsed(cli.run(gemm("h200_sxm", {"--json", "--precision", "fp8", "--library", library})));
    };
    CHECK(fp8("trtllm").at("parts_s").at("quantisation").get<double>() > 0);
    CHECK(fp8("TransformerEngine").at("parts_s").at("quantisation").get<double>() == 0);
    CHECK_THAT(fp8("TransformerEngine").at("origin").get<std::string>(), Catch::Contains("all four mixes"));
  }
  SECTION("and the page gives the origin of the entry that answers") {
    CHECK_THAT(cli.run(gemm("h100_sxm", {"--precision", "fp8_block", "--library", "DeepGEMM"})).out,
               Catch::Contains("assumed: as H800"));
    CHECK_THAT(cli.run(gemm("h100_sxm", {"--precision", "fp8_block"})).out, Catch::Contains("measured: "));
  }
}

TEST_CASE("price of attention takes the kernels that price plans, unless another library is asked for") {
  const Cli cli;
  const std::vector<std::string> attention{"price", "attention",     "--gpu", "h100_sxm", "--sequence-length",
                                           "4096",  "--query-heads", "32",    "--json"};
  CHECK(parsed(cli.run(attention)).at("library") == "PR 1254 fa3, 1.13 times slower in math");
  std::vector<std::string> other = attention;
  other.insert(other.end(), {"--library", "PR 1254 tlx"});
  CHECK(parsed(cli.run(other)).at("library") == "PR 1254 tlx");
}

TEST_CASE("price refuses what has no figures, and says what there is") {
  const Cli cli;
  const auto error = [&](const std::vector<std::string>& arguments) {
    const Ran ran = cli.run(arguments);
    CHECK(ran.code == 2);
    return ran.err;
  };
  CHECK_THAT(
      error(gemm("h200_sxm", {"--precision", "mxfp8"})),
      Catch::StartsWith("--precision: configs/operators/h200_sxm.yaml has no gemm figures in mxfp8; there are "));
  CHECK_THAT(error(gemm("h200_sxm", {"--precision", "bf61"})),
             Catch::StartsWith("--precision: \"bf61\" is no format of products; did you mean \"bf16\"?"));
  CHECK_THAT(error(gemm("h200_sxm", {"--phase", "wgard"})), Catch::Contains("did you mean \"wgrad\"?"));
  CHECK_THAT(error(gemm("h200", {})), Catch::Contains("h200_sxm"));
  CHECK_THAT(error({"price", "kernel", "--gpu", "h100_sxm", "--kernel", "swigl", "--m", "8", "--n", "8"}),
             Catch::Contains("did you mean \"swiglu\"?"));
  CHECK_THAT(error({"price", "kernel", "--gpu", "h100_sxm", "--kernel", "sparse", "--m", "8", "--n", "8"}),
             Catch::Contains("has no figures of \"sparse\", forward; there are adam, add, "));
  CHECK_THAT(error({"price", "moe", "--gpu", "h200_sxm", "--tokens", "64", "--hidden", "2048", "--expert-hidden", "768",
                    "--experts", "128", "--top-k", "8", "--ep", "3"}),
             Catch::StartsWith("--ep: 3 does not divide 128 experts"));
}

TEST_CASE("price of grouped products counts the rows of every expert") {
  const Cli cli;
  const auto time = [&](const std::string& rows) {
    return parsed(cli.run({"price", "grouped_gemm", "--gpu", "h200_sxm", "--groups", "4", "--rows", rows, "--n", "2048",
                           "--k", "4096", "--json"}))
        .at("time_s")
        .get<double>();
  };
  CHECK(time("8192") > time("4096"));
  CHECK(time("4096|4096|4096|4096") == Approx(time("4096")));
  CHECK(time("16384|0|0|0") > 0.9 * time("4096"));
}

}  // namespace moeplan::tests::price_test
