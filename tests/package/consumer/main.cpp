#include <iostream>
#include <planner/evaluation/evaluation.hpp>
#include <planner/request/plan_request.hpp>

using namespace moeplan::planner;
int main() {
  const PlanJob job = load_job({.cluster = "dgx_h100", .model = "schemoe_gpt2_tiny_moe", .world = 8});
  const Problem problem(job.inputs.model, job.inputs.workload, job.cluster);
  const Candidate candidate{.degrees = {.dp = 8, .ep = 8}};
  std::cout << evaluate(problem, candidate, Depth::Makespan).evaluated.makespan->seconds().value() << " s\n";
}
