#include "profiler/operator_score.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "profiler/operator_prediction.hpp"
#include "profiler/statistics.hpp"

namespace moeplan::profiler {

namespace {

constexpr double kLeastFlops = 1e8;  // smaller products measure the launch; they are scored, but in no group

ScoredRow scored(const OperatorRow& row, std::size_t index, const ModelsByGpu& models) {
  const auto gpu = models.find(row.gpu);
  if (gpu == models.end()) {
    return {.row = index,
            .measured = row.time,
            .predicted = {},
            .reason = fmt::format("configs/operators has no file of {}", row.gpu),
            .library = ""};
  }
  const Prediction p = prediction_of(row, gpu->second);
  return {.row = index,
          .measured = row.time,
          .predicted = p.time,
          .reason = p.reason,
          .library = p.library,
          .is_fitted = p.is_fitted};
}

}  // namespace

ErrorSummary summarise(std::span<const ScoredRow> rows) {
  ErrorSummary s{.rows = rows.size()};
  std::vector<double> errors;
  for (const ScoredRow& r : rows) {
    if (!r.predicted) continue;
    errors.push_back(std::abs(r.error()));
    s.bias += std::log(*r.predicted / r.measured);
  }
  s.scored = errors.size();
  s.refused = s.rows - s.scored;
  if (errors.empty()) return s;
  std::sort(errors.begin(), errors.end());
  const auto n = static_cast<double>(errors.size());
  s.bias /= n;
  s.mape = std::accumulate(errors.begin(), errors.end(), 0.0) / n;
  s.p90 = errors[(errors.size() - 1) * 9 / 10];
  s.worst = errors.back();
  s.median = median(std::move(errors));
  return s;
}

std::vector<ScoredRow> score_operators(std::span<const OperatorRow> table, const ModelsByGpu& models) {
  std::vector<ScoredRow> out;
  for (std::size_t i = 0; i < table.size(); ++i) out.push_back(scored(table[i], i, models));
  return out;
}

std::vector<ScoredGroup> score_groups(std::span<const OperatorRow> table, std::span<const ScoredRow> scored) {
  std::map<std::string, std::vector<ScoredRow>> by_name;
  for (const ScoredRow& s : scored) {
    const OperatorRow& row = table[s.row];
    const double flops = flops_of(row);
    if (flops > 0 && flops < kLeastFlops) continue;
    by_name[fmt::format("{} {} {} {} {}", row.kind, row.gpu, row.format, row.phase, s.library)].push_back(s);
  }
  std::vector<ScoredGroup> out;
  for (const auto& [name, rows] : by_name) {
    std::vector<ScoredRow> held_out;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(held_out),
                 [](const ScoredRow& r) { return !r.is_fitted; });
    out.push_back({name, summarise(rows), summarise(held_out)});
  }
  return out;
}

}  // namespace moeplan::profiler
