// What -C changes in the tables of `moeplan collective`: the closed form on the reference machine, value by value.
#include "tests/cli/support/cli_json.hpp"

namespace moeplan::tests::collective_overrides_test {

namespace {

constexpr double kGiB = 1073741824;

/// Seconds of one GiB over `world` ranks of nodes of 8 GPUs with 450 GB/s inside and a NIC of 50 GB/s each.
double time_of(const Cli& cli, const std::string& op, int world, const std::vector<std::string>& overrides) {
  std::vector<std::string> arguments{"collective", "--cluster",           "maxmin_reference", "--op",        op,
                                     "--world",    std::to_string(world), "--sizes",          "1GiB:1GiB:2", "--json"};
  for (const std::string& o : overrides) arguments.insert(arguments.end(), {"-C", o});
  return parsed(cli.run(arguments)).at("results").at(0).at("time_s").get<double>();
}

}  // namespace

TEST_CASE("collective follows the bandwidth that an override gives") {
  const Cli cli;
  SECTION("inside a node, because nothing else is crossed: (n - 1) / n of the bytes at the link's rate") {
    for (const double gb : {450.0, 900.0, 45.0}) {
      const double time =
          time_of(cli, "all_gather", 8, {"cluster.template.intra_node.bandwidth=" + std::to_string(gb) + " GB/s"});
      CHECK(time == Approx(kGiB * 7 / 8 / (gb * 1e9)).epsilon(1e-9));
    }
  }
  SECTION("between nodes an all-to-all is held by the NIC: the bytes for the other node at its rate") {
    for (const double gb : {50.0, 25.0}) {
      const double time =
          time_of(cli, "all_to_all", 16, {"cluster.template.fabric.nic_bandwidth=" + std::to_string(gb) + " GB/s"});
      CHECK(time == Approx(kGiB * 8 / 16 / (gb * 1e9)).epsilon(1e-9));
    }
  }
  SECTION("a start-up is added once, whatever the size") {
    const double without = time_of(cli, "all_gather", 8, {});
    CHECK(time_of(cli, "all_gather", 8, {"cluster.collective_startup=1 ms"}) == Approx(without + 1e-3).epsilon(1e-9));
  }
}

}  // namespace moeplan::tests::collective_overrides_test
