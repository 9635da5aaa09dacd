#include "planner/report/accuracy.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "planner/plan/inputs.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::accuracy_test {

using namespace moeplan::planner;

namespace {

GpuSpec named(const std::string& name) {
  GpuSpec gpu;
  gpu.name = name;
  return gpu;
}

Workload training(Precision precision) {
  Workload w;
  w.mode = Mode::Train;
  w.precision = precision;
  return w;
}

const std::vector<Accuracy> kKnown{{.gpu = "a", .precision = "", .runs = 9, .median = 0.1, .p90 = 0.2, .bias = -0.1},
                                   {.gpu = "a", .precision = "mxfp8", .runs = kFewestRuns, .median = 0.3},
                                   {.gpu = "a", .precision = "fp8_current", .runs = kFewestRuns - 1, .median = 0.4},
                                   {.gpu = "a", .is_of_pytorch = true, .runs = kFewestRuns, .median = 0.6},
                                   {.gpu = "b", .precision = "", .runs = kFewestRuns - 1, .median = 0.5}};

}  // namespace

TEST_CASE("The accuracy of a job is that of runs like it, if there are enough") {
  CHECK(accuracy_of(kKnown, named("a"), training(Precision::Mxfp8)).value().median == 0.3);
  CHECK(accuracy_of(kKnown, named("a"), training(Precision::Fp8Current)).value().median == 0.1);
  CHECK_FALSE(accuracy_of(kKnown, named("b"), training(Precision::Mxfp8)).has_value());
  CHECK_FALSE(accuracy_of(kKnown, named("c"), training(Precision::Mxfp8)).has_value());
  Workload of_pytorch = training(Precision::Mxfp8);
  of_pytorch.pytorch_modules = PyTorchModules::Eager;
  CHECK(accuracy_of(kKnown, named("a"), of_pytorch).value().median == 0.6);
  CHECK_FALSE(accuracy_of(kKnown, named("b"), of_pytorch).has_value());
  Workload inference = training(Precision::Mxfp8);
  inference.mode = Mode::Forward;
  CHECK_FALSE(accuracy_of(kKnown, named("a"), inference).has_value());
}

TEST_CASE("A file of accuracies is read strictly") {
  const auto read = [](const std::string& text) { return read_accuracy(parse_yaml(text, "f")); };
  const std::string iterations = "accuracy: [{gpu: a, runs: 3, most_gpus: 64, median: 0.1, p90: 0.3, bias: -0.05}]\n";
  const std::vector<Accuracy> one = read(iterations).iterations;
  REQUIRE(one.size() == 1);
  CHECK((one[0].gpu == "a" && one[0].precision.empty() && one[0].runs == 3 && one[0].most_gpus == 64 &&
         one[0].bias == -0.05));
  CHECK_FALSE(read(iterations).memory.has_value());
  const MemoryAccuracy memory = read(iterations + "memory: {runs: 13, p90: 0.03}").memory.value();
  CHECK((memory.runs == 13 && memory.p90 == 0.03));
  CHECK(read(iterations + "pytorch_memory: {runs: 5, p90: 0.1}").pytorch_memory->runs == 5);
  CHECK_THAT(error_of([&] { (void)read(iterations + "memory: {runs: 0, mape: 1}"); }),
             Catch::Contains("memory.runs") && Catch::Contains("memory.p90") && Catch::Contains("memory.mape"));
  const std::string error =
      error_of([&] { (void)read("accuracy: [{gpu: a, runs: 0, most_gpus: 8, median: -1, p95: 1, bias: 0}]"); });
  for (const char* key : {"accuracy[0].runs", "accuracy[0].median", "p95: unknown key; did you mean \"p90\"?"})
    CHECK_THAT(error, Catch::Contains(key));
}

TEST_CASE("Shipped accuracies are of GPUs that are shipped") {
  for (const Accuracy& a : read_accuracy(load_document(find_config("accuracy", "iterations"))).iterations) {
    CAPTURE(a.gpu, a.precision);
    const std::vector<std::string> gpus = config_names("gpus");
    CHECK(std::any_of(gpus.begin(), gpus.end(), [&](const std::string& name) {
      return load_document(find_config("gpus", name)).find("name")->scalar == a.gpu;
    }));
    CHECK(a.median <= a.p90);
  }
}

}  // namespace moeplan::tests::accuracy_test
