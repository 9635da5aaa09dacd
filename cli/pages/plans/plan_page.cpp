#include <fmt/format.h>

#include "cli/pages/page_parts.hpp"
#include "cli/pages/plans/plan_details.hpp"
#include "cli/pages/plans/plan_report.hpp"
#include "cli/pages/plans/plan_tables.hpp"
#include "model/text/origins.hpp"
#include "model/text/unit_text.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/lowering/blocks/gated_routing.hpp"
#include "planner/report/accuracy.hpp"
#include "planner/report/host_launches.hpp"

namespace moeplan::cli {

namespace {

/// How sure the prediction is, in half a line.
std::string certainty_text(const planner::Inputs& inputs, std::int64_t gpus) {
  const std::optional<planner::Accuracy> known = planner::shipped_accuracy_of(inputs.cluster.gpu, inputs.workload);
  if (known) {
    return fmt::format("prediction error median {:.0f}%, P90 {:.0f}%{}", 100 * known->median, 100 * known->p90,
                       gpus <= known->most_gpus ? "" : fmt::format(" of runs on up to {} GPUs", known->most_gpus));
  }
  return inputs.workload.mode == Mode::Forward ? "prediction error of forward passes unknown"
                                               : fmt::format("prediction error on {} unknown", inputs.cluster.gpu.name);
}

/// Launches by the host, where they are a considerable part of the critical path, and what CUDA graphs would save.
std::string launches_text(const PlanReport& r) {
  constexpr double kConsiderable = 0.1, kLeastSaved = 0.01;
  const planner::Prediction& best = r.predictions.front();
  const double share = planner::host_share(best, r.cluster);
  const bool is_considerable = share >= kConsiderable;
  std::string out;
  if (is_considerable) out = fmt::format("; launches by the host take {} of the critical path", in_percent(share));
  const CudaGraphs most = planner::most_graphs(r.inputs, r.framework);
  if (most == r.inputs.workload.cuda_graphs || r.result.is_cut) return out;  // a simulation more takes time
  const planner::WithGraphs captured =
      planner::fastest_with_graphs(r.inputs, r.cluster, r.result, best, most, r.threads);
  const double change = captured.step / best.makespan.seconds() - 1;
  const std::string option = fmt::format("-C workload.cuda_graph={}", name_of(most));
  if (-change < kLeastSaved)
    return is_considerable ? out + fmt::format(": another plan may be faster in CUDA graphs ({})", option) : out;
  const bool is_same = captured.candidate == r.result.ranked.front().candidate;
  return out + fmt::format("{} in CUDA graphs ({}) {} takes {}{} ({})", is_considerable ? ':' : ';', option,
                           is_same ? "the step" : "a step of another plan", captured.is_simulated ? "" : "about ",
                           human(captured.step), signed_percent(change));
}

/// What to run, how fast it is, its memory, its losses, and how good the answer is: a line each.
std::string answer_lines(const PlanReport& r) {
  const planner::Candidate& c = r.result.ranked.front().candidate;
  const planner::Prediction& p = r.predictions.front();
  const Seconds step = p.makespan.seconds(), exposed = p.binding.exposed_communication;
  const Bytes capacity = r.cluster.memory_per_rank();
  std::string out = labelled("run", run_text(c));
  out += labelled("speed", speed_text(p));
  out += labelled("memory",
                  fmt::format("{} of {} GiB per {} ({:.0f}%), recompute {}{}{}", gib(p.memory.total()), gib(capacity),
                              r.cluster.ranks_per_gpu > 1 ? "rank" : "GPU", 100 * (p.memory.total() / capacity),
                              name_of(c.recompute), host_memory_text(p.memory),
                              tightness_text(p.memory.total(), capacity, r.inputs.workload)));
  out += labelled("losses", fmt::format("exposed communication {} ({} of the step), bubble {}{}", human(exposed),
                                        in_percent(step > Seconds(0) ? exposed / step : 0), in_percent(p.bubble()),
                                        launches_text(r)));
  out +=
      labelled("certainty", fmt::format("{} above the provable limit; {}", in_percent(step / r.result.global_bound - 1),
                                        certainty_text(r.inputs, r.cluster.gpus())));
  if (const std::int64_t undecided = r.result.undecided; undecided > 0) {
    out += labelled("search",
                    fmt::format("{} other candidate{} may be faster, but would take too long to simulate, since ranks "
                                "differ from one another",
                                undecided, undecided == 1 ? "" : "s"));
  }
  if (!r.result.is_cut) return out;
  return out + labelled("search", "cut by its time limit: a longer one may find a faster plan, and the next another");
}

/// What the framework calls its part of the plan, and what is faster but not in it.
std::string framework_lines(const PlanReport& r) {
  const planner::Candidate& best = r.result.ranked.front().candidate;
  const std::string there = r.framework->own_name(planner::FrameworkDecision::AllToAlls, best.all_to_all.name());
  std::string out = labelled(
      "framework",
      fmt::format("{}{}", r.framework->text(),
                  best.degrees.ep > 1 && !there.empty() ? fmt::format(", whose dispatcher is {}", there) : ""));
  if (!r.beyond) return out + labelled("to implement", "nothing: no other schedule is faster on these degrees");
  const planner::Candidate& c = r.beyond->candidate;
  const double gain = 1 - r.beyond->makespan->seconds() / r.predictions.front().makespan.seconds();
  return out + labelled("to implement",
                        fmt::format("{}: {} would take {}, {} less on these degrees", c.schedule.name(),
                                    what_is_new(c, best), human(r.beyond->makespan->seconds()), in_percent(gain)));
}

/// The effect of the workload's gate on the model's routing.
std::string gate_line(const PlanReport& r) {
  const planner::GateEffect e = planner::gate_effect(r.inputs.model, r.inputs.workload,
                                                     r.result.ranked.front().candidate, r.cluster.ranks_per_node());
  return labelled("gate",
                  fmt::format("changes the routing: {} of the selections go to another expert, {} are dropped{}",
                              in_percent(e.rerouted), in_percent(e.dropped),
                              e.padding > 0 ? fmt::format("; padding adds {}", in_percent(e.padding)) : ""));
}

/// Layers of multi-token prediction that the plan does not train.
std::string left_out_text(const PlanReport& r) {
  if (r.inputs.workload.mode != Mode::Train) return "";
  const planner::Candidate& candidate = r.result.ranked.front().candidate;
  const std::int64_t all = r.inputs.model.num_mtp_layers;
  const std::int64_t left = all - planner::mtp_layers_of(r.inputs.workload, candidate);
  if (left <= 0) return "";
  const std::string with = candidate.layout.empty() ? fmt::format("-C workload.mtp_layers={}", all) : "m in --layout";
  return in_lines(fmt::format("{} layer{} of multi-token prediction {} not trained along: {}", left,
                              left == 1 ? "" : "s", left == 1 ? "is" : "are", with));
}

/// What is left out, approximated, priced beyond any measurement, or assumed: what a reader must know to trust the
/// answer.
std::string caveats(const PlanReport& r) {
  std::string out;
  for (const std::string& text : planner::approximations_of(r.documents.model))
    out += (out.empty() ? "  The model is approximated:\n" : "") + labelled("", text, 4);
  out += left_out_text(r);
  for (const std::string& text : pricing_warnings(r.cluster, r.predictions.front().program)) out += in_lines(text);
  if (const std::size_t assumed = assumed_numbers(r.documents.cluster).size(); assumed > 0)
    out += in_lines(fmt::format("{} numbers of this cluster are assumed, not measured: see --verbose", assumed));
  return out.empty() ? out : '\n' + out;
}

}  // namespace

std::string plan_page(const PlanReport& r, bool is_verbose) {
  std::string out = answer_lines(r) + '\n' + page_header(r.inputs, r.cluster);
  if (r.has_default_batch) {
    out += labelled("global batch", fmt::format("{} sequences by default; -C workload.global_batch=N sets another",
                                                r.inputs.workload.global_batch));
  }
  const std::string settings = settings_text(r.result.ranked.front().candidate);
  if (!settings.empty()) out += labelled("settings", settings);
  if (r.framework) out += framework_lines(r);
  if (r.inputs.workload.gate.kind != GateKind::TopK) out += gate_line(r);
  out += stage_table(r) + strategy_table(r) + candidate_table(r);
  for (const planner::TutelDictionary& d : r.tutel) out += tutel_table(d);
  out += caveats(r);
  return is_verbose ? out + plan_details(r) : out;
}

}  // namespace moeplan::cli
