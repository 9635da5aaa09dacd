#include "profiler/fits/fitted_models.hpp"

#include <catch2/catch.hpp>

#include "tests/support/spec_files.hpp"

namespace moeplan::tests::fitted_models_test {

using namespace moeplan::profiler;

namespace {

Node dgx_h100() { return load_document(MOEPLAN_SOURCE_DIR "/configs/collectives/dgx_h100.yaml"); }

CollectiveSample sample(const CollectiveModels& truth, Collective collective, GroupShape shape, double bytes) {
  return {.collective = collective,
          .shape = shape,
          .n = Bytes(bytes),
          .time = collective_cost(truth, collective, shape, Bytes(bytes))->time(),
          .in_place = false,
          .dtype = "float",
          .device = "",
          .where = {"a.log", 1}};
}

/// Times of a machine whose links and latencies differ by these factors, on one node and two.
std::vector<CollectiveSample> samples_of(const LinkFactors& factors, double least) {
  CollectiveModels truth = read_collective_models(dgx_h100());
  scale(truth, factors);
  std::vector<CollectiveSample> out;
  for (const Collective c : {Collective::AllGather, Collective::AllReduce, Collective::AllToAll}) {
    for (const GroupShape shape : {GroupShape{8, 1}, GroupShape{16, 2}}) {
      for (double bytes = least; bytes < 2e10; bytes *= 8) out.push_back(sample(truth, c, shape, bytes));
    }
  }
  return out;
}

}  // namespace

TEST_CASE("Models fitted to logs of one node and two predict ten") {
  const LinkFactors truth{.intra_node = 0.8, .nic = 1.3, .latency = 1.5};
  const LinkRates links{.intra_node = BytesPerSecond(400e9), .nic = BytesPerSecond(60e9)};
  const FittedModels fitted = fitted_models(dgx_h100(), links, samples_of(truth, 1024));
  CHECK(fitted.factors.intra_node == Approx(truth.intra_node).epsilon(0.05));
  CHECK(fitted.factors.nic == Approx(truth.nic).epsilon(0.05));
  CHECK(fitted.factors.latency == Approx(truth.latency).epsilon(0.05));
  CHECK(fitted.inside.mean < 0.05);
  CHECK(fitted.between.mean < 0.05);
  // The document, on a machine with these links, is as fast as the logs' machine.
  CollectiveModels machine = read_collective_models(dgx_h100()), read = read_collective_models(fitted.document);
  scale(machine, truth);
  scale(read,
        {.intra_node = links.intra_node / read.measured_on->intra_node, .nic = links.nic / read.measured_on->nic});
  for (const Collective c :
       {Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce, Collective::AllToAll}) {
    for (double bytes = 1 << 20; bytes < 1e10; bytes *= 16) {
      CAPTURE(static_cast<int>(c), bytes);
      CHECK(collective_cost(read, c, {80, 10}, Bytes(bytes))->time().value() ==
            Approx(collective_cost(machine, c, {80, 10}, Bytes(bytes))->time().value()).epsilon(0.06));
    }
  }
}

TEST_CASE("What no log shows keeps the similar cluster's numbers") {
  const LinkRates links{.intra_node = BytesPerSecond(450e9), .nic = BytesPerSecond(50e9)};
  std::vector<CollectiveSample> samples = samples_of({.intra_node = 0.9}, 1 << 25);
  std::erase_if(samples, [](const CollectiveSample& s) { return s.shape.nodes > 1; });
  const FittedModels fitted = fitted_models(dgx_h100(), links, samples);
  CHECK(fitted.factors.intra_node == Approx(0.9).epsilon(0.02));
  CHECK(fitted.factors.nic == 1);
  CHECK(fitted.factors.latency == 1);
  CHECK(fitted.between.samples == 0);
}

}  // namespace moeplan::tests::fitted_models_test
