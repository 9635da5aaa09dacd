// What is predicted of the suite for parts of one GPU, before it is measured.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cuda_runtime/validate/suite.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/plan/plan.hpp"
#include "sim/program/simulate.hpp"

namespace moeplan::tests::gpu_parts_suite_test {

using namespace moeplan::planner;
using namespace moeplan::validate;

namespace {

/// Predicted times of the suite's cases by strategy, with links of this bandwidth between the parts.
std::map<std::string, double> predicted(const std::string& bandwidth) {
  const Suite suite = read_suite(find_config("suites", "gpu_parts"));
  const Inputs inputs = read_inputs(suite.inputs);
  const PlanInputs linked =
      load_inputs("parts", "gpt2_moe", "default", {"cluster.template.intra_node.bandwidth=" + bandwidth});
  const Cluster cluster = build_cluster(read_cluster(linked.cluster), suite.base.degrees.world());
  const LayerCase layer = layer_case(inputs.model, inputs.workload, suite.base, cluster.ranks_per_node(), {});
  std::map<std::string, double> out;
  for (const LayerCase& c : cases_of(suite, layer)) {
    const Timeline timeline = sim::simulate(lower(c), cluster, {});
    out[strategy_text(LayerStrategy::of(c.candidate))] = timeline.makespan.seconds().value();
  }
  return out;
}

std::string fastest(const std::map<std::string, double>& times) {
  return std::min_element(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

}  // namespace

TEST_CASE(
    "On parts of a GPU the bandwidth of their links decides which way to run a layer is predicted to be fastest") {
  std::set<std::string> best;
  for (const char* bandwidth : {"10 GB/s", "50 GB/s", "400 GB/s"}) {
    CAPTURE(bandwidth);
    const std::map<std::string, double> times = predicted(bandwidth);
    CHECK(times.size() > 5);
    double most = 0;
    for (const auto& [strategy, time] : times) most = std::max(most, time);
    // Otherwise a measured order would be noise.
    CHECK(most > 1.05 * times.at(fastest(times)));
    best.insert(fastest(times));
  }
  CHECK(best.size() == 3);  // s1_deferred in two chunks, four, and one
}

}  // namespace moeplan::tests::gpu_parts_suite_test
