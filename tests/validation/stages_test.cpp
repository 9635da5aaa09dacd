// Pipelines composed from their segments against the same Programs simulated at once, on plans drawn at random.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "model/costs/estimate.hpp"
#include "sim/program/simulate_stages.hpp"
#include "tests/support/random_pipelines.hpp"

namespace moeplan::tests::stages_test {

using namespace moeplan::sim;
using namespace moeplan::planner;

namespace {

constexpr int kPipelines = 1000;

std::int64_t operations_of(const Program& p) {
  std::int64_t n = 0;
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    const std::vector<std::int64_t> counts = block_counts(p, s);
    for (std::size_t b = 0; b < counts.size(); ++b) n += counts[b] * std::ssize(p.blocks[b].operations);
  }
  return n;
}

bool has_own_nodes(const RandomPipeline& r) {
  return r.candidate.degrees.ranks_per_stage() % r.numbers.gpus_per_node == 0;
}

/// The conditions of stage_segments.hpp: ranks of a stage are equal, so that they begin together; a stage has a node of
/// its own inside which its traffic does not touch the way to the NIC; messages meet no others, since they go one way
/// or between two stages; and nothing runs in the background.
bool is_exact(const RandomPipeline& r) {
  const Degrees& d = r.candidate.degrees;
  for (const RoutingTable& t : r.program.routings) {
    if (!t.counts.is_uniform() || t.counts.experts() % d.ep != 0) return false;
  }
  const bool forward = r.numbers.mode == "forward";
  return d.ranks_per_stage() == r.numbers.gpus_per_node && r.numbers.intra_node.starts_with("{kind: nvswitch") &&
         (forward || d.pp == 2) && r.candidate.virtual_stages == 1 && (forward || (d.dp * d.cp == 1 && d.edp == 1));
}

/// How far composed runs are from whole ones, relative to these.
struct Spread {
  int count = 0;
  double shortest = 0, longest = 0;
  std::map<double, int> within{{0.001, 0}, {0.01, 0}, {0.02, 0}, {0.05, 0}, {0.1, 0}};

  void add(double relative) {
    ++count;
    shortest = std::min(shortest, relative);
    longest = std::max(longest, relative);
    for (auto& [tolerance, n] : within) n += std::abs(relative) <= tolerance ? 1 : 0;
  }
  [[nodiscard]] double share(double tolerance) const {
    return static_cast<double>(within.at(tolerance)) / static_cast<double>(count);
  }
  [[nodiscard]] std::string text() const {
    std::string out = std::to_string(count) + " from " + std::to_string(shortest) + " to " + std::to_string(longest);
    for (const auto& [tolerance, n] : within) out += ", " + std::to_string(n) + " within " + std::to_string(tolerance);
    return out;
  }
};

}  // namespace

TEST_CASE("Pipelines composed from their segments take as long as simulated at once, within what the header says") {
  Random random(20261121);
  int exact = 0;
  Spread own_nodes, shared_nodes;  // stages with nodes of their own, and those that share a node with others
  while (own_nodes.count + shared_nodes.count < kPipelines) {
    const RandomPipeline r = random_pipeline(random);
    if (r.candidate.degrees.pp == 1) continue;
    StageClusters machines(r.small.cluster);
    const SimTime whole = simulate(r.program, r.small.cluster, {.keep_spans = false}).makespan;
    const SimTime composed = simulate_stages(r.program, machines, {.keep_spans = false}).makespan;
    const Estimate bound = estimate(r.program, machines);
    const double least = bound.lower_bound.value() * (1 - 1e-9);
    if (whole.seconds().value() < least || composed.seconds().value() < least) {
      FAIL_CHECK(whole.seconds().value() << " s or " << composed.seconds().value() << " s is below the bound " << least
                                         << " s by " << bound.bound_by << " of\n"
                                         << dump(r.numbers, r.candidate));
    }
    const auto apart = static_cast<double>((composed - whole).picoseconds());
    const auto time = static_cast<double>(whole.picoseconds());
    (has_own_nodes(r) ? own_nodes : shared_nodes).add(apart / time);
    if (!is_exact(r)) continue;
    ++exact;
    if (std::abs(apart) > std::max(static_cast<double>(operations_of(r.program)), 1e-9 * time)) {
      FAIL_CHECK(apart / time << " apart without a reason:\n" << dump(r.numbers, r.candidate));
    }
  }
  // To a picosecond an operation, where nothing crosses a stage's links and its ranks are equal.
  CHECK(exact > 80);
  // Closely for most where stages have nodes of their own.
  CHECK(own_nodes.share(0.01) > 0.8);
  CHECK(own_nodes.share(0.02) > 0.85);
  CHECK(own_nodes.share(0.05) > 0.93);
  CHECK(own_nodes.share(0.1) > 0.97);
  CHECK(own_nodes.longest < 0.05);
  CHECK(own_nodes.shortest > -0.4);
  // At times too short where stages share a node's way to the network, which carries the traffic of all.
  CHECK(shared_nodes.share(0.01) > 0.85);
  CHECK(shared_nodes.share(0.05) > 0.93);
  CHECK(shared_nodes.longest < 0.05);
  CHECK(shared_nodes.shortest > -0.25);
  WARN("exactly: " << exact << "; own nodes: " << own_nodes.text() << "; shared nodes: " << shared_nodes.text());
}

}  // namespace moeplan::tests::stages_test
