#include "model/analysis/ddl_roofline.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::ddl_roofline_test {

TEST_CASE("the DDL-roofline is computation over communication, and what overlap could give") {
  // One product of 100^3 on each of two ranks, three times: 3 x 2e6 FLOP a rank.
  Program p = tests::one_block(2);
  p.buffers = {{"m", 100, Dtype::Fp32}};
  const Slice m{BufferId(0), Rows::fixed(100)};
  Operation gemm;
  gemm.work = Gemm{};
  gemm.reads = {m, m};
  gemm.writes = {m};
  p.blocks.back().operations = {gemm};
  p.stages.front() = {{.block = {}, .count = 3, .body = {{.block = BlockId(0)}}}};
  const double flops = 3 * 2e6;
  RankTime slowest{};
  slowest.compute = Seconds(6e-6);
  SECTION("bound by computation: R_CC = 6 / 2, so all of the communication could hide") {
    slowest.communication = Seconds(2e-6);
    const DdlRoofline r = ddl_roofline(p, SimTime(7'000'000), slowest);
    CHECK(r.ratio == Approx(3));
    CHECK(r.computing.value() == Approx(flops / 6e-6));
    CHECK(r.average.value() == Approx(flops / 7e-6));
    CHECK(r.ideal.value() == Approx(flops / 6e-6));
    CHECK(r.semi_ideal.value() == Approx(flops / (6e-6 + 2e-6)));
  }
  SECTION("bound by communication: R_CC = 6 / 24, so at best the communication's time is left") {
    slowest.communication = Seconds(24e-6);
    const DdlRoofline r = ddl_roofline(p, SimTime(30'000'000), slowest);
    CHECK(r.ideal.value() == Approx(flops / 24e-6));
    CHECK(r.semi_ideal.value() == Approx(flops / 30e-6));
    CHECK(r.average.value() == Approx(r.semi_ideal.value()));
  }
  SECTION("a pipeline stage's ranks do the products of that stage") {
    // The second stage has one product where the first has three.
    p.stages.push_back(Sequence{{.block = BlockId(0)}});
    RankTime last{};
    last.rank = RankId(1);
    last.compute = Seconds(2e-6);
    const DdlRoofline r = ddl_roofline(p, SimTime(7'000'000), last);
    CHECK(r.computing.value() == Approx(2e6 / 2e-6));
    CHECK(r.average.value() == Approx((3 * 2e6 + 2e6) / 2 / 7e-6));
  }
  SECTION("without communication there is no roof but the computation's") {
    const DdlRoofline r = ddl_roofline(p, SimTime(6'000'000), slowest);
    CHECK(std::isinf(r.ratio));
    CHECK(r.average.value() == Approx(r.ideal.value()));
  }
}

}  // namespace moeplan::tests::ddl_roofline_test
