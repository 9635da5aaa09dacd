#include "sim/network/max_min.hpp"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <limits>
#include <numeric>

namespace moeplan::tests::max_min_test {

using moeplan::sim::max_min_rates;
using moeplan::sim::max_min_violation;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct System {
  explicit System(std::vector<double> capacities = {}) : capacity(std::move(capacities)) {}

  std::vector<double> capacity;
  std::vector<double> weight;
  std::vector<std::int32_t> first{0};
  std::vector<std::int32_t> resource;
  std::vector<double> share;

  System& flow(const std::vector<std::pair<int, double>>& uses, double flow_weight = 1) {
    for (const auto& [l, a] : uses) {
      resource.push_back(l);
      share.push_back(a);
    }
    weight.push_back(flow_weight);
    first.push_back(static_cast<std::int32_t>(resource.size()));
    return *this;
  }
  moeplan::sim::MaxMinProblem problem() const { return {capacity, weight, first, resource, share}; }
};

void expect_rates(const System& system, const std::vector<double>& expected) {
  const std::vector<double> rates = max_min_rates(system.problem());
  REQUIRE(rates.size() == expected.size());
  for (std::size_t f = 0; f < rates.size(); ++f) {
    CAPTURE(f);
    CHECK(rates[f] == (expected[f] == kInfinity ? Approx(kInfinity) : Approx(expected[f]).epsilon(1e-14)));
  }
  CHECK(max_min_violation(system.problem(), rates) <= 1e-14);
}

}  // namespace

TEST_CASE("Progressive filling gives every flow the rate of its bottleneck") {
  SECTION("Two flows on one link of 10: expect 5 each, because nothing else holds them") {
    System s({10});
    s.flow({{0, 1}}).flow({{0, 1}});
    expect_rates(s, {5, 5});
  }
  SECTION("A long flow over links of 10 and 4, a short one on each: expect 2, 8, 2, because 4 fills first") {
    System s({10, 4});
    s.flow({{0, 1}, {1, 1}}).flow({{0, 1}}).flow({{1, 1}});
    expect_rates(s, {4.0 / 2, 10 - 4.0 / 2, 4.0 / 2});
  }
  SECTION("Bertsekas and Gallager's line of links: expect 1/3, 1/3, 1/3, 2/3, because three share the first link") {
    System s({1, 1});
    s.flow({{0, 1}}).flow({{0, 1}}).flow({{0, 1}, {1, 1}}).flow({{1, 1}});
    expect_rates(s, {1.0 / 3, 1.0 / 3, 1.0 / 3, 1 - 1.0 / 3});
  }
  SECTION("A class of weight 3 beside a single flow on 8: expect 2 each, because a class is three equal flows") {
    System s({8});
    s.flow({{0, 1}}, 3).flow({{0, 1}}, 1);
    expect_rates(s, {8.0 / (3 + 1), 8.0 / (3 + 1)});
  }
  SECTION("Half of one flow crosses the link of 6: expect 4 each, because r + r/2 = 6") {
    System s({6});
    s.flow({{0, 0.5}}).flow({{0, 1}});
    expect_rates(s, {6 / 1.5, 6 / 1.5});
  }
  SECTION("A resource that stands twice on the way counts twice: expect 5 on 10") {
    System s({10});
    s.flow({{0, 1}, {0, 1}});
    expect_rates(s, {5});
  }
  SECTION("Infinite capacity never binds: expect 7 behind a cap of 7, and infinite without one") {
    System s({kInfinity, 7});
    s.flow({{0, 1}, {1, 1}}).flow({{0, 1}}).flow({});
    expect_rates(s, {7, kInfinity, kInfinity});
  }
  SECTION("No flows and no resources: expect no rates") {
    expect_rates(System(), {});
    expect_rates(System({1, 2}), {});
  }
}

TEST_CASE("The measure of violation sees what is not max-min") {
  System s({10, 4});
  s.flow({{0, 1}, {1, 1}}).flow({{0, 1}}).flow({{1, 1}});
  SECTION("overload, because 12 on 10 is 0.2 above") {
    CHECK(max_min_violation(s.problem(), std::vector<double>{2, 10, 2}) == Approx(12.0 / 10 - 1));
  }
  SECTION("idle capacity, because the second flow crosses no full link") {
    CHECK(max_min_violation(s.problem(), std::vector<double>{2, 6, 2}) == Approx(1 - 8.0 / 10));
  }
  SECTION("unfairness, because the first flow is slower than the third on its only full link") {
    CHECK(max_min_violation(s.problem(), std::vector<double>{1, 9, 3}) > 0.05);
  }
}

TEST_CASE("Progressive filling satisfies the definition on random systems") {
  CHECK(rc::check("capacities hold and every flow has a bottleneck", [] {
    System s;
    const int resources = *rc::gen::inRange(1, 12);
    for (int l = 0; l < resources; ++l) {
      const int c = *rc::gen::inRange(0, 20);
      s.capacity.push_back(c == 0 ? kInfinity : 0.5 * c);
    }
    const int flows = *rc::gen::inRange(0, 30);
    for (int f = 0; f < flows; ++f) {
      std::vector<std::pair<int, double>> uses(*rc::gen::inRange<std::size_t>(0, 9));
      for (auto& use : uses) use = {*rc::gen::inRange(0, resources), 1.0 / *rc::gen::inRange(1, 5)};
      s.flow(uses, *rc::gen::element(1.0, 2.0, 7.0, 0.25));
    }
    RC_ASSERT(max_min_violation(s.problem(), max_min_rates(s.problem())) <= 1e-12);
  }));
}

}  // namespace moeplan::tests::max_min_test
