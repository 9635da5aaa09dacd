#include "profiler/fits/link_rates.hpp"

#include <catch2/catch.hpp>

namespace moeplan::tests::link_rates_test {

using namespace moeplan::profiler;

namespace {

constexpr double kGiB = 1073741824;

CollectiveSample sample(Collective collective, GroupShape shape, double bytes, double time) {
  return {.collective = collective,
          .shape = shape,
          .n = Bytes(bytes),
          .time = Seconds(time),
          .in_place = false,
          .dtype = "float",
          .device = "",
          .where = {"logs/a.log", 7}};
}

double nic_of(Collective collective, GroupShape shape, std::int64_t nics) {
  const std::vector<CollectiveSample> one{sample(collective, shape, kGiB, 0.1)};
  return nic_rate(one, nics).value().rate.value() * 0.1 / kGiB;
}

}  // namespace

TEST_CASE("a GPU's link inside a node carries what a rank sends, in the largest message that is fastest") {
  const std::vector<CollectiveSample> samples{
      sample(Collective::AllToAll, {8, 1}, kGiB / 2, 1e-6),  // smaller: not the largest of its operation
      sample(Collective::AllToAll, {8, 1}, kGiB, 0.004), sample(Collective::AllGather, {8, 1}, kGiB, 0.005),
      sample(Collective::AllToAll, {16, 2}, kGiB, 0.001)};
  const LinkRate got = intra_node_rate(samples).value();
  CHECK(got.rate.value() == Approx(7.0 / 8 * kGiB / 0.004));
  CHECK(got.source() == "all_to_all of 1.000 GiB on 8 ranks of 1 node, a.log:7");
}

TEST_CASE("small messages show no bandwidth") {
  const std::vector<CollectiveSample> small{sample(Collective::AllToAll, {8, 1}, 1048576, 1e-5)};
  CHECK_FALSE(intra_node_rate(small));
  CHECK_FALSE(nic_rate(small, 8));
}

TEST_CASE("bytes of a NIC for each byte of n, 16 ranks on 2 nodes") {
  SECTION("all-to-all: half of a rank's buffer leaves the node, through a NIC each or shared by two ranks") {
    CHECK(nic_of(Collective::AllToAll, {16, 2}, 8) == Approx(0.5));
    CHECK(nic_of(Collective::AllToAll, {16, 2}, 4) == Approx(1.0));
    CHECK(nic_of(Collective::AllToAll, {2, 2}, 8) == Approx(0.5));
  }
  SECTION("rings: every rank forwards 15/16, or twice that, and a ring leaves a node by one NIC") {
    CHECK(nic_of(Collective::AllGather, {16, 2}, 8) == Approx(15.0 / 16 / 8));
    CHECK(nic_of(Collective::AllReduce, {16, 2}, 8) == Approx(2 * 15.0 / 16 / 8));
    CHECK(nic_of(Collective::AllReduce, {4, 2}, 8) == Approx(2 * 3.0 / 4 / 2));
  }
  SECTION("send-receive: one rank of a node sends to the next node") {
    CHECK(nic_of(Collective::SendReceive, {16, 2}, 8) == Approx(1.0));
  }
  SECTION("broadcast by several ranks of a node: unknown") {
    const std::vector<CollectiveSample> one{sample(Collective::Broadcast, {16, 2}, kGiB, 0.1)};
    CHECK_FALSE(nic_rate(one, 8));
  }
}

}  // namespace moeplan::tests::link_rates_test
