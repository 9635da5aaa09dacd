// moeplan score FILE... [--json] [-o OUT.csv] [--markdown PAGE] [--svg FOLDER] [--max-mape PERCENT]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "cli/commands/commands.hpp"
#include "cli/commands/input_files.hpp"
#include "cli/commands/output_files.hpp"
#include "cli/commands/progress.hpp"
#include "cli/pages/scores/accuracy_file.hpp"
#include "cli/pages/scores/score_markdown.hpp"
#include "cli/pages/scores/score_plots.hpp"
#include "cli/pages/scores/score_report.hpp"
#include "cli/pages/scores/scored_table.hpp"
#include "model/base/diagnostics.hpp"

namespace moeplan::cli {

namespace {

struct ScoreOptions {
  std::vector<std::string> files;
  std::string output, page, plots, accuracy;
  std::optional<double> most_mape = {};
  bool json = false, quiet = false;
};

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

void write_plots(const std::string& folder, const std::map<std::string, std::string>& plots) {
  make_output_folder("--svg", folder);
  for (const auto& [name, plot] : plots) write_file_atomically(std::filesystem::path(folder) / name, plot);
}

ExitCode run_score(const ScoreOptions& o) {
  std::vector<std::string> outputs;
  for (const std::string& file : {o.output, o.page, o.accuracy}) {
    if (!file.empty()) outputs.push_back(file);
  }
  check_outputs(outputs);
  std::vector<ScoreReport> reports;
  for_each_file(o.files, [&](const std::string& file) {
    Progress progress("predicting", o.quiet);
    reports.push_back(scored_table(file, [&](std::int64_t done, std::int64_t total) { progress.show(done, total); }));
  });
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
  c->add_option(
      "--svg", o->plots,
      "For tables of collectives: a folder for plots of measured and predicted times, one per machine and operation");
  c->add_option("--max-mape", o->most_mape, "Exit with 1 if the mean error of a table is above this, in percent");
  c->add_flag("--json", o->json, "Print JSON");
  c->add_flag("--quiet", o->quiet, "No progress on standard error");
  c->callback([o, &code] { code = run_score(*o); });
}

}  // namespace moeplan::cli
