#include "cli/pages/listing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/pages/text/wrapping.hpp"
#include "model/text/reader.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/lowering/collective_programs.hpp"
#include "planner/placement/strategies/strategy.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/report/json_parts.hpp"

namespace moeplan::cli {

namespace {

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

/// The names and summaries of schedules, all-to-alls or placement strategies.
Listing of_registered(const auto& registered) {
  Listing rows;
  for (const auto& one : registered) rows.emplace_back(one->name(), one->summary());
  return rows;
}

}  // namespace

Listing listing(const std::string& what) {
  if (what == "schedules") return of_registered(planner::schedules());
  if (what == "all-to-all") return of_registered(planner::all_to_alls());
  if (what == "dispatchers") {
    Listing rows{{"linear", "NCCL's all-to-all, a row for each expert"}};
    for (const auto& a : planner::all_to_alls()) {
      if (a->is_dispatcher()) rows.emplace_back(a->name(), a->summary());
    }
    return rows;
  }
  if (what == "placements") return of_registered(planner::placement_strategies());
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
  if (what == "topologies") {
    return {{"pcie_tree", "intra_node: GPUs on PCIe switches or host bridges, joined by UPI"},
            {"nvlink_mesh", "intra_node: direct NVLink connections in addition to a PCIe tree"},
            {"nvswitch", "intra_node: every GPU to a non-blocking switch"},
            {"single_switch", "fabric: every NIC to one non-blocking switch"},
            {"rail_optimised", "fabric: NIC i of every node on rail i, leaves joined by a spine"},
            {"rail_only", "fabric: the same with a spine for each rail; GPUs relay to other rails inside a node"},
            {"dual_plane", "fabric: rails twice, each NIC with half of its bandwidth on either plane"},
            {"dragonfly", "fabric: groups of nodes, every pair of groups joined"}};
  }
  if (what == "collective-models") return of_configs("collectives");
  if (what == "operator-models") return of_configs("operators");
  return of_configs(what);
}

std::string list_page(const std::string& what, bool is_wrapped) {
  const Listing rows = listing(what);
  std::size_t width = 0;
  for (const auto& [name, about] : rows) width = std::max(width, name.size());
  std::string out;
  for (const auto& [name, about] : rows)
    out += about.empty() ? name + "\n"
           : is_wrapped  ? labelled(name, about, width + 4)
                         : fmt::format("{:<{}}  {}\n", name, width, about);
  return out;
}

std::string list_json(const std::string& what) {
  planner::Json entries = planner::Json::array();
  for (const auto& [name, about] : listing(what)) entries.push_back({{"name", name}, {"summary", about}});
  return planner::json_text({{"schema_version", 1}, {"what", what}, {"entries", std::move(entries)}});
}

}  // namespace moeplan::cli
