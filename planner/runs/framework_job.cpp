#include "planner/runs/framework_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/text/unit_text.hpp"
#include "planner/evaluation/evaluation.hpp"
#include "planner/runs/job_draft.hpp"
#include "planner/search/place_experts.hpp"

namespace moeplan::runs {

namespace {

using planner::Candidate;
using planner::FrameworkDecision;
using JobReader = void (*)(JobDraft&);

constexpr std::array<std::pair<std::string_view, JobReader>, 4> kJobReaders{{{"deepspeed", read_deepspeed_job},
                                                                             {"sglang", read_sglang_job},
                                                                             {"torchtitan", read_torchtitan_job},
                                                                             {"vllm", read_vllm_job}}};

/// Checks the GPUs against the degrees, and divides those of the experts.
std::int64_t settled_world(JobDraft& d) {
  Degrees& g = d.candidate.degrees;
  const std::int64_t world = capped_product({g.pp, g.dp, g.cp, g.tp}), experts = capped_product({g.pp, g.ep, g.esp});
  Diagnostics wrong;
  if (d.world() && *d.world() != world)
    wrong.add(
        {d.context.file}, "",
        fmt::format("uses pp {} x dp {} x cp {} x tp {} = {} GPUs, not {}", g.pp, g.dp, g.cp, g.tp, world, *d.world()));
  if (world > kMostWorld)
    wrong.add({d.context.file}, "", fmt::format("uses {} GPUs; expected at most {}", world, kMostWorld));
  if (world % experts != 0)
    wrong.add({d.context.file}, "",
              fmt::format("divides experts over pp {} x ep {} x etp {} GPUs, which do not divide {}", g.pp, g.ep, g.esp,
                          world));
  wrong.throw_if_any();
  g.edp = world / experts;
  return world;
}

/// Of ours that the framework calls the same, rows are deduplicated where experts are on several nodes.
void settle_all_to_all(JobDraft& d, const Cluster& cluster) {
  if (d.candidate.degrees.ep == 1 || d.all_to_all.empty()) return;
  std::vector<std::string> ours = d.framework.values_named(FrameworkDecision::AllToAlls, d.all_to_all);
  const std::size_t known = ours.size();
  if (known == 0) ours = {"linear", "node_dedup"};
  const bool is_between_nodes = d.candidate.degrees.esp == 1 && d.candidate.degrees.ep > cluster.ranks_per_node();
  const char* const by_node = is_between_nodes ? "node_dedup" : "linear";
  d.candidate.all_to_all = known == 1 && (is_between_nodes || ours.front() == "linear") ? ours.front() : by_node;
  if (known == 0)
    d.approximations.push_back(fmt::format("all-to-all {}: priced as {}", d.all_to_all, d.candidate.all_to_all.name()));
}

void place_redundant(JobDraft& d, const planner::Problem& problem) {
  Candidate& c = d.candidate;
  if (c.placement == planner::kContiguous) return;
  if (d.redundant_experts % c.degrees.ep != 0)
    throw_input_error(
        {d.context.file}, "",
        fmt::format("has {} redundant experts, which do not divide among {} ranks", d.redundant_experts, c.degrees.ep));
  constexpr std::int64_t kMostSimulated = 64;  // ranks
  const planner::PlacedCandidate placed = planner::with_placement(
      problem.model(), problem.workload(), problem.first_stage(c), c, c.placement, d.redundant_experts / c.degrees.ep,
      planner::goal_within_iteration(problem.layer_kinds(), c, kMostSimulated));
  if (placed.infeasibility) throw_input_error({d.context.file}, "", "cannot be planned: " + placed.infeasibility->text);
  c = placed.candidate;
}

}  // namespace

std::int64_t capped_product(std::initializer_list<std::int64_t> factors) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) product = factor > kMost / product ? kMost : product * factor;
  return product;
}

std::int64_t JobDraft::count(const std::string& name, std::int64_t fallback) {
  if (!settings.has(name)) assume(fmt::format("{} {}", name, fallback));
  return settings.count_or(name, fallback);
}

std::vector<std::string> job_frameworks() {
  std::vector<std::string> names;
  for (const auto& [name, reader] : kJobReaders) names.emplace_back(name);
  return names;
}

ImportedPlan imported_job(const JobSettings& settings, const planner::Framework& framework, const JobContext& context) {
  JobDraft d{.settings = SettingsReader(settings, context.file),
             .raw = settings,
             .framework = framework,
             .context = context,
             .inputs = planner::read_inputs(context.documents),
             .candidate = {}};
  const auto reader =
      std::find_if(kJobReaders.begin(), kJobReaders.end(), [&](const auto& r) { return r.first == framework.name; });
  if (reader == kJobReaders.end())
    throw_input_error(
        {}, "framework",
        fmt::format("{} has no importer{}", in_quotes(framework.name), suggestion(framework.name, job_frameworks())));
  reader->second(d);
  d.settings.throw_if_any();
  const std::int64_t world = settled_world(d);
  planner::PlanInputs documents = context.documents;
  documents.workload = workload_document(d.inputs.workload);
  d.inputs.workload = read_workload(documents.workload, WorkloadLimits::of(d.inputs.model));
  if (d.inputs.workload.mode == Mode::Train)
    d.candidate.recompute = d.inputs.workload.recompute.value_or(Recompute::None);
  const Cluster cluster = planner::build_cluster_of(documents.cluster_source, d.inputs.cluster, world);
  planner::check_figures(d.inputs.workload, cluster.gpu, documents.workload);
  settle_all_to_all(d, cluster);
  const planner::Problem problem(d.inputs.model, d.inputs.workload, cluster);
  place_redundant(d, problem);
  auto plan = planned(problem, d.candidate, std::move(documents));
  if (const auto* refusal = std::get_if<Refusal>(&plan))
    throw_input_error({context.file}, "", "cannot be planned: " + refusal->reason);
  ImportedPlan out = std::get<ImportedPlan>(std::move(plan));
  out.defaults = std::move(d.defaults);
  out.approximations = std::move(d.approximations);
  return out;
}

}  // namespace moeplan::runs
