// Plug-ins: all-to-alls and schedules of a shared library (planner/plugin/moeplan_plugin.h).
#include "tests/cli/support/cli_json.hpp"

namespace moeplan::tests::plugin_test {

namespace {

const std::string kLibrary = MOEPLAN_EXAMPLE_PLUGIN;

Ran with_plugin(const Cli& cli, const std::vector<std::string>& arguments) {
  return cli.run(with({"--plugin", kLibrary}, arguments));
}

}  // namespace

TEST_CASE("A plug-in's all-to-all takes the time of its parts") {
  const Cli cli;
  const auto time = [&](const std::string& algorithm) {
    const Ran ran = with_plugin(
        cli, {"collective", "--cluster", "parm_testbed_a", "--op", "all_to_all", "--algorithm", algorithm, "--sizes",
              "8MB:8MB:2", "--json", "-C", "cluster.template.intra_node.inter_bridge_bandwidth=1 TB/s"});
    return parsed(ran).at("results")[0].at("time_s").get<double>();
  };
  // 7 of 8 MB leave each GPU at 14.9 GB/s, in one launch or in two.
  CHECK(time("linear") == Approx(7e6 / 14.9e9 + 42.5e-6).epsilon(0.01));
  CHECK(time("halves") == Approx(7e6 / 14.9e9 + 2 * 42.5e-6).epsilon(0.01));
  const Ran lossy =
      with_plugin(cli, {"collective", "--cluster", "parm_testbed_a", "--op", "all_to_all", "--algorithm", "lossy"});
  CHECK(lossy.code == 2);
  CHECK(lossy.err.find("lossy does not reach every rank once") != std::string::npos);
}

TEST_CASE("A plug-in's schedule is planned, written to a plan and simulated from it") {
  const Cli cli;
  const auto plan = [&](const std::string& schedule, const std::vector<std::string>& more) {
    return with_plugin(cli, with({"plan", "--cluster", "dgx_h100", "--model", "schemoe_gpt2_tiny_moe", "--world", "16",
                                  "--ep", "16", "--tp", "1", "--pp", "1", "--schedule", schedule},
                                 more));
  };
  // With one chunk there is one order, that of the baseline.
  const Json own = parsed(plan("one_by_one", {"--json", "-o", "p.yaml"}));
  const Json baseline = parsed(plan("baseline", {"--json"}));
  CHECK(own.at("best").at("schedule") == "one_by_one");
  CHECK(own.at("best").at("makespan_s") <= baseline.at("best").at("makespan_s"));
  CHECK(parsed(with_plugin(cli, {"simulate", "p.yaml", "--json"})).at("makespan_s") == own.at("best").at("makespan_s"));
  const Ran without = cli.run({"simulate", "p.yaml"});
  CHECK(without.code == 2);
  CHECK(without.err.find("\"one_by_one\" is not known") != std::string::npos);
  const Ran backwards = plan("backwards", {});
  CHECK(backwards.code == 3);
  CHECK((backwards.out + backwards.err).find("backwards leaves out or misplaces a task of a chunk") !=
        std::string::npos);
}

TEST_CASE("What is no plug-in is refused with the reason") {
  const Cli cli;
  const auto error = [&](const std::vector<std::string>& libraries) {
    std::vector<std::string> arguments;
    for (const std::string& library : libraries) arguments.insert(arguments.end(), {"--plugin", library});
    const Ran ran = cli.run(with(arguments, {"list", "schedules"}));
    CHECK(ran.code == 2);
    return ran.err;
  };
  CHECK(error({"nowhere.so"}).find("nowhere.so: --plugin: nowhere.so: cannot open shared object file") == 0);
  CHECK(error({kLibrary, kLibrary}) == kLibrary + ": --plugin: an all-to-all \"halves\" is there already\n");
}

}  // namespace moeplan::tests::plugin_test
