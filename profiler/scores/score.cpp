#include "profiler/scores/score.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>

#include "profiler/statistics.hpp"

namespace moeplan::profiler {

Prediction refused(std::string reason) { return {.time = {}, .reason = std::move(reason), .library = ""}; }

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
  const auto n = static_cast<double>(errors.size());
  s.bias /= n;
  s.mape = std::accumulate(errors.begin(), errors.end(), 0.0) / n;
  s.p90 = p90(errors);
  s.worst = *std::max_element(errors.begin(), errors.end());
  s.median = median(std::move(errors));
  return s;
}

std::vector<ScoredGroup> score_groups(std::span<const ScoredRow> rows) {
  std::map<std::string, std::vector<ScoredRow>> by_name;
  for (const ScoredRow& row : rows) {
    for (const std::string& group : row.groups) by_name[group].push_back(row);
  }
  std::vector<ScoredGroup> out;
  for (const auto& [name, all] : by_name) {
    std::vector<ScoredRow> held_out;
    std::copy_if(all.begin(), all.end(), std::back_inserter(held_out), [](const ScoredRow& r) { return !r.is_fitted; });
    out.push_back({name, summarise(all), summarise(held_out)});
  }
  return out;
}

}  // namespace moeplan::profiler
