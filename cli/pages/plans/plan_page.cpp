#include <fmt/format.h>

#include <algorithm>

#include "cli/pages/page_parts.hpp"
#include "cli/pages/plans/plan_report.hpp"
#include "model/text/unit_text.hpp"
#include "planner/lowering/blocks/gated_routing.hpp"

namespace moeplan::cli {

namespace {

/// Why `other` is slower than `best`: the operation classes in which its binding rank spends more time, in descending
/// order, and the largest gain. Including idle time, the differences of all classes sum to that of the makespan.
std::string why(const planner::Prediction& other, const planner::Prediction& best) {
  struct Loss {
    std::string_view name;
    Seconds time;
  };
  std::vector<Loss> losses;
  for (const auto& [op_class, name] : kOpClassNames) {
    losses.push_back({name, other.binding.visible(op_class) - best.binding.visible(op_class)});
  }
  losses.push_back({"idle", other.binding.idle - best.binding.idle});
  std::stable_sort(losses.begin(), losses.end(), [](const Loss& a, const Loss& b) { return a.time > b.time; });
  std::string text;
  const Seconds total = other.makespan.seconds() - best.makespan.seconds();
  for (std::size_t i = 0; i < 3; ++i) {
    if (losses[i].time <= Seconds(0) || losses[i].time < 0.05 * total) break;
    text += fmt::format("{}{} +{}", text.empty() ? "" : ", ", losses[i].name, human(losses[i].time));
  }
  if (text.empty()) return "as fast within rounding";
  // The largest gain, if it is a considerable fraction of the largest loss.
  const Loss& gain = losses.back();
  if (gain.time < Seconds(0) && -gain.time > 0.1 * losses.front().time) {
    text += fmt::format("; but {} -{}", gain.name, human(-gain.time));
  }
  return text;
}

/// The decisions of `c` about its MoE layers, and others in which it differs from `best`.
std::string what_is_new(const planner::Candidate& c, const planner::Candidate& best) {
  std::string out = fmt::format("{} chunk{}, {} all-to-all", c.pipeline_degree, c.pipeline_degree == 1 ? "" : "s",
                                c.all_to_all.name());
  if (!c.runs.empty()) out = planner::strategies_text(c.runs);
  if (c.codec != CodecPair{}) out += ", codec " + codec_pair_name(c.codec);
  if (c.order == planner::OperationOrder::Searched) out += ", a searched order of operations";
  if (c.micro_batch != best.micro_batch) out += fmt::format(", micro batch {}", c.micro_batch);
  if (!(c.recompute == best.recompute)) out += fmt::format(", recompute {}", name_of(c.recompute));
  return out;
}

std::string candidate_table(const PlanReport& r) {
  bool has_sequence_parallel = false, is_reordered = false;
  constexpr const char* kRow =
      "  {:>2}  {:<13} {:>5} {:>4} {:>3} {:>5} {:>4} {:>4} {:>4} {:>5}  {:>9} {:>7} {:>9} {:>7}\n";
  std::string out = fmt::format(kRow, "#", "schedule", "pp", "tp", "cp", "dp", "ep", "esp", "edp", "micro", "time", "",
                                "exposed", "memory");
  out += fmt::format(kRow, "", "", "", "", "", "", "", "", "", "batch", "", "", "communic.", "GiB");
  for (std::size_t i = 0; i < r.predictions.size(); ++i) {
    const planner::Prediction& p = r.predictions[i];
    const planner::Candidate& c = r.result.ranked[i].candidate;
    const Degrees& d = c.degrees;
    const double more = p.makespan.seconds() / r.predictions.front().makespan.seconds() - 1;
    const std::string pp =
        c.virtual_stages > 1 ? fmt::format("{}x{}", d.pp, c.virtual_stages) : fmt::format("{}", d.pp);
    const std::string tp = fmt::format("{}{}", d.tp, c.sequence_parallel ? "s" : "");
    has_sequence_parallel = has_sequence_parallel || c.sequence_parallel;
    const std::string schedule = c.schedule.name() + (c.order == planner::OperationOrder::Searched ? "~" : "");
    is_reordered = is_reordered || c.order == planner::OperationOrder::Searched;
    out += fmt::format(kRow, i + 1, schedule, pp, tp, d.cp, d.dp, d.ep, d.esp, d.edp, c.micro_batch,
                       human(p.makespan.seconds()), i == 0 ? "" : signed_percent(more),
                       human(p.binding.exposed_communication), gib(p.memory.total()));
  }
  if (has_sequence_parallel) out += "      (tp s: with sequence parallelism; pp n x m: m parts of the model a stage)\n";
  if (is_reordered) out += "      (schedule ~: with its operations in the order that the search of orders found)\n";
  return out;
}

/// The rows of class_table() for the candidates from `first` to before `last`.
std::string class_rows(const PlanReport& r, std::size_t first, std::size_t last) {
  std::string out;
  const auto add_row = [&](std::string_view name, const auto& value) {
    std::string line = fmt::format("  {:<20}", name);
    for (std::size_t i = first; i < last; ++i) line += fmt::format(" {:>10}", value(r.predictions[i]));
    out += line + '\n';
  };
  const auto any = [&](const auto& holds) {
    return std::any_of(r.predictions.begin() + static_cast<std::ptrdiff_t>(first),
                       r.predictions.begin() + static_cast<std::ptrdiff_t>(last), holds);
  };
  add_row("", [&](const planner::Prediction& p) { return fmt::format("#{}", &p - r.predictions.data() + 1); });
  add_row("rank", [](const planner::Prediction& p) { return fmt::format("{}", p.binding.rank.value()); });
  if (any([](const planner::Prediction& p) { return p.program.stages.size() > 1; })) {
    add_row("pipeline stage", [](const planner::Prediction& p) {
      const auto stages = p.program.stages.size();
      return stages == 1 ? "-" : fmt::format("{} of {}", p.program.stage_of(p.binding.rank) + 1, stages);
    });
  }
  for (const auto& [op_class, name] : kOpClassNames) {
    const auto time = [c = op_class](const planner::Prediction& p) { return p.binding.visible(c); };
    if (!any([&](const planner::Prediction& p) { return time(p) > Seconds(0); })) continue;
    add_row(name, [&](const planner::Prediction& p) { return time(p) > Seconds(0) ? human(time(p)) : "-"; });
  }
  add_row("idle", [](const planner::Prediction& p) { return human(p.binding.idle); });
  add_row("of all, waiting", [](const planner::Prediction& p) { return human(p.binding.waiting); });
  return out;
}

std::string class_table(const PlanReport& r) {
  constexpr std::size_t kAbreast = 7;  // fit into the page
  std::string out = "\n  Time by class on the binding rank (which waits least), unless computation hides it:\n";
  for (std::size_t first = 0; first < r.predictions.size(); first += kAbreast)
    out += '\n' + class_rows(r, first, std::min(first + kAbreast, r.predictions.size()));
  return out;
}

std::string rejections(const planner::SearchResult& result) {
  std::string out;
  std::vector<std::pair<std::string, std::int64_t>> reasons(result.rejected.begin(), result.rejected.end());
  std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [reason, count] : reasons) out += labelled(fmt::format("{:>6}", count), reason, 10);
  return out;
}

/// Other numbers of GPUs and another batch with which there is a plan.
std::string would_fit_text(const std::optional<planner::WouldFit>& w) {
  if (!w) return "";
  std::string out = "\n";
  if (w->more) out += fmt::format("a plan fits on {0} GPUs, the fewest found above these: --world {0}\n", *w->more);
  if (!w->more && w->most_tried_gpus > 0)
    out += fmt::format("no plan was found with more GPUs either, up to {}\n", w->most_tried_gpus);
  if (w->fewer) out += fmt::format("a plan fits on {0} GPUs, the most below these: --world {0}\n", *w->fewer);
  if (w->global_batch)
    out += fmt::format("a plan fits with a global batch of {0}: -C workload.global_batch={0}\n", *w->global_batch);
  return out == "\n" ? "" : out;
}

/// How the order of operations was found. The text states that the search ignores shared links.
std::string order_text(const planner::Evaluated& e) {
  const planner::OrderSearch& o = e.order;
  if (o.answered_by == "listed") return "as listed: not searched";
  const bool is_exact = o.answered_by == "exact";
  if (o.fixed == o.blocks) return fmt::format("exact: the dependencies of every block leave one ({} blocks)", o.blocks);
  const std::string counts =
      fmt::format("({} blocks, {} of them with one order alone; {} states)", o.blocks, o.fixed, o.states);
  if (o.improved == 0) {
    return is_exact ? "exact: no order of the operations of any block is faster, contention apart " + counts
                    : "heuristic: no faster one found, contention apart, nor proved that there is none " + counts;
  }
  const std::string improved = fmt::format("{} block{}", o.improved, o.improved == 1 ? "" : "s");
  if (e.candidate.order == planner::OperationOrder::Listed) {
    return fmt::format("heuristic: as listed; others are faster for {}, contention apart, but not simulated {}",
                       improved, counts);
  }
  return fmt::format("{}: {} reordered, {} {}", e.order_answered_by(), improved,
                     is_exact ? "each proved the fastest, contention apart" : "not proved the fastest", counts);
}

std::string tutel_table(const planner::TutelDictionary& d) {
  std::string out =
      '\n' + in_lines(fmt::format("Tutel's dictionary, one MoE layer with tutel_r*: an expert's rows of a source in "
                                  "windows of {}, at most {} trials each",
                                  d.window, d.most_trials));
  out += fmt::format("\n  {:>7} {:>9} {:>9} {:>7}  {:<11} {:>12} {:>7}\n", "key", "capacity", "adaptive", "degree",
                     "all-to-all", "layer", "trials");
  for (const planner::TutelEntry& e : d.entries) {
    out += fmt::format("  {:>7} {:>9} {:>9} {:>7}  {:<11} {:>12} {:>7}\n", e.key, e.capacity, e.best.r,
                       e.best.pipeline_degree, e.best.all_to_all, human(e.time.seconds()), e.trials);
  }
  return out;
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

}  // namespace

std::string plan_page(const PlanReport& r) {
  const planner::Evaluated& best = r.result.ranked.front();
  const planner::Prediction& p = r.predictions.front();
  const double optimality_gap = p.makespan.seconds() / r.result.global_bound - 1;
  std::string out = page_header(r.inputs, r.cluster);
  out += plan_lines("best plan", best.candidate);
  out += fmt::format("  iteration      {}   {:.0f} tokens/s a GPU   {:.1f}% of peak FLOP/s\n",
                     human(p.makespan.seconds()), p.tokens_per_s_per_gpu, 100 * p.model_flops_utilization);
  out += accuracy_line(r.inputs);
  out += labelled("memory", memory_text(p.memory, r.cluster));
  out += fmt::format("  this schedule  cannot take less than {} ({}): gap {:.2f}%\n", human(p.estimate.lower_bound),
                     p.estimate.bound_by, 100 * p.schedule_gap());
  out += fmt::format("  any candidate  cannot take less than {}: gap {:.2f}%\n", human(r.result.global_bound),
                     100 * optimality_gap);
  out += labelled("order", order_text(best));
  if (r.framework) out += framework_lines(r);
  if (r.inputs.workload.gate.kind != GateKind::TopK) out += gate_line(r);
  out += fmt::format(
      "\n  Best and runners-up ({} considered, {} priced, {} simulated, {} ruled out by bound or price)\n\n",
      r.result.enumerated, std::ssize(r.result.ranked), r.result.simulated, r.result.pruned);
  out += candidate_table(r);
  if (r.predictions.size() > 1) {
    out += "\n  Why they lost (time on the binding rank of each, against that of #1):\n";
    for (std::size_t i = 1; i < r.predictions.size(); ++i) {
      const planner::Prediction& other = r.predictions[i];
      const std::string stage = stage_text(other.program, other.binding.rank);
      out +=
          labelled(fmt::format("{:>2}", i + 1), why(other, p) + (stage.empty() ? "" : fmt::format(" ({})", stage)), 6);
    }
  }
  out += class_table(r);
  for (const planner::TutelDictionary& d : r.tutel) out += tutel_table(d);
  if (!r.result.rejected.empty()) out += "\n  Not feasible, by reason:\n" + rejections(r.result);
  std::string approximated;
  for (const std::string& text : planner::approximations_of(r.documents.model))
    approximated += (approximated.empty() ? "\n  The model is approximated:\n" : "") + labelled("", text, 4);
  return out + approximated + notes_text(r.inputs, r.documents, r.cluster, p.program, 3);
}

std::string infeasible_page(const planner::Inputs& inputs, const Cluster& cluster, const planner::SearchResult& result,
                            const std::optional<planner::WouldFit>& would_fit) {
  std::string out = page_header(inputs, cluster);
  out += fmt::format("\nno feasible plan among {} candidates:\n{}", result.enumerated, rejections(result));
  if (!result.nearest_miss) return out + would_fit_text(would_fit);
  const planner::NearestMiss& miss = *result.nearest_miss;
  out += '\n' + labelled("nearest", miss.candidate.schedule.name() + " | " + degrees_text(miss.candidate));
  out += labelled("needs", memory_text(miss.memory, cluster));
  out += labelled("lacks", fmt::format("{} GiB a {}", gib(miss.memory.total() - cluster.memory_per_rank()),
                                       cluster.ranks_per_gpu > 1 ? "rank" : "GPU"));
  if (result.fits_with) {
    out += labelled(
        "fits", fmt::format("with more recomputation: -C workload.recompute={} (or auto)", name_of(*result.fits_with)));
  }
  return out + would_fit_text(would_fit);
}

std::string simulate_page(const planner::Plan& plan, const planner::Inputs& inputs, const Cluster& cluster,
                          const planner::Prediction& p) {
  std::string out = page_header(inputs, cluster);
  out += plan_lines("plan", plan.candidate);
  out += fmt::format("  iteration      {}{}\n", human(p.makespan.seconds()),
                     p.makespan == plan.makespan
                         ? ", as the plan predicts"
                         : fmt::format(", where the plan predicts {}", human(plan.makespan.seconds())));
  out += accuracy_line(inputs);
  out += fmt::format("  bound          {} ({})\n", human(p.estimate.lower_bound), p.estimate.bound_by);
  out += labelled("memory", memory_text(p.memory, cluster));
  out += '\n' + stream_table(p) + '\n' + link_table(p, cluster.topology, 5);
  return out;
}

}  // namespace moeplan::cli
