#include "model/operators/training_model.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "model/operators/operator_models.hpp"

namespace moeplan::tests::training_model_test {

using Catch::Detail::Approx;

namespace {

const std::string kFile = R"(gpu: test
num_sms: 100
gemm:
  - {format: bf16, library: burst, launch: 2 us, math: 100 TFLOP/s, read: 1000 GB/s, write: 1000 GB/s, l2: 10000 GB/s,
     tile_start: 1 us, k_step: 0 us}
  - {format: fp8, library: burst, launch: 2 us, math: 200 TFLOP/s, read: 1000 GB/s, write: 1000 GB/s, l2: 10000 GB/s,
     tile_start: 1 us, k_step: 0 us}
attention:
  - {format: bf16, library: flash, launch: 3 us, math: 80 TFLOP/s, softmax: 1e+12, start: 1 us, tail: 0.3, memory: 1000 GB/s}
training:
  library: TransformerEngine
  gemm: {forward: 1.25, dgrad: 1.5, wgrad: 2, fp8: 1.1}
  grouped_gemm: {forward: 3, dgrad: 4, wgrad: 5}
  attention: {library: flash, slowdown: 1.2}
origins: {"": "assumed: test"}
)";

OperatorModels models() { return read_operator_models(parse_yaml(kFile, "test.yaml")); }

}  // namespace

TEST_CASE("A training step's products are a burst's at sustained clocks") {
  const OperatorModels m = models();
  const GemmShape shape{8192, 8192, 8192};
  const GemmCost burst = gemm_cost(m.gemm[0], 100, shape);
  const auto forward = training_gemm_cost(m, MathFormat::Bf16, shape, {});
  const auto dgrad = training_gemm_cost(m, MathFormat::Bf16, shape, {.phase = GemmPhase::Dgrad});
  REQUIRE(forward);
  CHECK(forward->math / burst.math == Approx(1.25));
  CHECK(forward->memory == burst.memory);
  CHECK(dgrad->math / burst.math == Approx(1.5));
  for (const GemmPhase phase : {GemmPhase::Forward, GemmPhase::Wgrad}) {
    const auto fp8 = training_gemm_cost(m, MathFormat::Fp8, shape, {.phase = phase});
    REQUIRE(fp8);
    CHECK(fp8->math / gemm_cost(m.gemm[1], 100, shape, {.phase = phase}).math == Approx(1.1));
  }
  CHECK_FALSE(training_gemm_cost(m, MathFormat::Fp8Block, shape, {}));
  CHECK_FALSE(training_grouped_gemm_cost(m, MathFormat::Fp8Block, std::vector{shape}, {}));
}

TEST_CASE("A training step's attention is a burst's with slower blocks") {
  const OperatorModels m = models();
  const AttentionShape shape{.sequence_length = 4096, .query_heads = 32, .kv_heads = 8};
  const AttentionCost burst = attention_cost(m.attention[0], 100, shape);
  const auto cost = training_attention_cost(m, shape);
  REQUIRE(cost);
  CHECK(cost->blocks / burst.blocks == Approx(1.2));
  CHECK(cost->launch == burst.launch);
  CHECK(cost->memory == burst.memory);
  AttentionShape backward = shape;
  backward.is_backward = true;
  CHECK_FALSE(training_attention_cost(m, backward));  // no library is named
}

TEST_CASE("Attention in another format is that of the library that has it backward, or else in bf16") {
  std::string file = kFile;
  const std::string more = R"(attention:
  - {format: fp8, library: forward only, launch: 1 us, math: 400 TFLOP/s, softmax: 1e+12, start: 1 us, tail: 0.3, memory: 1000 GB/s}
  - {format: fp8, library: both, launch: 2 us, math: 160 TFLOP/s, softmax: 1e+12, start: 1 us, tail: 0.3, memory: 1000 GB/s}
  - {format: fp8, library: both, backward: true, launch: 4 us, math: 100 TFLOP/s, softmax: 1e+12, start: 1 us, tail: 0.3, memory: 1000 GB/s}
)";
  file.replace(file.find("attention:\n"), std::string("attention:\n").size(), more);
  const OperatorModels m = read_operator_models(parse_yaml(file, "test.yaml"));
  AttentionShape shape{.sequence_length = 4096, .query_heads = 32, .kv_heads = 8};
  CHECK(training_attention_cost(m, shape, MathFormat::Fp8)->launch.value() == Approx(2e-6));
  CHECK(training_attention_cost(m, shape, MathFormat::Mxfp8)->launch.value() == Approx(3e-6));
  CHECK(training_attention_cost(m, shape)->launch.value() == Approx(3e-6));
  shape.is_backward = true;
  CHECK(training_attention_cost(m, shape, MathFormat::Fp8)->launch.value() == Approx(4e-6));
  CHECK_FALSE(training_attention_cost(m, shape, MathFormat::Mxfp8));
}

TEST_CASE("Products one after another add up, with one launch and nothing for experts without rows") {
  const OperatorModels m = models();
  const GemmCost small = gemm_cost(m.gemm[0], 100, {512, 2048, 1024});
  const GemmCost large = gemm_cost(m.gemm[0], 100, {2048, 2048, 1024});
  const std::vector<GemmShape> products{{512, 2048, 1024}, {0, 2048, 1024}, {512, 2048, 1024}, {2048, 2048, 1024}};
  const GroupedGemmCost cost = separate_products_cost(m.gemm[0], 100, products);
  CHECK(cost.time().value() == Approx((m.gemm[0].launch + 2 * small.overlapped + large.overlapped).value()));
  CHECK(separate_products_cost(m.gemm[0], 100, std::vector<GemmShape>{{0, 8, 8}}).time() == Seconds(0));
  const auto trained = training_grouped_gemm_cost(m, MathFormat::Bf16, products, {.phase = GemmPhase::Wgrad});
  REQUIRE(trained);
  CHECK(trained->math / separate_products_cost(m.gemm[0], 100, products, {.phase = GemmPhase::Wgrad}).math ==
        Approx(5));
}

TEST_CASE("The products of one expert run alone, at the clocks of single products") {
  const OperatorModels m = models();
  const GemmShape shape{8192, 8192, 8192};
  const auto cost = [&](const std::vector<GemmShape>& products) {
    return training_grouped_gemm_cost(m, MathFormat::Bf16, products, {})->math;
  };
  CHECK(cost({shape, {0, 8192, 8192}}) == training_gemm_cost(m, MathFormat::Bf16, shape, {})->math);
  CHECK(cost({shape, shape}) > 2.0 * cost({shape}));
}

TEST_CASE("Products of an expert by source are batches, but for weight gradients") {
  const OperatorModels m = models();
  // Two experts with three sources each.
  const std::vector<GemmShape> products{{8, 2048, 1024},  {8, 2048, 1024}, {8, 2048, 1024},
                                        {16, 2048, 1024}, {0, 2048, 1024}, {16, 2048, 1024}};
  const GemmCall call{.phase = GemmPhase::Dgrad, .quantises = false};
  const GroupedGemmCost cost = batched_products_cost(m.gemm[0], 100, products, 3, call);
  const GemmCost first = batched_gemm_cost(m.gemm[0], 100, {8, 2048, 1024}, 3, call);
  const GemmCost second = batched_gemm_cost(m.gemm[0], 100, {16, 2048, 1024}, 2, call);
  CHECK(cost.time().value() == Approx((m.gemm[0].launch + first.overlapped + second.overlapped).value()));
  GemmCall sustained = call;
  sustained.slowdown = m.training->grouped_gemm.of(GemmPhase::Dgrad, MathFormat::Bf16);
  CHECK(training_grouped_gemm_cost(m, MathFormat::Bf16, products, call, 3)->time() ==
        batched_products_cost(m.gemm[0], 100, products, 3, sustained).time());
  const GemmCall wgrad{.phase = GemmPhase::Wgrad, .quantises = false};
  CHECK(training_grouped_gemm_cost(m, MathFormat::Bf16, products, wgrad, 3)->time() ==
        training_grouped_gemm_cost(m, MathFormat::Bf16, products, wgrad)->time());
}

TEST_CASE("A phase without a factor is an error of the file") {
  std::string text = kFile;
  text.replace(text.find(", dgrad: 1.5"), 12, "");
  try {
    (void)read_operator_models(parse_yaml(text, "test.yaml"));
    FAIL("no error");
  } catch (const InputError& e) {
    REQUIRE(e.diagnostics().size() == 1);
    CHECK(e.diagnostics()[0].key_path == "training.gemm.dgrad");
  }
}

}  // namespace moeplan::tests::training_model_test
