#include "cli/pages/reports/plan_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/pages/figures/bar_chart.hpp"
#include "cli/pages/figures/pipeline_chart.hpp"
#include "cli/pages/page_parts.hpp"

namespace moeplan::cli {

namespace {

const Program& program_of(const PlanView& view) { return view.explanation.prediction.program; }

/// The end of an axis that holds `value`: 6% beyond.
double axis_end(double value) { return value > 0 ? 1.06 * value : 1; }

PipelineChart pipeline_chart(const PlanView& view) {
  const bool has_stages = program_of(view).stages.size() > 1;
  PipelineChart chart{.rows = view.timelines, .labels = {}, .makespan = view.explanation.prediction.makespan};
  for (const planner::RankTimeline& row : view.timelines) {
    const std::string label =
        has_stages ? fmt::format("stage {}", row.stage) : fmt::format("rank {}", row.rank.value());
    chart.labels.push_back(!has_stages && view.timelines.size() == 1 ? "all ranks" : label);
  }
  return chart;
}

Figure pipeline_figure(const PipelineChart& chart, const std::string& name, const std::string& title,
                       const std::string& note, const std::optional<planner::TimeInterval>& window) {
  return make_figure(name, title, note, [&](double width) {
    // A narrow figure of a window shows its part nearest to the end of the iteration that it is about.
    if (!window || !is_narrow(width)) return draw_pipeline(chart, width, window);
    const SimTime third = SimTime::from_seconds((window->end - window->start).seconds() / 3.0);
    return draw_pipeline(chart, width,
                         window->start == SimTime() ? planner::TimeInterval{SimTime(), third}
                                                    : planner::TimeInterval{window->end - third, window->end});
  });
}

bool communicates(const PlanView& view, OpClass op_class) {
  const PathSummary& path = view.explanation.path;
  return std::any_of(path.rows.begin(), path.rows.end(), [&](const PathRow& row) {
    const Operation& op = program_of(view).operation(row.block, row.operation);
    return op.op_class == op_class && !op.computes() && !std::holds_alternative<Launches>(op.work);
  });
}

struct MemoryPart {
  Bytes MemoryUse::*bytes;
  const char* style;
  const char* name;
};
constexpr std::array<MemoryPart, 6> kMemoryParts{{{&MemoryUse::weights, "weights", "weights"},
                                                  {&MemoryUse::gradients, "gradients", "gradients"},
                                                  {&MemoryUse::optimizer, "optimizer", "optimizer states"},
                                                  {&MemoryUse::activations, "activations", "activations"},
                                                  {&MemoryUse::working, "working", "working buffers"},
                                                  {&MemoryUse::runtime, "runtime", "CUDA, NCCL, fragmentation"}}};

}  // namespace

std::vector<Figure> timeline_figures(const PlanView& view) {
  const PipelineChart chart = pipeline_chart(view);
  const bool has_stages = program_of(view).stages.size() > 1;
  std::vector<Figure> out{pipeline_figure(
      chart, "timeline", has_stages ? "The iteration by pipeline stage" : "The iteration",
      fmt::format("{} Above in each row: passes of microbatches; below: communication. Where passes are narrower "
                  "than a pixel, columns show shares of time.",
                  has_stages ? "The first rank of each stage, all microbatches."
                             : "All microbatches, on ranks that represent the others."),
      std::nullopt)};
  const std::vector<planner::TimeInterval> windows = legible_windows(chart);
  if (windows.size() != 2) return out;
  out.push_back(pipeline_figure(chart, "timeline_begin", "Its beginning",
                                "Numbers are those of the microbatches, from 0.", windows.front()));
  out.push_back(pipeline_figure(chart, "timeline_end", "Its end", "", windows.back()));
  return out;
}

Figure memory_figure(const PlanView& view) {
  const Bytes capacity = view.explanation.plan.cluster.memory_per_rank();
  BarChart chart{.bars = {}, .least = 0, .most = in_gib(capacity), .axis = "GiB per GPU"};
  for (std::size_t s = 0; s < view.memory.size(); ++s) {
    const MemoryUse& m = view.memory[s];
    Bar bar{.label = view.memory.size() == 1 ? "fullest GPU" : fmt::format("stage {}", s),
            .value = gib(m.total()),
            .parts = {}};
    double at = 0;
    for (const MemoryPart& p : kMemoryParts) {
      const double size = in_gib(m.*p.bytes);
      if (size > 0) bar.parts.push_back({at, at + size, p.style, fmt::format("{}: {}", p.name, human(m.*p.bytes))});
      at += size;
    }
    chart.most = std::max(chart.most, at);
    chart.bars.push_back(std::move(bar));
  }
  for (const MemoryPart& p : kMemoryParts) {
    const bool occurs =
        std::any_of(view.memory.begin(), view.memory.end(), [&](const MemoryUse& m) { return m.*p.bytes > Bytes(0); });
    if (occurs) chart.keys.emplace_back(p.style, p.name);
  }
  chart.most = axis_end(chart.most);
  chart.limit = BarLimit{in_gib(capacity), fmt::format("capacity {}", human(capacity))};
  return make_figure("memory", "Memory by pipeline stage", "The fullest GPU of each stage, against what a GPU has.",
                     [&](double width) { return draw_bars(chart, width); });
}

Figure path_figure(const PlanView& view) {
  const Explanation& e = view.explanation;
  const double all = e.path.time.seconds().value(), bound = e.prediction.estimate.lower_bound.value();
  BarChart chart{.bars = {}, .least = 0, .most = axis_end(all), .tick = time_tick, .axis = "time on the critical path"};
  chart.is_joined = true;
  double at = 0;
  for (const PathClass& c : e.path.classes) {
    const double time = c.time.seconds().value();
    const std::string name(class_phrase(c.op_class));
    const char* style = c.op_class == OpClass::Host ? "other" : communicates(view, c.op_class) ? "exposed" : "forward";
    chart.bars.push_back({.label = name,
                          .value = fmt::format("{}  {:>5.1f}%", human(c.time.seconds()), 100 * time / all),
                          .parts = {{at, at + time, style, fmt::format("{}: {}", name, human(c.time.seconds()))}}});
    at += time;
  }
  chart.bars.push_back({.label = "iteration",
                        .value = fmt::format("{}  100.0%", human(e.path.time.seconds())),
                        .parts = {{0, at, "other", ""}},
                        .is_bold = true});
  chart.bars.push_back({.label = "lower bound",
                        .value = fmt::format("{}  {:>5.1f}%", human(Seconds(bound)), 100 * bound / all),
                        .parts = {{0, bound, "good", "no order of these operations can take less"}}});
  chart.keys = {{"forward", "computation"}, {"exposed", "communication"}};
  const bool has_host = std::any_of(e.path.classes.begin(), e.path.classes.end(),
                                    [](const PathClass& c) { return c.op_class == OpClass::Host; });
  if (has_host) chart.keys.emplace_back("other", "launches by the host");
  return make_figure("critical_path", "Where the time goes",
                     "The chain of operations that determines the length of the iteration, by class. Shortening "
                     "anything that is not on it gains nothing.",
                     [&](double width) { return draw_bars(chart, width); });
}

Figure sensitivity_figure(const PlanView& view) {
  BarChart chart{.bars = {}, .least = 0, .most = 0, .tick = percent_tick, .axis = "shorter iteration"};
  for (const planner::Sensitivity& s : view.explanation.sensitivities) {
    chart.least = std::min(chart.least, s.gain);
    chart.most = std::max(chart.most, s.gain);
    chart.bars.push_back(
        {.label = fmt::format("{} {}", s.resource.name, s.resource.change),
         .value = fmt::format("{}  {:>5.2f}%", human(s.makespan.seconds()), 100 * s.gain),
         .parts = {{0, s.gain, s.gain >= 0 ? "good" : "exposed",
                    fmt::format("{} {}: {}", s.resource.name, s.resource.change, human(s.makespan.seconds()))}}});
  }
  chart.most = std::max(axis_end(chart.most), 0.01);
  chart.least *= 1.06;
  return make_figure("sensitivities", "What better hardware would give",
                     "This plan simulated again with each resource of the machine a tenth better, one at a time.",
                     [&](double width) { return draw_bars(chart, width); });
}

std::optional<Figure> alternatives_figure(const PlanView& view) {
  const std::vector<planner::LayerPoint>& points = view.explanation.layer_points;
  if (points.empty()) return std::nullopt;
  std::vector<const planner::LayerPoint*> sorted;
  for (const planner::LayerPoint& p : points) sorted.push_back(&p);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto* a, const auto* b) { return a->makespan < b->makespan; });
  BarChart chart{.bars = {}, .least = 0, .most = 0, .tick = time_tick, .axis = "one MoE layer, forward and backward"};
  const SimTime own = points.front().makespan;
  const double longest_drawn = 4 * own.seconds().value();  // much slower ones would hide the differences of the others
  for (const planner::LayerPoint* p : sorted) {
    const double time = p->makespan.seconds().value();
    const bool is_plan = p == &points.front();
    chart.most = std::max(chart.most, std::min(time, longest_drawn));
    chart.bars.push_back({.label = p->name,
                          .value = fmt::format("{}  {:>+6.1f}%", human(p->makespan.seconds()),
                                               100 * (p->makespan.seconds() / own.seconds() - 1)),
                          .parts = {{0, time, is_plan ? "good" : "other", ""}},
                          .is_bold = is_plan});
  }
  const bool has_cut = sorted.back()->makespan.seconds().value() > longest_drawn;
  if (!has_cut) chart.most = axis_end(chart.most);
  return make_figure("layer_alternatives", "One MoE layer under other parallelisations and schedules",
                     fmt::format("The layer simulated alone, whether or not it fits in memory.{}",
                                 has_cut ? " Bars are cut at four times the plan's time." : ""),
                     [&](double width) { return draw_bars(chart, width); });
}

}  // namespace moeplan::cli
