// moeplan cluster new --gpu NAME --nodes N [--nics 8x400Gbps] [--nvlink-domain 72 [--used 64]] -o NEW.yaml
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands/clusters/new_cluster_file.hpp"
#include "cli/commands/commands.hpp"
#include "model/base/diagnostics.hpp"

namespace moeplan::cli {

namespace {

struct NewClusterOptions {
  ClusterOptions cluster;
  std::int64_t domain = 0, used = 0;
};

void cluster_new(const NewClusterOptions& o) {
  profiler::ClusterFacts facts;
  facts.gpu = o.cluster.gpu;
  if (o.used > 0 && o.domain == 0)
    throw InputError(Diagnostic{{"--used"}, "", "is a number of the GPUs of --nvlink-domain, and there is none"});
  if (o.used > o.domain) {
    throw InputError(Diagnostic{{"--used"}, "", fmt::format("{} is more than --nvlink-domain, {}", o.used, o.domain)});
  }
  if (o.domain > 0) facts.gpus_per_node = o.used > 0 ? o.used : o.domain;
  if (o.used > 0 && o.used < o.domain) facts.spare = o.domain - o.used;
  write_new_cluster(o.cluster, std::move(facts), "cluster new");
}

}  // namespace

void add_cluster_command(CLI::App& app, ExitCode&) {
  auto* cluster = app.add_subcommand("cluster", "Write cluster files of your machines");
  cluster->require_subcommand(1);
  auto* c = cluster->add_subcommand("new", "A cluster file from a GPU, a number of nodes and their NICs");
  auto o = std::make_shared<NewClusterOptions>();
  c->add_option("--gpu", o->cluster.gpu, "The GPU: a name of configs/gpus or a path")->required();
  c->add_option("--nvlink-domain", o->domain, "GPUs that NVLink connects: a node, or a rack (default: as --like)")
      ->check(CLI::Range(1, 1024));
  c->add_option("--used", o->used, "GPUs of each NVLink domain that jobs use, e.g. 64 of 72: the last are spare")
      ->check(CLI::Range(1, 1024));
  add_cluster_options(*c, o->cluster);
  c->callback([o] { cluster_new(*o); });
}

}  // namespace moeplan::cli
