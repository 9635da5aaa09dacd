#include "model/collectives/ring_model.hpp"

#include <catch2/catch.hpp>

namespace moeplan::tests::ring_model_test {

namespace {

const Network kNetwork{.nics_per_node = 2, .nic_bandwidth = BytesPerSecond(1e10), .base = Seconds(12e-6)};

RingModel ring() {
  return {.collectives = {Collective::AllGather, Collective::AllReduce},
          .protocol = "Simple",
          .base = Seconds(5e-6),
          .step = Seconds(1e-6),
          .bandwidth = BytesPerSecond(1e11),
          .own = 0.5,
          .ramp = Seconds(8e-6),
          .ramp_bytes = Bytes(3e6),
          .network = RingNetwork{.step = Seconds(10e-6), .overhead = Seconds(3e-6)}};
}

double time_of(const RingModel& model, Collective op, GroupShape shape, double bytes, bool in_place = false) {
  return ring_cost(model, kNetwork, op, shape, Bytes(bytes), in_place)->time().value();
}

}  // namespace

TEST_CASE("A ring inside a node pays its steps, its bytes, the copy of the own part and the ramp") {
  // 4 ranks, 4 MB: 3 steps, 3 MB sent, 1 MB own at half the cost, half of the ramp.
  CHECK(time_of(ring(), Collective::AllGather, {4, 1}, 4e6) == Approx(5e-6 + 3e-6 + 3e-5 + 0.5e-5 + 4e-6));
  CHECK(time_of(ring(), Collective::AllGather, {4, 1}, 4e6, true) == Approx(5e-6 + 3e-6 + 3e-5 + 4e-6));
  // An all-reduce goes round twice and has no own part: 6 steps, 6 MB.
  CHECK(time_of(ring(), Collective::AllReduce, {4, 1}, 4e6) == Approx(5e-6 + 6e-6 + 6e-5 + 8e-6 * 6 / 9));
}

TEST_CASE("Between nodes the slower of the steps and of the bytes decides") {
  // 8 ranks on 2 nodes: 6 steps inside nodes at the proxy's pace, 1 between them; NICs of a node 20 GB/s.
  const double steps = 6 * 3e-6 + 10e-6;
  const double fixed = 12e-6 + 5e-6;
  const double few = 7.0 / 8 * 1e5, many = 7.0 / 8 * 1e8;
  CHECK(time_of(ring(), Collective::AllGather, {8, 2}, 1e5, true) == Approx(fixed + steps + 8e-6 * few / (few + 3e6)));
  CHECK(time_of(ring(), Collective::AllGather, {8, 2}, 1e8, true) ==
        Approx(fixed + many / 2e10 + 8e-6 * many / (many + 3e6)));
  SECTION("one rank a node sends through one NIC") {
    const double half = 0.5e8;
    CHECK(time_of(ring(), Collective::AllGather, {2, 2}, 1e8, true) ==
          Approx(fixed + half / 1e10 + 8e-6 * half / (half + 3e6)));
  }
  SECTION("a bandwidth of its own between nodes") {
    RingModel slower = ring();
    slower.network->bandwidth = BytesPerSecond(1e10);
    CHECK(time_of(slower, Collective::AllGather, {8, 2}, 1e8, true) ==
          Approx(fixed + many / 1e10 + 8e-6 * many / (many + 3e6)));
  }
  SECTION("chunks that are not pipelined pay each hop") {
    RingModel whole = ring();
    whole.network->hop_bandwidth = BytesPerSecond(1e9);
    CHECK(time_of(whole, Collective::AllGather, {8, 2}, 8e5, true) ==
          Approx(fixed + steps + 1e5 / 1e9 + 8e-6 * 7e5 / (7e5 + 3e6)));
  }
}

TEST_CASE("Without NVLinks the host's memory passes on the bytes of all ranks, while each takes its steps") {
  const Network host{.host_memory =
                         HostMemory{.direct_ranks = 2, .bandwidth = BytesPerSecond(2e10), .contention = 0.5}};
  const auto time = [&](const RingModel& model, std::int64_t ranks, double bytes) {
    return ring_cost(model, host, Collective::AllGather, {ranks, 1}, Bytes(bytes), true)->time().value();
  };
  RingModel model = ring();
  model.ramp = Seconds(0);
  // 2 ranks copy directly: 1 step, half of 4 MB at 100 GB/s.
  CHECK(time(model, 2, 4e6) == Approx(5e-6 + 1e-6 + 2e6 / 1e11));
  // 4 ranks send 3 MB each through 20 GB/s, 8 ranks 3.5 MB through 20 GB/s less a half more time.
  CHECK(time(model, 4, 4e6) == Approx(5e-6 + 4 * 3e6 / 2e10));
  CHECK(time(model, 8, 4e6) == Approx(5e-6 + 8 * 3.5e6 / 2e10 * 1.5));
  SECTION("few bytes pass in the shadow of the steps") {
    CHECK(time(model, 4, 400) == Approx(5e-6 + 3e-6 + 300 / 1e11));
  }
  SECTION("LL moves a flag with each word") {
    model.expansion = 2;
    CHECK(time(model, 4, 4e6) == Approx(5e-6 + 2 * 4 * 3e6 / 2e10));
    CHECK(time(model, 2, 4e6) == Approx(5e-6 + 1e-6 + 2e6 / 1e11));
  }
}

TEST_CASE("The tuner leaves a protocol for larger chunks, at the same size within a doubling of the nodes") {
  RingModel model = ring();
  model.network->largest_chunk = Bytes(1000);
  const auto runs_at = [&](GroupShape shape, double bytes) {
    return ring_cost(model, kNetwork, Collective::AllGather, shape, Bytes(bytes), false).has_value();
  };
  CHECK(runs_at({32, 8}, 32000));
  CHECK_FALSE(runs_at({32, 8}, 32001));
  CHECK_FALSE(runs_at({60, 15}, 32001));  // as on 8 nodes
  CHECK(runs_at({64, 16}, 32001));
  CHECK(runs_at({12, 3}, 32000));  // no sooner than 8 nodes, which the limit was measured on
  CHECK_FALSE(runs_at({12, 3}, 32001));
  CHECK(runs_at({8, 2}, 8000));
  CHECK_FALSE(runs_at({8, 2}, 8001));
  SECTION("between two nodes it keeps one whose chunks are passed on whole, since they cross once") {
    model.network->hop_bandwidth = BytesPerSecond(1e9);
    CHECK(runs_at({8, 2}, 1e9));
    CHECK_FALSE(runs_at({32, 8}, 32001));
  }
  CHECK(runs_at({4, 1}, 1e9));  // inside a node there is no limit
}

TEST_CASE("A ring without figures of a network does not leave the node") {
  RingModel model = ring();
  model.network.reset();
  CHECK_FALSE(ring_cost(model, kNetwork, Collective::AllGather, {8, 2}, Bytes(1), false));
  CHECK_FALSE(ring_cost(ring(), Network{}, Collective::AllGather, {8, 2}, Bytes(1), false));
}

}  // namespace moeplan::tests::ring_model_test
