#include "cli/commands/clusters/new_cluster_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "cli/commands/clusters/similar_clusters.hpp"
#include "cli/commands/output_files.hpp"
#include "model/text/origins.hpp"
#include "planner/plan/inputs.hpp"
#include "profiler/tables/table_text.hpp"

namespace moeplan::cli {

namespace {

namespace fs = std::filesystem;

std::optional<profiler::SimilarCluster> like_of(const ClusterOptions& o, const std::string& gpu) {
  if (!o.like.empty()) return similar_cluster(o.like);
  const std::vector<std::string> found = clusters_with(gpu);
  if (found.empty()) return std::nullopt;
  if (found.size() == 1) return similar_cluster(found.front());
  throw InputError(
      Diagnostic{{"--like"},
                 "",
                 fmt::format("is needed, for what is not given: with {} there are {}", gpu, fmt::join(found, ", "))});
}

}  // namespace

void add_cluster_options(CLI::App& command, ClusterOptions& o) {
  command.add_option(
      "--like", o.like,
      "The cluster from which unknown values are taken: a name of configs/clusters or a path (default: the "
      "one with the GPU)");
  command.add_option("--nodes", o.nodes, "Nodes, or NVLink domains")->check(CLI::Range(1, 1048576));
  command.add_option("--nics", o.nics,
                     "NICs of a node, or of a whole NVLink domain, and their bandwidth, e.g. 8x400Gbps");
  command.add_option("--cluster,-o,--output", o.output, "Where to write the cluster")->required();
}

profiler::Nics parse_nics(const std::string& text) {
  const std::size_t x = text.find('x');
  const auto count = profiler::whole_number(std::string_view(text).substr(0, x));
  const auto fail = [&](const std::string& why) {
    throw InputError(
        Diagnostic{{"--nics"}, "", fmt::format("{} {}; write e.g. 8x400Gbps or \"1x50 GB/s\"", in_quotes(text), why)});
  };
  if (x == std::string::npos || !count || *count < 1 || *count > kMostPerNode)
    fail(fmt::format("is no COUNTxBANDWIDTH with a count of 1 to {}", kMostPerNode));
  const auto rate = parse_quantity<BytesPerSecond>(text.substr(x + 1));
  if (const auto* error = std::get_if<TextError>(&rate)) fail("has a bandwidth that is none: " + error->message);
  const BytesPerSecond bandwidth = std::get<BytesPerSecond>(rate);
  if (bandwidth.value() <= 0) fail("has no bandwidth");
  return {.count = *count, .bandwidth = bandwidth};
}

void write_new_cluster(const ClusterOptions& o, profiler::ClusterFacts facts, const std::string& command) {
  check_outputs({o.output});
  const std::string gpu = facts.gpu;
  (void)planner::find_config("gpus", gpu);
  facts.name = fs::path(o.output).stem().string();
  facts.gpu = path_in_file(gpu);
  if (o.nodes > 0) facts.nodes = o.nodes;
  if (!o.nics.empty()) facts.nics = parse_nics(o.nics);
  const std::optional<profiler::SimilarCluster> like = like_of(o, gpu);
  const profiler::NewCluster made = profiler::new_cluster(facts, like);
  Node embedded = made.document;
  embed_files(embedded, planner::gpu_directories());
  const ClusterSpec spec = read_cluster(embedded);
  const Cluster cluster = planner::build_cluster_of(o.output, spec, std::nullopt);
  write_file_atomically(o.output, fmt::format("# Written by moeplan {}.\n", command) + to_yaml(made.document));
  for (const std::string& text : made.notes) fmt::print(stderr, "note: {}\n", text);
  const auto& machine = std::get<ClusterTemplate>(spec.machine);
  fmt::print("{}: {} nodes of {} x {}", spec.name, machine.nodes, machine.gpus_per_node, spec.gpu.name);
  if (machine.fabric)
    fmt::print(", {} NICs of {} per node", machine.fabric->nics_per_node, human(machine.fabric->nic_bandwidth));
  fmt::print("; {} numbers are assumed{}\n", assumed_numbers(made.document).size(),
             like ? fmt::format(", as {} where it says them", like->name) : "");
  fmt::print("written to {}; plan with: moeplan plan --cluster {} --model deepseek_v3 --world {}\n", o.output, o.output,
             cluster.world_size());
}

}  // namespace moeplan::cli
