#include "cli/pages/plans/plan_details.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/pages/page_parts.hpp"
#include "model/text/unit_text.hpp"

namespace moeplan::cli {

namespace {

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

}  // namespace

std::string rejections(const planner::SearchResult& result) {
  std::string out;
  std::vector<std::pair<std::string, std::int64_t>> reasons(result.rejected.begin(), result.rejected.end());
  std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [reason, count] : reasons) out += labelled(fmt::format("{:>6}", count), reason, 10);
  return out;
}

std::string plan_details(const PlanReport& r) {
  const planner::Evaluated& best = r.result.ranked.front();
  const planner::Prediction& p = r.predictions.front();
  std::string out = "\n  Details\n\n";
  out += accuracy_line(r.inputs);
  out += labelled("memory", memory_text(p.memory, r.cluster) +
                                tightness_text(p.memory.total(), r.cluster.memory_per_rank(), r.inputs.workload));
  out +=
      labelled("this schedule", fmt::format("cannot take less than {} ({}): gap {:.2f}%", human(p.estimate.lower_bound),
                                            p.estimate.bound_by, 100 * p.schedule_gap()));
  out += labelled("any candidate", fmt::format("cannot take less than {}: gap {:.2f}%", human(r.result.global_bound),
                                               100 * (p.makespan.seconds() / r.result.global_bound - 1)));
  out += labelled("order", order_text(best));
  out += labelled("search",
                  fmt::format("{} candidates considered, {} priced, {} simulated, {} ruled out by bound or price",
                              r.result.enumerated, std::ssize(r.result.ranked), r.result.simulated, r.result.pruned));
  out += class_table(r);
  if (!r.result.rejected.empty()) out += "\n  Not feasible, by reason:\n" + rejections(r.result);
  constexpr std::size_t kAssumed = 10;
  return out + notes_text(r.inputs, r.documents, r.cluster, p.program, kAssumed);
}

}  // namespace moeplan::cli
