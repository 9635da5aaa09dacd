#include "model/collectives/all_to_all_model.hpp"

#include <catch2/catch.hpp>

namespace moeplan::tests::all_to_all_model_test {

namespace {

const Network kNetwork{.nics_per_node = 2, .nic_bandwidth = BytesPerSecond(1e10), .base = Seconds(12e-6)};

AllToAllModel model() {
  return {.base = Seconds(3e-6),
          .peer = Seconds(1e-6),
          .ll_bandwidth = BytesPerSecond(1e10),
          .simple_base = Seconds(5e-6),
          .bandwidth = BytesPerSecond(1e11),
          .own = 0.5,
          .ramp = Seconds(4e-6),
          .ramp_bytes = Bytes(3e6),
          .network = AllToAllNetwork{.peer = Seconds(4e-6), .ramp_bytes = Bytes(1)}};
}

double time_of(const AllToAllModel& m, GroupShape shape, double bytes) {
  return all_to_all_cost(m, kNetwork, shape, Bytes(bytes), false)->time().value();
}

}  // namespace

TEST_CASE("An all-to-all inside a node pays each peer, and the faster protocol") {
  CHECK(time_of(model(), {4, 1}, 4000) == Approx(3e-6 + 3e-6 + 4000 / 1e10));
  CHECK(time_of(model(), {4, 1}, 4e6) == Approx(3e-6 + 3e-6 + 5e-6 + 3e6 / 1e11 + 0.5 * 1e6 / 1e11 + 2e-6));
}

TEST_CASE("Without NVLinks an all-to-all passes through the host's memory, twice the bytes in LL") {
  const Network host{.host_memory =
                         HostMemory{.direct_ranks = 2, .bandwidth = BytesPerSecond(2e10), .contention = 0.5}};
  AllToAllModel m = model();
  m.ramp = Seconds(0);
  const auto time = [&](std::int64_t ranks, double bytes) {
    return all_to_all_cost(m, host, {ranks, 1}, Bytes(bytes), true)->time().value();
  };
  CHECK(time(4, 4e6) == Approx(3e-6 + 5e-6 + 4 * 3e6 / 2e10));
  CHECK(time(4, 8e3) == Approx(3e-6 + 3e-6 + 8e3 / 1e10));         // LL: the peers' start-up decides
  CHECK(time(4, 3e4) == Approx(3e-6 + 4 * 2 * 2.25e4 / 2e10));     // LL: the host's memory
  CHECK(time(2, 4e6) == Approx(3e-6 + 1e-6 + 5e-6 + 2e6 / 1e11));  // directly
}

TEST_CASE("Between nodes every peer costs, and the NICs carry what leaves the node") {
  // 16 ranks on 4 nodes: 3 peers inside, 12 outside; 4 ranks share 2 NICs of 10 GB/s; 3/4 of 16 MB leave.
  const double fixed = 3e-6 + 12e-6 + 3e-6 + 12 * 4e-6;
  CHECK(time_of(model(), {16, 4}, 16e6) == Approx(fixed + 12e6 / 5e9));
  SECTION("the fabric carries all messages while a rank starts its own, and loses with each doubling of the nodes") {
    AllToAllModel m = model();
    m.network->contention = 0.1;
    CHECK(time_of(m, {16, 4}, 16e6) == Approx(3e-6 + 12e-6 + 12e6 / 5e9 * 1.2));
    CHECK(time_of(m, {16, 4}, 1e4) == time_of(model(), {16, 4}, 1e4));  // the start of the messages decides
  }
  SECTION("the fabric does not carry what the NICs could send, but more of it between two nodes") {
    AllToAllModel m = model();
    m.network->bandwidth = BytesPerSecond(2e9);
    CHECK(time_of(m, {16, 4}, 16e6) == Approx(3e-6 + 12e-6 + 12e6 / 2e9));
    CHECK(time_of(m, {8, 2}, 16e6) == Approx(3e-6 + 12e-6 + 8e6 / 2e9));
    m.network->pair_bandwidth = BytesPerSecond(4e9);
    CHECK(time_of(m, {8, 2}, 16e6) == Approx(3e-6 + 12e-6 + 8e6 / 4e9));
    CHECK(time_of(m, {16, 4}, 16e6) == Approx(3e-6 + 12e-6 + 12e6 / 2e9));
  }
  AllToAllModel inside = model();
  inside.network.reset();
  CHECK_FALSE(all_to_all_cost(inside, kNetwork, {16, 4}, Bytes(1), false));
}

TEST_CASE("A message takes the slower of NIC and connection") {
  const SendReceiveModel m{.base = Seconds(1e-6), .bandwidth = BytesPerSecond(1e11), .connection = BytesPerSecond(4e9)};
  CHECK(send_receive_cost(m, kNetwork, {2, 1}, Bytes(1e6))->time().value() == Approx(1e-6 + 1e-5));
  CHECK(send_receive_cost(m, kNetwork, {2, 2}, Bytes(1e6))->time().value() == Approx(13e-6 + 1e6 / 4e9));
}

}  // namespace moeplan::tests::all_to_all_model_test
