#include "model/operators/reference_rates.hpp"

#include <catch2/catch.hpp>

#include "model/operators/operator_models.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::reference_rates_test {

namespace {

Seconds product(const GpuSpec& gpu, const GemmShape& shape) {
  return training_gemm_cost(*gpu.operators, MathFormat::Bf16, shape, {})->time();
}

GpuSpec with(const std::string& key, const std::string& value) {
  Node document = load_document(kConfigs / "gpus/b200_sxm.yaml");
  embed_operators(document, {kConfigs / "gpus"});
  merge(document, parse_yaml(key + ": " + value, "change.yaml"));
  Diagnostics wrong;
  const GpuSpec gpu = read_gpu(MapReader(document, "", wrong));
  wrong.throw_if_any();
  return gpu;
}

}  // namespace

TEST_CASE("Factors are ratios of datasheet rates, and a rate that is not given changes nothing") {
  const ReferenceRates from{132, FlopsPerSecond(1000), FlopsPerSecond(0), BytesPerSecond(10), Seconds(2)};
  const ReferenceRates to{66, FlopsPerSecond(500), FlopsPerSecond(4000), BytesPerSecond(30), Seconds(1)};
  const RateFactors f = rate_factors(from, to);
  CHECK(f.bf16 == 0.5);
  CHECK(f.fp8 == 0.5);  // as bf16
  CHECK(f.sms == 0.5);
  CHECK(f.memory == 3);
  CHECK(f.launch == 0.5);
}

TEST_CASE("A GPU's operators follow its rates") {
  const GpuSpec b200 = load_gpu("b200_sxm");
  const GemmShape large{8192, 8192, 8192}, thin{16, 8192, 8192};
  SECTION("the products' rate decides over large products, the memory's over thin ones") {
    const GpuSpec faster = with("peak", "{bf16: 4500 TFLOP/s}"), wider = with("hbm_bandwidth", "16 TB/s");
    CHECK(product(faster, large) / product(b200, large) == Approx(0.5).epsilon(0.02));
    CHECK(product(faster, thin) / product(b200, thin) > 0.85);
    CHECK(product(wider, large) / product(b200, large) > 0.95);
    CHECK(product(wider, thin) / product(b200, thin) < 0.8);
  }
  SECTION("half of the SMs at half of the rate take twice as long over products that fill them") {
    Node document = load_document(kConfigs / "gpus/b200_sxm.yaml");
    embed_operators(document, {kConfigs / "gpus"});
    merge(document, parse_yaml("{num_sms: 74, peak: {bf16: 1125 TFLOP/s}, hbm_bandwidth: 4 TB/s}", "half.yaml"));
    Diagnostics wrong;
    const GpuSpec half = read_gpu(MapReader(document, "", wrong));
    CHECK(wrong.empty());
    const GemmShape both{4096, 8192, 8192};
    CHECK((product(half, both) - half.launch_overhead) / (product(b200, large) - b200.launch_overhead) ==
          Approx(1).epsilon(0.1));
  }
  SECTION("`operators: none` leaves the shares of the peak") { CHECK_FALSE(with("operators", "none").operators); }
  SECTION("a share of the peak set on the command line would do nothing, so it is refused") {
    Node document = load_document(kConfigs / "gpus/b200_sxm.yaml");
    embed_operators(document, {kConfigs / "gpus"});
    document.find("gemm_efficiency")->where.file = "-C gpu.gemm_efficiency";
    Diagnostics wrong;
    static_cast<void>(read_gpu(MapReader(document, "", wrong)));
    CHECK(error_of([&] { wrong.throw_if_any(); }).find("gemm_efficiency: has no effect in addition to operators") !=
          std::string::npos);
  }
}

TEST_CASE("Unknown operators are refused with the nearest name") {
  Node gpu = parse_yaml("{name: x, operators: h100_sx}", "x.yaml");
  CHECK(error_of([&] { embed_operators(gpu, {kConfigs / "gpus"}); }) ==
        "x.yaml:1:22: operators: \"h100_sx\" is no file of configs/operators; did you mean \"h100_sxm\"?");
}

}  // namespace moeplan::tests::reference_rates_test
