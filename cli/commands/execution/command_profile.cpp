// moeplan profile --from-nccl-tests LOG... | --from-csv F... [--gpu NAME] |
//                 --backend host|nccl [--ranks N] [--gpu-parts 50GB/s] [--budget 1m] [--gpu-file FILE] |
//                 --backend nccl --operators GPU [--budget 1m]
//                 -o profile.yaml [--quiet]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "cli/commands/commands.hpp"
#include "cli/commands/execution/measured_here.hpp"
#include "cli/commands/input_files.hpp"
#include "cli/commands/output_files.hpp"
#include "cli/options/option_values.hpp"
#include "model/base/diagnostics.hpp"
#include "model/operators/operator_models.hpp"
#include "planner/plan/inputs.hpp"
#include "profiler/fits/fit_operators.hpp"
#include "profiler/fits/profile.hpp"
#include "profiler/fits/source_text.hpp"
#include "profiler/tables/measured_csv.hpp"
#include "profiler/tables/table_reader.hpp"

namespace moeplan::cli {

namespace {

constexpr std::int64_t kMostRanks = 64;  // limit of ranks that profile starts

struct ProfileOptions {
  std::string backend, gpu, output, gpu_file, operators, budget = "60s", time_out = "60s", gpu_parts;
  std::optional<std::int64_t> ranks = {};
  std::vector<std::string> logs, tables;
  bool quiet = false;
};

void write_profile(const ProfileOptions& o, const Node& profile, const std::string& included_by) {
  const std::string head =
      fmt::format("# Written by moeplan profile; include it from a {} file (docs/profile.md).\n", included_by);
  write_file_atomically(o.output, head + to_yaml(profile));
  if (!o.quiet) fmt::print("written to {}\n", o.output);
}

void write_collectives(const ProfileOptions& o, std::span<const profiler::CollectiveSample> samples,
                       std::string source) {
  const std::vector<profiler::CollectiveFit> fits = profiler::fit_collectives(samples);
  std::set<std::string> kinds;
  for (const profiler::CollectiveSample& s : samples) {
    if (!s.device.empty()) kinds.insert(s.device);
  }
  const std::vector<std::string> devices(kinds.begin(), kinds.end());
  if (!devices.empty()) source += ", on " + profiler::listed(devices);
  if (devices.size() > 1) {
    fmt::print(stderr, "note: of {} kinds of GPU, fitted together: {}\n", devices.size(), profiler::listed(devices));
  }
  if (!o.quiet) fmt::print("{}", profiler::fit_table(fits));
  write_profile(o, profiler::collective_profile(fits, source), "cluster");
}

void profile_logs(const ProfileOptions& o) {
  write_collectives(o, read_logs(o.logs).samples, "nccl-tests " + profiler::listed_files(o.logs));
}

void profile_gemms(const ProfileOptions& o, const std::vector<profiler::GemmSample>& samples) {
  if (o.gpu.empty()) throw InputError(Diagnostic{{"--gpu"}, "", "is needed for GEMMs: shares are of its peak"});
  Node document = load_document(planner::find_config("gpus", o.gpu));
  embed_operators(document, planner::gpu_directories());
  Diagnostics wrong;
  const GpuSpec gpu = read_gpu(MapReader(document, "", wrong));
  wrong.throw_if_any();
  const profiler::GemmFit fit = profiler::fit_gemms(samples, gpu);
  if (!o.quiet) fmt::print("{}", profiler::fit_table(fit));
  write_profile(o, profiler::gemm_profile(fit, "table " + profiler::listed_files(o.tables)), "GPU");
}

/// Whether a table is one of operators, as `score` reads them.
bool is_operator_table(const std::string& file) {
  const std::vector<std::string> columns = profiler::header_of(file);
  return std::find(columns.begin(), columns.end(), "kind") != columns.end();
}

/// The one GPU of the tables. Raises InputError if there are several.
std::string gpu_of(const std::vector<profiler::OperatorRow>& rows) {
  const auto other =
      std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.gpu != rows.front().gpu; });
  if (other == rows.end()) return rows.front().gpu;
  throw InputError(Diagnostic{other->where, "gpu",
                              fmt::format("{} is another GPU than {}; a profile is of one", in_quotes(other->gpu),
                                          in_quotes(rows.front().gpu))});
}

/// Fits operators, from the figures of --gpu or of the GPU that the tables name.
void profile_operators(const ProfileOptions& o) {
  std::vector<profiler::OperatorRow> rows;
  for_each_file(o.tables, [&](const std::string& file) {
    const std::vector<profiler::OperatorRow> read = profiler::read_operator_table(file);
    rows.insert(rows.end(), read.begin(), read.end());
  });
  const std::string gpu = gpu_of(rows);
  Node start = load_document(planner::find_config("operators", o.gpu.empty() ? gpu : o.gpu));
  start.set("gpu", Node::text(gpu));
  const profiler::FittedOperators fitted =
      profiler::fit_operators(std::move(start), rows, profiler::listed_files(o.tables));
  for (const Diagnostic& d : fitted.unfitted) fmt::print(stderr, "note: {}\n", d.text());
  if (fitted.fits.empty())
    throw InputError(Diagnostic{{o.tables.front()}, "", "nothing in it can be fitted (see the notes)"});
  if (!o.quiet) fmt::print("{}", profiler::fit_table(fitted.fits));
  const std::string head = "# Written by moeplan profile; a GPU file names it in operators (docs/operators.md).\n";
  write_file_atomically(o.output, head + to_yaml(fitted.document));
  if (!o.quiet) fmt::print("written to {}\n", o.output);
}

void profile_tables(const ProfileOptions& o) {
  if (std::all_of(o.tables.begin(), o.tables.end(), is_operator_table)) return profile_operators(o);
  std::vector<profiler::CollectiveSample> collectives;
  std::vector<profiler::GemmSample> gemms;
  for_each_file(o.tables, [&](const std::string& file) {
    auto read = profiler::read_measured_csv(file);
    if (const auto* c = std::get_if<std::vector<profiler::CollectiveSample>>(&read)) {
      collectives.insert(collectives.end(), c->begin(), c->end());
    } else {
      const auto& g = std::get<std::vector<profiler::GemmSample>>(read);
      gemms.insert(gemms.end(), g.begin(), g.end());
    }
  });
  if (!collectives.empty() && !gemms.empty()) {
    throw InputError(
        Diagnostic{{"--from-csv"},
                   "",
                   "are of collectives and of GEMMs: those belong to a cluster, these to a GPU; profile them "
                   "one after the other"});
  }
  if (!gemms.empty()) return profile_gemms(o, gemms);
  if (!o.gpu.empty()) throw InputError(Diagnostic{{"--gpu"}, "", "is for GEMMs"});
  write_collectives(o, collectives, "table " + profiler::listed_files(o.tables));
}

void check_profile(const ProfileOptions& o) {
  const int sources =
      static_cast<int>(!o.backend.empty()) + static_cast<int>(!o.logs.empty()) + static_cast<int>(!o.tables.empty());
  if (sources != 1) {
    throw InputError(Diagnostic{{"profile"}, "", "needs one of --from-nccl-tests, --from-csv and --backend"});
  }
  if (!o.backend.empty() && !o.gpu.empty()) throw InputError(Diagnostic{{"--gpu"}, "", "is for GEMMs of a table"});
  if (!o.logs.empty() && !o.gpu.empty()) throw InputError(Diagnostic{{"--gpu"}, "", "is for GEMMs"});
  if (!o.gpu_file.empty() && o.backend != "nccl")
    throw InputError(Diagnostic{{"--gpu-file"}, "", "is of --backend nccl"});
  if (!o.operators.empty()) {
    if (o.backend != "nccl") throw InputError(Diagnostic{{"--operators"}, "", "is of --backend nccl"});
    if (o.ranks || !o.gpu_parts.empty() || !o.gpu_file.empty()) {
      throw InputError(
          Diagnostic{{"--operators"},
                     "",
                     "is a table of one GPU: without --ranks, --gpu-parts and --gpu-file, which are of a profile"});
    }
  }
  if (o.backend == "host" && o.ranks == 1)
    throw InputError(Diagnostic{{"--ranks"}, "", "of --backend host are 2 or more"});
}

/// Measures a table of operators here, to be compared with the figures of a file of configs/operators.
ExitCode operators_here(const ProfileOptions& o) {
  const OperatorModels models = read_operator_models(load_document(planner::find_config("operators", o.operators)));
  const GemmModel* model = find_gemm_model(models, MathFormat::Bf16, "");
  if (model == nullptr) {
    throw InputError(Diagnostic{{"--operators"}, "", fmt::format("{} has no figures of gemm in bf16", o.operators)});
  }
  ExitCode code = ExitCode::Done;
  const BackEnd on{o.backend, kMostRanks, o.quiet, {}};
  const auto attention = [&](bool is_backward) {
    return models.training ? models.training->attention_of(is_backward).library : "";
  };
  const auto table =
      operator_table_here(on, o.operators, {model->library, attention(false), attention(true)},
                          duration_option("--budget", o.budget), duration_option("--timeout", o.time_out), code);
  if (!table) return code;
  write_file_atomically(o.output, *table);
  if (!o.quiet)
    fmt::print("written to {}; compare it with the figures of {}: moeplan score {}\n", o.output, o.operators, o.output);
  return ExitCode::Done;
}

/// Measures here, and writes what was fitted.
ExitCode profile_here(const ProfileOptions& o) {
  ExitCode code = ExitCode::Done;
  const BackEnd on{o.backend, kMostRanks, o.quiet, link_of_parts(o.gpu_parts, o.backend)};
  const auto here =
      measure_here(on, o.ranks, duration_option("--budget", o.budget), duration_option("--timeout", o.time_out), code);
  if (!here) return code;
  if (!o.quiet) {
    fmt::print("{}{}", runtime::machine_table(here->fit, here->measured),
               here->machine.has_gpus ? here->machine.clocks + "\n" : "");
  }
  write_file_atomically(o.output, here->profile());
  if (!o.quiet) fmt::print("written to {}\n", o.output);
  if (o.gpu_file.empty()) return ExitCode::Done;
  write_file_atomically(o.gpu_file, "# Written by moeplan profile --backend nccl.\n" +
                                        to_yaml(processor_profile(here->fit, here->machine)));
  if (!o.quiet) fmt::print("written to {}\n", o.gpu_file);
  return ExitCode::Done;
}

void run_profile(const ProfileOptions& o, ExitCode& code) {
  check_profile(o);
  check_outputs({o.output, o.gpu_file});
  if (!o.backend.empty()) {
    code = o.operators.empty() ? profile_here(o) : operators_here(o);
    return;
  }
  if (!o.logs.empty()) return profile_logs(o);
  profile_tables(o);
}

}  // namespace

void add_profile_command(CLI::App& app, ExitCode& code) {
  auto* c = app.add_subcommand("profile",
                               "Measure this machine or fit measured times, as a file for a cluster or GPU to include");
  auto o = std::make_shared<ProfileOptions>();
  c->add_option("--from-nccl-tests", o->logs, "Raw logs of nccl-tests, of any version");
  c->add_option("--from-csv", o->tables,
                "Tables of collectives (collective,ranks,nodes,bytes,time_us), of GEMMs (m,n,k,dtype,time_us), or of "
                "operators (docs/operators.md)");
  c->add_option("--backend", o->backend, "Measure this machine: its CPU cores (host) or its GPUs (nccl)")
      ->check(CLI::IsMember({"host", "nccl"}));
  c->add_option("--ranks", o->ranks, "With --backend: ranks to start (default: 4 on host, one per GPU on nccl)")
      ->check(CLI::Range(std::int64_t{1}, kMostRanks));
  c->add_option("--gpu-parts", o->gpu_parts,
                "With nccl: ranks on parts of one GPU, joined by links of this bandwidth, e.g. 50GB/s");
  c->add_option("--budget", o->budget, "With --backend: time for all measurements")->capture_default_str();
  c->add_option("--timeout", o->time_out, "With --backend: how long a rank waits for the others")
      ->capture_default_str();
  c->add_option(
      "--gpu", o->gpu,
      "For GEMMs and operators: the GPU to begin with, a name of configs/gpus or configs/operators, or a path");
  c->add_option("-o,--output", o->output, "Where to write the profile")->required();
  c->add_option("--gpu-file", o->gpu_file, "With --backend nccl: also write the GPU alone, as a file of configs/gpus");
  c->add_option(
      "--operators", o->operators,
      "With --backend nccl: measure products and, through PyTorch where MOEPLAN_PYTHON or python3 has it, attention "
      "and kernels as a table of operators instead; the GPU that its rows name, one of configs/operators");
  c->add_flag("--quiet", o->quiet, "Do not print the fits");
  c->callback([o, &code] { run_profile(*o, code); });
}

}  // namespace moeplan::cli
