#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "cli/pages/page_parts.hpp"
#include "cli/pages/plans/comparison.hpp"
#include "model/text/unit_text.hpp"

namespace moeplan::cli {

namespace {

std::string signed_time(Seconds t) {
  return fmt::format("{}{}", t < Seconds(0) ? "-" : "+", human(Seconds(std::abs(t.value()))));
}

/// The operation classes with the largest changes in one direction: at most three, none below a tenth of the largest.
std::string changes(const planner::PlanDifference& d, bool longer) {
  constexpr std::size_t kMost = 3;
  std::string out;
  Seconds largest;
  std::size_t named = 0;
  for (const planner::ClassDifference& c : d.classes) {  // in descending order of change
    const Seconds change = c.visible.second - c.visible.first;
    const Seconds size(std::abs(change.value()));
    largest = std::max(largest, size);
    if (change == Seconds(0) || (change > Seconds(0)) != longer || size < 0.1 * largest || named == kMost) continue;
    out += fmt::format("{}{} {}", named++ == 0 ? "" : ", ", name_of<OpClass>(kOpClassNames, c.op_class),
                       signed_time(change));
  }
  return out;
}

std::string row(const std::string& what, const std::string& a, const std::string& b, const std::string& change) {
  return fmt::format("  {:<22} {:>14} {:>14}{}\n", what, a, b, change.empty() ? "" : fmt::format(" {:>14}", change));
}

std::string time_row(const std::string& what, Seconds a, Seconds b) {
  const auto text = [](Seconds t) { return t == Seconds(0) ? std::string("-") : human(t); };
  return row(what, text(a), text(b), a == b ? "" : signed_time(b - a));
}

std::string tables(const Comparison& c) {
  const planner::PlanDifference& d = c.difference;
  const planner::Prediction &p = c.a.prediction, &q = c.b.prediction;
  std::string out = row("", "A", "B", "B - A");
  out += time_row("step time", p.makespan.seconds(), q.makespan.seconds());
  out +=
      row("tokens/s/GPU", fmt::format("{:.0f}", p.tokens_per_s_per_gpu), fmt::format("{:.0f}", q.tokens_per_s_per_gpu),
          fmt::format("{:+.1f}%", 100 * (q.tokens_per_s_per_gpu / p.tokens_per_s_per_gpu - 1)));
  out += "\n  Time by class on the binding rank (which waits least), unless computation hides it\n\n";
  const auto rank = [](const planner::Prediction& x) { return fmt::format("{}", x.binding.rank.value()); };
  const auto stage = [](const planner::Prediction& x) { return stage_text(x.program, x.binding.rank); };
  out += row("rank", rank(p), rank(q), "");
  if (!(stage(p) + stage(q)).empty()) out += row("pipeline", stage(p), stage(q), "");
  for (const planner::ClassDifference& k : d.classes) {
    out += time_row(std::string(name_of<OpClass>(kOpClassNames, k.op_class)), k.visible.first, k.visible.second);
  }
  out += time_row("idle", d.idle.first, d.idle.second);
  out += time_row("of all, waiting", p.binding.waiting, q.binding.waiting);
  out += "\n  Exposed communication on that rank (no computation runs)\n\n";
  for (const planner::ClassDifference& k : d.classes) {
    if (k.exposed.first == Seconds(0) && k.exposed.second == Seconds(0)) continue;
    out += time_row(std::string(name_of<OpClass>(kOpClassNames, k.op_class)), k.exposed.first, k.exposed.second);
  }
  out += time_row("in all", p.binding.exposed_communication, q.binding.exposed_communication);
  out += "\n  Memory of the fullest GPU, GiB\n\n";
  const auto memory_row = [&](const std::string& what, Bytes x, Bytes y) {
    out += row(what, gib(x), gib(y), x == y ? "" : fmt::format("{:+.1f}", (y - x).value() / 1073741824.0));
  };
  for (const auto& [name, bytes] : d.memory) memory_row(name, bytes.first, bytes.second);
  memory_row("total", p.memory.total(), q.memory.total());
  return out;
}

/// A caution if the plans' work differs; "" if it is the same.
std::string caution(const Comparison& c) {
  const planner::Inputs &a = c.a.plan.inputs, &b = c.b.plan.inputs;
  if (!(a.model == b.model)) return " They run different models, so their times do not say which plan is better.";
  const auto work = [](const Workload& w) { return std::tuple(w.mode, w.global_batch, w.sequence_length); };
  if (work(a.workload) == work(b.workload)) return "";
  return " An iteration of one is not the work of the other's: compare their tokens/s.";
}

}  // namespace

std::string conclusion(const Comparison& c) {
  const SimTime a = c.a.prediction.makespan, b = c.b.prediction.makespan;
  const Bytes more = c.b.prediction.memory.total() - c.a.prediction.memory.total();
  std::string out;
  if (a == b) {
    out = fmt::format("A and B take the same time, {}", human(a.seconds()));
  } else {
    const bool longer = b > a;
    out = fmt::format("B takes {:.1f}% {} than A ({} against {})", 100 * std::abs(b.seconds() / a.seconds() - 1),
                      longer ? "longer" : "less time", human(b.seconds()), human(a.seconds()));
    if (const std::string why = changes(c.difference, longer); !why.empty()) out += ": " + why;
    if (const std::string against = changes(c.difference, !longer); !against.empty()) {
      out += fmt::format(", {} {}", longer ? "though" : "in spite of", against);
    }
  }
  if (std::abs(more.value()) < 1e8) return out + "; they need equally much memory." + caution(c);
  return out + fmt::format("; B needs {} GiB {} per GPU.{}", gib(Bytes(std::abs(more.value()))),
                           more > Bytes(0) ? "more" : "less", caution(c));
}

std::string compare_page(const Comparison& c) {
  std::string out;
  for (const auto& [letter, plan] : {std::pair<const char*, const ComparedPlan&>{"A", c.a}, {"B", c.b}}) {
    out += fmt::format("{}  {}\n", letter, plan.name);
    out += page_header(plan.plan.inputs, plan.plan.cluster);
    out += labelled("plan", plan_text(plan.plan.plan.candidate)) + '\n';
  }
  out += in_lines(conclusion(c)) + '\n' + tables(c) + '\n';
  if (c.difference.decisions.empty()) out += "  No decision differs.\n";
  for (const auto& [key, value] : c.difference.decisions) {
    const std::string name = key == "esp" ? "etp" : key;  // people say etp, files and JSON esp
    out += std::max(value.first.size(), value.second.size()) <= 14
               ? row(name, value.first, value.second, "")
               : labelled(name, fmt::format("A: {}; B: {}", value.first, value.second), 25);
  }
  if (c.difference.inputs.empty()) return out + "  No input differs.\n";
  out += "  Inputs that differ:\n";
  for (const std::string& key : c.difference.inputs) out += labelled("", key, 4);
  return out;
}

}  // namespace moeplan::cli
