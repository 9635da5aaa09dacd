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

}  // namespace moeplan::tests::recompute_test
