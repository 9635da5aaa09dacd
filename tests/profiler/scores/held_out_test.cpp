#include "profiler/scores/held_out.hpp"

#include <catch2/catch.hpp>

namespace moeplan::tests::held_out_test {

TEST_CASE("One third of the shapes is held out, always the same") {
  int held_out = 0;
  for (std::int64_t m = 1; m <= 3000; ++m) held_out += profiler::is_held_out(GemmShape{m, 512, 1024}) ? 1 : 0;
  CHECK(held_out > 900);
  CHECK(held_out < 1100);
  CHECK(profiler::is_held_out(GemmShape{7, 8, 9}) == profiler::is_held_out(GemmShape{7, 8, 9}));
}

TEST_CASE("One third of the rows of other kinds is held out, whatever was measured") {
  for (const char* kind : {"grouped_gemm", "fused_moe", "kernel"}) {
    CAPTURE(kind);
    int held_out = 0;
    for (std::int64_t i = 1; i <= 3000; ++i) {
      profiler::OperatorRow row;
      row.kind = kind;
      row.m = row.tokens = i;
      row.n = 64;
      const bool is_held_out = profiler::is_held_out(row);
      row.time = Seconds(1);
      row.gpu = "another";
      CHECK(profiler::is_held_out(row) == is_held_out);
      held_out += is_held_out ? 1 : 0;
    }
    CHECK(held_out > 850);
    CHECK(held_out < 1150);
  }
}

}  // namespace moeplan::tests::held_out_test
