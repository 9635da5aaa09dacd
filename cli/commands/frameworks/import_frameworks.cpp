// moeplan import deepspeed|torchtitan|sglang|vllm FILE --cluster C --model M -o plan.yaml
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands/import_megatron.hpp"
#include "cli/commands/output_files.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/runs/framework_job.hpp"

namespace moeplan::cli {

namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 26;

struct FrameworkImport {
  std::string framework, version, file, cluster, model, workload = "default", output;
  std::vector<std::string> overrides;
  std::int64_t world = 0, tp = 0, ep = 0, esp = 0;
  std::optional<double> step_time = {};
};

/// The model that the settings name, unless --model does.
std::string model_of(const FrameworkImport& o, const runs::JobSettings& settings) {
  if (!o.model.empty()) return o.model;
  for (const char* name : {"model-path", "model"}) {
    if (const auto it = settings.values.find(name); it != settings.values.end()) return it->second.scalar;
  }
  throw InputError({{o.file}, "", "does not say which model it runs; say it with --model"});
}

std::optional<std::int64_t> given(std::int64_t option) { return option > 0 ? std::optional(option) : std::nullopt; }

void import_framework(const FrameworkImport& o) {
  check_outputs({o.output});
  const planner::Framework framework =
      planner::load_framework(o.version.empty() ? o.framework : o.framework + "@" + o.version);
  const runs::JobSettings settings = runs::read_job_settings(read_text_file(o.file, kLargestFile), o.file, framework);
  std::vector<std::string> overrides = framework.overrides;
  overrides.insert(overrides.end(), o.overrides.begin(), o.overrides.end());
  runs::JobContext context{.file = o.file,
                           .documents = planner::load_inputs(o.cluster, model_of(o, settings), o.workload, overrides),
                           .world = given(o.world),
                           .tp = given(o.tp),
                           .ep = given(o.ep),
                           .esp = given(o.esp)};
  runs::ImportedPlan imported = runs::imported_job(settings, framework, context);
  if (o.step_time) imported.measured = Seconds(*o.step_time);
  write_imported_plan(imported, o.output);
  if (!settings.unknown.empty()) fmt::print("without effect on the plan: {}\n", fmt::join(settings.unknown, " "));
  fmt::print("written to {}; compare it with: moeplan compare {} PLAN\n", o.output, o.output);
}

void add_import_framework(CLI::App& import, const std::string& name, const char* files) {
  const bool is_deepspeed = name == "deepspeed";
  auto* command = import.add_subcommand(name, fmt::format("A job of {}: its plan", name));
  auto o = std::make_shared<FrameworkImport>();
  o->framework = name;
  command->add_option("file", o->file, files)->required();
  command->add_option("--cluster", o->cluster, "The cluster that it runs on")->required();
  command->add_option("--model", o->model, "The model; default: the one that the file names");
  command->add_option("--workload", o->workload, "What the file does not say: routing, lengths of sequences")
      ->capture_default_str();
  command->add_option("--world", o->world, "GPUs, unless the file says it")->check(CLI::PositiveNumber);
  command->add_option("--framework-version", o->version, "Its version (default: the newest that is known)");
  if (is_deepspeed) {
    command->add_option("--tp", o->tp, "Tensor-parallel ranks, which the model's code decides")
        ->check(CLI::PositiveNumber);
    command->add_option("--ep", o->ep, "ep_size of its deepspeed.moe.layer.MoE")->check(CLI::PositiveNumber);
    command->add_option("--etp,--esp", o->esp, "Tensor-parallel size of the experts")->check(CLI::PositiveNumber);
  }
  command->add_option("--step-time", o->step_time, "Seconds an iteration that were measured")
      ->check(CLI::PositiveNumber);
  command->add_option("-C", o->overrides, "Override a value of cluster, model or workload: workload.global_batch=512")
      ->take_all();
  command->add_option("-o,--output", o->output, "The plan file")->required();
  command->callback([o] { import_framework(*o); });
}

}  // namespace

void add_import_frameworks(CLI::App& import) {
  add_import_framework(import, "deepspeed", "Its JSON configuration, or a script that writes one");
  add_import_framework(import, "torchtitan", "Its TOML configuration, arguments, or a script with either");
  add_import_framework(import, "sglang", "A script that starts the server, arguments, or YAML");
  add_import_framework(import, "vllm", "A script that starts the server, arguments, or YAML");
}

}  // namespace moeplan::cli
