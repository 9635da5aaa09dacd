// moeplan sweep SWEEP.yaml -o out.sqlite [--jobs N] [--resume] [--shard I/N] [--csv F] ; sweep --merge A B -o
// out.sqlite
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/commands/output_files.hpp"
#include "cli/commands/progress.hpp"
#include "cli/pages/page_parts.hpp"
#include "model/base/in_parallel.hpp"
#include "model/base/interrupt.hpp"
#include "model/text/unit_text.hpp"
#include "model/text/unreadable_file.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/sweep/query/result_table.hpp"
#include "planner/sweep/read_sweep.hpp"
#include "planner/sweep/run_sweep.hpp"
#include "planner/sweep/sweep_store.hpp"

namespace moeplan::cli {

namespace {

struct SweepOptions {
  std::string sweep, output, shard = "1/1", csv;
  std::vector<std::string> merge, overrides;
  std::int64_t jobs = 0;
  bool resume = false, dry_run = false, quiet = false;
};

sweep::Shard parsed_shard(const std::string& text) {
  const std::size_t slash = text.find('/');
  const auto number = [&](const std::string& part) -> std::int64_t {
    const Parsed<long long> parsed = parse_integer(part);
    return std::holds_alternative<long long>(parsed) ? std::get<long long>(parsed) : 0;
  };
  sweep::Shard shard{0, 0};
  if (slash != std::string::npos) shard = {number(text.substr(0, slash)), number(text.substr(slash + 1))};
  if (shard.index < 1 || shard.index > shard.count || shard.count > sweep::SweepLimits::kCases) {
    throw InputError({{"--shard"}, "", fmt::format("{} is not I/N with 1 <= I <= N", in_quotes(text))});
  }
  return shard;
}

/// Checks the first case of every value of every axis. If none of them can be read, the sweep is refused; otherwise the
/// user is warned of those that cannot, which become rows with the status bad_input.
void probe(const sweep::SweepSpec& sweep, sweep::CaseResolver& resolver) {
  std::vector<std::vector<bool>> seen;
  for (const sweep::Axis& a : sweep.axes) seen.emplace_back(a.values.size(), false);
  std::vector<std::pair<std::int64_t, std::vector<Diagnostic>>> wrong;
  std::int64_t probed = 0;
  for (std::int64_t number = 0; number < std::ssize(sweep.cases); ++number) {
    const std::int64_t place = sweep.cases[static_cast<std::size_t>(number)];
    const std::vector<std::size_t> choices = sweep.choices_at(place);
    bool is_new = false;
    for (std::size_t axis = 0; axis < choices.size(); ++axis) {
      is_new = is_new || !seen[axis][choices[axis]];
      seen[axis][choices[axis]] = true;
    }
    if (!is_new) continue;
    ++probed;
    try {
      (void)resolver.resolved(place);
    } catch (const UnreadableFile&) {
      throw;
    } catch (const InputError& e) {
      wrong.emplace_back(number, std::vector<Diagnostic>(e.diagnostics().begin(), e.diagnostics().end()));
    }
  }
  if (std::ssize(wrong) == probed) throw InputError(wrong.front().second);
  constexpr std::size_t kShown = 3;
  for (std::size_t i = 0; i < std::min(kShown, wrong.size()); ++i) {
    fmt::print(stderr, "warning: case {} cannot be read: {}\n", wrong[i].first, wrong[i].second.front().text());
  }
  if (wrong.size() > kShown)
    fmt::print(stderr, "warning: nor can {} others of {} that were tried\n", wrong.size() - kShown, probed);
}

std::string size_text(const sweep::SweepSpec& sweep) {
  std::string axes;
  for (const auto& together : sweep.dimensions) {
    std::string names;
    for (const std::size_t axis : together) names += (names.empty() ? "" : " with ") + sweep.axes[axis].setting.name;
    axes += fmt::format("{}{} ({})", axes.empty() ? "" : ", ", names, sweep.axes[together.front()].values.size());
  }
  return fmt::format(
      "{}: {} cases{}\n{}", sweep.name, sweep.cases.size(),
      std::ssize(sweep.cases) < sweep.grid_size() ? fmt::format(" of {} combinations", sweep.grid_size()) : "",
      in_lines("over " + axes));
}

/// Prints counts by status and the most frequent reasons why cases failed, up to their first colon.
void print_outcome(const std::string& path, const sweep::SweepRun& run) {
  sweep::Database database(path, sweep::Database::Access::Read);
  sweep::Statement counts(database, "SELECT status, count(*) FROM cases GROUP BY status ORDER BY 2 DESC");
  std::string text;
  while (counts.next())
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", sweep::cell_text(counts.cell(1)),
                        sweep::cell_text(counts.cell(0)));
  fmt::print("  {}: {}{}\n", path, text, run.kept > 0 ? fmt::format("; {} of them were there before", run.kept) : "");
  if (run.ran > 0) {
    fmt::print("  {} cases in {}, {:.{}f} a second; {} share the result of an equal one\n", run.ran,
               human(Seconds(run.wall_s)), static_cast<double>(run.ran) / run.wall_s,
               static_cast<double>(run.ran) < 10 * run.wall_s ? 2 : 0, run.shared);
  }
  sweep::Statement reasons(
      database,
      "SELECT status, substr(reason, 1, instr(reason || ':', ':') - 1), count(*) FROM cases WHERE status <> 'done' "
      "GROUP BY 1, 2 ORDER BY 3 DESC, 2 LIMIT 3");
  while (reasons.next()) {
    fmt::print("  {:>8} {}: {}\n", sweep::cell_text(reasons.cell(2)), sweep::cell_text(reasons.cell(0)),
               shortened(sweep::cell_text(reasons.cell(1))));
  }
}

ExitCode code_of(const std::string& path) {
  sweep::Database database(path, sweep::Database::Access::Read);
  const auto there_is = [&](const char* status) {
    return std::holds_alternative<std::int64_t>(
        database.first(fmt::format("SELECT 1 FROM cases WHERE status = '{}' LIMIT 1", status)));
  };
  if (there_is("done")) return ExitCode::Done;
  if (there_is("infeasible")) return ExitCode::NothingFeasible;
  return there_is("bad_input") ? ExitCode::BadInput : ExitCode::Done;  // Done also for a shard without cases
}

void merge(const SweepOptions& o) {
  check_outputs({o.output, o.csv});
  const std::int64_t count = sweep::merge_sweeps(o.merge, o.output);
  const sweep::SweepHead head = sweep::read_sweep_head(o.output);
  fmt::print("{}: {} of the {} cases are in {}\n", head.name, count, head.cases, o.output);
  if (!o.csv.empty()) sweep::write_sweep_csv(o.output, o.csv);
}

void run_sweep(const SweepOptions& o, ExitCode& code) {
  const sweep::Shard shard = parsed_shard(o.shard);
  check_outputs({o.output, o.csv});
  const std::filesystem::path file = planner::find_config("sweeps", o.sweep);
  const sweep::SweepSpec sweep = sweep::read_sweep(load_document(file), file, o.overrides);
  const int jobs = threads_or_cores(o.jobs);
  // If there are fewer cases than threads, each case uses several threads; the result is the same.
  sweep::CaseRunner runner(sweep, std::max(1, jobs / static_cast<int>(std::ssize(sweep.cases))));
  probe(sweep, runner.resolver());
  if (o.dry_run) {
    fmt::print("{}", size_text(sweep));
    return;
  }

  ::signal(SIGXFSZ, SIG_IGN);  // so that exceeding a file size limit is reported as an error, as a full disk is
  const Interrupt interrupt;
  sweep::SweepRun done;
  try {
    sweep::SweepStore store(o.output, sweep::head_of(sweep, runner.resolver().fingerprint(), shard), o.resume);
    if (!o.quiet) fmt::print("{}", size_text(sweep));
    std::fflush(stdout);
    Progress progress("sweep", o.quiet);
    done = sweep::run_sweep(sweep, runner, store, shard, jobs, interrupt.flag(),
                            [&](std::int64_t n, std::int64_t wanted) { progress.show(n, wanted); });
    store.finish();
  } catch (const sweep::DatabaseFull& e) {
    const Diagnostic& full = e.diagnostics().front();
    throw InputError(
        {full.where, "", full.message + "; the cases committed so far stay; make room and go on with --resume"});
  }
  if (done.interrupted) {
    fmt::print(stderr, "interrupted: {} of {} cases are in {}; the same command with --resume does the others\n",
               done.kept + done.ran, done.wanted, o.output);
    code = ExitCode::Interrupted;
    return;
  }
  if (!o.quiet) print_outcome(o.output, done);
  if (!o.csv.empty()) sweep::write_sweep_csv(o.output, o.csv);
  code = code_of(o.output);
}

}  // namespace

void add_sweep_command(CLI::App& app, ExitCode& code) {
  auto* c = app.add_subcommand("sweep", "Plan or simulate every case of a grid of what-ifs, into a database");
  auto o = std::make_shared<SweepOptions>();
  auto* sweep = c->add_option("sweep", o->sweep, "Name in configs/sweeps, or a file");
  c->add_option("-o,--output", o->output, "The database");
  c->add_option("--jobs", o->jobs, "Cases at once; 0: one per core; the database says the same")
      ->check(CLI::Range(0, 1024));
  auto* resume = c->add_flag("--resume", o->resume, "Continue an existing database, if there is one");
  auto* part = c->add_option("--shard", o->shard, "I/N: only this part of the cases, for many machines");
  c->add_option("--csv", o->csv, "Also write all rows here, in order");
  auto* merged = c->add_option("--merge", o->merge, "Join these databases of shards instead");
  auto* settings =
      c->add_option("-C", o->overrides, "Set a value for all cases: world=64, cluster.a.b=c, model.a=b, workload.a=b")
          ->take_all();
  auto* dry = c->add_flag("--dry-run", o->dry_run, "Only read the sweep and say how many cases it has");
  c->add_flag("--quiet", o->quiet, "No progress on standard error, and no summary");
  for (CLI::Option* other : {sweep, resume, part, settings, dry}) merged->excludes(other);
  c->callback([=, &code] {
    if (sweep->count() + merged->count() == 0) throw CLI::RequiredError("SWEEP or --merge");
    if (o->output.empty() && dry->count() == 0) throw CLI::RequiredError("--output");
    if (merged->count() > 0) return merge(*o);
    run_sweep(*o, code);
  });
}

}  // namespace moeplan::cli
