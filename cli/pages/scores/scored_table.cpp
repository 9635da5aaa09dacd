#include "cli/pages/scores/scored_table.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "planner/plan/inputs.hpp"
#include "planner/runs/predict_runs.hpp"
#include "profiler/scores/dispatch_score.hpp"
#include "profiler/scores/operator_score.hpp"

namespace moeplan::cli {

namespace {

/// The models of every file of configs/KIND that rows name in `name`.
template <class Row, class Read>
auto models_of(const std::vector<Row>& table, const std::string& kind, std::string Row::*name, Read read) {
  const std::vector<std::string> known = planner::config_names(kind);
  std::map<std::string, decltype(read(Node()))> out;
  for (const Row& row : table) {
    const bool is_known = std::find(known.begin(), known.end(), row.*name) != known.end();
    if (is_known && !out.contains(row.*name))
      out.emplace(row.*name, read(load_document(planner::find_config(kind, row.*name))));
  }
  return out;
}

template <class Row>
profiler::ModelsByCluster collective_models_of(const std::vector<Row>& table) {
  return models_of(table, "collectives", &Row::cluster, read_collective_models);
}

std::vector<profiler::ScoredRow> scored_rows(profiler::TableKind kind, const std::string& file) {
  switch (kind) {
    case profiler::TableKind::Operators: {
      const std::vector<profiler::OperatorRow> table = profiler::read_operator_table(file);
      return profiler::score_operators(table,
                                       models_of(table, "operators", &profiler::OperatorRow::gpu,
                                                 [](const Node& document) { return read_operator_models(document); }));
    }
    case profiler::TableKind::Runs: break;
    case profiler::TableKind::Collectives: {
      const std::vector<profiler::CollectiveRow> table = profiler::read_collective_table(file);
      return profiler::score_collectives(table, collective_models_of(table));
    }
    case profiler::TableKind::Dispatches: {
      const std::vector<profiler::DispatchRow> table = profiler::read_dispatch_table(file);
      return profiler::score_dispatches(table, collective_models_of(table));
    }
  }
  return {};
}

RunReport run_report_of(const std::string& file, const std::function<void(std::int64_t, std::int64_t)>& progress) {
  RunReport report{.file = file, .table = profiler::read_run_table(file), .rows = {}, .classes = {}, .groups = {}};
  std::mutex mutex;
  report.rows = runs::predict_runs(report.table, {.progress = [&](std::int64_t done, std::int64_t total) {
                                     const std::lock_guard lock(mutex);
                                     if (progress) progress(done, total);
                                   }});
  report.classes = profiler::score_run_classes(report.table, report.rows);
  report.groups = profiler::score_run_groups(report.table, report.rows);
  return report;
}

}  // namespace

profiler::ModelsByCluster cluster_models_of(const std::vector<profiler::CollectiveRow>& table) {
  return collective_models_of(table);
}

ScoreReport scored_table(const std::string& file, const std::function<void(std::int64_t, std::int64_t)>& progress) {
  ScoreReport report{.file = file, .kind = profiler::table_kind(file), .rows = {}, .groups = {}};
  if (report.kind == profiler::TableKind::Runs) {
    report.runs = run_report_of(file, progress);
    return report;
  }
  report.rows = scored_rows(report.kind, file);
  report.groups = profiler::score_groups(report.rows);
  return report;
}

}  // namespace moeplan::cli
