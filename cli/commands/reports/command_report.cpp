// moeplan report PLAN|SWEEP|SCORE [-o report.html] [--svg FOLDER] [--search] [-C ...]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>

#include "cli/commands/commands.hpp"
#include "cli/commands/output_files.hpp"
#include "cli/commands/progress.hpp"
#include "cli/pages/reports/plan_html.hpp"
#include "cli/pages/reports/score_html.hpp"
#include "cli/pages/reports/sweep_html.hpp"
#include "model/base/diagnostics.hpp"
#include "model/text/document.hpp"
#include "planner/search/search.hpp"

namespace moeplan::cli {

namespace {

struct ReportOptions {
  std::string file, output, figures;
  std::vector<std::string> overrides;
  bool searches = false, quiet = false;
};

Report report_of_plan(const ReportOptions& o) {
  const PreparedPlan plan = load_plan(o.file, o.overrides);
  const planner::Problem problem = plan.problem();
  Progress progress("simulating", o.quiet);
  const auto show = [&](std::int64_t done, std::int64_t total) { progress.show(done, total); };
  const Explanation e = explain(plan, show);
  const planner::Prediction& p = e.prediction;
  PlanView view{.explanation = e,
                .memory = planner::iteration_memory_by_stage(problem, plan.plan.candidate, p.program),
                .timelines = {},
                .search = {}};
  view.timelines = planner::rank_timelines(
      problem, plan.plan.candidate, p.program, p.timeline,
      planner::representative_ranks(p.timeline, p.program.world_size, p.program.stages.size(), p.binding.rank));
  if (o.searches) view.search = planner::search(problem, {}, show);
  return plan_html(view);
}

/// What a file is, by how it begins.
enum class ReportKind { Plan, Sweep, Score };

ReportKind kind_of(const std::string& file) {
  constexpr std::string_view kDatabase = "SQLite format 3";
  std::ifstream stream(file, std::ios::binary);
  std::string begin(64, '\0');
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(stream.gcount()));
  if (begin.starts_with(kDatabase)) return ReportKind::Sweep;
  const std::size_t first = begin.find_first_not_of(" \t\r\n");
  return first != std::string::npos && begin[first] == '{' ? ReportKind::Score : ReportKind::Plan;
}

Report report_of(const ReportOptions& o) {
  constexpr std::size_t kLargestScore = std::size_t{256} << 20;
  const ReportKind kind = kind_of(o.file);
  if (kind != ReportKind::Plan && (o.searches || !o.overrides.empty()))
    throw InputError(Diagnostic{{o.file}, "", "is no plan file, to which alone --search and -C apply"});
  switch (kind) {
    case ReportKind::Plan: return report_of_plan(o);
    case ReportKind::Sweep: return sweep_html(o.file);
    case ReportKind::Score: return score_html(read_text_file(o.file, kLargestScore), o.file);
  }
  return {};
}

void run_report(const ReportOptions& o) {
  if (o.output.empty() && o.figures.empty())
    throw InputError(Diagnostic{{"report"}, "", "say where to write: -o FILE for a page, --svg FOLDER for figures"});
  check_outputs({o.output});
  if (!o.figures.empty()) make_output_folder("--svg", o.figures);
  const Report report = report_of(o);
  if (!o.output.empty()) write_file_atomically(o.output, html_page(report));
  if (o.figures.empty()) return;
  for (const ReportSection& s : report.sections) {
    for (const Figure& f : s.figures)
      write_file_atomically(std::filesystem::path(o.figures) / (f.name + ".svg"), f.file);
  }
}

}  // namespace

void add_report_command(CLI::App& app, ExitCode&) {
  auto* c = app.add_subcommand("report", "Write an HTML page with figures of a plan, a sweep or a score");
  auto o = std::make_shared<ReportOptions>();
  c->add_option("FILE", o->file, "A plan file, a sweep's database, or what score --json printed")->required();
  c->add_option("-o,--output", o->output, "Write the page here: one HTML file that needs no others");
  c->add_option("--svg", o->figures, "Write each figure as a file into this folder");
  c->add_flag("--search", o->searches, "Of a plan: search all candidates, for a figure of their memory and time");
  c->add_option("-C", o->overrides, "Of a plan: override a value: cluster.a.b=c, model.a=b, workload.a=b")->take_all();
  c->add_flag("--quiet", o->quiet, "No progress on standard error");
  c->callback([o] { run_report(*o); });
}

}  // namespace moeplan::cli
