#include "cli/pages/figures/pipeline_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/pages/figures/bar_chart.hpp"
#include "cli/pages/figures/figure.hpp"
#include "cli/pages/figures/scale.hpp"

namespace moeplan::cli {

namespace {

using planner::RankTimeline;
using planner::TimedTask;
using planner::TimeInterval;

constexpr double kNumbered = 20;  // pixels of a pass that shows its number

double seconds_of(SimTime t) { return t.seconds().value(); }

/// Mean time of a pass; 0 if there is none.
double mean_pass(const PipelineChart& chart) {
  double sum = 0, count = 0;
  for (const RankTimeline& row : chart.rows) {
    for (const TimedTask& t : row.tasks) sum += seconds_of(t.time.end - t.time.start);
    count += static_cast<double>(row.tasks.size());
  }
  return count > 0 ? sum / count : 0;
}

class PipelineDrawing {
 public:
  PipelineDrawing(const PipelineChart& chart, double width, const TimeInterval& window)
      : chart_(chart), window_(window), canvas_(width) {
    double labels = 0;
    for (const std::string& l : chart.labels) labels = std::max(labels, text_width(l));
    has_shares_ = !is_narrow(width);
    x_ = {.is_logarithmic = false,
          .least = seconds_of(window.start),
          .most = seconds_of(window.end),
          .from = labels + 8,
          .to = width - (has_shares_ ? 76 : 2)};
    const std::size_t rows = chart.rows.size();
    row_ = rows <= 2 ? 64 : rows <= 4 ? 48 : rows <= 20 ? 28 : rows <= 40 ? 20 : 14;
    step_ = rows > 40 ? 2 : 1;
  }

  Canvas drawn() {
    double y = draw_keys(canvas_, keys(), 0) + 4;
    if (has_shares_) {
      canvas_.text(canvas_.width(), y + 8, "end", "computing", "m s");
      y += 14;
    }
    const double height = row_ * static_cast<double>(chart_.rows.size());
    const double below = draw_x_axis(canvas_, x_, y + height, height, time_tick, "time");
    for (std::size_t i = 0; i < chart_.rows.size(); ++i) draw_row(i, y + row_ * static_cast<double>(i));
    canvas_.set_height(below);
    return std::move(canvas_);
  }

 private:
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> keys() const {
    const auto has = [&](auto part) {
      return std::any_of(chart_.rows.begin(), chart_.rows.end(), [&](const RankTimeline& r) {
        return std::any_of((r.*part).begin(), (r.*part).end(), [&](const TimeInterval& i) { return is_visible(i); });
      });
    };
    std::vector<std::pair<std::string, std::string>> out;
    if (has(&RankTimeline::forward)) out.emplace_back("forward", "forward");
    if (has(&RankTimeline::backward)) out.emplace_back("backward", "backward");
    if (has(&RankTimeline::other)) out.emplace_back("other", "optimizer");
    if (has(&RankTimeline::exposed)) out.emplace_back("exposed", "communication, exposed");
    if (has(&RankTimeline::hidden)) out.emplace_back("hidden", "communication, hidden by computation");
    out.emplace_back("lane", "idle");
    return out;
  }

  [[nodiscard]] bool is_visible(const TimeInterval& i) const { return i.end > window_.start && i.start < window_.end; }
  [[nodiscard]] double pixel(SimTime t) const {
    return x_.pixel(seconds_of(std::clamp(t, window_.start, window_.end)));
  }

  /// Intervals as one path, joined where their gaps cannot be seen.
  void draw_intervals(const std::vector<TimeInterval>& intervals, const char* name, double y, double height) {
    constexpr double kGap = 0.35;  // pixels
    const double seconds = (x_.most - x_.least) * kGap / (x_.to - x_.from);
    std::string data;
    for (const TimeInterval& i : planner::joined_intervals(intervals, SimTime::from_seconds(Seconds(seconds)))) {
      if (!is_visible(i)) continue;
      const double from = pixel(i.start);
      data += path_rectangle(from, y, std::max(pixel(i.end) - from, 0.3), height);
    }
    canvas_.path(data, fmt::format("f-{}", name));
  }

  using LanePart = std::pair<const std::vector<TimeInterval>*, const char*>;

  /// The parts of a lane as shares of time: columns of some pixels, divided by how long each part takes in them.
  void draw_shares(const std::vector<LanePart>& parts, double y, double height) {
    constexpr double kColumn = 3;  // pixels
    const auto columns = static_cast<std::size_t>(std::ceil((x_.to - x_.from) / kColumn));
    std::vector<double> tops(columns, y + height);
    std::vector<std::vector<double>> all_tops;  // after each part
    for (const auto& [intervals, name] : parts) {
      std::vector<double> filled(columns, 0.0);  // pixels of each column
      for (const TimeInterval& i : *intervals) {
        if (!is_visible(i)) continue;
        const double from = pixel(i.start) - x_.from, to = pixel(i.end) - x_.from;
        for (auto c = static_cast<std::size_t>(from / kColumn); c < columns; ++c) {
          const double left = kColumn * static_cast<double>(c);
          if (left >= to) break;
          filled[c] += std::min(to, left + kColumn) - std::max(from, left);
        }
      }
      for (std::size_t c = 0; c < columns; ++c) {
        const double w = std::min(kColumn, x_.to - x_.from - kColumn * static_cast<double>(c));
        tops[c] -= std::round(2 * height * std::min(filled[c] / w, 1.0)) / 2;
      }
      all_tops.push_back(tops);
    }
    // Each part from the bottom up, and those below it over it: one outline a part.
    for (std::size_t part = parts.size(); part-- > 0;)
      canvas_.path(outline(all_tops[part], kColumn, y + height), fmt::format("f-{}", parts[part].second));
  }

  /// The area between a floor and the tops of columns, as a path; "" if there is none.
  [[nodiscard]] std::string outline(const std::vector<double>& tops, double column, double floor) const {
    if (std::all_of(tops.begin(), tops.end(), [&](double top) { return top >= floor; })) return "";
    std::string data = fmt::format("M{:.2f} {:.2f}", x_.from, floor);
    for (std::size_t c = 0; c < tops.size();) {
      std::size_t end = c + 1;
      while (end < tops.size() && tops[end] == tops[c]) ++end;
      data += fmt::format("V{:.2f}H{:.2f}", tops[c], std::min(x_.to, x_.from + column * static_cast<double>(end)));
      c = end;
    }
    return data + fmt::format("V{:.2f}z", floor);
  }

  void draw_tasks(const RankTimeline& row, bool forward, double y, double height) {
    std::string data;
    for (const TimedTask& t : row.tasks) {
      if (t.task.forward != forward || !is_visible(t.time)) continue;
      const double from = pixel(t.time.start), w = pixel(t.time.end) - from;
      data += path_rectangle(from, y, w - std::min(1.0, 0.15 * w), height);
    }
    canvas_.path(data, forward ? "f-forward" : "f-backward");
    if (height < 11) return;
    for (const TimedTask& t : row.tasks) {
      if (t.task.forward != forward || !is_visible(t.time)) continue;
      const double from = pixel(t.time.start), to = pixel(t.time.end);
      const std::string number = fmt::format("{}", t.task.microbatch);
      if (text_width(number, 11) + 3 <= to - from)
        canvas_.text((from + to) / 2, y + height / 2 + 4, "middle", number, forward ? "s on" : "s on-light");
    }
  }

  void draw_passes(const RankTimeline& row, double y, double height) {
    if (row.tasks.empty()) {
      draw_intervals(row.forward, "forward", y, height);
      draw_intervals(row.backward, "backward", y, height);
    } else {
      draw_tasks(row, /*forward=*/true, y, height);
      draw_tasks(row, /*forward=*/false, y, height);
    }
    draw_intervals(row.other, "other", y, height);
  }

  void draw_row(std::size_t i, double y) {
    constexpr double kLeastPass = 1.2;  // pixels; of narrower ones the shares of time are drawn
    const RankTimeline& row = chart_.rows[i];
    const double gap = row_ > 20 ? 4 : 2, height = row_ - gap;
    const double compute = 0.72 * height, below = y + compute + 1, communication = height - compute - 1;
    canvas_.rectangle(x_.from, y, x_.to - x_.from, compute, "f-lane");
    canvas_.rectangle(x_.from, below, x_.to - x_.from, communication, "f-lane");
    if (i % step_ == 0) canvas_.text(0, y + height / 2 + 4, "start", chart_.labels[i], row_ < 24 ? "s" : "");
    const double pass = mean_pass(chart_) * (x_.to - x_.from) / (x_.most - x_.least);
    if (!row.tasks.empty() && pass < kLeastPass) {
      draw_shares({{&row.forward, "forward"}, {&row.backward, "backward"}, {&row.other, "other"}}, y, compute);
      draw_shares({{&row.exposed, "exposed"}, {&row.hidden, "hidden"}}, below, communication);
    } else {
      draw_passes(row, y, compute);
      draw_intervals(row.hidden, "hidden", below, communication);
      draw_intervals(row.exposed, "exposed", below, communication);
    }
    if (!has_shares_ || i % step_ != 0) return;
    const SimTime busy =
        row.total(&RankTimeline::forward) + row.total(&RankTimeline::backward) + row.total(&RankTimeline::other);
    canvas_.text(canvas_.width(), y + height / 2 + 4, "end",
                 fmt::format("{:.1f}%", 100 * (busy.seconds() / chart_.makespan.seconds())), row_ < 24 ? "s" : "");
  }

  const PipelineChart& chart_;
  TimeInterval window_;
  Canvas canvas_;
  Scale x_;
  bool has_shares_ = false;
  double row_ = 28;
  std::size_t step_ = 1;  // every so many rows have a label
};

}  // namespace

Canvas draw_pipeline(const PipelineChart& chart, double width, const std::optional<TimeInterval>& window) {
  return PipelineDrawing(chart, width, window.value_or(TimeInterval{SimTime(), chart.makespan})).drawn();
}

std::vector<TimeInterval> legible_windows(const PipelineChart& chart) {
  constexpr double kPlot = 800;  // pixels of a wide figure, less its labels
  const double pass = mean_pass(chart);
  if (pass <= 0 || pass * kPlot / seconds_of(chart.makespan) >= kNumbered) return {};
  const SimTime length = SimTime::from_seconds(Seconds(pass * kPlot / kNumbered));
  if (length + length >= chart.makespan) return {};
  return {{SimTime(), length}, {chart.makespan - length, chart.makespan}};
}

}  // namespace moeplan::cli
