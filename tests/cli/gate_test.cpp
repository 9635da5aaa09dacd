// Gates, and capacities that change, as a user plans with them.
#include "tests/cli/support/cli_json.hpp"

namespace moeplan::tests::gate_test {

namespace {

const std::vector<std::string> kTwoNodes{"plan",    "--cluster", "dgx_h100", "--model", "schemoe_gpt2_tiny_moe",
                                         "--world", "16",        "--ep",     "16",      "--tp",
                                         "1",       "--pp",      "1"};

}  // namespace

TEST_CASE("A gate that changes the routing is off, unless asked for, and reported") {
  const Cli cli;
  const Ran plain = cli.run(with(kTwoNodes, {"--json"}));
  CHECK_FALSE(parsed(plain).at("best").contains("gate"));
  CHECK(parsed(plain).at("workload").at("gate") == "top_k");
  const auto planned = [&](const std::string& gate, const std::vector<std::string>& more = {}) {
    return cli.run(with(with(kTwoNodes, {"-C", "workload.gate=" + gate}), more));
  };
  SECTION("the topology gate: of the half that would leave the node, what the network carries as fast does") {
    const Json j = parsed(planned("{kind: topology, net_over_local: 0.8}", {"--json"}));
    const Json& gate = j.at("best").at("gate");
    // L = 0.8 / 8 of the selections; uniform routing sends 1 / 2 of them to the other node.
    CHECK(gate.at("rerouted_share").get<double>() == Approx(0.5 - 0.1).epsilon(0.01));
    CHECK(gate.at("dropped_share") == 0);
    CHECK(j.at("workload").at("gate") == "topology");
    CHECK(j.at("best").at("makespan_s") <= parsed(plain).at("best").at("makespan_s"));
    const std::string page = unwrapped(planned("{kind: topology, net_over_local: 0.8}").out);
    CHECK(page.find("topology gate (W_net / W_local 0.8)") != std::string::npos);
    CHECK(page.find("% of the selections go to another expert, 0.0% are dropped") != std::string::npos);
  }
  SECTION("a topology gate takes the ratio from the cluster, also when a plan is read again") {
    REQUIRE(planned("{kind: topology}", {"-o", "p.yaml"}).code == 0);
    const Json again = parsed(cli.run({"simulate", "p.yaml", "--json"}));
    CHECK(again.at("makespan_s") == again.at("planned_makespan_s"));
    const Ran single = cli.run({"plan", "--cluster", "parm_testbed_a", "--model", "schemoe_gpt2_tiny_moe", "-C",
                                "workload.gate={kind: topology}"});
    CHECK(single.code == 2);
    CHECK(single.err.find("gate: the cluster's file has no template with a network") != std::string::npos);
  }
  SECTION("the capacity gate drops what a popular expert has too much") {
    const Ran ran = planned("{kind: capacity, factor: 1.2}", {"--json", "-C", "workload.routing={shape: zipf}"});
    const Json gate = parsed(ran).at("best").at("gate");
    CHECK(gate.at("dropped_share").get<double>() > 0.1);
    CHECK(gate.at("rerouted_share") == 0);
    // T rows of every expert, 1.2 times the tokens' selections, less what is kept.
    CHECK(gate.at("padding_share").get<double>() == Approx(0.2 + gate.at("dropped_share").get<double>()).epsilon(0.01));
    CHECK(cli.run(with(kTwoNodes, {"-C", "workload.capacity_factor=1.2", "-C", "workload.gate={kind: capacity}"}))
              .err.find("has no effect together with a capacity_factor") != std::string::npos);
  }
}

TEST_CASE("A workload whose capacity changes gets Tutel's dictionary in its plan") {
  const Cli cli;
  const std::vector<std::string> plan{"plan",
                                      "--cluster",
                                      "dgx_h100",
                                      "--model",
                                      "schemoe_gpt2_tiny_moe",
                                      "--world",
                                      "16",
                                      "-C",
                                      "workload.capacity_factor=1",
                                      "-C",
                                      "workload.capacity_factors=[0.5, 1, 4]"};
  const Json j = parsed(cli.run(with(plan, {"--json", "-o", "p.yaml"})));
  REQUIRE(j.at("tutel_dictionaries").size() == 1);
  const Json& dictionary = j.at("tutel_dictionaries").at(0);
  CHECK(dictionary.at("window") == 128);
  REQUIRE(dictionary.at("entries").size() > 0);
  for (const Json& entry : dictionary.at("entries")) {
    CHECK(entry.at("key").get<int>() == entry.at("capacity").get<int>() / 128);
    CHECK(entry.at("trials").get<int>() <= dictionary.at("most_trials").get<int>());
    CHECK(entry.at("layer_s").get<double>() > 0);
  }
  CHECK(cli.run(plan).out.find("Tutel's dictionary") != std::string::npos);
  CHECK(cli.run({"simulate", "p.yaml"}).code == 0);
  CHECK(whole_file(cli.path("p.yaml")).find("tutel_dictionaries:") != std::string::npos);
}

}  // namespace moeplan::tests::gate_test
