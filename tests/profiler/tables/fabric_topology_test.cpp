#include "profiler/tables/fabric_topology.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "tests/support/checks.hpp"

namespace moeplan::tests::fabric_topology_test {

using namespace moeplan::profiler;

namespace {

std::string switch_head(const std::string& id) {
  return fmt::format(
      "vendid=0x2c9\nswitchguid=0x{}\nSwitch\t41 \"S-{}\"\t\t# \"Quantum {}\" enhanced port 0 lid 3 lmc 0\n", id, id,
      id);
}
std::string to_host(int port, const std::string& host, int adapter, const std::string& rate = "4xNDR") {
  return fmt::format("[{}]\t\"H-{}{}\"[1](ab) \t\t# \"{} mlx5_{}\" lid 7 {}\n", port, host, adapter, host, adapter,
                     rate);
}
std::string to_switch(int port, const std::string& id) {
  return fmt::format("[{}]\t\"S-{}\"[2]\t\t# \"Quantum {}\" lid 9 4xNDR\n", port, id, id);
}

/// Two hosts with two ports each, on leaves of their own, which have one link each to a spine.
std::string two_rails() {
  return switch_head("leaf0") + to_host(1, "n01", 0) + to_host(2, "n02", 0) + to_switch(3, "spine") +
         switch_head("leaf1") + to_host(1, "n01", 1) + to_host(2, "n02", 1) + to_switch(3, "spine") +
         switch_head("spine") + to_switch(1, "leaf0") + to_switch(2, "leaf1") +
         "vendid=0x2c9\nCa\t1 \"H-n010\"\t\t# \"n01 mlx5_0\"\n[1](ab) \t\"S-leaf0\"[1]\t\t# lid 7 lmc 0 \"Quantum\" "
         "lid 3 4xNDR\n";
}

}  // namespace

TEST_CASE("ibnetdiscover shows hosts, their ports and rails, leaves and their oversubscription") {
  const FabricTopology f = read_ibnetdiscover(two_rails(), "ib.txt");
  CHECK(f.nodes == 2);
  CHECK(f.nics_per_node == 2);
  CHECK(f.nic_bandwidth.value() == 400 * 1.25e8);
  CHECK(f.has_rails);
  CHECK(f.nodes_per_leaf == 2);
  CHECK(f.oversubscription == 2);  // two ports to hosts, one to the spine
  CHECK(f.leaves == 2);
  CHECK(f.switches == 3);
  CHECK(f.left_out.empty());
  SECTION("hosts and ports unlike the others are left out, and said") {
    const FabricTopology odd = read_ibnetdiscover(switch_head("a") + to_host(1, "n1", 0) + to_host(2, "n2", 0) +
                                                      to_host(3, "n3", 0, "4xHDR") + to_host(4, "n3", 1, "4xHDR"),
                                                  "ib.txt");
    CHECK(odd.nics_per_node == 1);
    CHECK_FALSE(odd.has_rails);
    REQUIRE(odd.left_out.size() == 2);
    CHECK(odd.left_out[0] == "1 hosts with 2 ports, since most have 1");
  }
}

TEST_CASE("What is no output of ibnetdiscover is refused with its line") {
  const auto error = [](const std::string& text) {
    return error_of([&] { (void)read_ibnetdiscover(text, "ib.txt"); });
  };
  CHECK(error("hello\n") == "ib.txt:1:1: is no output of ibnetdiscover: expected lines that begin with Switch");
  CHECK(error(switch_head("a")) ==
        "ib.txt:1:1: has no channel adapter: expected ports of switches that lead to \"H-...\"");
  CHECK(error(switch_head("a") + to_host(1, "n1", 0, "fast")) ==
        "ib.txt:4:1: S-a: \"fast\" is no rate of a link; expected e.g. 4xHDR");
  CHECK(error("Switch\t41\n") == "ib.txt:1:1: Switch: expected the switch's id in quotes");
}

}  // namespace moeplan::tests::fabric_topology_test
