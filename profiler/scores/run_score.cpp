#include "profiler/scores/run_score.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "profiler/statistics.hpp"

namespace moeplan::profiler {

namespace {

/// A row of a group with a time and a prediction, both in seconds a token and GPU.
struct Point {
  std::size_t row;
  double measured, predicted;
};

std::vector<Point> points_of(const std::vector<std::size_t>& rows, std::span<const ScoredRun> scored) {
  std::vector<Point> out;
  for (const std::size_t r : rows) {
    const ScoredRun& s = scored[r];
    if (!s.has_error()) continue;
    const double factor = s.seconds_per_token_and_gpu > 0 ? s.seconds_per_token_and_gpu : 1;
    out.push_back({r, s.measured->value() * factor, s.predicted->value() * factor});
  }
  return out;
}

/// Ranks from 0; equal values share the mean of theirs.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> out(values.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (std::size_t k = i; k < end; ++k) out[order[k]] = static_cast<double>(i + end - 1) / 2;
    i = end;
  }
  return out;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Pearson's correlation; none if one of the two is constant.
std::optional<double> correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const double mean_a = mean(a), mean_b = mean(b);
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  if (aa <= 0 || bb <= 0) return std::nullopt;
  return ab / std::sqrt(aa * bb);
}

void rank(const std::vector<Point>& points, RunGroup& out) {
  if (points.size() < 2) return;
  std::vector<double> measured, predicted;
  for (const Point& p : points) {
    measured.push_back(p.measured);
    predicted.push_back(p.predicted);
  }
  out.spearman = correlation(ranks_of(measured), ranks_of(predicted));
  const auto chosen =
      static_cast<std::size_t>(std::min_element(predicted.begin(), predicted.end()) - predicted.begin());
  out.regret = measured[chosen] / *std::min_element(measured.begin(), measured.end()) - 1;
}

void slope(const std::vector<Point>& points, std::span<const ScoredRun> scored, RunGroup& out) {
  std::vector<double> counts, measured, predicted;
  for (const Point& p : points) {
    const ScoredRun& s = scored[p.row];
    if (!s.microbatches) continue;
    counts.push_back(static_cast<double>(*s.microbatches));
    measured.push_back(s.measured->value());
    predicted.push_back(s.predicted->value());
  }
  if (counts.size() < 2) return;
  const auto slope_of = [&](const std::vector<double>& times) -> std::optional<Seconds> {
    const double mean_count = mean(counts), mean_time = mean(times);
    double product = 0, square = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      product += (counts[i] - mean_count) * (times[i] - mean_time);
      square += (counts[i] - mean_count) * (counts[i] - mean_count);
    }
    if (square <= 0) return std::nullopt;
    return Seconds(product / square);
  };
  out.measured_slope = slope_of(measured);
  out.predicted_slope = slope_of(predicted);
}

void repeat(const std::vector<std::size_t>& rows, std::span<const ScoredRun> scored, RunGroup& out) {
  std::vector<double> times;
  for (const std::size_t r : rows) {
    if (scored[r].measured) times.push_back(scored[r].measured->value());
  }
  if (times.size() < 2) return;
  out.spread = *std::max_element(times.begin(), times.end()) / *std::min_element(times.begin(), times.end()) - 1;
  const double middle = median(times);
  std::vector<double> errors;
  for (const double t : times) errors.push_back(std::abs(middle / t - 1));
  out.least_mape = mean(errors);
}

void fit(const std::vector<std::size_t>& rows, std::span<const RunRow> table, std::span<const ScoredRun> scored,
         RunGroup& out) {
  std::size_t right = 0;
  for (const std::size_t r : rows) {
    if (scored[r].status == RunStatus::Refused) continue;
    const bool fits = scored[r].status == RunStatus::Ok;
    if (fits == (table[r].outcome == RunOutcome::Ok)) ++right;
  }
  out.right = right;
}

void changes(const std::vector<Point>& points, std::span<const RunRow> table, bool is_ladder, RunGroup& out) {
  for (std::size_t i = 1; i < points.size(); ++i) {
    const Point &from = is_ladder ? points[i - 1] : points[0], &to = points[i];
    out.changes.push_back(
        {table[from.row].id, table[to.row].id, to.measured / from.measured - 1, to.predicted / from.predicted - 1});
  }
}

}  // namespace

std::vector<const ScoredRun*> farthest_off(std::span<const ScoredRun> rows, std::size_t most) {
  std::vector<const ScoredRun*> out;
  for (const ScoredRun& r : rows) {
    if (r.has_error()) out.push_back(&r);
  }
  const auto off = [](const ScoredRun* r) { return std::abs(std::log(*r->predicted / *r->measured)); };
  std::stable_sort(out.begin(), out.end(), [&](const ScoredRun* a, const ScoredRun* b) { return off(a) > off(b); });
  out.resize(std::min(most, out.size()));
  return out;
}

std::vector<ScoredRun> with_stated_work(std::span<const RunRow> table, std::span<const ScoredRun> scored) {
  std::vector<ScoredRun> out;
  for (const ScoredRun& run : scored) {
    if (table[run.row].states_its_work()) out.push_back(run);
  }
  return out;
}

RunSummary summarise(std::span<const ScoredRun> rows) {
  RunSummary s{.rows = rows.size()};
  std::vector<double> errors, memory_errors;
  for (const ScoredRun& r : rows) {
    if (r.status == RunStatus::Refused) ++s.refused;
    if (r.status == RunStatus::Infeasible) ++s.infeasible;
    if (r.has_error()) {
      errors.push_back(std::abs(r.error()));
      s.bias += std::log(*r.predicted / *r.measured);
    }
    if (r.measured_memory && r.predicted_memory) {
      memory_errors.push_back(std::abs(*r.predicted_memory / *r.measured_memory - 1));
      s.memory_bias += std::log(*r.predicted_memory / *r.measured_memory);
    }
  }
  s.scored = errors.size();
  s.memory_rows = memory_errors.size();
  if (!memory_errors.empty()) {
    s.memory_mape = mean(memory_errors);
    s.memory_p90 = p90(memory_errors);
    s.memory_bias /= static_cast<double>(memory_errors.size());
  }
  if (errors.empty()) return s;
  s.bias /= static_cast<double>(errors.size());
  s.mape = mean(errors);
  s.p90 = p90(errors);
  s.worst = *std::max_element(errors.begin(), errors.end());
  s.median = median(std::move(errors));
  return s;
}

bool RunChange::has_right_sign() const {
  if (std::abs(measured) < kNoise) return std::abs(predicted) < 2 * kNoise;
  return measured * predicted > 0;
}

std::vector<RunGroup> score_run_groups(std::span<const RunRow> table, std::span<const ScoredRun> scored) {
  std::map<std::string, std::vector<std::size_t>> by_name;
  for (std::size_t i = 0; i < scored.size(); ++i) {
    for (const std::string& name : table[scored[i].row].groups) by_name[name].push_back(i);
  }
  std::vector<RunGroup> out;
  for (const auto& [name, rows] : by_name) {
    const std::vector<Point> points = points_of(rows, scored);
    RunGroup g{.name = name, .kind = name.substr(0, name.find(':')), .rows = rows.size(), .scored = points.size()};
    if (g.kind == "delta" || g.kind == "scaling") changes(points, table, /*is_ladder=*/false, g);
    if (g.kind == "ladder") changes(points, table, /*is_ladder=*/true, g);
    if (g.kind == "rank") rank(points, g);
    if (g.kind == "slope") slope(points, scored, g);
    if (g.kind == "repeat") repeat(rows, scored, g);
    if (g.kind == "fit") fit(rows, table, scored, g);
    out.push_back(std::move(g));
  }
  return out;
}

std::vector<RunClass> score_run_classes(std::span<const RunRow> table, std::span<const ScoredRun> scored) {
  std::map<std::pair<std::string, std::string>, std::vector<ScoredRun>> by_class;
  for (const ScoredRun& s : scored) by_class[{table[s.row].cluster, table[s.row].precision}].push_back(s);
  std::vector<RunClass> out;
  for (const auto& [key, rows] : by_class) out.push_back({key.first, key.second, summarise(rows)});
  return out;
}

}  // namespace moeplan::profiler
