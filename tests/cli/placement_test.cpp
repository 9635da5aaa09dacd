// Placements of experts as a user asks for them: plan, simulate, explain, and a recorded routing.
#include <fstream>

#include "tests/cli/support/cli_json.hpp"
#include "tests/cli/support/json_schema.hpp"

namespace moeplan::tests::placement_test {

namespace {

const std::vector<std::string> kSkewed{"plan",
                                       "--cluster",
                                       "proprophet_hpwnv",
                                       "--model",
                                       "pro_prophet_moe_gpt_m",
                                       "--world",
                                       "16",
                                       "--workload",
                                       "skewed",
                                       "--ep",
                                       "16",
                                       "--tp",
                                       "1",
                                       "--schedule",
                                       "baseline",
                                       "--budget",
                                       "4",
                                       "-C",
                                       "model.layers[0].repeat=3"};

/// Three layers of 16 ranks and 16 experts; in the later iteration other experts are hot.
void write_trace(const Cli& cli) {
  std::ofstream out(cli.path("run.csv"));
  out << "iteration,layer,rank";
  for (int e = 0; e < 16; ++e) out << ",e" << e;
  out << '\n';
  for (const int iteration : {100, 130}) {
    for (int layer = 0; layer < 3; ++layer) {
      for (int rank = 0; rank < 16; ++rank) {
        out << iteration << ',' << layer << ',' << rank;
        const int hot = (layer + (iteration == 100 ? 0 : 7)) % 16;
        for (int e = 0; e < 16; ++e) out << ',' << (e == hot ? 500 : 20);
        out << '\n';
      }
    }
  }
}

const std::vector<std::string> kRecorded{"-C", "workload.routing={trace: run.csv, iteration: 100}"};

}  // namespace

TEST_CASE("plan places experts where loads are uneven, and simulate agrees with it") {
  const Cli cli;
  const Json plain = parsed(cli.run(with(kSkewed, {"--json", "--placement", "contiguous"})));
  const Json best = parsed(cli.run(with(kSkewed, {"--json", "-o", "plan.yaml"})));
  CHECK(plain.at("best").at("placement") == "contiguous");
  CHECK(plain.at("best").at("redundant_experts") == 0);
  CHECK(best.at("best").at("placement") == "auto");
  const double time = best.at("best").at("makespan_s").get<double>();
  CHECK(time < plain.at("best").at("makespan_s").get<double>());
  CHECK(parsed(cli.run({"simulate", "plan.yaml", "--json"})).at("makespan_s").get<double>() == time);
  SECTION("explain says that it pays, and how many redundant experts are worth it") {
    const Json w = parsed(cli.run({"explain", "plan.yaml", "--json"})).at("placement");
    CHECK(w.at("strategy") == "auto");
    CHECK(w.at("placed_s").get<double>() == time);
    CHECK(w.at("gain_s").get<double>() == Approx(w.at("contiguous_s").get<double>() - time));
    CHECK(w.at("breaks_even") == true);
    CHECK(w.at("lasts_iterations").is_null());
    CHECK(w.at("imbalance").get<double>() < w.at("imbalance_before").get<double>());
    CHECK(w.at("break_even_iterations").get<double>() ==
          Approx(w.at("migration_s").get<double>() / w.at("gain_s").get<double>()));
    CHECK(w.at("curve").size() >= 5);
    CHECK(w.at("best_redundancy").is_number_integer());
    CHECK(cli.run({"explain", "plan.yaml"}).out.find("Payoff of rebalancing: yes, after ") != std::string::npos);
  }
  SECTION("a plan file that was tampered with is bad input") {
    const Ran ran = cli.run({"simulate", "plan.yaml", "-C", "model.ffns.moe.num_experts=32"});
    CHECK(ran.code == 2);
    CHECK(ran.err.find("the placement has another number of experts") != std::string::npos);
  }
}

TEST_CASE("Every placement is planned and simulated where it is asked for") {
  const Cli cli;
  for (const char* name :
       {"fastermoe", "pro_prophet", "top2", "eplb_global", "eplb_distinct", "smartmoe", "lplb_ring"}) {
    CAPTURE(name);
    const Json j = parsed(cli.run(
        with(kSkewed, {"--json", "--placement", name, "--redundant-experts", "2", "--top", "1", "-o", "p.yaml"})));
    CHECK(j.at("best").at("placement") == name);
    CHECK(parsed(cli.run({"simulate", "p.yaml", "--json"})).at("makespan_s") == j.at("best").at("makespan_s"));
  }
}

TEST_CASE("A recorded routing gives every layer its own counts and placement") {
  const Cli cli;
  write_trace(cli);
  const auto plan = [&](const std::vector<std::string>& more) { return cli.run(with(with(kSkewed, kRecorded), more)); };
  const Json j = parsed(plan({"--json", "-o", "plan.yaml"}));
  CHECK(j.at("workload").at("routing") == "recorded");
  CHECK(j.at("best").at("placement") == "auto");
  const Json w = parsed(cli.run({"explain", "plan.yaml", "--json"})).at("placement");
  REQUIRE(w.at("lasts_iterations").is_number_integer());
  CHECK(w.at("outlasts_trace") == (w.at("lasts_iterations") == 30));  // as long as the trace goes on
  SECTION("a trace that has changed, or lacks, is bad input") {
    std::ofstream(cli.path("run.csv"), std::ios::app) << "\n";
    const Ran changed = cli.run({"simulate", "plan.yaml"});
    CHECK(changed.code == 2);
    CHECK(changed.err.find("is not the file that was planned with") != std::string::npos);
    std::filesystem::remove(cli.path("run.csv"));
    CHECK(cli.run({"simulate", "plan.yaml"}).code == 2);
  }
  SECTION("an iteration that is not in it, and ranks that it does not fit, are said") {
    CHECK(plan({"-C", "workload.routing.iteration=110"}).err.find("110 is not in the trace") != std::string::npos);
    const auto on_8 = [&](const std::vector<std::string>& more) {
      std::vector<std::string> all = with(with(kSkewed, kRecorded), more);
      for (std::string& a : all) {
        if (a == "16") a = "8";
      }
      return cli.run(all).code;
    };
    CHECK(on_8({}) == 3);
    CHECK(on_8({"-C", "workload.routing.sources=sum"}) == 0);
  }
}

}  // namespace moeplan::tests::placement_test

// `moeplan replay`, on a trace of four ranks with one hot expert.
namespace moeplan::tests::replay_command_test {

namespace {

/// Of every rank's 1,000 selections in each of three iterations, expert 0 gets 650.
void write_trace(const Cli& cli) {
  std::string text = "iteration,layer,rank,e0,e1,e2,e3,e4,e5,e6,e7\n";
  for (int i = 0; i < 3; ++i) {
    for (int rank = 0; rank < 4; ++rank) {
      text += std::to_string(i) + ",0," + std::to_string(rank) + ",650,50,50,50,50,50,50,50\n";
    }
  }
  (void)cli.write("hot.csv", text);
}

std::vector<std::string> replay_of(const Cli& cli, std::vector<std::string> more = {}) {
  std::vector<std::string> all{"replay",  cli.path("hot.csv"), "--cluster", "dgx_h100",
                               "--model", "mixtral_8x7b",      "--quiet"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("replay prints strategies over a recorded routing, against contiguous experts") {
  const Cli cli;
  write_trace(cli);
  const Ran ran = cli.run(replay_of(cli, {"--strategies", "fastermoe,pro_prophet,auto", "--redundant", "2"}));
  CHECK(ran.code == 0);
  CHECK(ran.err.empty());
  CHECK(ran.out.find("hot.csv: 3 iterations of 1 layers, 4 ranks, 8 experts") != std::string::npos);
  CHECK(ran.out.find("pro_prophet") != std::string::npos);
  CHECK(ran.out.find("contiguous experts: ") != std::string::npos);
}

TEST_CASE("replay's JSON follows its schema; with foresight no iteration is planned from stale loads") {
  const Cli cli;
  write_trace(cli);
  const auto json = [&](std::vector<std::string> more) {
    more.push_back("--json");
    const Ran ran = cli.run(replay_of(cli, more));
    CHECK(ran.code == 0);
    const Json j = Json::parse(ran.out);
    CHECK(schema_errors(j, "replay.json") == std::vector<std::string>{});
    return j;
  };
  const Json known = json({"--strategies", "auto"}), foreseen = json({"--strategies", "auto", "--foresight"});
  CHECK(known.at("strategies")[0].at("plans") == 2);
  CHECK(foreseen.at("strategies")[0].at("plans") == 3);
  CHECK(foreseen.at("strategies")[0].at("time_s").get<double>() < known.at("strategies")[0].at("time_s").get<double>());
  CHECK(json({"--strategies", "auto", "--interval", "2"}).at("strategies")[0].at("plans") == 1);
  SECTION("Pro-Prophet's n: copies are sent to fewer devices, whose tokens travel again") {
    const Json all = json({"--strategies", "pro_prophet"}), half = json({"--strategies", "pro_prophet:n=0.5"});
    CHECK(half.at("strategies")[0].at("strategy") == "pro_prophet:n=0.5");
    CHECK(half.at("strategies")[0].at("time_s") != all.at("strategies")[0].at("time_s"));
  }
}

TEST_CASE("replay names what is wrong") {
  const Cli cli;
  write_trace(cli);
  CHECK(cli.run(replay_of(cli, {"--strategies", "pro_profit"})).err ==
        "--strategies: \"pro_profit\" is no strategy; did you mean \"pro_prophet\"?\n");
  const Ran other = cli.run({"replay", cli.path("hot.csv"), "--cluster", "dgx_h100", "--model", "qwen3_30b_a3b"});
  CHECK(other.code == 2);
  CHECK(other.err.find("is of 8 experts") != std::string::npos);
}

}  // namespace moeplan::tests::replay_command_test
