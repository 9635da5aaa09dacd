#include "model/operators/fused_moe_model.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "model/operators/operator_models.hpp"

namespace moeplan::tests::fused_moe_model_test {

using Catch::Detail::Approx;

namespace {

FusedMoeShape layer() {
  return {.hidden = 1024, .expert_hidden = 512, .experts = 16, .top_k = 2, .ep = 1, .tp = 1, .tokens = 64};
}

double rows_of(const std::vector<ExpertLoad>& loads) {
  return std::accumulate(loads.begin(), loads.end(), 0.0,
                         [](double sum, const ExpertLoad& l) { return sum + l.rows * l.experts; });
}

/// 100 SMs of 1 TFLOP/s; nothing but what a test asks for takes time.
GroupedGemmModel products() {
  GroupedGemmModel m;
  m.library = "test";
  m.math = FlopsPerSecond(100e12);
  m.memory = m.l2 = BytesPerSecond(1e18);
  return m;
}
FusedMoeModel around() {
  FusedMoeModel m;
  m.library = m.products = "test";
  m.around = BytesPerSecond(1e30);
  return m;
}
constexpr std::int64_t kSms = 100;

}  // namespace

TEST_CASE("An even router gives each expert the same rows") {
  CHECK(balanced_loads(layer()) == std::vector<ExpertLoad>{{8, 16}});  // 64 tokens x 2 choices / 16 experts
  FusedMoeShape quarter = layer();
  quarter.ep = 4;
  CHECK(balanced_loads(quarter) == std::vector<ExpertLoad>{{8, 4}});
}

TEST_CASE("Fewer tokens than the stride of the choices are spread over the experts") {
  FusedMoeShape few = layer();
  few.tokens = 2;  // tokens at 0 and 4, second choices 8 later
  CHECK(balanced_loads(few) == std::vector<ExpertLoad>{{1, 4}});
}

TEST_CASE("Random routing keeps the expected number of rows") {
  for (const std::int64_t tokens : {1, 16, 1000, 100000}) {
    FusedMoeShape shape = layer();
    shape.tokens = tokens;
    CAPTURE(tokens);
    CHECK(rows_of(random_loads(shape)) == Approx(2.0 * static_cast<double>(tokens)).epsilon(1e-3));
  }
  FusedMoeShape all = layer();
  all.top_k = all.experts;
  CHECK(random_loads(all) == std::vector<ExpertLoad>{{64, 16}});
}

TEST_CASE("With one token of random routing, an expert has a row as often as it is drawn") {
  FusedMoeShape one = layer();
  one.tokens = 1;
  const std::vector<ExpertLoad> loads = random_loads(one);
  REQUIRE(loads.size() == 1);
  CHECK(loads[0].rows == 1);
  CHECK(loads[0].experts == Approx(16 * 2.0 / 16));
}

TEST_CASE("A layer takes its two products, the kernels around them and their launches") {
  FusedMoeModel m = around();
  m.fixed = Seconds(20e-6);
  m.local_expert = Seconds(1e-6);
  const std::vector<ExpertLoad> loads = balanced_loads(layer());
  const FusedMoeCost cost = fused_moe_cost(m, products(), kSms, layer(), loads);
  CHECK(cost.up.time() == grouped_gemm_cost(products(), kSms, loads, 2 * 512, 1024).time());
  CHECK(cost.down.time() == grouped_gemm_cost(products(), kSms, loads, 1024, 512).time());
  CHECK(cost.routing.value() == Approx(16e-6));
  CHECK(cost.time().value() == Approx((cost.up.time() + cost.down.time()).value() + 36e-6));
  CHECK(cost.bound() == "launch");
}

TEST_CASE("Tensor parallelism splits the columns of the experts") {
  FusedMoeShape split = layer();
  split.tp = 4;
  const std::vector<ExpertLoad> loads = balanced_loads(split);
  CHECK(fused_moe_cost(around(), products(), kSms, split, loads).down.time() ==
        grouped_gemm_cost(products(), kSms, loads, 1024, 128).time());
}

TEST_CASE("Bytes around the products are those of gather, activation, weighted sum and router") {
  FusedMoeModel m = around();
  m.around = BytesPerSecond(1e12);
  const double rows = 128, tokens = 64, h = 1024, width = 512;
  const double activation = rows * width * 6, sum = rows * h * 2 + tokens * h * 2;
  const double gather = rows * h * 4, logits = tokens * 16 * 4;
  const std::vector<ExpertLoad> loads = balanced_loads(layer());
  CHECK(fused_moe_cost(m, products(), kSms, layer(), loads).around.value() ==
        Approx((activation + sum + gather + logits) / 1e12));
  m.gathers = false;
  CHECK(fused_moe_cost(m, products(), kSms, layer(), loads).around.value() == Approx((activation + sum) / 1e12));
}

TEST_CASE("Quantisation reads 16 bits and writes the operand, of tokens or of gathered rows") {
  FusedMoeModel m = around();
  m.format = MathFormat::Fp8Block;
  m.around = BytesPerSecond(1e12);
  m.gathers = false;
  const std::vector<ExpertLoad> loads = balanced_loads(layer());
  const auto bytes = [&] { return fused_moe_cost(m, products(), kSms, layer(), loads).around.value() * 1e12; };
  const double none = bytes();
  m.quantises = LayerQuantisation::Tokens;
  CHECK(bytes() - none == Approx(64.0 * 1024 * 3));
  m.quantises = LayerQuantisation::Rows;  // the activation is written in 16 bits and then quantised
  CHECK(bytes() - none == Approx(128.0 * (1024 + 512) * 3 + 128.0 * 512));
}

TEST_CASE("From 256 tokens and above 128 experts routing takes more kernels") {
  FusedMoeModel m = around();
  m.sort = Seconds(1e-6);
  m.router = Seconds(10e-6);
  m.router_token = Seconds(1e-9);
  const auto routing = [&](std::int64_t tokens, std::int64_t experts) {
    FusedMoeShape shape = layer();
    shape.tokens = tokens;
    shape.experts = experts;
    return fused_moe_cost(m, products(), kSms, shape, balanced_loads(shape)).routing.value();
  };
  CHECK(routing(255, 128) == 0);
  CHECK(routing(256, 128) == Approx(1e-6));
  CHECK(routing(100, 256) == Approx(10e-6 + 100e-9));
}

TEST_CASE("A layer whose products have no figures is an error of the file") {
  const std::string text = R"(gpu: test
num_sms: 100
grouped_gemm:
  - {format: bf16, library: cutlass, math: 1 TFLOP/s, memory: 1 GB/s, l2: 1 GB/s, tile_start: 0 us, tile: 0 us,
     k_step: 0 us}
fused_moe:
  - {format: bf16, library: trtllm, products: cutlas, fixed: 1 us, around: 1 GB/s}
origins: {"": "assumed: test"}
)";
  try {
    (void)read_operator_models(parse_yaml(text, "test.yaml"));
    FAIL("no error");
  } catch (const InputError& e) {
    REQUIRE(e.diagnostics().size() == 1);
    CHECK(e.diagnostics()[0].text() ==
          "test.yaml:7:47: fused_moe[0].products: \"cutlas\" is no library of grouped_gemm in the same format; did you "
          "mean \"cutlass\"?");
  }
}

}  // namespace moeplan::tests::fused_moe_model_test
