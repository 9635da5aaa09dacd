#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/pages/page_parts.hpp"
#include "cli/pages/plans/explanation.hpp"
#include "cli/pages/plans/roofline_plot.hpp"
#include "model/costs/compute.hpp"
#include "model/text/unit_text.hpp"

namespace moeplan::cli {

namespace {

/// A bottleneck, worded for use inside a sentence.
std::string in_words(const std::string& bottleneck) {
  constexpr std::string_view kCompute = "compute: ";
  if (bottleneck.starts_with(kCompute)) return bottleneck.substr(kCompute.size());
  return bottleneck.starts_with("link ") || bottleneck.starts_with("measured ") ? "the " + bottleneck : bottleneck;
}

/// A change of a resource, e.g. "10% higher NIC bandwidth".
std::string in_words(const planner::ResourceInfo& resource) {
  return fmt::format("{} {} {}", resource.change.substr(1), resource.change.front() == '-' ? "lower" : "higher",
                     resource.name);
}

double percent(SimTime part, SimTime whole) { return whole > SimTime() ? 100 * (part.seconds() / whole.seconds()) : 0; }

/// The bottlenecks of an operation class on the critical path, in descending order of time.
std::vector<std::pair<std::string, SimTime>> bottlenecks_of(const Explanation& e, OpClass op_class) {
  std::map<std::string, SimTime> times;
  for (const PathRow& row : e.path.rows) {
    if (e.prediction.program.operation(row.block, row.operation).op_class == op_class)
      times[row.limited_by] += row.time;
  }
  std::vector<std::pair<std::string, SimTime>> out(times.begin(), times.end());
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

/// The time on the critical path in computation, in communication (whether or not it is concurrent with computation),
/// and in which the GPU waits for its host to launch operations; the longest first.
std::vector<std::pair<std::string, SimTime>> parts_of_path(const Explanation& e) {
  SimTime computation, communication, host;
  for (const PathRow& row : e.path.rows) {
    const Operation& operation = e.prediction.program.operation(row.block, row.operation);
    (operation.op_class == OpClass::Host ? host : operation.computes() ? computation : communication) += row.time;
  }
  std::vector<std::pair<std::string, SimTime>> out{
      {"computation", computation}, {"communication", communication}, {"launches by the host", host}};
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

/// The first sentence of the conclusion.
std::string bound_by(const Explanation& e) {
  const auto parts = parts_of_path(e);
  const auto share = [&](std::size_t i) { return percent(parts[i].second, e.path.time); };
  constexpr double kLeast = 0.5;  // percent: less is not said of the third
  return fmt::format("This plan is bound by {} ({:.0f}% of its critical path; {:.0f}% is {}{}).", parts[0].first,
                     share(0), share(1), parts[1].first,
                     share(2) < kLeast ? "" : fmt::format(", {:.0f}% {}", share(2), parts[2].first));
}

/// A text such as "rank 3 (stage 2 of 4)".
std::string binding_rank_text(const planner::Prediction& p) {
  const std::string stage = stage_text(p.program, p.binding.rank);
  return fmt::format("rank {}{}", p.binding.rank.value(), stage.empty() ? "" : fmt::format(" ({})", stage));
}

double exposed_percent(const planner::Prediction& p) {
  return 100 * (p.binding.exposed_communication / p.makespan.seconds());
}

/// The exposed communication, which the critical path does not show: communication on the path may be concurrent with
/// computation.
std::string exposed_sentence(const planner::Prediction& p) {
  if (p.binding.exposed_communication == Seconds(0)) return " Computation hides all communication.";
  return fmt::format(
      " Exposed communication, which no computation hides, is {:.1f}% of the iteration on {}, the binding one.",
      exposed_percent(p), binding_rank_text(p));
}

std::string class_table(const Explanation& e) {
  std::string out =
      fmt::format("  {:<24} {:>5} {:>7}   {}\n\n", "Critical path by class", "time", "share", "limited by");
  for (const PathClass& c : e.path.classes) {
    const std::string reached =
        c.possible_flops > 0 ? fmt::format("products at {:.0f}% of peak; ", 100 * c.flops / c.possible_flops) : "";
    std::string held;
    for (const auto& [name, time] : bottlenecks_of(e, c.op_class)) {
      const double share = percent(time, c.time);
      if (share < 1 && !held.empty()) break;
      held += fmt::format("{}{} {:.0f}%", held.empty() ? "" : ", ", name, share);
    }
    out += labelled(fmt::format("{:<19} {:>10} {:>6.1f}%", name_of<OpClass>(kOpClassNames, c.op_class),
                                human(c.time.seconds()), percent(c.time, e.path.time)),
                    reached + held, 43);
  }
  return out;
}

std::string holder_table(const Explanation& e) {
  constexpr std::size_t kMost = 10;
  std::string out = fmt::format("\n  {:<44} {:>10} {:>7}\n\n", "Critical path by bottleneck", "time", "share");
  SimTime rest;
  for (std::size_t i = 0; i < e.path.bottlenecks.size(); ++i) {
    const auto& [name, time] = e.path.bottlenecks[i];
    if (i >= kMost) {
      rest += time;
      continue;
    }
    out += fmt::format("  {:<44} {:>10} {:>6.1f}%\n", name, human(time.seconds()), percent(time, e.path.time));
  }
  if (rest > SimTime()) {
    out += fmt::format("  {:<44} {:>10} {:>6.1f}%\n", fmt::format("{} others", e.path.bottlenecks.size() - kMost),
                       human(rest.seconds()), percent(rest, e.path.time));
  }
  const std::string ranks =
      e.path.handovers == 0
          ? fmt::format("It stays on rank {}: no slower rank is waited for.", e.path.ranks.front().value())
          : fmt::format(
                "It changes rank {} times, each time from a slower rank to one that waits for it: {} of waiting.",
                e.path.handovers, human(e.path.waited.seconds()));
  return out + '\n' + in_lines(ranks);
}

std::string exposed_table(const Explanation& e) {
  const RankTime& t = e.prediction.binding;
  const std::string rank = binding_rank_text(e.prediction);
  if (t.exposed_communication == Seconds(0)) return fmt::format("\n  No exposed communication on {}.\n", rank);
  std::string out =
      '\n' +
      in_lines(fmt::format("Exposed communication (no computation runs) on {}, which waits least: {}, {:.1f}%", rank,
                           human(t.exposed_communication), exposed_percent(e.prediction))) +
      '\n';
  for (const ClassTime& c : t.classes) {
    if (c.exposed <= Seconds(0)) continue;
    out += fmt::format("  {:<19} {:>10} {:>6.1f}%   of {} in all\n", name_of<OpClass>(kOpClassNames, c.op_class),
                       human(c.exposed), 100 * (c.exposed / e.prediction.makespan.seconds()), human(c.total));
  }
  return out;
}

/// What the memory of the fullest rank is of: the largest buffers, and the rest.
std::string memory_table(const Explanation& e) {
  const MemoryUse& m = e.prediction.memory;
  const std::size_t stages = e.prediction.program.stages.size();
  std::string out = fmt::format("\n  Memory of the fullest GPU{}\n\n",
                                stages > 1 ? fmt::format(" (stage {} of {})", m.stage + 1, stages) : "");
  out += labelled("in use", memory_text(m, e.plan.cluster) +
                                tightness_text(m.total(), e.plan.cluster.memory_per_rank(), e.plan.inputs.workload));
  constexpr std::size_t kMost = 8;
  constexpr const char* kRow = "  {:<24} {:<28} {:>10} {:>6} {:>10}\n";
  Bytes rest;
  out += '\n' + fmt::format(kRow, "buffer", "of", "each", "kept", "GiB");
  for (std::size_t i = 0; i < e.buffers.size(); ++i) {
    const BufferUse& b = e.buffers[i];
    if (i >= kMost) {
      rest += b.all();
      continue;
    }
    out += fmt::format(kRow, b.buffer, b.block, human(b.bytes), b.count, gib(b.all()));
  }
  if (e.buffers.size() > kMost)
    out += fmt::format(kRow, fmt::format("{} others", e.buffers.size() - kMost), "", "", "", gib(rest));
  return out;
}

std::string sensitivity_table(const Explanation& e) {
  std::string out = "\n  What a better machine would give to this plan (simulated again, one change at a time)\n\n" +
                    fmt::format("  {:<38} {:>5} {:>12} {:>8}\n", "", "", "step time", "shorter");
  for (const planner::Sensitivity& s : e.sensitivities) {
    out += fmt::format("  {:<38} {:>5} {:>12} {:>7.2f}%\n", s.resource.name, s.resource.change,
                       human(s.makespan.seconds()), 100 * s.gain);
  }
  return out;
}

std::string roofline_text(const Explanation& e) {
  const DdlRoofline& r = e.roofline;
  if (r.communication == Seconds(0)) return "\n  DDL-roofline: no communication.\n";
  std::string out =
      '\n' + in_lines(fmt::format(
                 "DDL-roofline (FasterMoE, eqs. 3-6): computation {} / communication {} on rank {}: R_CC = {:.2f}",
                 human(r.computation), human(r.communication), e.prediction.binding.rank.value(), r.ratio));
  const FlopsPerSecond peak = peak_rate(e.plan.cluster.gpu, e.plan.inputs.workload.dtype);
  const auto line = [&](const char* what, FlopsPerSecond rate) {
    return fmt::format("  {:<44} {:>16} {:>6.1f}% of peak\n", what, human(rate), 100 * (rate / peak));
  };
  out += line("while it computes, a GPU does", r.computing);
  out += line("with perfect overlap", r.ideal);
  out += line("over the iteration, it does (P_avg)", r.average);
  return out + line("if none of it hid", r.semi_ideal);
}

/// The payoff of placing experts, in one sentence.
std::string placement_verdict(const planner::PlacementPayoff& w) {
  if (w.gain() <= Seconds(0)) return "no: an iteration is no shorter";
  const std::string after =
      *w.break_even <= 1 ? "the first iteration" : fmt::format("{:.0f} iterations", std::ceil(*w.break_even));
  if (!w.lasts) return fmt::format("yes, after {}, as long as loads stay as they are", after);
  const std::string lasts =
      fmt::format("{} iterations{}", *w.lasts, w.outlasts_trace ? " at least, where the trace ends" : "");
  if (w.breaks_even()) return fmt::format("yes, after {}; it goes on gaining for {}", after, lasts);
  return fmt::format("no: moving would take {} to earn, and it goes on gaining for {}", after, lasts);
}

std::string placement_text(const Explanation& e) {
  if (!e.placement) return "";
  const planner::PlacementPayoff& w = *e.placement;
  const bool is_placed = !e.plan.plan.candidate.expert_places.empty();
  std::string out = '\n' + in_lines("Payoff of rebalancing: " + placement_verdict(w)) + '\n';
  const auto line = [&](const std::string& what, const std::string& value) {
    out += fmt::format("  {:<44} {}\n", what, value);
  };
  line("iteration with contiguous experts",
       fmt::format("{}, loads of ranks max/mean {:.2f}", human(w.contiguous.seconds()), w.imbalance_before));
  line(fmt::format("{} {}, {} redundant a rank", is_placed ? "placed by" : "if placed by", w.strategy,
                   w.redundant_experts),
       fmt::format("{}, max/mean {:.2f}", human(w.placed.seconds()), w.imbalance));
  const planner::PlacementForms &before = w.forms_before, &after = w.forms;
  const auto forms = [&](Seconds from, Seconds to) { return fmt::format("{} -> {}", human(from), human(to)); };
  line("  that layer, FasterMoE eq. 7 -> 8", forms(before.fastermoe, after.fastermoe));
  if (after.sends_less || after.saves_more)
    line("  FasterMoE: shadowing is less, by", after.sends_less ? "eq. 9, fewer bytes" : "eq. 10, less computation");
  line("  Pro-Prophet eq. 6, blocking transfers", forms(before.pro_prophet, after.pro_prophet));
  line("  Pro-Prophet eq. 8, scheduled transfers", forms(before.pro_prophet_scheduled, after.pro_prophet_scheduled));
  line("  balance degree (its ratio is RB)",
       fmt::format("{:.1f} -> {:.1f}", before.balance_degree, after.balance_degree));
  line("gain an iteration", w.gain() < Seconds(0) ? "-" + human(-1 * w.gain()) : human(w.gain()));
  line("weights to copies, gradients back, hidden or not",
       fmt::format("{}, {} an iteration", human(w.weights), human(w.gradients)));
  line("moving there from contiguous experts, once", human(w.migration));
  line("memory added a rank", human(w.memory));
  out += fmt::format("\n  {:>16} {:>12} {:>12} {:>12}\n", "redundant a rank", "memory", "step time", "gain");
  for (const planner::RedundantExperts& r : w.curve) {
    if (!r.makespan) {
      out += fmt::format("  {:>16} {:>12} {:>12}\n", r.redundant, human(r.memory), "no");
      continue;
    }
    out += fmt::format("  {:>16} {:>12} {:>12} {:>11.1f}%{}\n", r.redundant, human(r.memory),
                       human(r.makespan->seconds()), 100 * (1 - r.makespan->seconds() / w.contiguous.seconds()),
                       w.best_redundancy() == r.redundant ? "  <- best" : "");
  }
  if (!w.best_redundancy()) out += "  None is faster.\n";
  return out;
}

/// The DDL-Roofline of [FasterMoE] figure 5, with a table of its points.
std::string layer_points_text(const Explanation& e) {
  if (e.layer_points.empty()) return "";
  std::string out =
      "\n  One MoE layer on the DDL-roofline (simulated alone; = all hides, eq. 5; - nothing does, eq. 6)\n\n" +
      roofline_plot(e.layer_points) +
      fmt::format("\n  {:>2}  {:<24} {:>8} {:>9} {:>16} {:>9} {:>11} {:>11}\n", "", "", "R_CC", "layer", "P_avg",
                  "of peak", "if all hid", "if none did");
  const FlopsPerSecond peak = peak_rate(e.plan.cluster.gpu, e.plan.inputs.workload.dtype);
  for (std::size_t i = 0; i < e.layer_points.size(); ++i) {
    const auto& [name, candidate, makespan, r] = e.layer_points[i];
    const std::string ratio = std::isfinite(r.ratio) ? fmt::format("{:.2f}", r.ratio) : "-";
    out += fmt::format("  {:>2}  {:<24} {:>8} {:>9} {:>16} {:>8.1f}% {:>10.1f}% {:>10.1f}%\n", i + 1, name, ratio,
                       human(makespan.seconds()), human(r.average), 100 * (r.average / peak), 100 * (r.ideal / peak),
                       100 * (r.semi_ideal / peak));
  }
  return out;
}

/// What of a layer overlaps: "none" below the picosecond in which times are counted.
std::string hidden_text(Seconds hidden) {
  constexpr Seconds kLeast(1e-12);
  if (hidden < kLeast && -1 * hidden < kLeast) return "none";
  return hidden < Seconds(0) ? "-" + human(-1 * hidden) : human(hidden);
}

/// Parm's, ScheMoE's and FasterMoE's closed forms of one MoE layer.
std::string paper_forms_text(const Explanation& e) {
  const planner::PaperForms& f = e.forms;
  if (!f.parm && !f.overlap) return "";
  std::string out = "\n  One MoE layer by the papers' closed forms\n\n";
  const auto line = [&](const char* what, const std::string& value) { out += labelled(what, value, 61); };
  if (f.overlap) {
    line("forward and backward, one by one: t_1 (ScheMoE eq. 10)", human(f.overlap->in_turn));
    line("simulated: t_r; hidden: t_hidden (eq. 11)",
         fmt::format("{}; {}", human(f.overlap->time), hidden_text(f.overlap->hidden)));
    line("the most that overlap gains (FasterMoE figure 12)", fmt::format("{:.2f} times", f.overlap->bound));
  }
  if (f.pipe) {
    line("a dispatch inside nodes, between nodes (ScheMoE eq. 17)",
         fmt::format("{}, {}", human(f.pipe->inside), human(f.pipe->between)));
    line("the most that Pipe-A2A gains: S_max (eq. 18)", fmt::format("{:.2f} times", f.pipe->most()));
  }
  if (!f.parm) return out;
  const planner::ParmForms& p = *f.parm;
  line("Parm, forward: BLM, x = ETM, y",
       fmt::format("{}, {}, {}", human(p.input), human(p.dispatched), human(p.exchanged)));
  line("t_base (eq. 1)", human(p.baseline));
  line("t_S1, t_S2, S2 without overlap (eqs. 2, 7)",
       fmt::format("{}, {}, {}", human(p.s1), human(p.s2), human(p.in_turn)));
  if (p.choice)
    line("t_D1, t_D2: algorithm 1 chooses (eqs. 13, 14)",
         fmt::format("{}, {}: {}", human(p.choice->t_d1), human(p.choice->t_d2),
                     p.choice->schedule == ParmChoice::S1 ? "S1" : "S2"));
  return out;
}

}  // namespace

std::string_view class_phrase(OpClass op_class) {
  switch (op_class) {
    case OpClass::Attention: return "attention";
    case OpClass::DenseFfn: return "dense feed-forward computation";
    case OpClass::Gate: return "gating";
    case OpClass::Expert: return "expert computation";
    case OpClass::SharedExpert: return "shared-expert computation";
    case OpClass::Permute: return "permuting tokens";
    case OpClass::Codec: return "coding and decoding of tokens";
    case OpClass::Dispatch: return "dispatch of tokens";
    case OpClass::Combine: return "combining of tokens";
    case OpClass::TensorParallel: return "tensor-parallel traffic";
    case OpClass::ExpertSharding: return "traffic of expert shards";
    case OpClass::Norm: return "norms and additions";
    case OpClass::Embedding: return "embedding and output head";
    case OpClass::ContextParallel: return "context-parallel traffic";
    case OpClass::Pipeline: return "messages between pipeline stages";
    case OpClass::WeightGather: return "gathering of weights";
    case OpClass::Gradient: return "gradient traffic";
    case OpClass::Optimizer: return "the optimizer";
    case OpClass::ExpertTransfer: return "sending weights to copies of experts";
    case OpClass::ExpertGradientTransfer: return "bringing home gradients of copies of experts";
    case OpClass::PlacementPlan: return "telling loads for the next placement";
    case OpClass::Host: return "launching of operations";
    case OpClass::Offload: return "copies to and from host memory";
  }
  return "";
}

std::string conclusion(const Explanation& e) {
  const SimTime all = e.path.time;
  if (all == SimTime()) return "This plan does nothing: its iteration takes no time.";
  std::string out = bound_by(e);
  constexpr std::size_t kMostClasses = 3;
  constexpr double kWorthSaying = 5;  // percent
  for (std::size_t i = 0; i < std::min(kMostClasses, e.path.classes.size()); ++i) {
    const PathClass& c = e.path.classes[i];
    const double share = percent(c.time, all);
    if (i > 0 && share < kWorthSaying) break;
    out += fmt::format(" {:.0f}% {} is {}", share, i == 0 ? "of the path" : "of it", class_phrase(c.op_class));
    const auto held = bottlenecks_of(e, c.op_class);
    if (c.possible_flops > 0) {
      out += fmt::format(", limited by {}, its products at {:.0f}% of peak.", in_words(held.front().first),
                         100 * c.flops / c.possible_flops);
    } else {
      out += fmt::format(", limited by {}.", in_words(held.front().first));
    }
  }
  out += exposed_sentence(e.prediction);
  if (e.sensitivities.empty()) return out;
  const planner::Sensitivity& best = e.sensitivities.front();
  if (best.gain <= 0) return out + " No single resource of the machine, a tenth better, would make it faster.";
  out += fmt::format(" {} would shorten it most, by {:.1f}%", in_words(best.resource), 100 * best.gain);
  if (e.sensitivities.size() > 1 && e.sensitivities[1].gain > 0) {
    const planner::Sensitivity& second = e.sensitivities[1];
    out += fmt::format("; {} by {:.1f}%", in_words(second.resource), 100 * second.gain);
  }
  return out + '.';
}

std::string explain_page(const Explanation& e) {
  const auto& [plan, inputs, cluster] = e.plan;
  const planner::Prediction& p = e.prediction;
  std::string out = page_header(inputs, cluster);
  out += labelled("plan", plan_text(plan.candidate));
  out += labelled("speed", speed_text(p));
  out += accuracy_line(inputs);
  const Seconds bound = p.estimate.lower_bound;
  out += fmt::format("  lower bound    {} ({}): gap {:.2f}%\n\n", human(bound), p.estimate.bound_by,
                     100 * p.schedule_gap());
  out += in_lines(conclusion(e)) + '\n';
  out += class_table(e) + holder_table(e) + exposed_table(e) + '\n';
  if (!p.timeline.links.empty()) out += link_table(p, cluster.topology, 5) + '\n';
  out += stream_table(p) + memory_table(e);
  out += sensitivity_table(e) + placement_text(e) + roofline_text(e) + layer_points_text(e) + paper_forms_text(e);
  return out + notes_text(inputs, plan.inputs, cluster, p.program, 5);
}

}  // namespace moeplan::cli
