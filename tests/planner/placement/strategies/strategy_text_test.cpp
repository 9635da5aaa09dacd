#include "planner/placement/strategies/strategy_text.hpp"

#include <catch2/catch.hpp>

#include "planner/placement/strategies/strategy.hpp"

namespace moeplan::tests::strategy_text_test {

using namespace moeplan::planner;

TEST_CASE("A strategy's text may set options of its own") {
  const auto plain = parse_strategy_text("auto");
  REQUIRE(plain);
  CHECK(plain->name == "auto");
  CHECK_FALSE(plain->alpha);
  const auto both = parse_strategy_text("pro_prophet_eq6:alpha=3:n=0.25");
  REQUIRE(both);
  CHECK(both->name == "pro_prophet_eq6");
  CHECK(both->alpha == 3.0);
  CHECK(both->n_share == 0.25);
  CHECK(find_placement_strategy("pro_prophet:alpha=3") == find_placement_strategy("pro_prophet"));
}

TEST_CASE("Options that are not known, out of range, there twice or of another strategy make no strategy") {
  for (const char* text : {"pro_prophet:", "pro_prophet:alpha", "pro_prophet:alpha=x", "pro_prophet:alpha=-1",
                           "pro_prophet:n=1.5", "pro_prophet:beta=1", "pro_prophet:alpha=1:alpha=2", "auto:alpha=3"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_strategy_text(text));
    CHECK(find_placement_strategy(text) == nullptr);
  }
}

}  // namespace moeplan::tests::strategy_text_test
