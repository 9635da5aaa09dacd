// moeplan import nccl-topo XML | nvidia-smi-topo TEXT | ibnetdiscover TEXT [--gpu NAME] [--like CLUSTER] [--nodes N]
//                [--nics 8x400Gbps] --cluster NEW.yaml
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "cli/commands/clusters/new_cluster_file.hpp"
#include "cli/commands/commands.hpp"
#include "model/base/diagnostics.hpp"
#include "model/text/document.hpp"

namespace moeplan::cli {

namespace {

constexpr std::size_t kMostText = std::size_t{1} << 28;

struct TopologyImport {
  std::string file;
  ClusterOptions cluster;
};

/// The GPU of --gpu, or else the one that the file shows.
std::string gpu_of(const TopologyImport& o, const std::set<std::string>& shown) {
  if (!o.cluster.gpu.empty()) return o.cluster.gpu;
  if (shown.size() == 1) return *shown.begin();
  throw InputError(
      Diagnostic{{"--gpu"},
                 "",
                 shown.empty() ? fmt::format("is needed: {} does not say which GPUs these are; a name of "
                                             "configs/gpus, see moeplan list gpus",
                                             o.file)
                               : fmt::format("is needed: {} shows several kinds: {}", o.file, fmt::join(shown, ", "))});
}

void import_topology(const TopologyImport& o, const std::string& format) {
  const std::string text = read_text_file(o.file, kMostText);
  profiler::ClusterFacts facts;
  facts.source = format + " " + std::filesystem::path(o.file).filename().string();
  std::set<std::string> shown;
  if (format == "ibnetdiscover") {
    facts.fabric = profiler::read_ibnetdiscover(text, o.file);
  } else {
    facts.node = format == "nccl-topo" ? profiler::read_nccl_topology(text, o.file)
                                       : profiler::read_nvidia_smi_topology(text, o.file);
    shown = facts.node->gpu_kinds;
  }
  facts.gpu = gpu_of(o, shown);
  write_new_cluster(o.cluster, std::move(facts), "import " + format);
}

void add_format(CLI::App& import, const std::string& format, const std::string& help) {
  auto* command = import.add_subcommand(format, help);
  auto o = std::make_shared<TopologyImport>();
  command->add_option("file", o->file, "What the tool wrote")->required();
  command->add_option("--gpu", o->cluster.gpu, "The GPU: a name of configs/gpus or a path (default: the file's)");
  add_cluster_options(*command, o->cluster);
  command->callback([o, format] { import_topology(*o, format); });
}

}  // namespace

void add_import_topology(CLI::App& import) {
  add_format(import, "nccl-topo", "A topology file of NCCL (NCCL_TOPO_DUMP_FILE): a cluster of such nodes");
  add_format(import, "nvidia-smi-topo", "The matrix of nvidia-smi topo -m: a cluster of such nodes");
  add_format(import, "ibnetdiscover", "The InfiniBand network as ibnetdiscover prints it: a cluster with its nodes");
}

}  // namespace moeplan::cli
