// moeplan list
// schedules|all-to-all|collectives|codecs|placements|precisions|topologies|gpus|clusters|models|workloads|sweeps|frameworks
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/commands/commands.hpp"
#include "model/text/reader.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/lowering/collective_programs.hpp"
#include "planner/placement/strategies/strategy.hpp"
#include "planner/plan/inputs.hpp"

namespace moeplan::cli {

namespace {

/// Names, each with a one-line description.
using Listing = std::vector<std::pair<std::string, std::string>>;

/// The text of the comment on a file's first line; "" if there is none.
std::string first_comment(const std::filesystem::path& path) {
  const std::string text = read_text_file(path);
  if (!text.starts_with("# ")) return "";
  return text.substr(2, text.find('\n') - 2);
}

Listing of_configs(const std::string& kind) {
  Listing rows;
  for (const std::string& name : planner::config_names(kind)) {
    rows.emplace_back(name, first_comment(planner::config_directory() / kind / (name + ".yaml")));
  }
  return rows;
}

Listing rows_of(const std::string& what) {
  if (what == "schedules") {
    Listing rows;
    for (const auto& s : planner::schedules()) rows.emplace_back(s->name(), s->summary());
    return rows;
  }
  if (what == "all-to-all") {
    Listing rows;
    for (const auto& a : planner::all_to_alls()) rows.emplace_back(a->name(), a->summary());
    return rows;
  }
  if (what == "collectives") {
    Listing rows;
    for (const planner::CollectiveAlgorithm& a : planner::collective_algorithms()) {
      rows.emplace_back(fmt::format("{} {}", name_of<Collective>(kCollectiveNames, a.collective), a.name), a.summary);
    }
    return rows;
  }
  if (what == "codecs") {
    Listing rows{{"none", "tokens travel as they are"}};
    for (const CodecEntry& c : codecs()) rows.emplace_back(c.name, c.summary);
    return rows;
  }
  if (what == "precisions") {
    return {{"fp32, tf32, fp16, bf16", "one format for everything"},
            {"fp8_delayed", "products of linear layers in fp8, scales of tensors from earlier steps"},
            {"fp8_current", "products of linear layers in fp8, scales of tensors from the tensors themselves"},
            {"fp8_block", "products of linear layers in fp8, a scale for 128 values (weights: 128 x 128)"},
            {"mxfp8", "products of linear layers in fp8, a scale for 32 values"}};
  }
  if (what == "placements") {
    Listing rows;
    for (const auto& s : planner::placement_strategies()) rows.emplace_back(s->name(), s->summary());
    return rows;
  }
  if (what == "topologies") {
    return {{"pcie_tree", "intra_node: GPUs on PCIe switches or host bridges, joined by UPI"},
            {"nvlink_mesh", "intra_node: direct NVLink connections in addition to a PCIe tree"},
            {"nvswitch", "intra_node: every GPU to a non-blocking switch"},
            {"single_switch", "fabric: every NIC to one non-blocking switch"},
            {"rail_optimised", "fabric: NIC i of every node on rail i, leaves joined by a spine"},
            {"dragonfly", "fabric: groups of nodes, every pair of groups joined"}};
  }
  return of_configs(what);
}

}  // namespace

void add_list_command(CLI::App& app, ExitCode&) {
  auto* command = app.add_subcommand("list", "What is built in and which configurations are there");
  auto what = std::make_shared<std::string>();
  command
      ->add_option(
          "what", *what,
          "schedules, all-to-all, collectives, codecs, placements, precisions, topologies, gpus, clusters, models, "
          "workloads, sweeps or frameworks")
      ->required()
      ->check(CLI::IsMember({"schedules", "all-to-all", "collectives", "codecs", "placements", "precisions",
                             "topologies", "gpus", "clusters", "models", "workloads", "sweeps", "frameworks"}));
  command->callback([what] {
    std::size_t width = 0;
    const Listing rows = rows_of(*what);
    for (const auto& [name, about] : rows) width = std::max(width, name.size());
    for (const auto& [name, about] : rows) {
      fmt::print("{}\n", about.empty() ? name : fmt::format("{:<{}}  {}", name, width, about));
    }
  });
}

}  // namespace moeplan::cli
