// moeplan score FILE... [--json] [-o OUT.csv] [--markdown PAGE] [--svg FOLDER] [--max-mape PERCENT]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "cli/commands/commands.hpp"
#include "cli/commands/output_files.hpp"
#include "cli/commands/progress.hpp"
#include "cli/pages/scores/accuracy_file.hpp"
#include "cli/pages/scores/score_markdown.hpp"
#include "cli/pages/scores/score_plots.hpp"
#include "cli/pages/scores/score_report.hpp"
#include "model/base/diagnostics.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/runs/predict_runs.hpp"
#include "profiler/scores/collective_score.hpp"
#include "profiler/scores/dispatch_score.hpp"
#include "profiler/scores/operator_score.hpp"

namespace moeplan::cli {

namespace {

struct ScoreOptions {
  std::vector<std::string> files;
  std::string output, page, plots, accuracy;
  std::optional<double> most_mape = {};
  bool json = false, quiet = false;
};

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
profiler::ModelsByCluster cluster_models_of(const std::vector<Row>& table) {
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
      return profiler::score_collectives(table, cluster_models_of(table));
    }
    case profiler::TableKind::Dispatches: {
      const std::vector<profiler::DispatchRow> table = profiler::read_dispatch_table(file);
      return profiler::score_dispatches(table, cluster_models_of(table));
    }
  }
  return {};
}

RunReport run_report_of(const std::string& file, bool is_quiet) {
  RunReport report{.file = file, .table = profiler::read_run_table(file), .rows = {}, .classes = {}, .groups = {}};
  Progress progress("predicting", is_quiet);
  std::mutex mutex;
  report.rows = runs::predict_runs(report.table, {.progress = [&](std::int64_t done, std::int64_t total) {
                                     const std::lock_guard lock(mutex);
                                     progress.show(done, total);
                                   }});
  report.classes = profiler::score_run_classes(report.table, report.rows);
  report.groups = profiler::score_run_groups(report.table, report.rows);
  return report;
}

ScoreReport report_of(const std::string& file, bool is_quiet) {
  ScoreReport report{.file = file, .kind = profiler::table_kind(file), .rows = {}, .groups = {}};
  if (report.kind == profiler::TableKind::Runs) {
    report.runs = run_report_of(file, is_quiet);
    return report;
  }
  report.rows = scored_rows(report.kind, file);
  report.groups = profiler::score_groups(report.rows);
  return report;
}

/// The plots of all tables. Raises InputError for tables that are not of collectives, and if two tables have
/// measurements of the same machine and operation.
std::map<std::string, std::string> plots_of(const std::vector<ScoreReport>& reports) {
  std::map<std::string, std::string> plots;
  Diagnostics wrong;
  for (const ScoreReport& report : reports) {
    if (report.kind != profiler::TableKind::Collectives) {
      wrong.add({report.file}, "", "is no table of collectives, of which alone --svg makes plots");
      continue;
    }
    const std::vector<profiler::CollectiveRow> table = profiler::read_collective_table(report.file);
    for (auto& [name, plot] : collective_plots(table, cluster_models_of(table))) {
      if (!plots.emplace(name, std::move(plot)).second)
        wrong.add({report.file}, "", fmt::format("and another table give a plot {}; score them one by one", name));
    }
  }
  wrong.throw_if_any();
  return plots;
}

/// Creates the folder if there is none. Raises InputError.
void write_plots(const std::string& folder, const std::map<std::string, std::string>& plots) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw InputError(Diagnostic{{"--svg"}, "", fmt::format("{}: {}", folder, error.message())});
  for (const auto& [name, plot] : plots) write_file_atomically(std::filesystem::path(folder) / name, plot);
}

ExitCode run_score(const ScoreOptions& o) {
  std::vector<std::string> outputs;
  for (const std::string& file : {o.output, o.page, o.accuracy}) {
    if (!file.empty()) outputs.push_back(file);
  }
  check_outputs(outputs);
  std::vector<ScoreReport> reports;
  Diagnostics wrong;
  for (const std::string& file : o.files) {
    try {
      reports.push_back(report_of(file, o.quiet));
    } catch (const InputError& e) {
      for (const Diagnostic& d : e.diagnostics()) wrong.add(d.where, d.key_path, d.message);
    }
  }
  wrong.throw_if_any();
  if (!o.plots.empty()) write_plots(o.plots, plots_of(reports));
  if (!o.output.empty()) write_file_atomically(o.output, score_csv(reports));
  if (!o.page.empty()) write_file_atomically(o.page, score_markdown(reports));
  if (!o.accuracy.empty()) write_file_atomically(o.accuracy, accuracy_file(reports));
  fmt::print("{}", o.json ? score_json(reports) : score_page(reports));
  for (const ScoreReport& report : reports) {
    const double mape =
        report.runs ? profiler::summarise(report.runs->rows).mape : profiler::summarise(report.rows).mape;
    if (o.most_mape && 100 * mape > *o.most_mape) return ExitCode::FailedCheck;
  }
  return ExitCode::Done;
}

}  // namespace

void add_score_command(CLI::App& app, ExitCode& code) {
  auto* c = app.add_subcommand(
      "score", "Compare predicted with measured times of tables of operators, collectives, dispatches or runs");
  auto o = std::make_shared<ScoreOptions>();
  c->add_option("FILE", o->files, "Tables, CSV or CSV in gzip (docs/operators.md, docs/communication.md, docs/runs.md)")
      ->required();
  c->add_option("-o,--output", o->output, "Write every row with its prediction as CSV");
  c->add_option("--markdown", o->page, "Write the errors as a page in Markdown");
  c->add_option("--accuracy", o->accuracy,
                "For tables of runs: write the errors by GPU and precision as configs/accuracy/iterations.yaml");
  c->add_option("--svg", o->plots,
                "For tables of collectives: a folder for plots of measured and predicted times, one a machine and "
                "operation");
  c->add_option("--max-mape", o->most_mape, "Exit with 1 if the mean error of a table is above this, in percent");
  c->add_flag("--json", o->json, "Print JSON");
  c->add_flag("--quiet", o->quiet, "No progress bar");
  c->callback([o, &code] { code = run_score(*o); });
}

}  // namespace moeplan::cli
