// `moeplan explain` as a user runs it.
#include <fmt/format.h>

#include <map>

#include "tests/cli/support/cli_json.hpp"
#include "tests/support/golden.hpp"

namespace moeplan::tests::explain_test {

namespace {

/// The quickstart's plan, in plan.yaml.
void plan_quickstart(const Cli& cli, const std::vector<std::string>& more = {}) {
  const std::vector<std::string> quickstart{"plan",    "--cluster", "hgx_h200", "--model",  "mixtral_8x7b",
                                            "--world", "32",        "-o",       "plan.yaml"};
  REQUIRE(cli.run(with(quickstart, more)).code == 0);
}

double makespan(const Cli& cli, const std::vector<std::string>& overrides) {
  std::vector<std::string> arguments{"simulate", "plan.yaml", "--json"};
  for (const std::string& o : overrides) arguments.insert(arguments.end(), {"-C", o});
  return parsed(cli.run(arguments)).at("makespan_s").get<double>();
}

/// Each sensitivity that is named against simulate with the value overridden.
void check_sensitivities(const Cli& cli, const std::map<std::string, std::vector<std::string>>& overrides) {
  const double before = makespan(cli, {});
  std::size_t found = 0;
  const Json explained = parsed(cli.run({"explain", "plan.yaml", "--json"}));
  for (const Json& s : explained.at("sensitivities")) {
    const auto it = overrides.find(s.at("what").get<std::string>());
    if (it == overrides.end()) continue;
    CAPTURE(it->first);
    ++found;
    const double now = makespan(cli, it->second);
    CHECK(s.at("makespan_s").get<double>() == Approx(now).epsilon(1e-9));  // values are scaled in another order
    CHECK(s.at("gain").get<double>() == Approx(1 - now / before).margin(1e-8));
  }
  CHECK(found == overrides.size());
}

}  // namespace

TEST_CASE("explain prints the promised JSON, whose parts sum to the whole") {
  static const Cli cli;  // planned once for all sections
  static const Json j = [] {
    plan_quickstart(cli);
    return parsed(cli.run({"explain", "plan.yaml", "--json"}));
  }();
  CHECK(j.at("schema_version") == 1);
  CHECK_FALSE(j.at("conclusion").get<std::string>().empty());
  const double all = j.at("makespan_s").get<double>();
  CHECK(all == makespan(cli, {}));
  CHECK(j.at("lower_bound_s").get<double>() <= all);
  SECTION("the operations of the binding rank are all its FLOPs and all its computation") {
    double flops = 0, seconds = 0;
    for (const Json& op : j.at("operations")) {
      flops += op.at("flops").get<double>() * op.at("executions").get<double>();
      const std::string name = op.at("operation").get<std::string>();
      const bool waits = name.starts_with("wait for") || name == "read loads";
      if (op.at("stream") == "compute" && !waits) seconds += op.at("time_s").get<double>();
    }
    const Json& roofline = j.at("roofline");
    const double computation = roofline.at("computation_s").get<double>();
    CHECK(flops == Approx(roofline.at("computing_flops_per_s").get<double>() * computation).epsilon(1e-9));
    CHECK(seconds == Approx(computation).epsilon(1e-9));
    const std::string page = cli.run({"explain", "plan.yaml", "--operations"}).out;
    CHECK_THAT(page, Catch::Contains("\n    expert up projection ") && Catch::Contains("FLOP/s"));
  }
  SECTION("the critical path is as long as the iteration, by operation, by class and by what holds it") {
    for (const char* key : {"critical_path", "critical_path_classes", "critical_path_bottlenecks"}) {
      CAPTURE(key);
      REQUIRE(j.at(key).is_array());
      CHECK(sum_of(j.at(key), "time_s") == Approx(all).epsilon(1e-12));
      CHECK(sum_of(j.at(key), "share") == Approx(1).epsilon(1e-12));
    }
    for (const char* key : {"block", "operation", "class", "limited_by"}) {
      CHECK(j.at("critical_path").at(0).at(key).is_string());
    }
  }
  SECTION("what is exposed by class sums to all exposed communication, of the binding rank") {
    double exposed = 0;
    for (const auto& [name, time] : j.at("exposed_by_class").items()) exposed += time.get<double>();
    CHECK(exposed == Approx(j.at("exposed_communication_s").get<double>()).epsilon(1e-12));
    CHECK(j.at("binding_rank").is_number_integer());
    CHECK_FALSE(j.at("classes").empty());
  }
  SECTION("the roofline's ratio is that of its times") {
    const Json& r = j.at("roofline");
    CHECK(r.at("r_cc").get<double>() ==
          Approx(r.at("computation_s").get<double>() / r.at("communication_s").get<double>()));
    CHECK(r.at("semi_ideal_flops_per_s") <= r.at("average_flops_per_s"));
    CHECK(r.at("average_flops_per_s").get<double>() <= r.at("ideal_flops_per_s").get<double>() * (1 + 1e-9));
    CHECK(r.at("computing_flops_per_s") < r.at("peak_flops_per_s"));
  }
  SECTION("sensitivities come by gain") {
    double last = 1;
    for (const Json& s : j.at("sensitivities")) {
      const double gain = s.at("gain").get<double>();
      CHECK(gain == Approx(1 - s.at("makespan_s").get<double>() / all).margin(1e-9));
      CHECK(gain <= last);
      last = gain;
    }
    CHECK(last < 1);
  }
  SECTION("no link is busier than always, and what is assumed is named") {
    CHECK_FALSE(j.at("streams").empty());
    REQUIRE_FALSE(j.at("links").empty());
    for (const Json& link : j.at("links")) CHECK(link.at("utilisation").get<double>() <= 1 + 1e-9);
    CHECK_FALSE(j.at("assumed").empty());
  }
  SECTION("the same plan gives the same bytes, but for timing") {
    CHECK(without_timing(parsed(cli.run({"explain", "plan.yaml", "--json"}))).dump() == without_timing(j).dump());
  }
}

TEST_CASE("explain does not call communication exposed for lying on the critical path") {
  // NICs so slow that the iteration ends with the gradients, most of whose exchange still runs beside computation.
  const Cli cli;
  plan_quickstart(cli, {"--pp", "1", "--tp", "1", "--ep", "8", "--schedule", "baseline", "--no-ep-overlap"});
  const std::vector<std::string> explain{"explain", "plan.yaml", "-C",
                                         "cluster.template.fabric.nic_bandwidth=140 Gbps"};
  const Json j = parsed(cli.run(with(explain, {"--json"})));
  double on_path = 0;
  for (const Json& c : j.at("critical_path_classes")) {
    if (c.at("class") == "gradient_sync") on_path = c.at("share").get<double>();
  }
  const double makespan = j.at("makespan_s").get<double>();
  const double exposed = j.at("exposed_by_class").at("gradient_sync").get<double>() / makespan;
  CHECK(on_path > 2 * exposed);
  CHECK(exposed > 0);
  const std::string conclusion = j.at("conclusion").get<std::string>();
  CHECK_THAT(conclusion,
             Catch::Contains("is gradient traffic, limited by the link") && !Catch::Contains("nothing hides"));
  const double all = 100 * j.at("exposed_communication_s").get<double>() / makespan;
  CHECK_THAT(conclusion,
             Catch::Contains(fmt::format("Exposed communication, which no computation hides, is {:.1f}%", all)));
  CHECK_THAT(cli.run(explain).out, Catch::Contains("Exposed communication (no computation runs) on rank"));
}

TEST_CASE("explain and plan are about the rank that waits least, and say of which stage") {
  // The last of the stages also has the output head, so the others wait for it.
  const Cli cli;
  plan_quickstart(cli, {"--pp", "4", "--tp", "1", "--ep", "8"});
  const Json j = parsed(cli.run({"explain", "plan.yaml", "--json"}));
  double accounted = 0, computing = 0;
  for (const auto& [name, c] : j.at("classes").items()) accounted += c.at("not_hidden_s").get<double>();
  computing = accounted - j.at("exposed_communication_s").get<double>();
  const double makespan = j.at("makespan_s").get<double>();
  CHECK(accounted <= makespan * (1 + 1e-9));
  CHECK(computing + j.at("waiting_s").get<double>() <= makespan * (1 + 1e-9));
  const std::int64_t stage = j.at("binding_stage").get<std::int64_t>();
  CHECK(stage == j.at("binding_rank").get<std::int64_t>() / 8);
  const std::string page = cli.run({"explain", "plan.yaml"}).out;
  CHECK_THAT(page, Catch::Contains(fmt::format("(stage {} of 4)", stage + 1)));
}

TEST_CASE("The page of explain on the quickstart's plan") {
  const Cli cli;
  plan_quickstart(cli);
  const Ran page = cli.run({"explain", "plan.yaml"});
  CHECK(page.err.empty());
  check_golden("explain_quickstart.txt", page.out);
}

TEST_CASE("What explain says a tenth more would give is what simulate -C gives") {
  const Cli cli;
  SECTION("on H200 nodes, where the core follows the NICs unless oversubscription makes up for it") {
    plan_quickstart(cli);
    check_sensitivities(cli, {{"nic_bandwidth",
                               {"cluster.template.fabric.nic_bandwidth=440 Gbps",  // 1.1 x 400
                                "cluster.template.fabric.oversubscription=1.1"}},
                              {"intra_node_bandwidth", {"cluster.template.intra_node.bandwidth=495 GB/s"}},
                              {"gpu_flops", {"cluster.gpu.peak.bf16=1088.34 TFLOP/s"}},      // 1.1 x 989.4
                              {"hbm_bandwidth", {"cluster.gpu.hbm_bandwidth=5280 GB/s"}}});  // 1.1 x 4800
  }
  SECTION("on a PCIe machine whose collectives were measured") {
    REQUIRE(cli.run({"plan", "--cluster", "parm_testbed_b", "--model", "gpt2_moe", "--workload", "parm_grid", "-o",
                     "plan.yaml"})
                .code == 0);
    check_sensitivities(cli, {{"nic_bandwidth", {"cluster.template.fabric.nic_bandwidth=110 Gbps"}},
                              {"intra_node_bandwidth",
                               {"cluster.template.intra_node.pcie_bandwidth=17.325 GB/s",
                                "cluster.template.intra_node.inter_bridge_bandwidth=22.88 GB/s"}},
                              {"collective_startup",
                               {"cluster.collective_startup=28.8 us", "cluster.collectives[0].alpha=157.5 us",
                                "cluster.collectives[1].alpha=28.8 us", "cluster.collectives[2].alpha=28.8 us",
                                "cluster.collectives[3].alpha=35.19 us", "cluster.collectives[4].alpha=75.33 us"}}});
  }
}

TEST_CASE("explain takes overrides, and refuses what is no plan") {
  const Cli cli;
  SECTION("an override changes the machine that is explained") {
    plan_quickstart(cli, {"--pp", "1"});
    const Json slow =
        parsed(cli.run({"explain", "plan.yaml", "--json", "-C", "cluster.template.fabric.nic_bandwidth=40 Gbps"}));
    CHECK(slow.at("makespan_s") == makespan(cli, {"cluster.template.fabric.nic_bandwidth=40 Gbps"}));
    CHECK(slow.at("sensitivities").at(0).at("what") == "nic_bandwidth");
    CHECK_THAT(slow.at("conclusion").get<std::string>(), Catch::Contains("bound by communication"));
  }
  SECTION("bad input: exit code 2, nothing on standard output, and the file or key named") {
    plan_quickstart(cli);
    const auto refused = [&](const std::vector<std::string>& arguments, const std::string& what) {
      const Ran ran = cli.run(arguments);
      CAPTURE(arguments);
      CHECK(ran.code == 2);
      CHECK(ran.out.empty());
      CHECK_THAT(ran.err, Catch::Contains(what));
    };
    refused({"explain"}, "plan");
    refused({"explain", "none.yaml"}, "none.yaml");
    refused({"explain", (configs() / "clusters/dgx_h100.yaml").string()}, "dgx_h100.yaml");
    refused({"explain", "plan.yaml", "-C", "cluster.gpu.memroy=1 GB"}, "memroy");
  }
}

}  // namespace moeplan::tests::explain_test
