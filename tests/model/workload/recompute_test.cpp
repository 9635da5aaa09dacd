#include "model/workload/recompute.hpp"

#include <catch2/catch.hpp>

namespace moeplan::tests::recompute_test {

TEST_CASE("What is recomputed is named by one word, or by Megatron-LM's modules") {
  SECTION("the three usual sets have names of their own") {
    CHECK(parse_recompute("none") == Recompute::None);
    CHECK(parse_recompute("selective") == Recompute::Selective);
    CHECK(parse_recompute("full") == Recompute::Full);
  }
  SECTION("modules are joined by +, in any order") {
    const auto both = parse_recompute("moe_act+core_attn");
    REQUIRE(both);
    CHECK(both->has(RecomputeModule::MoeActivation));
    CHECK(both->has(RecomputeModule::CoreAttention));
    CHECK_FALSE(both->has(RecomputeModule::Layernorm));
    CHECK(name_of(*both) == "core_attn+moe_act");
    CHECK(parse_recompute("core_attn+moe_act") == both);
  }
  SECTION("selective is norms and activation functions, which are bound by memory") {
    CHECK(parse_recompute("layernorm+moe_act+ffn_act") == Recompute::Selective);
  }
  SECTION("another text is none of them, and the message names the nearest") {
    CHECK_FALSE(parse_recompute(""));
    CHECK_FALSE(parse_recompute("mlp+"));
    CHECK_FALSE(parse_recompute("moe_akt+mlp"));
    CHECK(recompute_error("mlp+moe_akt") == "\"moe_akt\" is not known; did you mean \"moe_act\"?");
  }
}

TEST_CASE("Recomputed layers are all, the first ones of each part, or listed") {
  SECTION("numbers and ranges, in any order, are written with ranges") {
    const auto some = parse_recomputed_layers("6,0-2,4,9-10");
    REQUIRE(some);
    CHECK(some->numbers == std::vector<std::int64_t>{0, 1, 2, 4, 6, 9, 10});
    CHECK(name_of(*some) == "0-2,4,6,9,10");
    CHECK(parse_recomputed_layers(name_of(*some)) == some);
    CHECK(some->contains(4, 0));
    CHECK_FALSE(some->contains(5, 5));
  }
  SECTION("the first ones of each part are counted in the part") {
    const auto first = parse_recomputed_layers("first:2");
    REQUIRE(first);
    CHECK(name_of(*first) == "first:2");
    CHECK(first->contains(41, 1));
    CHECK_FALSE(first->contains(2, 2));
  }
  SECTION("all") {
    CHECK(parse_recomputed_layers("all") == RecomputedLayers{});
    CHECK(name_of(RecomputedLayers{}) == "all");
    CHECK(RecomputedLayers{}.contains(60, 3));
  }
  SECTION("another text is none of them") {
    for (const char* wrong :
         {"", "first:", "first:0", "some", "1,", "2-1", "-1", "1,1", "0-2,2", "1.5", "0-99999999"}) {
      CAPTURE(wrong);
      CHECK_FALSE(parse_recomputed_layers(wrong));
    }
  }
}

}  // namespace moeplan::tests::recompute_test
