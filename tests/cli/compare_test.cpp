// `moeplan compare` as a user runs it.
#include <cmath>

#include "tests/cli/support/cli_json.hpp"
#include "tests/support/golden.hpp"

namespace moeplan::tests::compare_test {

namespace {

const std::vector<std::string> kMixtral{"plan", "--cluster", "hgx_h200", "--model", "mixtral_8x7b", "--world", "32"};

void make_plan(const Cli& cli, const std::string& file, const std::vector<std::string>& more,
               const std::vector<std::string>& base = kMixtral) {
  REQUIRE(cli.run(with(with(base, more), {"-o", file})).code == 0);
}

Json compared(const Cli& cli, const std::string& a, const std::string& b) {
  return parsed(cli.run({"compare", a, b, "--json"}));
}

}  // namespace

TEST_CASE("compare says where the time of two plans of a model goes apart") {
  static const Cli cli;  // planned once for all sections
  static const Json j = [] {
    make_plan(cli, "a.yaml", {});
    make_plan(cli, "b.yaml", {"--tp", "2"});
    return compared(cli, "a.yaml", "b.yaml");
  }();
  CHECK(j.at("schema_version") == 1);
  const Json &a = j.at("plans").at(0), &b = j.at("plans").at(1);
  SECTION("each makespan is that of simulate") {
    for (const Json& plan : j.at("plans")) {
      const Json simulated = parsed(cli.run({"simulate", plan.at("file"), "--json"}));
      CHECK(plan.at("makespan_s") == simulated.at("makespan_s"));
    }
    const double difference = b.at("makespan_s").get<double>() - a.at("makespan_s").get<double>();
    CHECK(j.at("makespan_difference_s").get<double>() == Approx(difference).epsilon(1e-9));
  }
  SECTION("classes and idle time sum to the difference, because they sum to each makespan") {
    const double idle = j.at("idle_s").at(1).get<double>() - j.at("idle_s").at(0).get<double>();
    CHECK(sum_of(j.at("classes"), "not_hidden_difference_s") + idle ==
          Approx(j.at("makespan_difference_s").get<double>()).epsilon(1e-9));
    const double exposed =
        b.at("exposed_communication_s").get<double>() - a.at("exposed_communication_s").get<double>();
    CHECK(sum_of(j.at("classes"), "exposed_difference_s") == Approx(exposed).epsilon(1e-9));
  }
  SECTION("the parts of memory sum to the plans' totals") {
    for (const std::size_t i : {0U, 1U}) {
      double sum = 0;
      for (const auto& [name, bytes] : j.at("memory_parts_bytes").items()) sum += bytes.at(i).get<double>();
      CHECK(sum == Approx(j.at("plans").at(i).at("memory_bytes").get<double>()));
    }
  }
  SECTION("decisions that differ are named, and no input does") {
    CHECK(j.at("decisions").at("tp") == Json({"1", "2"}));
    CHECK_FALSE(j.at("decisions").contains("pp"));
    CHECK(j.at("inputs").empty());
  }
  SECTION("the other way round every difference has the other sign") {
    const Json back = compared(cli, "b.yaml", "a.yaml");
    CHECK(back.at("makespan_difference_s").get<double>() == -j.at("makespan_difference_s").get<double>());
    CHECK(back.at("makespan_ratio").get<double>() == Approx(1 / j.at("makespan_ratio").get<double>()));
    CHECK(back.at("decisions").at("tp") == Json({"2", "1"}));
    std::size_t same = 0;
    for (const Json& x : j.at("classes")) {
      for (const Json& y : back.at("classes")) {
        if (x.at("class") != y.at("class")) continue;
        ++same;
        for (const char* key : {"not_hidden_difference_s", "exposed_difference_s"}) {
          CHECK(y.at(key).get<double>() == -x.at(key).get<double>());
        }
      }
    }
    CHECK(same == j.at("classes").size());
    CHECK(back.at("classes").size() == j.at("classes").size());
  }
  SECTION("its page") {
    const Ran page = cli.run({"compare", "a.yaml", "b.yaml"});
    CHECK(page.err.empty());
    check_golden("compare_quickstart_tp2.txt", page.out);
  }
}

TEST_CASE("A plan does not differ from itself") {
  const Cli cli;
  make_plan(cli, "a.yaml", {});
  const Json j = compared(cli, "a.yaml", "a.yaml");
  CHECK(j.at("makespan_difference_s") == 0);
  CHECK(j.at("makespan_ratio") == 1);
  CHECK(j.at("decisions").empty());
  CHECK(j.at("inputs").empty());
  for (const Json& c : j.at("classes")) CHECK(c.at("not_hidden_difference_s") == 0);
  CHECK_THAT(j.at("conclusion").get<std::string>(), Catch::StartsWith("A and B take the same time"));
  const Ran page = cli.run({"compare", "a.yaml", "a.yaml"});
  CHECK_THAT(page.out, Catch::Contains("No decision differs.") && Catch::Contains("No input differs."));
}

TEST_CASE("compare names the inputs that differ, and says where the work does") {
  const Cli cli;
  make_plan(cli, "a.yaml", {});
  SECTION("another machine: the same work") {
    make_plan(cli, "b.yaml", {"-C", "cluster.template.fabric.nic_bandwidth=200 Gbps"});
    const Json j = compared(cli, "a.yaml", "b.yaml");
    CHECK(j.at("inputs") == Json({"cluster.template.fabric.nic_bandwidth"}));
    CHECK(j.at("makespan_difference_s") > 0);
    CHECK_THAT(j.at("conclusion").get<std::string>(),
               Catch::StartsWith("B takes ") && Catch::Contains(" longer than A") && !Catch::Contains("tokens/s"));
  }
  SECTION("another batch: the iterations are not the same work") {
    make_plan(cli, "b.yaml", {"-C", "workload.global_batch=512"});
    const Json j = compared(cli, "a.yaml", "b.yaml");
    CHECK(j.at("inputs") == Json({"workload.global_batch"}));
    CHECK_THAT(j.at("conclusion").get<std::string>(), Catch::EndsWith("compare their tokens/s."));
  }
  SECTION("another model: the times do not say which plan is better") {
    make_plan(cli, "b.yaml", {},
              {"plan", "--cluster", "hgx_h200", "--model", "schemoe_gpt2_tiny_moe", "--world", "32"});
    const Json j = compared(cli, "a.yaml", "b.yaml");
    CHECK_THAT(j.at("conclusion").get<std::string>(), Catch::Contains("They run different models"));
    bool named = false;
    for (const Json& input : j.at("inputs")) named = named || input.get<std::string>().starts_with("model.");
    CHECK(named);
  }
}

TEST_CASE("compare refuses what is no plan") {
  const Cli cli;
  make_plan(cli, "a.yaml", {});
  const std::string cluster = (configs() / "clusters/dgx_h100.yaml").string();
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& what) {
    const Ran ran = cli.run(arguments);
    CAPTURE(arguments);
    CHECK(ran.code == 2);
    CHECK(ran.out.empty());
    CHECK_THAT(ran.err, Catch::Contains(what));
  };
  refused({"compare"}, "first");
  refused({"compare", "a.yaml"}, "second");
  refused({"compare", "a.yaml", "none.yaml"}, "none.yaml");
  refused({"compare", "none.yaml", "a.yaml"}, "none.yaml");
  refused({"compare", "a.yaml", cluster}, "dgx_h100.yaml");
  refused({"compare", "a.yaml", cli.write("empty.yaml", "")}, "empty.yaml");
  const std::string plan = whole_file(cli.path("a.yaml"));
  refused({"compare", "a.yaml", cli.write("half.yaml", plan.substr(0, plan.size() / 2))}, "half.yaml");
  refused({"compare", "a.yaml", "a.yaml", "-C", "cluster.nonsense=1"}, "nonsense");
}

}  // namespace moeplan::tests::compare_test
