// The figures of operations: layer_figure(), roofline_figure(), and candidates_figure().
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "cli/pages/figures/scatter_chart.hpp"
#include "cli/pages/figures/stream_chart.hpp"
#include "cli/pages/page_parts.hpp"
#include "cli/pages/reports/plan_figures.hpp"
#include "model/costs/compute.hpp"

namespace moeplan::cli {

namespace {

const char* stream_style(const Operation& op) {
  if (std::holds_alternative<Launches>(op.work)) return "runtime";
  if (!op.computes()) return "exposed";
  const bool is_products = std::holds_alternative<Gemm>(op.work) || std::holds_alternative<AttentionCore>(op.work) ||
                           std::holds_alternative<FusedProducts>(op.work);
  return is_products ? "forward" : "optimizer";
}

bool is_shown(const Operation& op) {
  return !std::holds_alternative<Receive>(op.work) && !std::holds_alternative<Wait>(op.work);
}

/// The block of a direction that is executed most often on the rank, one with a dispatch if there is any.
std::optional<BlockId> usual_block(const Program& program, const Timeline& timeline, RankId rank, bool backward) {
  std::map<BlockId, std::int64_t> executions;
  for (const TimelineSpan& s : timeline.spans) {
    if (s.rank == rank && s.operation == 0) executions[s.block] += timeline.occurrences(s);
  }
  std::optional<BlockId> best;
  std::tuple<bool, std::int64_t> best_rank{false, 0};
  for (const auto& [id, count] : executions) {
    const Block& block = program.blocks[id.index()];
    if (block.backward_of.has_value() != backward) continue;
    const bool dispatches = std::any_of(block.operations.begin(), block.operations.end(),
                                        [](const Operation& op) { return op.op_class == OpClass::Dispatch; });
    if (const std::tuple of_block{dispatches, count}; of_block > best_rank) {
      best = id;
      best_rank = of_block;
    }
  }
  return best;
}

/// The spans of one execution of a block on a rank, in the middle of those recorded: warm-up and end are different.
std::vector<TimelineSpan> one_execution(const Timeline& timeline, RankId rank, BlockId block) {
  std::map<std::int32_t, std::vector<TimelineSpan>> by_operation;
  for (const TimelineSpan& s : timeline.spans) {
    if (s.rank == rank && s.block == block) by_operation[s.operation].push_back(s);
  }
  std::vector<TimelineSpan> out;
  for (const auto& [operation, spans] : by_operation) out.push_back(spans[spans.size() / 2]);
  return out;
}

StreamPanel panel_of(const Program& program, const std::vector<TimelineSpan>& spans, BlockId block) {
  SimTime begin = spans.front().start, end = spans.front().end;
  for (const TimelineSpan& s : spans) {
    begin = std::min(begin, s.start);
    if (!is_background(program.operation(block, s.operation).stream)) end = std::max(end, s.end);
  }
  StreamPanel panel{.title = fmt::format("{}: {}", program.blocks[block.index()].name, human((end - begin).seconds())),
                    .rows = {}};
  std::map<Stream, StreamRow> rows;
  for (const TimelineSpan& s : spans) {
    const Operation& op = program.operation(block, s.operation);
    if (!is_shown(op) || s.end == s.start || s.start >= end) continue;
    StreamRow& row = rows[op.stream];
    row.label = std::string(kStreamNames[static_cast<std::size_t>(op.stream)].second);
    row.spans.push_back({.from = (s.start - begin).seconds().value(),
                         .to = (std::min(s.end, end) - begin).seconds().value(),
                         .label = op.name,
                         .style = stream_style(op),
                         .tip = fmt::format("{}: {}", op.name, human((s.end - s.start).seconds()))});
  }
  for (auto& [stream, row] : rows) panel.rows.push_back(std::move(row));
  return panel;
}

/// The ceilings of a roofline: bandwidth of HBM up to each peak, as lines over the plotted range.
std::vector<ScatterLine> ceilings(const GpuSpec& gpu, Dtype dtype, double fastest, const Scale& x) {
  std::map<double, std::string> peaks;  // by FLOP/s
  for (const auto& [format, peak] : gpu.peak) {
    if (format != dtype && (peak < peak_rate(gpu, dtype) || fastest <= peak_rate(gpu, dtype).value())) continue;
    std::string& name = peaks[peak.value()];
    name += fmt::format("{}{}", name.empty() ? "" : ", ", name_of<Dtype>(kDtypeNames, format));
  }
  const double bandwidth = gpu.hbm_bandwidth.value();
  std::vector<ScatterLine> out;
  for (const auto& [peak, name] : peaks) {
    const double ridge = peak / bandwidth;
    std::vector<std::pair<double, double>> points;
    if (ridge > x.least) points.emplace_back(x.least, bandwidth * x.least);
    if (ridge < x.most) {
      points.emplace_back(std::max(ridge, x.least), peak);
      points.emplace_back(x.most, peak);
    } else {
      points.emplace_back(x.most, bandwidth * x.most);
    }
    out.push_back({std::move(points), "l-muted thick", fmt::format("{} peak {}", name, human(FlopsPerSecond(peak)))});
  }
  return out;
}

}  // namespace

Figure layer_figure(const PlanView& view) {
  const planner::Prediction& p = view.explanation.prediction;
  const RankId rank = p.timeline.recorded(p.binding.rank);
  StreamChart chart{.panels = {},
                    .keys = {{"forward", "matrix products, attention"},
                             {"optimizer", "memory-bound kernels"},
                             {"exposed", "communication"},
                             {"runtime", "host launches"}}};
  for (const bool backward : {false, true}) {
    const std::optional<BlockId> block = usual_block(p.program, p.timeline, rank, backward);
    if (block) chart.panels.push_back(panel_of(p.program, one_execution(p.timeline, rank, *block), *block));
  }
  return make_figure("layer", "One layer on the streams of a GPU",
                     fmt::format("The most frequent layer of rank {}: what runs concurrently. Streams without "
                                 "operations in it are left out.",
                                 p.binding.rank.value()),
                     [&](double width) { return draw_streams(chart, width); });
}

std::vector<KernelRow> kernels_of(const PlanView& view) {
  const Explanation& e = view.explanation;
  std::map<std::tuple<std::string, double, double>, KernelRow> kernels;
  std::map<std::tuple<std::string, double, double>, double> executions;
  for (const OperationRow& row : e.operations) {
    if (row.flops <= 0 || row.bytes <= 0) continue;
    const std::string& name = e.prediction.program.operation(row.block, row.operation).name;
    const std::tuple key{name, row.flops, static_cast<double>(row.bytes)};
    KernelRow& k = kernels[key];
    k.name = name;
    k.flops = row.flops;
    k.bytes = static_cast<double>(row.bytes);
    k.total += row.time;
    executions[key] += static_cast<double>(row.executions);
  }
  std::vector<KernelRow> out;
  for (auto& [key, k] : kernels) {
    k.each = k.total / executions[key];
    out.push_back(k);
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.total > b.total; });
  return out;
}

Figure roofline_figure(const PlanView& view, const std::vector<KernelRow>& kernels) {
  constexpr std::size_t kNumbered = 12;
  const GpuSpec& gpu = view.explanation.plan.cluster.gpu;
  const Dtype dtype = view.explanation.plan.inputs.workload.dtype;
  const double ridge = peak_rate(gpu, dtype).value() / gpu.hbm_bandwidth.value();
  std::vector<double> intensities{ridge}, rates{peak_rate(gpu, dtype).value()};
  ScatterChart chart{.x = {}, .y = {}, .x_title = "FLOPs per byte of HBM traffic", .y_title = "FLOP/s of the kernel"};
  chart.y_tick = flops_tick;
  double longest = 0, fastest = 0;
  for (const KernelRow& k : kernels) longest = std::max(longest, k.total.value());
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const KernelRow& k = kernels[i];
    const double x = k.flops / k.bytes, y = k.flops / k.each.value();
    intensities.push_back(x);
    rates.push_back(y);
    fastest = std::max(fastest, y);
    chart.points.push_back({.x = x,
                            .y = y,
                            .style = "c0",
                            .radius = 3 + 9 * std::sqrt(k.total.value() / longest),
                            .label = i < kNumbered ? fmt::format("{}", i + 1) : "",
                            .tip = fmt::format("{}: {}, {} in all", k.name, human(FlopsPerSecond(y)), human(k.total))});
  }
  if (fastest > rates.front()) {
    for (const auto& [format, peak] : gpu.peak) rates.push_back(std::max(peak.value(), rates.front()));
  }
  chart.x = scale_over(intensities, true);
  chart.x.most *= 2;
  chart.y = scale_over(rates, true);
  chart.y.most *= 1.2;
  chart.lines = ceilings(gpu, dtype, fastest, chart.x);
  for (ScatterLine& line : chart.lines) {  // within the axes
    if (line.points.front().second < chart.y.least) {
      const double bandwidth = gpu.hbm_bandwidth.value();
      line.points.front() = {chart.y.least / bandwidth, chart.y.least};
    }
  }
  return make_figure(
      "roofline", "Roofline of the kernels",
      "Kernels with FLOPs on the binding rank; areas are their time in an iteration, numbers those of the table. Bytes "
      "are those of the operands, so kernels that keep them in cache may lie above the slope, which is the HBM "
      "bandwidth.",
      [&](double width) { return draw_scatter(chart, width); });
}

std::optional<Figure> candidates_figure(const PlanView& view) {
  if (!view.search || view.search->ranked.empty()) return std::nullopt;
  const Explanation& e = view.explanation;
  std::vector<std::pair<double, double>> all;
  for (const planner::Evaluated& c : view.search->ranked) {
    const Seconds time = c.makespan ? c.makespan->seconds() : c.estimate.closed_form;
    all.emplace_back(time.value(), in_gib(c.memory.total()));
  }
  const std::pair own{e.prediction.makespan.seconds().value(), in_gib(e.prediction.memory.total())};
  std::vector<std::pair<double, double>> sorted = all, front;
  sorted.push_back(own);
  std::sort(sorted.begin(), sorted.end());
  for (const auto& point : sorted) {
    if (front.empty() || point.second < front.back().second) front.push_back(point);
  }
  const double slowest = 3 * sorted.front().first;  // slower ones are of no interest
  std::vector<double> times{own.first}, sizes{own.second, in_gib(e.plan.cluster.memory_per_rank())};
  ScatterChart chart{.x = {}, .y = {}, .x_title = "time of an iteration", .y_title = "memory of the fullest GPU, GiB"};
  chart.x_tick = time_tick;
  for (const auto& [time, memory] : all) {
    if (time > slowest) continue;
    times.push_back(time);
    sizes.push_back(memory);
    chart.points.push_back({.x = time, .y = memory, .style = "other", .radius = 3});
  }
  std::erase_if(front, [&](const auto& p) { return p.first > slowest; });
  chart.points.push_back({.x = own.first, .y = own.second, .style = "good", .radius = 6});
  chart.lines = {{front, "l-forward thick", ""}};
  chart.keys = {{"good", "this plan"}, {"forward", "Pareto front"}, {"other", "other candidates"}};
  chart.x = scale_over(times, false);
  chart.y = scale_over(sizes, false);
  chart.y.least = 0;
  const double capacity = in_gib(e.plan.cluster.memory_per_rank());
  chart.lines.push_back({{{chart.x.least, capacity}, {chart.x.most, capacity}}, "l-mark dash", "capacity of a GPU"});
  return make_figure("candidates", "Memory and time of all candidates",
                     "Feasible candidates of a search over all degrees and schedules; simulated times where there are "
                     "any, closed forms for the others. Those more than three times as slow are left out.",
                     [&](double width) { return draw_scatter(chart, width); });
}

}  // namespace moeplan::cli
