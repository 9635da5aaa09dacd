#include "model/workload/routing_statistics.hpp"

#include <catch2/catch.hpp>
#include <cmath>

namespace moeplan::tests::routing_statistics_test {

namespace {
using Load = std::vector<std::int64_t>;
}

TEST_CASE("Imbalance of loads") {
  SECTION("the largest over the mean") {
    CHECK(max_over_mean(Load{6, 2, 1, 3}) == Approx(6.0 / ((6 + 2 + 1 + 3) / 4.0)));
    CHECK(max_over_mean(Load{0, 0}) == 1);
  }
  SECTION("balance degree is the standard deviation over all") {
    CHECK(balance_degree(Load{1, 5}) == Approx(2));  // mean 3, both 2 away
    CHECK(balance_degree(Load{4, 4, 4}) == 0);
  }
  SECTION("entropy, relative to that of equal loads") {
    CHECK(relative_entropy(Load{5, 5, 5, 5}) == Approx(1));
    CHECK(relative_entropy(Load{7, 0, 0}) == 0);
    CHECK(relative_entropy(Load{1, 1, 0, 0}) == Approx(std::log(2) / std::log(4)));
  }
  SECTION("drift is the share of tokens that go elsewhere, whatever their number") {
    CHECK(drift(Load{2, 2}, Load{10, 10}) == 0);
    CHECK(drift(Load{4, 0}, Load{0, 9}) == 1);
    CHECK(drift(Load{3, 1}, Load{2, 2}) == Approx(0.25));
    CHECK(drift(Load{0, 0}, Load{2, 2}) == 0);
  }
}

TEST_CASE("Statistics of a trace are by layer over its iterations") {
  // Layer 0 moves from (3, 1, 0, 0) to (1, 3, 0, 0); layer 1 stays at (1, 1, 1, 1).
  const RoutingTrace trace({0, 1}, 2, 1, 4, {3, 1, 0, 0, 1, 1, 1, 1, 1, 3, 0, 0, 1, 1, 1, 1});
  const std::vector<LayerRouting> layers = trace_statistics(trace, 2);
  REQUIRE(layers.size() == 2);
  CHECK(layers[0].mean_max_over_mean == Approx(3));
  CHECK(layers[0].most_max_over_mean == Approx(3));
  CHECK(layers[0].mean_rank_max_over_mean == Approx(2));  // experts 0 and 1 are on rank 0, which has it all
  CHECK(layers[0].mean_drift == Approx(0.5));
  CHECK(layers[0].locality == Approx(1 - 0.5));
  CHECK(layers[1].mean_max_over_mean == Approx(1));
  CHECK(layers[1].mean_entropy == Approx(1));
  CHECK(layers[1].mean_drift == 0);
}

}  // namespace moeplan::tests::routing_statistics_test
