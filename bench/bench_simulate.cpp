// Benchmark of simulate() that compares the current engine with its predecessors:
//
//   bench_simulate            an MoE layer, forward and backward, on 32 GPUs: simulations per second
//   bench_simulate PLAN ...   whole iterations from plan files
//
// Four variants give the same makespan. "every repeat" is the definition: plain progressive filling, every rank, every
// iteration of every repeat. "plain" is the first version of the simulator: plain progressive filling, every rank,
// iterations that are copies skipped. "fast" uses the incremental network engine instead. "present" is the default: in
// addition, equal ranks are simulated once and, where only nodes are interchangeable (parm_testbed_b), one node.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "bench/clocks.hpp"
#include "cli/pages/plans/prepared_plan.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/program/simulate.hpp"

namespace {

using namespace moeplan;
using namespace moeplan::sim;
using namespace moeplan::planner;
using namespace moeplan::cli;

struct Variant {
  const char* name;
  SimulateOptions options;
};

const std::vector<Variant> kVariants{
    {"every repeat",
     {.keep_spans = false, .skip_repeats = false, .use_symmetry = false, .network = make_plain_network}},
    {"plain", {.keep_spans = false, .use_symmetry = false, .network = make_plain_network}},
    {"fast", {.keep_spans = false, .use_symmetry = false}},
    {"present", {.keep_spans = false}}};

constexpr double kBudget = 0.5;  // CPU seconds per measurement

/// Prints one row per variant, "present" last; ratios are CPU times relative to "present". The first call of each
/// variant is on a new cluster, whose routes have not been computed yet; the others repeat the same call.
void measure(const std::string& label, const Program& program, const std::function<Cluster()>& machine) {
  struct Row {
    double first_cpu_s;
    bench::Times again;
    SimTime makespan;
  };
  std::vector<Row> rows;
  for (const Variant& variant : kVariants) {
    const Cluster cluster = machine();
    SimTime makespan;
    const auto once = [&] { makespan = simulate(program, cluster, variant.options).makespan; };
    const double first = bench::times_of(once).cpu_s;
    const bench::Times again = bench::least_times_of(once, kBudget);
    rows.push_back({first, again, makespan});
  }
  const Row& present = rows.back();
  fmt::print("{}\n  {:<13} {:>13} {:>13} {:>10} {:>10} {:>17} {:>9}\n", label, "", "first, ms CPU", "again, ms CPU",
             "a second", "ratio", "makespan", "differs");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double difference = std::abs(rows[i].makespan.seconds() / present.makespan.seconds() - 1);
    fmt::print("  {:<13} {:>13.3f} {:>13.3f} {:>10.1f} {:>10.1f} {:>15.12g} s {:>9.1e}\n", kVariants[i].name,
               1e3 * rows[i].first_cpu_s, 1e3 * rows[i].again.cpu_s, 1 / rows[i].again.cpu_s,
               rows[i].again.cpu_s / present.again.cpu_s, rows[i].makespan.seconds().value(), difference);
  }
  std::fflush(stdout);
}

/// An MoE layer like Mixtral's with 64 experts, 2 on each GPU, and 4,096 tokens per GPU, on 32 GPUs.
void measure_layer(const std::string& machine, const Candidate& candidate, RoutingShape shape) {
  const PlanInputs documents = load_inputs(machine, "mixtral_8x7b", "default", {});
  const Inputs inputs = read_inputs(documents);
  const Cluster cluster = build_cluster(inputs.cluster, 32);
  const Moe moe{.num_experts = 64,
                .top_k = 2,
                .expert = {.hidden_size = 3584, .gated = true, .bias = false},
                .shared = {},
                .shared_gate = false,
                .router_bias = false};
  Workload workload = inputs.workload;
  workload.routing.shape = shape;
  workload.routing.sampled = shape != RoutingShape::Uniform;
  const auto lowered = [&] { return lower_moe_layer(moe, 4096, 4096, workload, candidate, cluster.ranks_per_node()); };
  const Program program = lowered();
  const Degrees& degrees = candidate.degrees;
  measure(
      fmt::format("layer, {}, {}, tp {} ep {} esp {}, {}, {} chunks, {} routing (lowered in {:.2f} ms CPU)", machine,
                  candidate.schedule.name(), degrees.tp, degrees.ep, degrees.esp, candidate.all_to_all.name(),
                  candidate.pipeline_degree, shape == RoutingShape::Uniform ? "uniform" : "sampled zipf",
                  1e3 * bench::least_times_of(lowered, 0.1).cpu_s),
      program, [&] { return build_cluster(inputs.cluster, 32); });
}

void measure_plan(const std::string& file) {
  const PreparedPlan plan = load_plan(file, {});
  const Program program =
      lower_iteration(plan.inputs.model, plan.inputs.workload, plan.plan.candidate, plan.cluster.ranks_per_node());
  measure(fmt::format("iteration, {} on {} GPUs of {}, {}", plan.inputs.model.name, plan.plan.world_size,
                      plan.cluster.name, plan.plan.candidate.schedule.name()),
          program, [&] { return build_cluster(plan.inputs.cluster, plan.plan.world_size); });
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> plans(argv + 1, argv + argc);
  for (const std::string& file : plans) measure_plan(file);
  if (!plans.empty()) return 0;
  for (const RoutingShape shape : {RoutingShape::Uniform, RoutingShape::Zipf}) {
    measure_layer("dgx_h100", {.degrees = {.dp = 32, .ep = 32}}, shape);
    measure_layer("dgx_h100", {.degrees = {.dp = 8, .tp = 4, .ep = 8, .esp = 4}, .schedule = "parm_s1"}, shape);
  }
  for (const char* all_to_all : {"linear", "pairwise", "2dh"}) {
    for (const std::int64_t chunks : {1, 8}) {
      measure_layer(
          "parm_testbed_b",
          {.degrees = {.dp = 32, .ep = 32}, .schedule = "parm_s1", .all_to_all = all_to_all, .pipeline_degree = chunks},
          RoutingShape::Uniform);
    }
  }
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 2;
}
