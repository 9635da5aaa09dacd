// moeplan reproduce PAPER|all [--jobs N] [--plots FOLDER] [--json]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/commands/progress.hpp"
#include "cli/pages/reproduction_plot.hpp"
#include "cli/pages/reproduction_report.hpp"
#include "cli/pages/text/colour.hpp"
#include "model/base/diagnostics.hpp"
#include "model/base/in_parallel.hpp"
#include "model/base/interrupt.hpp"
#include "model/text/document.hpp"

namespace moeplan::cli {

namespace {

struct ReproduceOptions {
  std::string paper, plots;
  std::int64_t jobs = 0;
  bool json = false, quiet = false;
};

std::vector<std::string> papers_of(const std::string& name) {
  return name == "all" ? reproduction::paper_names() : std::vector<std::string>{name};
}

ExitCode run_reproduce(const ReproduceOptions& o) {
  std::vector<reproduction::Paper> papers;
  for (const std::string& name : papers_of(o.paper)) papers.push_back(reproduction::load_paper(name));
  if (!o.plots.empty()) make_output_folder("--plots", o.plots);
  const Interrupt interrupt;
  reproduction::ReproductionOptions options;
  options.jobs = threads_or_cores(o.jobs);
  options.stop = &interrupt.flag();
  std::vector<reproduction::PaperResult> results;
  bool all_pass = true;
  try {
    for (const reproduction::Paper& paper : papers) {
      {
        Progress progress(paper.name, o.quiet);
        options.progress = [&](std::int64_t done, std::int64_t total) { progress.show(done, total); };
        results.push_back(reproduction::reproduced(paper, options));
      }
      const reproduction::PaperResult& result = results.back();
      all_pass = all_pass && result.passed() == result.scored();
      if (!o.plots.empty())
        write_file_atomically(std::filesystem::path(o.plots) / (result.paper + ".svg"), reproduction_plot(result));
      if (!o.json) print_page(stdout, (results.size() > 1 ? "\n" : "") + reproduction_page(result));
      std::fflush(stdout);
    }
  } catch (const sweep::Interrupted&) {
    fmt::print(stderr, "interrupted\n");
    return ExitCode::Interrupted;
  }
  if (o.json) fmt::print("{}", reproduction_json(results));
  if (!o.json && results.size() > 1) fmt::print("\n{}", reproduction_summary(results));
  return all_pass ? ExitCode::Done : ExitCode::FailedCheck;
}

}  // namespace

void add_reproduce_command(CLI::App& app, ExitCode& code) {
  auto* c = app.add_subcommand("reproduce", "Compute the published numbers of a paper and compare (docs/papers.md)");
  auto o = std::make_shared<ReproduceOptions>();
  c->add_option("PAPER", o->paper, "A paper of configs/papers, a file, or all")->required();
  c->add_option("--jobs", o->jobs, "Cases at once; 0: one per core; the numbers are the same")
      ->check(CLI::Range(0, 1024));
  c->add_option("--plots", o->plots, "A folder for plots of the rows, one per paper");
  c->add_flag("--json", o->json, "Print JSON");
  c->add_flag("--quiet", o->quiet, "No progress on standard error");
  c->callback([o, &code] { code = run_reproduce(*o); });
}

}  // namespace moeplan::cli
