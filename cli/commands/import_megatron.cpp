#include "cli/commands/import_megatron.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/commands/output_files.hpp"
#include "cli/pages/page_parts.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/runs/megatron_arguments.hpp"

namespace moeplan::cli {

namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;

struct MegatronImport {
  std::string file, cluster, output, log, id;
  std::int64_t world = 0;
  std::optional<double> step_time = {};
};

void print_each(const char* label, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) fmt::print("{}: {}\n", label, text);
}

/// Writes the plan of a row.
void write_imported(const profiler::RunRow& row, const ModelSpec& model, const std::string& output) {
  const auto imported = runs::imported_plan(row, model);
  if (const auto* refusal = std::get_if<runs::Refusal>(&imported))
    throw_input_error(row.where, "", "cannot be planned: " + refusal->reason);
  write_imported_plan(std::get<runs::ImportedPlan>(imported), output);
}

std::string model_file_of(const MegatronImport& o) {
  return std::filesystem::path(o.output).replace_extension(".model.yaml").string();
}

void write_row(const MegatronImport& o, runs::MegatronJob& job) {
  const std::string model_file = model_file_of(o);
  check_outputs({model_file});
  job.row.model = std::filesystem::absolute(model_file).string();
  std::string header;
  for (const std::string_view column : profiler::run_format().columns)
    header += (header.empty() ? "" : ",") + std::string(column);
  write_file_atomically(model_file, to_yaml(job.model));
  write_file_atomically(o.output, header + '\n' + csv_line(job.row) + '\n');
  if (job.row.step_time) fmt::print("an iteration takes {:.4g} s\n", job.row.step_time->value());
}

void read_time(const MegatronImport& o, const std::string& text, profiler::RunRow& row) {
  row.step_time = runs::iteration_time(o.log.empty() ? text : read_text_file(o.log, kMostBytes));
  if (!o.log.empty() && !row.step_time)
    throw InputError({{o.log}, "", "has no \"elapsed time per iteration (ms): ...\", which Megatron-LM logs"});
  if (o.step_time) row.step_time = Seconds(*o.step_time);
}

void import_megatron(const MegatronImport& o) {
  check_outputs({o.output});
  (void)planner::find_config("clusters", o.cluster);
  const std::string text = read_text_file(o.file, kMostBytes);
  runs::MegatronJob job = runs::read_megatron_arguments(text, o.file);
  const ModelSpec model = read_model(job.model);
  profiler::RunRow& row = job.row;
  row.id = o.id.empty() ? std::filesystem::path(o.file).stem().string() : o.id;
  row.cluster = o.cluster;
  row.where = {o.file};
  row.world = o.world > 0 ? o.world : job.world.value_or(0);
  if (row.world == 0) throw InputError({{o.file}, "", "does not say how many GPUs the job uses; say it with --world"});
  read_time(o, text, row);
  const bool is_row = o.output.ends_with(".csv");
  if (is_row) write_row(o, job);
  if (!is_row) write_imported(row, model, o.output);
  print_each("assumed", job.assumed);
  if (!job.unused.empty())
    fmt::print("without effect on the {}: {}\n", is_row ? "row" : "plan", fmt::join(job.unused, " "));
  if (is_row) {
    fmt::print("written to {} and {}; compare with: moeplan score {}\n", o.output, model_file_of(o), o.output);
  } else {
    fmt::print("written to {}; compare it with: moeplan compare {} PLAN\n", o.output, o.output);
  }
}

struct RunImport {
  std::string table, id, output;
};

void import_run(const RunImport& o) {
  check_outputs({o.output});
  std::vector<std::string> ids;
  for (const profiler::RunRow& row : profiler::read_run_table(o.table)) {
    if (row.id == o.id) {
      write_imported(row, runs::RunPlanner().model_of(row), o.output);
      fmt::print("written to {}; compare it with: moeplan compare {} PLAN\n", o.output, o.output);
      return;
    }
    ids.push_back(row.id);
  }
  throw InputError({{o.table}, "id", fmt::format("{} is no row{}", in_quotes(o.id), suggestion(o.id, ids))});
}

}  // namespace

void write_imported_plan(const runs::ImportedPlan& plan, const std::string& output) {
  planner::write_plan(plan.plan, output);
  fmt::print("{}", labelled("plan", plan_text(plan.plan.candidate)));
  fmt::print("  iteration      {} by prediction\n", human(plan.plan.makespan.seconds()));
  if (plan.measured) {
    fmt::print("  measured       {}: the prediction is {:+.1f}% off\n", human(*plan.measured),
               100 * (plan.plan.makespan.seconds() / *plan.measured - 1));
  }
  if (plan.misfit) fmt::print("  memory         does not fit: {}\n", *plan.misfit);
  print_each("assumed", plan.defaults);
  print_each("roughly", plan.approximations);
}

void add_import_megatron(CLI::App& import) {
  auto* command = import.add_subcommand(
      "megatron", "A job of Megatron-LM or Megatron-Bridge: its plan, or a row for score and its model");
  auto o = std::make_shared<MegatronImport>();
  command->add_option("file", o->file, "A script, arguments, YAML, or a log")->required();
  command->add_option("--cluster", o->cluster, "The cluster that it runs on")->required();
  command->add_option("--world", o->world, "GPUs, unless the file says it")->check(CLI::PositiveNumber);
  command->add_option("--log", o->log, "What it printed: the median of the later half of its iterations is the time");
  command->add_option("--step-time", o->step_time, "Seconds an iteration, instead of a log")
      ->check(CLI::PositiveNumber);
  command->add_option("--id", o->id, "The row's name (default: the file's)");
  command
      ->add_option("-o,--output", o->output, "A plan file; or, if it ends in .csv, the row, with the model next to it")
      ->required();
  command->callback([o] { import_megatron(*o); });
}

void add_import_run(CLI::App& import) {
  auto* command = import.add_subcommand("run", "A row of a table of measured runs (docs/runs.md) as a plan");
  auto o = std::make_shared<RunImport>();
  command->add_option("table", o->table, "The table")->required();
  command->add_option("--id", o->id, "The row")->required();
  command->add_option("-o,--output", o->output, "The plan file")->required();
  command->callback([o] { import_run(*o); });
}

}  // namespace moeplan::cli
