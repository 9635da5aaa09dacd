#include "model/machine/gpu.hpp"

#include <catch2/catch.hpp>

#include "model/text/origins.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::gpu_test {

namespace {

GpuSpec gpu_from(const Node& document) {
  Diagnostics diagnostics;
  const GpuSpec gpu = read_gpu(MapReader(document, "", diagnostics));
  diagnostics.throw_if_any();
  return gpu;
}

std::string indented_left(std::string text) {
  for (std::size_t at = 0; (at = text.find("\n  ", at)) != std::string::npos;) text.erase(at + 1, 2);
  return text.substr(1);
}

const std::string kText = indented_left(tests::kGpuText);
const std::string kGrouped =
    "grouped_gemm_efficiency: [{flops: 1e9, efficiency: 0.3}, {flops: 1e11, efficiency: 0.7}]\n"
    "grouped_gemm_memory_efficiency: 0.75\n"
    "grouped_gemm_launch_overhead: 9 us\n";

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string gpu_error(const std::string& text) {
  return tests::error_of([&] { static_cast<void>(gpu_from(parse_yaml(text, "g.yaml"))); });
}

}  // namespace

TEST_CASE("a GPU is read from its file") {
  SECTION("every value is in SI units because quantities are parsed once") {
    const GpuSpec gpu = gpu_from(parse_yaml(kText, "g.yaml"));
    CHECK(gpu.peak.at(Dtype::Bf16).value() == 100e12);
    CHECK(gpu.memory.value() == 80e9);
    CHECK(gpu.gemm_efficiency == std::vector<EfficiencyPoint>{{1, 0.8}});
    CHECK(gpu.launch_overhead.value() == 4e-6);
  }
  SECTION("an efficiency may be a curve") {
    const std::string curve = "gemm_efficiency: [{flops: 1e9, efficiency: 0.3}, {flops: 1e11, efficiency: 0.7}]";
    const GpuSpec gpu = gpu_from(parse_yaml(with(kText, "gemm_efficiency: 0.8", curve), "g.yaml"));
    CHECK(gpu.gemm_efficiency == std::vector<EfficiencyPoint>{{1e9, 0.3}, {1e11, 0.7}});
  }
  SECTION("grouped GEMMs have figures of their own only where the file names them") {
    const GpuSpec without = gpu_from(parse_yaml(kText, "g.yaml"));
    CHECK(!without.grouped_gemm_efficiency);
    CHECK(!without.grouped_gemm_memory_efficiency);
    CHECK(!without.grouped_gemm_launch_overhead);
    const Node document = parse_yaml(kText + kGrouped, "g.yaml");
    const GpuSpec gpu = gpu_from(document);
    CHECK(gpu.grouped_gemm_efficiency == std::vector<EfficiencyPoint>{{1e9, 0.3}, {1e11, 0.7}});
    CHECK(gpu.grouped_gemm_memory_efficiency == 0.75);
    CHECK(gpu.grouped_gemm_launch_overhead == Seconds(9e-6));
    CHECK(gpu.gemm_efficiency == without.gemm_efficiency);
    CHECK(gpu_from(parse_yaml(to_yaml(document), "again.yaml")) == gpu);
  }
  SECTION("kinds of memory-bound kernels have shares of their own only where the file names them") {
    CHECK(!gpu_from(parse_yaml(kText, "g.yaml")).cast_efficiency);
    const Node document =
        parse_yaml(kText +
                       "cast_efficiency: 0.7\npermutation_efficiency: 0.5\nnorm_backward_efficiency: 0.6\n"
                       "activation_efficiency: 0.55\nactivation_backward_efficiency: 0.2\nloss_efficiency: 0.4\n",
                   "g.yaml");
    const GpuSpec gpu = gpu_from(document);
    CHECK(gpu.cast_efficiency == 0.7);
    CHECK(gpu.permutation_efficiency == 0.5);
    CHECK(gpu.norm_backward_efficiency == 0.6);
    CHECK(gpu.activation_efficiency == 0.55);
    CHECK(gpu.activation_backward_efficiency == 0.2);
    CHECK(gpu.loss_efficiency == 0.4);
    CHECK(gpu_from(parse_yaml(to_yaml(document), "again.yaml")) == gpu);
    CHECK(gpu_error(kText + "cast_efficiency: 1.5\n").find("cast_efficiency: 1.5 is out of range") !=
          std::string::npos);
  }
  SECTION("rates of elements are read where the file names them") {
    CHECK(gpu_from(parse_yaml(kText, "g.yaml")).element_rates == ElementRates{});
    const Node document = parse_yaml(kText + "element_rates: {general_pass: 310e9, index_add: 120e9}\n", "g.yaml");
    CHECK(gpu_from(document).element_rates == ElementRates{310e9, std::nullopt, 120e9});
    CHECK(gpu_from(parse_yaml(to_yaml(document), "again.yaml")) == gpu_from(document));
    CHECK(gpu_error(kText + "element_rates: {scater_add: 1e9}\n").find("did you mean \"scatter_add\"?") !=
          std::string::npos);
    CHECK(gpu_error(kText + "element_rates: {scatter_add: 0}\n").find("scatter_add: 0 is out of range") !=
          std::string::npos);
  }
  SECTION("their efficiency may be a constant too") {
    const GpuSpec gpu = gpu_from(parse_yaml(kText + "grouped_gemm_efficiency: 0.6\n", "g.yaml"));
    CHECK(gpu.grouped_gemm_efficiency == std::vector<EfficiencyPoint>{{1, 0.6}});
  }
}

TEST_CASE("a wrong GPU file is refused with the place and what was expected") {
  SECTION("an unknown key names the nearest one") {
    CHECK(gpu_error(with(kText, "num_sms", "num_sm")) == "g.yaml:9:1: num_sm: unknown key; did you mean \"num_sms\"?");
  }
  SECTION("a bandwidth without unit") {
    CHECK(gpu_error(with(kText, "2 TB/s", "2000")) ==
          "g.yaml:4:16: hbm_bandwidth: \"2000\" has no unit; write e.g. \"450 GB/s\" or \"3600 Gbps\"");
  }
  SECTION("a curve that does not ascend") {
    const std::string curve = "gemm_efficiency: [{flops: 1e9, efficiency: 0.3}, {flops: 1e9, efficiency: 0.7}]";
    CHECK(gpu_error(with(kText, "gemm_efficiency: 0.8", curve)) ==
          "g.yaml:5:58: gemm_efficiency[1].flops: 1000000000 is not more than the point before; expected an ascending "
          "list");
  }
  SECTION("figures of grouped GEMMs that cannot be") {
    CHECK(gpu_error(kText + "grouped_gemm_efficiency: []\ngrouped_gemm_memory_efficiency: 1.5\n"
                            "grouped_gemm_launch_overhead: 9\n") ==
          "g.yaml:14:26: grouped_gemm_efficiency: is an empty list; expected a number or points {flops, efficiency}\n"
          "g.yaml:15:33: grouped_gemm_memory_efficiency: 1.5 is out of range; expected 1e-06 to 1\n"
          "g.yaml:16:31: grouped_gemm_launch_overhead: \"9\" has no unit; write e.g. \"12.5 us\"");
  }
  SECTION("an empty curve and an empty peak") {
    CHECK(gpu_error(with(kText, "gemm_efficiency: 0.8", "gemm_efficiency: []")) ==
          "g.yaml:5:18: gemm_efficiency: is an empty list; expected a number or points {flops, efficiency}");
    CHECK(gpu_error(with(kText, "{bf16: 100 TFLOP/s}", "{}")) ==
          "g.yaml:2:7: peak: names no number format; expected e.g. {bf16: 989 TFLOP/s}");
  }
}

TEST_CASE("every number of a GPU file has an origin") {
  const std::string none = with(kText, "origins: {\"\": \"assumed: a toy\"}", "");
  SECTION("a number that none covers is named") {
    const std::string error = gpu_error(none);
    CHECK(error.find(
              "g.yaml:2:14: peak.bf16: has no origin; name it, or a prefix of it, in origins as \"measured: ...\", "
              "\"datasheet: ...\", \"published: ...\" or \"assumed: ...\"\n") == 0);
    CHECK(std::count(error.begin(), error.end(), '\n') == 10);  // 11 numbers, the name is none
  }
  SECTION("those of grouped GEMMs are asked for theirs as well") {
    const std::string origins = "datasheet: x\", grouped_gemm_efficiency: \"assumed: as a toy";
    const Node document = parse_yaml(with(kText, "assumed: a toy", origins) + kGrouped, "g.yaml");
    CHECK(gpu_from(document).grouped_gemm_efficiency);
    CHECK(assumed_numbers(document).size() == 4);  // FLOPs and efficiency of two points
    CHECK(gpu_error(none + kGrouped).find("grouped_gemm_launch_overhead: has no origin") != std::string::npos);
  }
  SECTION("an origin needs a mark, and a key that exists") {
    CHECK(gpu_error(none + "origins: {\"\": guess, pek: \"datasheet: x\"}")
              .find("g.yaml:14:15: origins: expected a text that begins with measured:, datasheet:, published: or "
                    "assumed: and says the source\n") == 0);
    CHECK(gpu_error(none + "origins: {\"\": \"assumed: x\", pek: \"datasheet: x\"}") ==
          "g.yaml:14:34: origins.pek: names no key of this document");
  }
  SECTION("the longest prefix wins") {
    const Node document =
        parse_yaml(none +
                       "origins: {\"\": \"datasheet: x\", peak: \"assumed: guessed\", peak.bf16: \"datasheet: y\", "
                       "memory: \"assumed: round\"}",
                   "g.yaml");
    CHECK(assumed_numbers(document) == std::vector<std::string>{"memory = 80 GB: round"});
  }
  SECTION("a value from the command line counts as assumed") {
    Node document = parse_yaml(with(kText, "assumed: a toy", "datasheet: x"), "g.yaml");
    override_value(document, "peak.fp8", "3 TFLOP/s", "-C cluster.gpu.peak.fp8=3 TFLOP/s");
    CHECK(gpu_from(document).peak.at(Dtype::Fp8).value() == 3e12);
    CHECK(assumed_numbers(document) == std::vector<std::string>{"peak.fp8 = 3 TFLOP/s: set on the command line"});
    Node recorded = document;
    record_overrides(recorded);
    const Node again = parse_yaml(to_yaml(recorded), "again.yaml");
    CHECK(assumed_numbers(again) == assumed_numbers(document));
    document.entries.pop_back();  // the origins: all other numbers now lack one
    CHECK(tests::error_of([&] { static_cast<void>(gpu_from(document)); }).find("peak.fp8") == std::string::npos);
  }
}

TEST_CASE("every GPU of configs/gpus loads under the name of its file") {
  const auto files = tests::files_in("gpus");
  CHECK(files.size() >= 9);
  for (const auto& path : files) {
    INFO(path);
    const GpuSpec gpu = load_gpu(path.stem().string());
    CHECK(gpu.name == path.stem().string());
    CHECK_FALSE(gpu.peak.empty());
  }
}

TEST_CASE("A GPU says what a job holds in its memory besides tensors") {
  const std::string kRuntime = "runtime_memory: {context: 1 GB, communicator: 0, fragmentation: 0.05}\n";
  SECTION("nothing where the file does not say") {
    CHECK(gpu_from(parse_yaml(kText, "g.yaml")).runtime_memory == RuntimeMemory{});
  }
  SECTION("otherwise all three numbers") {
    CHECK(gpu_from(parse_yaml(kText + kRuntime, "g.yaml")).runtime_memory ==
          RuntimeMemory{.context = Bytes(1e9), .communicator = Bytes(0), .fragmentation = 0.05});
    CHECK(gpu_error(kText + "runtime_memory: {context: 1 GB, fragmentation: 1.5}\n").find("communicator") !=
          std::string::npos);
  }
}

}  // namespace moeplan::tests::gpu_test
