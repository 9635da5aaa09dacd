// moeplan check [--backend host|nccl] [--ranks N] [--gpu-parts 50GB/s] [--model M] [--workload W] [--budget 5m] [-o
// DIR]
//               [--quiet]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/commands/commands.hpp"
#include "cli/commands/execution/executed_suite.hpp"
#include "cli/commands/execution/measured_here.hpp"
#include "cli/options/option_values.hpp"
#include "cli/pages/check_report.hpp"
#include "cli/pages/text/colour.hpp"
#include "cuda_runtime/launch/rank_store.hpp"
#include "cuda_runtime/validate/launch.hpp"
#include "cuda_runtime/validate/run_on_gpus.hpp"
#include "planner/plan/inputs.hpp"

namespace moeplan::cli {

namespace {

struct CheckOptions {
  std::string backend, model, workload, budget = "5m", folder = "moeplan-check", gpu_parts;
  std::optional<std::int64_t> ranks;
  bool quiet = false;
};

/// nccl where there are the worker and a GPU's driver.
std::string back_end_here() {
  return validate::find_worker(validate::kCudaWorker) && std::filesystem::exists("/dev/nvidiactl") ? "nccl" : "host";
}

/// Every schedule of a layer, with one all-to-all and without codecs, on all measured ranks.
validate::Suite suite_of(const CheckOptions& o, const std::string& profile, std::int64_t ranks, bool has_gpus) {
  const std::string model = !o.model.empty() ? o.model : has_gpus ? "gpt2_moe" : "host_moe";
  const std::string workload = !o.workload.empty() ? o.workload : has_gpus ? "default" : "host";
  validate::Suite out{.name = "check",
                      .inputs = planner::load_inputs(profile, model, workload, {}),
                      .base = {},
                      .schedules = {},
                      .all_to_alls = {"linear"},
                      .codecs = {"none"},
                      .pipeline_degrees = {1, 2, 4}};
  out.base.degrees.ep = out.base.degrees.dp = ranks;
  return out;
}

ExitCode run_check(const CheckOptions& o) {
  if (validate::started_rank() || runtime::rank_place()) {
    throw InputError(
        Diagnostic{{"check"},
                   "",
                   "starts its ranks itself: run it without srun, torchrun or mpirun; for several machines "
                   "scripts/slurm_check does the same by single commands"});
  }
  const std::string name = o.backend.empty() ? back_end_here() : o.backend;
  const BackEnd on{name, 4, o.quiet, link_of_parts(o.gpu_parts, name)};
  const Seconds budget = duration_option("--budget", o.budget), time_out(60);
  const std::filesystem::path folder(o.folder);
  std::filesystem::create_directories(folder);
  const std::string profile = (folder / "profile.yaml").string();
  // assumed: as much time for the profile as for the suite, of about 20 cases; the rest for values and starts.
  constexpr double kShare = 0.4, kCases = 20;
  ExitCode code = ExitCode::Done;
  const auto here = measure_here(on, o.ranks, budget * kShare, time_out, code);
  if (!here) return code;
  write_file_atomically(profile, here->profile());
  const validate::Suite suite = suite_of(o, profile, here->machine.ranks, here->machine.has_gpus);
  const ExecutedSuite done = execute_suite(suite, {on,
                                                   {.time_out = time_out, .budget = budget * kShare / kCases},
                                                   profile,
                                                   {},
                                                   1,
                                                   folder / "check.validate.jsonl"});
  if (!done.has_answers()) return done.early.value_or(ExitCode::FailedCheck);
  const std::string page = check_page(done.head, done.cases, profile);
  write_file_atomically((folder / "page.txt").string(), page);
  print_page(stdout, page);
  if (done.early) return *done.early;
  return check_result(suite_statistics(done.cases)).holds() ? ExitCode::Done : ExitCode::FailedCheck;
}

}  // namespace

void add_check_command(CLI::App& app, ExitCode& code) {
  auto* c =
      app.add_subcommand("check", "Whether predictions hold on this machine: profile it, execute a suite, compare");
  auto o = std::make_shared<CheckOptions>();
  c->add_option("--backend", o->backend, "host: CPU ranks; nccl: GPUs (default: nccl if there is a GPU)")
      ->check(CLI::IsMember({"host", "nccl"}));
  c->add_option("--ranks", o->ranks, "Ranks (default: 4 on host, one per GPU on nccl, 4 on a single GPU)")
      ->check(CLI::Range(2, 64));
  c->add_option("--gpu-parts", o->gpu_parts,
                "With nccl: ranks on parts of one GPU, joined by links of this bandwidth, e.g. 50GB/s");
  c->add_option("--model", o->model, "The model whose layer is executed (default: host_moe or gpt2_moe)");
  c->add_option("--workload", o->workload, "Its workload (default: host or default)");
  c->add_option("--budget", o->budget, "Time for measurements")->capture_default_str();
  c->add_option("-o,--output", o->folder, "Folder for the profile, the results and the page")->capture_default_str();
  c->add_flag("--quiet", o->quiet, "No commands and no progress on standard error");
  c->callback([o, &code] { code = run_check(*o); });
}

}  // namespace moeplan::cli
