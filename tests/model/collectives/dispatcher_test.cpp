#include "model/collectives/dispatcher.hpp"

#include <catch2/catch.hpp>
#include <cmath>

namespace moeplan::tests::dispatcher_test {

TEST_CASE("A token's rows are counted once a rank and once a node") {
  // 4 experts on 4 ranks of 2 nodes, top 2: a rank is missed by C(3,2) / C(4,2) = 1/2 of the choices, a node by
  // C(2,2) / C(4,2) = 1/6.
  const DispatchShape shape{.group = {4, 2}, .tokens = 1, .top_k = 2, .experts = 4, .row_bytes = 1};
  const TokenRows merged = token_rows(true, shape);
  CHECK(merged.ranks == Approx(4 * 0.5));
  CHECK(merged.linked == Approx(2 * 0.5));  // of a node's 2 ranks one is reached over NVLink
  CHECK(merged.crossing == Approx(1 - 1.0 / 6));
  const TokenRows single = token_rows(false, shape);
  CHECK(single.ranks == 2);
  CHECK(single.linked == Approx(0.5));
  CHECK(single.crossing == Approx(1));
}

TEST_CASE("The slowest of copies, links and NICs decides") {
  DispatcherModel model{.dispatcher = "d", .mode = "", .combine_format = "", .sms = 10};
  DispatchDirection d{.base = Seconds(20e-6),
                      .doubling = Seconds(5e-6),
                      .copy = BytesPerSecond(1e10),
                      .send = BytesPerSecond(2e10),
                      .link = BytesPerSecond(1e13),
                      .nic = BytesPerSecond(1e13)};
  DispatchShape shape{.group = {4, 2}, .tokens = 1000, .top_k = 2, .experts = 4, .row_bytes = 1e4};
  // 2 rows a token at 10 GB/s and 5/6 rows at 20 GB/s, on 10 SMs; one doubling of the nodes.
  const double copies = 1000 * (2 * 1e4 / 1e10 + 5.0 / 6 * 1e4 / 2e10) / 10;
  const auto cost = dispatch_cost(model, d, shape);
  CHECK(cost->copies.value() == Approx(copies));
  CHECK(cost->time().value() == Approx(25e-6 + copies));
  CHECK(cost->bound() == "copies");
  SECTION("the job may give it other SMs") {
    shape.sms = 5;
    CHECK(dispatch_cost(model, d, shape)->copies.value() == Approx(2 * copies));
  }
  SECTION("NICs as slow as the copies: the sixth root of 2 longer") {
    d.nic = BytesPerSecond(1000 * 5.0 / 6 * 1e4 / copies);
    CHECK(dispatch_cost(model, d, shape)->overlapped.value() == Approx(std::pow(2, 1.0 / 6) * copies));
  }
  SECTION("casts run on one SM an expert") {
    model.casts_by_expert = true;
    d.token = Seconds(1e-6);
    CHECK(dispatch_cost(model, d, shape)->casts.value() == Approx(1000 * 1e-6 / 4));
  }
  SECTION("without figures of NICs it stays on a node") {
    d.nic.reset();
    CHECK_FALSE(dispatch_cost(model, d, shape));
  }
}

TEST_CASE("Rows have their scales") {
  CHECK(row_bytes("bf16", 7168) == 14336);
  CHECK(row_bytes("fp8_block", 7168) == 7168 + 7168 / 128 * 4);
  CHECK(row_bytes("nvfp4", 7168) == 7168 / 2 + 7168 / 16);
  CHECK_FALSE(row_bytes("int3", 7168));
}

}  // namespace moeplan::tests::dispatcher_test
