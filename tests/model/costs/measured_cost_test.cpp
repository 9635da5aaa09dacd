#include "model/costs/measured_cost.hpp"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <map>

#include "tests/support/spec_files.hpp"

namespace moeplan::tests::measured_cost_test {

namespace {

constexpr AlphaBeta line(double alpha, double beta) { return {Seconds(alpha), SecondsPerByte(beta)}; }

double time_of(const CollectiveCosts& costs, Collective c, GroupShape shape, double n) {
  const auto cost = measured_cost(costs, c, shape, Bytes(n));
  REQUIRE(cost);
  return (cost->alpha + Bytes(n) * cost->beta).value();
}

CollectiveKey inside(Collective c, std::int64_t ranks, double from = 0) {
  return {.collective = c, .span = Span::IntraNode, .nodes = ranks > 0 ? 1 : 0, .ranks = ranks, .from = Bytes(from)};
}

CollectiveKey across(Collective c, std::int64_t ranks, std::int64_t nodes, bool in_place = false) {
  return {.collective = c, .span = Span::InterNode, .in_place = in_place, .nodes = nodes, .ranks = ranks};
}

/// A ring or linear all-to-all of P ranks by parts of c bytes: 4 us + (P - 1) (1 us + c / 100 GB/s).
AlphaBeta ring(std::int64_t ranks) {
  const auto p = static_cast<double>(ranks);
  return line(4e-6 + (p - 1) * 1e-6, (p - 1) / p * 1e-11);
}

/// One up to 1 GB and a bit, close enough that no piece is missed.
std::vector<double> messages() {
  std::vector<double> out{0, 1};
  for (double n = 512; n < 2e9; n *= 1.09) out.push_back(n);
  return out;
}

/// The first message whose time is below that of a smaller one; none where times never fall.
std::optional<double> falls_at(const CollectiveCosts& costs, Collective c, GroupShape shape) {
  double longest = 0;
  for (const double n : messages()) {
    const auto cost = measured_cost(costs, c, shape, Bytes(n));
    if (!cost) return std::nullopt;
    const double time = (cost->alpha + Bytes(n) * cost->beta).value();
    if (time < longest * (1 - 1e-9) || cost->alpha < Seconds(0) || cost->beta < SecondsPerByte(0)) return n;
    longest = std::max(longest, time);
  }
  return std::nullopt;
}

constexpr std::array kAll{Collective::AllToAll,  Collective::AllGather, Collective::ReduceScatter,
                          Collective::AllReduce, Collective::Broadcast, Collective::SendReceive};

const std::vector<GroupShape>& asked_shapes() {
  static const std::vector<GroupShape> shapes{{2, 1}, {3, 1},  {4, 1}, {6, 1},  {8, 1},  {16, 1}, {2, 2},  {4, 2},
                                              {8, 2}, {16, 2}, {4, 4}, {32, 4}, {64, 8}, {12, 4}, {24, 8}, {7, 3}};
  return shapes;
}

/// Pieces whose start-ups and slopes know nothing of each other.
CollectiveCosts any_costs() {
  CollectiveCosts costs;
  const auto pick = [](int low, int high) { return *rc::gen::inRange(low, high); };
  for (int curves = pick(1, 8); curves > 0; --curves) {
    CollectiveKey key{.collective = kAll[static_cast<std::size_t>(pick(0, 6))], .span = Span::IntraNode};
    if (pick(0, 5) > 0) {
      const GroupShape shape = asked_shapes()[static_cast<std::size_t>(pick(0, 13))];
      key.nodes = shape.nodes;
      key.ranks = shape.ranks;
      key.in_place = pick(0, 3) == 0;
    }
    if (key.ranks > 0 ? key.nodes > 1 : pick(0, 2) == 0) key.span = Span::InterNode;
    double from = 0;
    for (int pieces = pick(1, 5); pieces > 0; --pieces) {
      key.from = Bytes(from);
      costs[key] = line(pick(0, 100) * 1e-6, pick(1, 500) * 1e-12);
      from = from * 2 + pick(1, 30'000'000);
    }
  }
  return costs;
}

}  // namespace

TEST_CASE("an entry without a shape holds for groups of all shapes") {
  const CollectiveCosts costs{{inside(Collective::AllGather, 0), line(1e-5, 1e-10)}};
  CHECK(measured_cost(costs, Collective::AllGather, {4, 1}, Bytes(1)) == line(1e-5, 1e-10));
  CHECK(measured_cost(costs, Collective::AllGather, {8, 1}, Bytes(1e9)) == line(1e-5, 1e-10));
  CHECK_FALSE(measured_cost(costs, Collective::AllGather, {8, 2}, Bytes(1)));
  CHECK_FALSE(measured_cost(costs, Collective::Broadcast, {8, 1}, Bytes(1)));
  CHECK_FALSE(depends_on_message(costs));
}

TEST_CASE("a measured shape has its own curve") {
  const CollectiveCosts costs{{inside(Collective::AllToAll, 8), line(5e-6, 40e-12)},
                              {inside(Collective::AllToAll, 8, 1e6), line(42e-6, 3e-12)}};
  CHECK(depends_on_message(costs));
  CHECK(time_of(costs, Collective::AllToAll, {8, 1}, 2e6) == Approx(42e-6 + 6e-6));
  CHECK(time_of(costs, Collective::AllToAll, {8, 1}, 1e5) == Approx(5e-6 + 4e-6));
  SECTION("small messages share links at the rate of large ones as far as their time allows: beside, it is start-up") {
    const CollectiveCosts flat{{inside(Collective::AllToAll, 8), line(9e-6, 1e-12)},
                               {inside(Collective::AllToAll, 8, 1e6), line(7e-6, 3e-12)}};
    const auto cost = measured_cost(flat, Collective::AllToAll, {8, 1}, Bytes(5e5));
    CHECK(cost->beta.value() == Approx(3e-12));
    CHECK((cost->alpha + Bytes(5e5) * cost->beta).value() == Approx(9.5e-6));
  }
}

TEST_CASE("other numbers of ranks lie on a line in the number of steps, at equal parts") {
  for (const Collective c : {Collective::AllToAll, Collective::AllGather, Collective::ReduceScatter}) {
    const CollectiveCosts costs{{inside(c, 2), ring(2)}, {inside(c, 4), ring(4)}};
    const auto expected = [](std::int64_t p, double n) { return (ring(p).alpha + Bytes(n) * ring(p).beta).value(); };
    for (const double n : {8e3, 1e6, 1e9}) {
      CHECK(time_of(costs, c, {8, 1}, n) == Approx(expected(8, n)));
      CHECK(time_of(costs, c, {3, 1}, n) == Approx(expected(3, n)));
    }
  }
  SECTION("below the measured ones too, no faster than the steps that are left") {
    const CollectiveCosts costs{{inside(Collective::AllGather, 4), ring(4)},
                                {inside(Collective::AllGather, 8), ring(8)}};
    CHECK(time_of(costs, Collective::AllGather, {2, 1}, 1e6) ==
          Approx((ring(2).alpha + Bytes(1e6) * ring(2).beta).value()));
  }
  SECTION("a second measurement that is faster by noise is not extrapolated") {
    const CollectiveCosts costs{{inside(Collective::AllGather, 2), line(9e-6, 5e-12)},
                                {inside(Collective::AllGather, 4), line(3e-6, 1e-12)}};
    CHECK(time_of(costs, Collective::AllGather, {8, 1}, 8e6) ==
          Approx(time_of(costs, Collective::AllGather, {4, 1}, 4e6)));
  }
  SECTION("with one measured shape the start-up stays and the transfer grows: 7/8 over 1/2 from two to eight") {
    const CollectiveCosts costs{{inside(Collective::AllToAll, 2), line(6e-6, 2e-12)}};
    CHECK(time_of(costs, Collective::AllToAll, {8, 1}, 1e8) == Approx(6e-6 + 1e8 * 2e-12 * (7.0 / 8) / (1.0 / 2)));
  }
}

TEST_CASE("between nodes") {
  SECTION("more nodes of as many ranks: what crosses grows from half of n to three quarters") {
    const CollectiveCosts costs{{across(Collective::AllToAll, 16, 2), line(50e-6, 10e-12)}};
    CHECK(time_of(costs, Collective::AllToAll, {32, 4}, 1e9) ==
          Approx(50e-6 + 1e9 * 10e-12 * (24.0 / 32) / (8.0 / 16)));
  }
  // A rank sends 40 GB/s over the network: half of n from one of two ranks, 25 ps/B of it. In a node of eight 300 GB/s.
  const CollectiveCosts costs{{across(Collective::AllToAll, 2, 2), line(30e-6, 16e-12)},
                              {across(Collective::AllToAll, 2, 2, true), line(20e-6, 12.5e-12)},
                              {inside(Collective::AllToAll, 8), line(8e-6, 7.0 / 8 / 300e9)}};
  SECTION(
      "an all-to-all of more ranks a node: the network decides, at its in-place rate, without the own part's copy") {
    CHECK(time_of(costs, Collective::AllToAll, {16, 2}, 1e9) == Approx(20e-6 + 0.5e9 / 40e9));
    CHECK(time_of(costs, Collective::AllToAll, {2, 2}, 1e9) == Approx(30e-6 + 16e-3));
  }
  SECTION("or the node, where little crosses") {
    CollectiveCosts slow = costs;
    slow[inside(Collective::AllToAll, 8)] = line(8e-6, 7.0 / 8 / 10e9);  // 7/16 of n at 10 GB/s
    CHECK(time_of(slow, Collective::AllToAll, {16, 2}, 1e9) == Approx(8e-6 + 7.0 / 16 * 1e9 / 10e9));
  }
  SECTION("rings of another number of ranks a node are not measured, since it is not known how many NICs they use") {
    const CollectiveCosts rings{{across(Collective::AllGather, 2, 2), line(30e-6, 16e-12)}};
    CHECK_FALSE(measured_cost(rings, Collective::AllGather, {16, 2}, Bytes(1e9)));
  }
  SECTION("a message between two ranks takes the nearest shape's") {
    const CollectiveCosts pairs{{across(Collective::SendReceive, 16, 2), line(30e-6, 22e-12)}};
    CHECK(time_of(pairs, Collective::SendReceive, {2, 2}, 1e9) == Approx(30e-6 + 22e-3));
  }
}

TEST_CASE("a larger message never takes less time") {
  SECTION("where a piece starts below the end of the one before, that end holds until the piece has passed it") {
    const CollectiveCosts costs{{inside(Collective::AllGather, 8), line(5e-6, 40e-12)},
                                {inside(Collective::AllGather, 8, 1e6), line(5e-6, 10e-12)}};
    CHECK(time_of(costs, Collective::AllGather, {8, 1}, 2e6) == Approx(45e-6));
    CHECK(time_of(costs, Collective::AllGather, {8, 1}, 5e6) == Approx(55e-6));
  }
  SECTION("of more ranks than two were measured with, the one with fewer growing faster") {
    // At equal parts c: 2 ranks 1 us + 20 ps/B 2c, 4 ranks 60 us + 1 ps/B 4c; 8 ranks would be 178 us - 64 ps/B c.
    const CollectiveCosts costs{{inside(Collective::AllGather, 2), line(1e-6, 20e-12)},
                                {inside(Collective::AllGather, 4), line(60e-6, 1e-12)}};
    CHECK(time_of(costs, Collective::AllGather, {8, 1}, 0) == Approx(60e-6 + 2 * 59e-6));
    CHECK(time_of(costs, Collective::AllGather, {8, 1}, 8e6) == Approx(60e-6 + 2 * 59e-6));
    CHECK_FALSE(falls_at(costs, Collective::AllGather, {8, 1}));
  }
  SECTION("of the start-up and the transfer of one measured shape, whose later piece has more of the one") {
    const CollectiveCosts costs{{inside(Collective::AllGather, 2), line(5e-6, 40e-12)},
                                {inside(Collective::AllGather, 2, 1e6), line(42e-6, 3e-12)}};
    // 2e6 bytes of 2 ranks and 8e6 of 8 have parts of 1e6: 5 us, and (8 - 1) / (2 - 1) times the 43 us on top.
    CHECK(time_of(costs, Collective::AllGather, {8, 1}, 8e6) == Approx(5e-6 + 7 * 43e-6));
    CHECK_FALSE(falls_at(costs, Collective::AllGather, {8, 1}));
  }
  SECTION("of any pieces of any shapes, asked for any shape") {
    const bool holds = rc::check([] {
      const CollectiveCosts costs = any_costs();
      for (const Collective c : kAll) {
        for (const GroupShape& shape : asked_shapes()) {
          if (const auto n = falls_at(costs, c, shape)) {
            RC_FAIL(std::string(name_of<Collective>(kCollectiveNames, c)) + " of " + std::to_string(shape.ranks) +
                    " ranks on " + std::to_string(shape.nodes) + " nodes falls at " + std::to_string(*n));
          }
        }
      }
    });
    CHECK(holds);
  }
  SECTION("of the clusters of configs/") {
    for (const auto& path : tests::files_in("clusters")) {
      const CollectiveCosts costs = tests::load_cluster(path).collectives;
      for (const Collective c : kAll) {
        for (const GroupShape& shape : asked_shapes()) {
          INFO(path.stem() << ", " << name_of<Collective>(kCollectiveNames, c) << ", " << shape.ranks << " ranks on "
                           << shape.nodes << " nodes");
          CHECK_FALSE(falls_at(costs, c, shape));
        }
      }
    }
  }
}

TEST_CASE("an all-reduce takes no less than a reduce-scatter or an all-gather of as many bytes") {
  const AlphaBeta scatter = line(9e-6, 3e-12), gather = line(11e-6, 2e-12);
  SECTION("one that was measured below them takes the longer of the two") {
    const CollectiveCosts costs{{inside(Collective::ReduceScatter, 0), scatter},
                                {inside(Collective::AllGather, 0), gather},
                                {inside(Collective::AllReduce, 0), line(10e-6, 1e-12)}};
    CHECK(depends_on_message(costs));  // the longer of the lines changes
    CHECK(measured_cost(costs, Collective::AllReduce, {4, 1}, Bytes(1e3)) == gather);
    CHECK(measured_cost(costs, Collective::AllReduce, {4, 1}, Bytes(1e9)) == scatter);
  }
  SECTION("one above them is as measured") {
    const CollectiveCosts costs{{inside(Collective::ReduceScatter, 0), scatter},
                                {inside(Collective::AllReduce, 0), line(10e-6, 4e-12)}};
    CHECK_FALSE(depends_on_message(costs));
    CHECK(measured_cost(costs, Collective::AllReduce, {4, 1}, Bytes(1e3)) == line(10e-6, 4e-12));
  }
  SECTION("one that was not measured is both in turn, or twice the one that was") {
    CollectiveCosts costs{{inside(Collective::ReduceScatter, 0), scatter}};
    CHECK(measured_cost(costs, Collective::AllReduce, {4, 1}, Bytes(1)) == line(2 * 9e-6, 2 * 3e-12));
    costs[inside(Collective::AllGather, 0)] = gather;
    CHECK(measured_cost(costs, Collective::AllReduce, {4, 1}, Bytes(1)) ==
          AlphaBeta{scatter.alpha + gather.alpha, scatter.beta + gather.beta});
    CHECK_FALSE(measured_cost(costs, Collective::AllReduce, {4, 2}, Bytes(1)));
  }
  SECTION("whatever pieces were measured of whatever shapes") {
    const bool holds = rc::check([] {
      const CollectiveCosts costs = any_costs();
      for (const GroupShape& shape : asked_shapes()) {
        for (const double n : messages()) {
          const auto time = [&](Collective c) {
            const auto cost = measured_cost(costs, c, shape, Bytes(n));
            return cost ? (cost->alpha + Bytes(n) * cost->beta).value() : 0;
          };
          const double half = std::max(time(Collective::ReduceScatter), time(Collective::AllGather));
          RC_ASSERT(time(Collective::AllReduce) >= half * (1 - 1e-9));
        }
      }
    });
    CHECK(holds);
  }
}

}  // namespace moeplan::tests::measured_cost_test
