#include "model/collectives/tree_model.hpp"

#include <catch2/catch.hpp>

namespace moeplan::tests::tree_model_test {

TEST_CASE("A tree's depth grows with the logarithm of the nodes") {
  const Network network{.nics_per_node = 2, .nic_bandwidth = BytesPerSecond(1e10), .base = Seconds(12e-6)};
  TreeModel tree{.protocol = "LL",
                 .base = Seconds(1e-6),
                 .step = Seconds(2e-6),
                 .network_step = Seconds(5e-6),
                 .bandwidth = BytesPerSecond(1e10)};
  const auto time = [&](std::int64_t nodes, double bytes) {
    return tree_cost(tree, network, {4 * nodes, nodes}, Bytes(bytes))->time().value();
  };
  // Up and down: 2 x 3 steps inside nodes of 4, 2 x 3 between 8 nodes, twice the bytes.
  CHECK(time(8, 1e6) == Approx(12e-6 + 1e-6 + 6 * 2e-6 + 6 * 5e-6 + 2e6 / 1e10));
  CHECK(time(512, 0) - time(8, 0) == Approx(2 * (9 - 3) * 5e-6));
  SECTION("messages that hops pass on whole pay each of them") {
    tree.hop_bandwidth = BytesPerSecond(1e9);
    CHECK(time(8, 1e6) == Approx(12e-6 + 1e-6 + 6 * 2e-6 + 6 * (5e-6 + 1e-3) + 2e6 / 1e10));
  }
  CHECK_FALSE(tree_cost(tree, network, {4, 1}, Bytes(1)));
  CHECK_FALSE(tree_cost(tree, Network{}, {8, 2}, Bytes(1)));
}

TEST_CASE("The switch reduces each byte once") {
  const Network network{.nics_per_node = 8, .nic_bandwidth = BytesPerSecond(1e10), .base = Seconds(12e-6)};
  NvlsModel nvls{.base = Seconds(10e-6), .step = Seconds(2e-6), .bandwidth = BytesPerSecond(1e11)};
  const auto time = [&](GroupShape shape) { return nvls_cost(nvls, network, shape, Bytes(1e7))->time().value(); };
  CHECK(time({8, 1}) == Approx(10e-6 + 16e-6 + 1e-4));
  CHECK_FALSE(nvls_cost(nvls, network, {16, 2}, Bytes(1e7)));
  SECTION("between nodes each rank's NIC carries an m-th of the bytes there and back, unless the switch is slower") {
    nvls.network_step = Seconds(5e-6);
    const double steps = 10e-6 + 16e-6 + 12e-6;
    CHECK(time({16, 2}) == Approx(steps + 2 * 5e-6 + 1e7 / 8e10));
    CHECK(time({32, 4}) == Approx(steps + 4 * 5e-6 + 1.5 * 1e7 / 8e10));
    CHECK(time({4, 2}) == Approx(steps - 12e-6 + 2 * 5e-6 + 1e7 / 2e10));  // 2 ranks a node, 2 NICs
    nvls.bandwidth = BytesPerSecond(5e10);
    CHECK(time({16, 2}) == Approx(steps + 2 * 5e-6 + 1e7 / 5e10));
    CHECK_FALSE(nvls_cost(nvls, Network{}, {16, 2}, Bytes(1e7)));
  }
}

}  // namespace moeplan::tests::tree_model_test
