// Random plans are executed: the plan, what is simulated of it and the values that ranks over MPI compute agree.
//
//   mpirun -n P host_plans_tests       MOEPLAN_RANDOM_PLANS=300 executes so many, MOEPLAN_RANDOM_SEED draws others
//
// A plan is written to a file and read again; the time simulated for it must be the same, and its MoE layer, or a
// training step of it, executed on the P ranks, must give the reference's values. Plans whose layer takes another
// number of ranks, or too long, are not drawn. Exit code 1 if any plan is wrong.
#include <fmt/format.h>

#include <cstdlib>

#include "cuda_runtime/host/host_backend.hpp"
#include "cuda_runtime/host/mpi/mpi_transport.hpp"
#include "cuda_runtime/validate/execute.hpp"
#include "planner/evaluation/evaluation.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/plan/plan.hpp"
#include "tests/baseline/random_plan.hpp"
#include "tests/support/checks.hpp"

using namespace moeplan;
using namespace moeplan::planner;
using namespace moeplan::tests;

namespace {

/// The layer of a plan that is executed; none if it takes other than `ranks` ranks, or too long.
std::optional<LayerCase> executed_layer(const RandomPlan& plan, std::int64_t ranks, bool as_step) {
  const Small& s = plan.small;
  const std::int64_t per_node = s.cluster.ranks_per_node();
  try {
    const LayerCase planned = as_step ? layer_step_case(s.model, s.workload, plan.candidate, per_node, std::nullopt)
                                      : layer_case(s.model, s.workload, plan.candidate, per_node, std::nullopt);
    LayerCase layer = as_executed(planned, /*on_gpus=*/false);
    constexpr std::int64_t kMostProducts = 20'000'000;
    const bool is_quick =
        layer.tokens * layer.moe.top_k * layer.hidden_size * layer.moe.expert.hidden_size < kMostProducts;
    if (layer.ranks() == ranks && is_quick) return layer;
  } catch (const InputError&) {  // no step of this plan is executed
  }
  return std::nullopt;
}

struct Drawn {
  RandomPlan plan;
  LayerCase layer;
};

Drawn drawn_plan(Random& random, std::int64_t ranks) {
  for (;;) {
    RandomPlan plan = random_plan(random, schedules()[random.below(schedules().size())]->name());
    const bool as_step = random.below(4) == 0;
    if (plan.small.workload.recorded) continue;             // a plan file names its trace
    if (plan.small.workload.codecs.zfp_bits < 8) continue;  // the tolerances of zfp are for 8 bits
    if (plan.candidate.placement == "contiguous") plan.candidate.expert_places.clear();
    Workload& workload = plan.small.workload;
    if (workload.mode == Mode::Forward) plan.candidate.recompute = Recompute::None;
    workload.recompute = plan.candidate.recompute;
    if (auto layer = executed_layer(plan, ranks, as_step)) return {std::move(plan), std::move(*layer)};
  }
}

Evaluated evaluated(const RandomPlan& plan) {
  const Small& s = plan.small;
  return evaluate({s.model, s.workload, s.cluster}, plan.candidate, Depth::Makespan, {.checks = Checks::AllButMemory})
      .evaluated;
}

/// What is wrong with the plan once it is written and read again; "" if nothing is.
std::string problem_of_file(Drawn& drawn, const std::filesystem::path& file) {
  Small& s = drawn.plan.small;
  s.documents.model = model_document(s.model);
  s.documents.workload = workload_document(s.workload);
  const Evaluated now = evaluated(drawn.plan);
  write_plan({.inputs = s.documents,
              .world_size = s.cluster.world_size(),
              .candidate = drawn.plan.candidate,
              .makespan = *now.makespan,
              .estimate = now.estimate,
              .global_bound = now.estimate.lower_bound},
             file);
  const Plan read = read_plan(file);
  Inputs inputs = read_inputs(read.inputs);
  const RandomPlan same{{read.inputs, std::move(inputs.model), std::move(inputs.workload),
                         build_cluster(inputs.cluster, read.world_size)},
                        read.candidate};
  const SimTime again = *evaluated(same).makespan;
  if (again != *now.makespan)
    return fmt::format("{} ps, from its file {} ps; ", now.makespan->picoseconds(), again.picoseconds());
  const auto layer = executed_layer(same, drawn.layer.ranks(), drawn.layer.is_step);
  if (!layer || *layer != drawn.layer) return "its file gives another layer; ";
  return "";
}

std::string text_of(const Drawn& drawn) {
  const PlanInputs& documents = drawn.plan.small.documents;
  return to_yaml(documents.cluster) + to_yaml(documents.model) + to_yaml(documents.workload) +
         to_yaml(decision_document(drawn.plan.candidate)) + to_yaml(layer_case_document(drawn.layer));
}

int run(runtime::MpiSession& session) {
  const bool is_first = session.rank().value() == 0;
  const auto transport = runtime::make_mpi_transport(session);
  const auto peers = runtime::make_mpi_peers(session, *transport, Seconds(60));
  const validate::RankMachine machine{
      .host = session.host(), .processor = {}, .make_backend = [&](const CodecOptions& codecs) {
        return runtime::make_host_backend(*transport, {session.rank(), codecs, Seconds(30)});
      }};
  const TemporaryDirectory folder;
  Random random(random_seed(), static_cast<std::uint64_t>(session.size()));
  int executed = 0, steps = 0, refused = 0, wrong = 0;
  constexpr int kUsual = 40;
  for (int i = 0, n = wanted_plans(kUsual); i < n; ++i) {
    validate::ExecuteJob job{.limits = {.iterations = 1}, .cases = {}};
    std::string problem, text;
    if (is_first) {
      Drawn drawn = drawn_plan(random, session.size());
      problem = problem_of_file(drawn, folder.path() / "plan.yaml");
      text = text_of(drawn);
      job.cases = {drawn.layer};
    }
    job = validate::read_job(parse_yaml(peers->broadcast(to_yaml(validate::job_document(job))), "job"));
    const validate::Answer answer = validate::answer(job, *peers, machine);
    if (!is_first) continue;
    const validate::ExecutionResult& result = answer.cases.front();
    refused += result.refused.empty() ? 0 : 1;
    executed += result.refused.empty() ? 1 : 0;
    steps += result.refused.empty() && job.cases.front().is_step ? 1 : 0;
    if (result.refused.empty() && !result.is_right) {
      const runtime::ValueErrors& e = result.values;
      problem +=
          fmt::format("values: output {:.2e}, gradient {:.2e}, weight gradient {:.2e}, update {:.2e}, {:.1f}% off",
                      e.output, e.gradient, e.weight_gradient, e.update, 100 * e.rows_off);
    }
    if (problem.empty()) continue;
    ++wrong;
    fmt::print("MOEPLAN_RANDOM_SEED={}: plan {}: {}\n{}\n", random_seed(), i, problem, text);
  }
  if (!is_first) return EXIT_SUCCESS;
  fmt::print(
      "{} ranks, MOEPLAN_RANDOM_SEED={}: {} plans executed, {} of them as training steps; {} refused; {} wrong\n",
      session.size(), random_seed(), executed, steps, refused, wrong);
  return wrong == 0 && executed > refused ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  runtime::MpiSession session(argc, argv);
  try {
    return run(session);
  } catch (const std::exception& e) {
    fmt::print(stderr, "MOEPLAN_RANDOM_SEED={}: {}\n", random_seed(), e.what());
    session.abort(EXIT_FAILURE);
  }
}
