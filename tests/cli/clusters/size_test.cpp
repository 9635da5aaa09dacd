// moeplan size: the fewest GPUs for a target, and what a plan that is infeasible says would fit.
#include <algorithm>
#include <filesystem>

#include "tests/cli/support/cli_json.hpp"

namespace moeplan::tests::size_test {

namespace {

const std::vector<std::string> kSmall{"size", "--model", "schemoe_gpt2_tiny_moe", "-C",
                                      "workload.sequence_length=1024"};

/// The answer to `more`, as JSON.
Json answered(const Cli& cli, const std::vector<std::string>& more) {
  return parsed(cli.run(with(with(kSmall, more), {"--json"})));
}

const Json& size_of(const Json& sizing, std::int64_t gpus) {
  const Json& sizes = sizing.at("sizes");
  const auto it = std::find_if(sizes.begin(), sizes.end(), [&](const Json& s) { return s.at("gpus") == gpus; });
  REQUIRE(it != sizes.end());
  return *it;
}

}  // namespace

TEST_CASE("size names the fewest GPUs in whole nodes that reach the target, and what they cost") {
  const Cli cli;
  const Json j = answered(cli, {"--cluster", "dgx_h100=2", "--tokens", "1T", "--days", "2", "--availability", "0.8"});
  const Json& best = j.at("best");
  const double rate = best.at("tokens_per_s_per_gpu").get<double>(), gpus = best.at("gpus").get<double>();
  CHECK(j.at("target").at("tokens_per_day") == 5e11);
  CHECK(best.at("gpus").get<std::int64_t>() % 8 == 0);
  CHECK(best.at("tokens_per_day").get<double>() == Approx(0.8 * 86'400 * rate * gpus));
  CHECK(best.at("tokens_per_day").get<double>() >= 5e11);
  CHECK(best.at("days").get<double>() <= 2);
  CHECK(best.at("cost").get<double>() == Approx(2 * gpus * 24 * best.at("days").get<double>()));
  CHECK(best.at("cost_per_million_tokens").get<double>() == Approx(best.at("cost").get<double>() / 1e6));
  const Json& cluster = j.at("clusters").at(0);
  for (const Json& size : cluster.at("sizes")) {
    if (size.at("gpus").get<double>() < gpus && !size.at("plan").is_null())
      CHECK(size.at("tokens_per_day").get<double>() < 5e11);
  }
  SECTION("with how far predictions for such jobs were from measured runs, as plan says it") {
    const Json plan = parsed(cli.run({"plan", "--cluster", "dgx_h100", "--model", "schemoe_gpt2_tiny_moe", "--world",
                                      "8", "--budget", "1", "--json"}));
    CHECK(cluster.at("confidence").at("runs").get<int>() >= 5);
    CHECK(cluster.at("confidence") == plan.at("confidence"));
    const Ran page = cli.run(with(kSmall, {"--cluster", "dgx_h100", "--gpus", "8"}));
    CHECK_THAT(page.out, Catch::Contains("accuracy of " + cluster.at("confidence").at("runs").dump() + " measured"));
  }
  SECTION("as plan finds it on as many GPUs") {
    const Json plan = parsed(cli.run({"plan", "--model", "schemoe_gpt2_tiny_moe", "--cluster", "dgx_h100", "--world",
                                      std::to_string(best.at("gpus").get<int>()), "--framework", "megatron", "-C",
                                      "workload.sequence_length=1024", "--json"}));
    CHECK(plan.at("best").at("makespan_s") == best.at("makespan_s"));
  }
}

TEST_CASE("size says at once what is wrong with target, clusters, model and NICs") {
  const Ran ran = Cli().run({"size", "--model", "mixtrall", "--cluster", "dgx_h10", "--cluster", "dgx_h100=much",
                             "--tokens", "1 table", "--days", "3", "--nic-rates", "fast", "--framework", "megatrom"},
                            kStrict);
  CHECK(ran.code == 2);
  for (const char* part : {"--tokens: ", "did you mean \"dgx_h100\"?", "\"dgx_h100=much\" has no price",
                           "--nic-rates: ", "did you mean \"megatron\"?"})
    CHECK_THAT(ran.err, Catch::Contains(part));
}

TEST_CASE("size tries 64 GPUs of each rack of 72, at the price of the rack") {
  const Json j = answered(Cli(), {"--cluster", "gb200_nvl72=4", "--gpus", "144", "--nic-rates", "none"});
  REQUIRE(j.at("clusters").size() == 2);
  const Json &all = j.at("clusters").at(0), &some = j.at("clusters").at(1);
  CHECK(all.at("cluster") == "gb200_nvl72");
  CHECK(some.at("cluster") == "gb200_nvl72, 64 of 72 a rack");
  CHECK(some.at("price_per_gpu_hour") == 4.5);
  for (const Json& size : all.at("sizes")) {
    const int gpus = size.at("gpus").get<int>();
    CHECK((gpus % 72 == 0 || gpus < 72));
  }
  for (const Json& size : some.at("sizes")) CHECK(size.at("gpus").get<int>() % 64 == 0);
}

TEST_CASE("size answers with a part of a rack where that suffices") {
  const Cli cli;
  const std::vector<std::string> options{"--cluster", "gb200_nvl72=4", "--tokens-per-day", "10B"};
  const Json j = answered(cli, options);
  const Json& best = j.at("best");
  CHECK(best.at("gpus").get<int>() < 64);
  CHECK(best.at("nodes") == 1);
  CHECK(best.at("cost_per_million_tokens").get<double>() ==
        Approx(4.0 * best.at("gpus").get<double>() * 24 * 1e6 / best.at("tokens_per_day").get<double>()));
  CHECK_THAT(cli.run(with(kSmall, options)).out, Catch::Contains("(of a node's 72)"));
}

TEST_CASE("size compares NICs on the answer's GPUs") {
  const Cli cli;
  const Json j = answered(cli, {"--cluster", "dgx_h100", "--tokens-per-day", "500B", "--nic-rates", "50Gbps,800Gbps"});
  const std::int64_t gpus = j.at("best").at("gpus").get<std::int64_t>();
  REQUIRE(gpus > 8);
  double last = 0;
  std::vector<double> rates;
  for (const Json& nic : j.at("nics")) {
    rates.push_back(nic.at("nic_bandwidth_bytes_per_s").get<double>() * 8e-9);
    const double throughput = size_of(nic, gpus).at("tokens_per_s_per_gpu").get<double>();
    CHECK(throughput >= 0.99 * last);  // a faster link may list operations worse
    last = throughput;
  }
  CHECK(rates == std::vector<double>{50, 400, 800});
  CHECK(j.at("best").contains("enough_nic_bandwidth_bytes_per_s"));
  CHECK_FALSE(
      answered(cli, {"--cluster", "dgx_h100", "--tokens-per-day", "500B", "--nic-rates", "none"}).contains("nics"));
}

TEST_CASE("size takes the cheapest cluster, and for GPUs at hand the fastest") {
  const Cli cli;
  const std::vector<std::string> target{"--tokens-per-day", "300B", "--nic-rates", "none"};
  const auto best = [&](const std::vector<std::string>& clusters) {
    return answered(cli, with(clusters, target)).at("best").at("cluster").get<std::string>();
  };
  CHECK(best({"--cluster", "dgx_h100=2", "--cluster", "dgx_a100=0.1"}) == "dgx_a100");
  CHECK(best({"--cluster", "dgx_h100=2", "--cluster", "dgx_a100=100"}) == "dgx_h100");
  CHECK(best({"--cluster", "dgx_h100=2", "--cluster", "dgx_a100"}) == "dgx_h100");  // without prices the fewest GPUs
  const Json at_hand = answered(cli, {"--cluster", "dgx_a100=0.1", "--cluster", "dgx_h100", "--gpus", "20"});
  CHECK(at_hand.at("best").at("cluster") == "dgx_h100");
  CHECK(at_hand.at("clusters").at(0).at("sizes").back().at("gpus") == 16);
}

TEST_CASE("The page of size answers in its first five lines, in 100 columns") {
  const Cli cli;
  const Ran ran = cli.run(with(
      kSmall, {"--cluster", "dgx_h100=2", "--cluster", "hgx_h200=2.5", "--tokens-per-day", "500B", "-o", "plan.yaml"}));
  CAPTURE(ran.out, ran.err);
  REQUIRE(ran.code == 0);
  const std::vector<std::string> lines = lines_of(ran.out);
  CHECK(lines.at(0) == "schemoe_gpt2_tiny_moe: 500 B tokens a day");
  CHECK_THAT(lines.at(1), Catch::StartsWith("  answer ") && Catch::Contains(" x h"));
  for (const std::string& line : lines) CHECK(line.size() <= 100);
  SECTION("and its plan is one for the other commands") {
    CHECK(cli.run({"explain", "plan.yaml"}).code == 0);
    CHECK(cli.run({"export", "plan.yaml", "--to", "megatron", "-o", "job.sh"}).code == 0);
    CHECK(std::filesystem::exists(cli.path("job.sh")));
  }
}

TEST_CASE("Where no cluster reaches the target, size says how far each comes, with exit code 3") {
  const Cli cli;
  const Ran ran = cli.run(
      with(kSmall, {"--cluster", "dgx_h100", "--tokens-per-day", "900T", "--max-gpus", "24", "-o", "plan.yaml"}));
  CHECK(ran.code == 3);
  CHECK(ran.out.empty());
  CHECK_THAT(ran.err, Catch::Contains("  answer         none: no cluster reaches it") &&
                          Catch::Contains("no size that was tried reaches the target; the largest allowed is 24 GPUs"));
  CHECK_FALSE(std::filesystem::exists(cli.path("plan.yaml")));
}

TEST_CASE("size names what is wrong with its options, all at once") {
  const Cli cli;
  const auto error = [&](const std::vector<std::string>& more) {
    const Ran ran = cli.run(with(kSmall, more));
    CHECK(ran.code == 2);
    CHECK(ran.out.empty());
    return ran.err;
  };
  CHECK(error({"--cluster", "dgx_h100", "--tokens", "many", "--tokens-per-day", "5 X", "--gpus", "8"}) ==
        "--tokens: \"many\" is no number of tokens; expected e.g. 500B, 15T or 2.5e12\n"
        "--tokens-per-day: \"5 X\" is no number of tokens; expected e.g. 500B, 15T or 2.5e12\n"
        "--tokens-per-day, --days, --gpus: 2 are given; expected one of --tokens-per-day 500B, --tokens 15T --days 30, "
        "and --gpus 1024\n");
  CHECK_THAT(error({"--cluster", "dgx_h100"}), Catch::Contains("none are given; expected one of"));
  CHECK(error({"--cluster", "dgx_h100", "--days", "3"}) == "--days: needs --tokens, how many tokens in so many days\n");
  CHECK_THAT(error({"--cluster", "dgx_h10=1", "--cluster", "hgx_h200=cheap", "--gpus", "8"}),
             Catch::Contains("dgx_h10: is no file of configs/clusters; did you mean \"dgx_h100\"?") &&
                 Catch::Contains("--cluster: \"hgx_h200=cheap\" has no price after the equals sign; expected e.g. "
                                 "hgx_h200=2.50, per GPU-hour"));
  CHECK_THAT(error({"--cluster", "dgx_h10=cheap", "--gpus", "8"}),
             Catch::Contains("\"dgx_h10=cheap\" has no price") && Catch::Contains("dgx_h10: is no file"));
  CHECK_THAT(error({"--cluster", "dgx_h100", "--gpus", "8", "--nic-rates", "200,400Gbps"}),
             Catch::Contains("--nic-rates: \"200\" has no unit"));
  CHECK_THAT(error({"--cluster", "dgx_h100", "--gpus", "8", "--nic-rates", "0Gbps"}),
             Catch::Contains("--nic-rates: expected bandwidths above 0"));
  CHECK_THAT(error({"--cluster", "loopback", "--gpus", "8", "--framework", "any"}),
             Catch::Contains("ranks_per_gpu: GPUs are counted, with one rank each; expected 1"));
}

TEST_CASE("A plan that is infeasible names what would fit") {
  const Cli cli;
  SECTION("the fewest GPUs, where memory lacks") {
    const std::vector<std::string> plan{"plan",    "--cluster", "dgx_h100", "--model",     "mixtral_8x7b",
                                        "--quiet", "--top",     "1",        "--framework", "megatron"};
    const Ran ran = cli.run(with(plan, {"--world", "8", "--json"}));
    REQUIRE(ran.code == 3);
    const Json w = Json::parse(ran.out).at("would_fit");
    const std::string more = std::to_string(w.at("more_gpus").get<int>());
    CHECK_THAT(ran.err,
               Catch::Contains("a plan fits on " + more + " GPUs, the fewest found above these: --world " + more));
    CHECK(cli.run(with(plan, {"--world", more})).code == 0);
    CHECK_FALSE(w.contains("global_batch"));
  }
  SECTION("other GPUs and a global batch, where it does not divide") {
    const std::vector<std::string> plan{"plan",    "--cluster", "dgx_h100", "--model", "schemoe_gpt2_tiny_moe",
                                        "--quiet", "--top",     "1",        "-C",      "workload.sequence_length=1024"};
    const Ran ran = cli.run(with(plan, {"--world", "296", "--json", "-C", "workload.global_batch=256"}));
    REQUIRE(ran.code == 3);
    const Json w = Json::parse(ran.out).at("would_fit");
    CHECK(w.at("global_batch") == 296);  // 37 nodes
    CHECK(w.at("fewer_gpus") == 256);
    CHECK(w.at("more_gpus").get<int>() > 296);
    CHECK_THAT(ran.err, Catch::Contains("a plan fits with a global batch of 296: -C workload.global_batch=296"));
    CHECK(cli.run(with(plan, {"--world", "296", "-C", "workload.global_batch=296"})).code == 0);
  }
}

}  // namespace moeplan::tests::size_test
