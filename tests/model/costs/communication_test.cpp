#include "model/costs/communication.hpp"

#include <catch2/catch.hpp>

#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::communication_test {

namespace {

const AlphaBeta kMeasured{Seconds(1e-4), SecondsPerByte(2e-10)};

CommunicationCost cost(const Cluster& cluster, Collective collective, GroupFamily family, std::int64_t parts = 1,
                       std::int64_t first = 1) {
  Program program = tests::one_block(cluster.world_size(), {family});
  Operation op = tests::collective_of(program, collective, GroupId(0), 1 << 20);
  std::get<Communication>(op.work).of = parts;
  if (parts > 1) std::get<Communication>(op.work).first = first;
  return communication_cost(program, op, RankId(0), cluster);
}

}  // namespace

TEST_CASE("what is not measured has the cluster's start-up and the latency of its route") {
  Cluster cluster = tests::toy_cluster(2, 2);
  cluster.collective_startup = Seconds(30e-6);
  cluster.message_overhead = Seconds(2e-6);
  SECTION("an all-gather") {
    const CommunicationCost c = cost(cluster, Collective::AllGather, {"g", 4, 1});
    CHECK(c.startup.value() == 30e-6);
    CHECK_FALSE(c.rate_cap);
    CHECK(c.add_route_latency);
  }
  SECTION("an all-to-all pays for each message, because one sender issues them one after the other") {
    CHECK(cost(cluster, Collective::AllToAll, {"g", 4, 1}).startup.value() == Approx(30e-6 + 3 * 2e-6));
  }
  SECTION(
      "a part of an all-to-all pays for its messages to others: blocks of 2 of 4 ranks, to the other block 2, to one's "
      "own 1") {
    CHECK(cost(cluster, Collective::AllToAll, {"g", 4, 1}, 2, 1).startup.value() == Approx(30e-6 + 2 * 2e-6));
    CHECK(cost(cluster, Collective::AllToAll, {"g", 4, 1}, 2, 0).startup.value() == Approx(30e-6 + 1 * 2e-6));
  }
  SECTION(
      "the steps of a pairwise exchange pay for as many messages as a linear one, because they are the same messages") {
    Seconds overhead;
    for (std::int64_t j = 1; j < 4; ++j) {
      overhead += cost(cluster, Collective::AllToAll, {"g", 4, 1}, 4, j).startup - cluster.collective_startup;
    }
    CHECK(overhead.value() == Approx(3 * 2e-6));
  }
  SECTION("reductions whose sums follow their bytes take the sums' time, too") {
    cluster.reduction_bandwidth = BytesPerSecond(1e11);
    const double sums = (1 << 20) / 1e11;
    for (const Collective reducing : {Collective::ReduceScatter, Collective::AllReduce}) {
      CHECK(cost(cluster, reducing, {"g", 4, 1}).startup.value() == Approx(30e-6 + sums));
    }
    CHECK(cost(cluster, Collective::AllGather, {"g", 4, 1}).startup.value() == 30e-6);
  }
  SECTION("a group of one costs nothing") {
    const CommunicationCost c = cost(cluster, Collective::AllToAll, {"g", 1, 1});
    CHECK(c.startup.value() == 0);
    CHECK_FALSE(c.add_route_latency);
  }
}

TEST_CASE("a measured alpha-beta is a start-up and a cap of what a rank sends") {
  Cluster cluster = tests::toy_cluster(2, 4);
  for (const auto& [collective, name] : kCollectiveNames) {
    if (collective != Collective::SendReceive) cluster.collectives[{collective, Span::InterNode}] = kMeasured;
  }
  // Of n bytes a rank of 8 sends 7/8 (exchange, gather, scatter), 14/8 (all-reduce) or all (broadcast) in n beta.
  const auto cap = [&](Collective c) { return cost(cluster, c, {"g", 8, 1}).rate_cap->value(); };
  CHECK(cap(Collective::AllToAll) == Approx(7.0 / 8 / 2e-10));
  CHECK(cap(Collective::AllGather) == Approx(7.0 / 8 / 2e-10));
  CHECK(cap(Collective::ReduceScatter) == Approx(7.0 / 8 / 2e-10));
  CHECK(cap(Collective::AllReduce) == Approx(14.0 / 8 / 2e-10));
  CHECK(cap(Collective::Broadcast) == Approx(1 / 2e-10));
  CHECK_FALSE(cost(cluster, Collective::AllToAll, {"g", 8, 1}).add_route_latency);
  CHECK(cost(cluster, Collective::AllToAll, {"g", 8, 1}).startup == kMeasured.alpha);

  SECTION("only for groups of the span that was measured") {
    CHECK_FALSE(cost(cluster, Collective::AllGather, {"g", 4, 1}).rate_cap);
    CHECK(cost(cluster, Collective::AllGather, {"g", 2, 4}).rate_cap);
  }
  SECTION("a part of an all-to-all starts with its messages' share of alpha: 2 of 7, or 1 next to the own one") {
    CHECK(cost(cluster, Collective::AllToAll, {"g", 8, 1}, 4).startup.value() == Approx(1e-4 * 2 / 7));
    CHECK(cost(cluster, Collective::AllToAll, {"g", 8, 1}, 4, 0).startup.value() == Approx(1e-4 * 1 / 7));
  }
  SECTION("of which a launch is not shared, because every part is a launch of its own") {
    cluster.collective_startup = Seconds(3e-5);
    const auto startup = [&](bool continues) {
      Program program = tests::one_block(cluster.world_size(), {{"g", 8, 1}});
      Operation op = tests::collective_of(program, Collective::AllToAll, GroupId(0), 1 << 20);
      auto& part = std::get<Communication>(op.work);
      part.of = 4, part.first = 1, part.continues = continues;
      return communication_cost(program, op, RankId(0), cluster).startup.value();
    };
    CHECK(startup(false) == Approx(3e-5 + 7e-5 * 2 / 7));
    CHECK(startup(true) == Approx(7e-5 * 2 / 7));  // launched with the part before it
    CHECK(cost(cluster, Collective::AllToAll, {"g", 8, 1}).startup == kMeasured.alpha);
  }
  SECTION("or as a message does, where messages were measured") {
    cluster.collectives[{Collective::SendReceive, Span::InterNode}] = {Seconds(5e-6), SecondsPerByte(1e-10)};
    const CommunicationCost c = cost(cluster, Collective::AllToAll, {"g", 8, 1}, 4);
    CHECK(c.startup.value() == 5e-6);
    CHECK(c.rate_cap->value() == Approx(1e10));
  }
}

}  // namespace moeplan::tests::communication_test
