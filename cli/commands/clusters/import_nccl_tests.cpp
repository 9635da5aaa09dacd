// moeplan import nccl-tests LOG... [--like CLUSTER] [--gpu NAME] --cluster NEW.yaml
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/commands/clusters/similar_clusters.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/input_files.hpp"
#include "cli/commands/output_files.hpp"
#include "cli/pages/log_import.hpp"
#include "model/base/diagnostics.hpp"
#include "planner/plan/inputs.hpp"
#include "profiler/fits/source_text.hpp"
#include "profiler/tables/device_names.hpp"

namespace moeplan::cli {

namespace {

namespace fs = std::filesystem;
using profiler::CollectiveSamples;

struct NcclTestsImport {
  std::vector<std::string> logs;
  std::string like, gpu, output;
};

void note(const std::string& text) { fmt::print(stderr, "note: {}\n", text); }

std::vector<std::string> devices_of(const CollectiveSamples& read) {
  std::set<std::string> devices;
  for (const profiler::CollectiveSample& s : read.samples) {
    if (!s.device.empty()) devices.insert(s.device);
  }
  return {devices.begin(), devices.end()};
}

/// The GPU of --gpu, or else that of the logs' device names; none with a note. Raises InputError for several kinds.
std::optional<std::string> gpu_of(const NcclTestsImport& o, const std::vector<std::string>& devices) {
  if (!o.gpu.empty()) {
    (void)planner::find_config("gpus", o.gpu);
    return o.gpu;
  }
  std::set<std::string> gpus;
  for (const std::string& device : devices) {
    if (const auto gpu = profiler::gpu_of_device(device)) gpus.insert(*gpu);
  }
  if (gpus.size() > 1) {
    throw InputError(Diagnostic{
        {"--gpu"},
        "",
        fmt::format("is needed: the logs are of several kinds of GPU: {}; a cluster has one", fmt::join(gpus, ", "))});
  }
  if (!gpus.empty()) return *gpus.begin();
  return std::nullopt;
}

std::string like_of(const NcclTestsImport& o, const std::optional<std::string>& gpu) {
  if (!o.like.empty()) return o.like;
  const std::string what = "is needed: a cluster of configs/clusters, for what logs do not show";
  if (!gpu) throw InputError(Diagnostic{{"--like"}, "", what + "; the logs name no GPU by which to choose it"});
  const std::vector<std::string> found = clusters_with(*gpu);
  if (found.size() == 1) return found.front();
  throw InputError(
      Diagnostic{{"--like"},
                 "",
                 found.empty() ? fmt::format("{}; one of {}", what, fmt::join(planner::config_names("clusters"), ", "))
                               : fmt::format("{}; with {} there are {}", what, *gpu, fmt::join(found, ", "))});
}

void import_nccl_tests(const NcclTestsImport& o) {
  check_outputs({o.output});
  const CollectiveSamples read = read_logs(o.logs);
  const std::vector<std::string> devices = devices_of(read);
  const std::optional<std::string> gpu = gpu_of(o, devices);
  const profiler::SimilarCluster like = similar_cluster(like_of(o, gpu));
  const std::vector<profiler::CollectiveFit> fits = profiler::fit_collectives(read.samples);
  profiler::MeasuredCluster made = measured_cluster(like,
                                                    {.name = fs::path(o.output).stem().string(),
                                                     .gpu = gpu ? std::optional(path_in_file(*gpu)) : std::nullopt,
                                                     .hosts = read.hosts},
                                                    read.samples, fits);
  Node embedded = made.document;
  embed_files(embedded, planner::gpu_directories());
  const ClusterSpec spec = read_cluster(embedded);
  if (!gpu) {
    note(devices.empty() ? fmt::format("the logs name no GPU: {}, as {}; or name it by --gpu", spec.gpu.name, like.name)
                         : fmt::format("no GPU of configs/gpus is known as {}: {}, as {}; or name it by --gpu",
                                       profiler::listed(devices), spec.gpu.name, like.name));
  }
  for (const std::string& kept : made.kept) note(kept);
  std::vector<PredictedSample> predicted = predicted_samples(spec, read.samples);
  write_file_atomically(
      o.output, fmt::format("# Written by moeplan import nccl-tests from {} {}; {} for what logs do not show.\n",
                            o.logs.size(), o.logs.size() == 1 ? "log" : "logs", like.name) +
                    to_yaml(made.document));
  fmt::print("{}", log_import_page({.logs = o.logs.size(),
                                    .samples = std::move(predicted),
                                    .devices = profiler::listed(devices),
                                    .gpu = spec.gpu.name,
                                    .like = like.name,
                                    .like_machine = like.machine,
                                    .cluster = std::move(made),
                                    .output = o.output}));
}

}  // namespace

void add_import_nccl_tests(CLI::App& import) {
  auto* command = import.add_subcommand(
      "nccl-tests", "Logs of nccl-tests: a cluster of their nodes and GPUs, with the rates and collectives measured");
  auto o = std::make_shared<NcclTestsImport>();
  command->add_option("logs", o->logs, "Raw logs, of any version, inside a node and between nodes")->required();
  command->add_option(
      "--like", o->like,
      "The cluster that holds for what logs do not show: a name of configs/clusters or a path (default: "
      "the one with the logs' GPU)");
  command->add_option("--gpu", o->gpu, "The GPU: a name of configs/gpus or a path (default: the logs')");
  command->add_option("--cluster,-o,--output", o->output, "Where to write the cluster")->required();
  command->callback([o] { import_nccl_tests(*o); });
}

}  // namespace moeplan::cli
