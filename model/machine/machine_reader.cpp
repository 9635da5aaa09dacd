#include "model/machine/machine_reader.hpp"

#include <fmt/format.h>

#include <set>
#include <unordered_map>

namespace moeplan {

namespace {

enum class IntraKind { PcieTree, NvlinkMesh, NvSwitch };
constexpr std::array<std::pair<IntraKind, std::string_view>, 3> kIntraKindNames{
    {{IntraKind::PcieTree, "pcie_tree"}, {IntraKind::NvlinkMesh, "nvlink_mesh"}, {IntraKind::NvSwitch, "nvswitch"}}};
constexpr std::array<std::pair<FabricKind, std::string_view>, 6> kFabricKindNames{
    {{FabricKind::SingleSwitch, "single_switch"},
     {FabricKind::RailOptimised, "rail_optimised"},
     {FabricKind::RailOptimised, "rail_optimized"},
     {FabricKind::RailOnly, "rail_only"},
     {FabricKind::DualPlane, "dual_plane"},
     {FabricKind::Dragonfly, "dragonfly"}}};

/// Reads the keys of a PCIe tree; the caller finishes the map.
PcieTree read_pcie(MapReader& m, std::int64_t gpus_per_node) {
  PcieTree tree{.gpus_per_switch = m.integer("gpus_per_switch", 0, kMostPerNode),
                .switches_per_bridge = m.integer("switches_per_bridge", 1, kMostPerNode),
                .pcie_bandwidth = m.quantity<BytesPerSecond>("pcie_bandwidth"),
                .inter_bridge_bandwidth = BytesPerSecond(0),
                .latency = m.quantity<Seconds>("latency", Sign::NonNegative)};
  const bool one_bridge = std::max<std::int64_t>(1, tree.gpus_per_switch) * tree.switches_per_bridge >= gpus_per_node;
  tree.inter_bridge_bandwidth = one_bridge ? m.quantity_or("inter_bridge_bandwidth", BytesPerSecond(0))
                                           : m.quantity<BytesPerSecond>("inter_bridge_bandwidth");
  return tree;
}

std::vector<NvLink> read_nvlinks(MapReader& mesh, std::int64_t gpus_per_node) {
  std::vector<NvLink> links;
  std::set<std::pair<std::int64_t, std::int64_t>> pairs;
  for (const auto& [item, path] : mesh.list("links")) {
    MapReader m(*item, path, mesh.diagnostics());
    const NvLink link{.a = m.integer("a", 0, gpus_per_node - 1),
                      .b = m.integer("b", 0, gpus_per_node - 1),
                      .bandwidth = m.quantity<BytesPerSecond>("bandwidth")};
    m.finish();
    if (m.has("a") && m.has("b")) {
      if (link.a == link.b) m.complain("b", "joins a GPU to itself");
      if (link.a != link.b && !pairs.insert(std::minmax(link.a, link.b)).second) {
        m.complain("", fmt::format("GPUs {} and {} are joined twice; add the bandwidths up", link.a, link.b));
      }
    }
    links.push_back(link);
  }
  return links;
}

NodeLinks read_intra_node(MapReader m, std::int64_t gpus_per_node) {
  const auto kind = m.choice<IntraKind>("kind", kIntraKindNames);
  NodeLinks out;
  switch (m.has("kind") ? kind : IntraKind::PcieTree) {
    case IntraKind::PcieTree: out = read_pcie(m, gpus_per_node); break;
    case IntraKind::NvSwitch:
      out = NvSwitch{.bandwidth = m.quantity<BytesPerSecond>("bandwidth"),
                     .latency = m.quantity<Seconds>("latency", Sign::NonNegative)};
      break;
    case IntraKind::NvlinkMesh: {
      NvlinkMesh mesh{.links = read_nvlinks(m, gpus_per_node),
                      .latency = m.quantity<Seconds>("latency", Sign::NonNegative),
                      .pcie = {}};
      MapReader pcie = m.map("pcie");
      mesh.pcie = read_pcie(pcie, gpus_per_node);
      pcie.finish();
      out = std::move(mesh);
      break;
    }
  }
  m.finish();
  return out;
}

Fabric read_fabric(MapReader m) {
  const auto kind = m.choice<FabricKind>("kind", kFabricKindNames);
  Fabric fabric{.kind = kind,
                .nics_per_node = m.integer("nics_per_node", 1, kMostPerNode),
                .nic_bandwidth = m.quantity<BytesPerSecond>("nic_bandwidth"),
                .latency = m.quantity<Seconds>("latency", Sign::NonNegative),
                .oversubscription = 1,
                .nodes_per_leaf = 1};
  if (kind != FabricKind::SingleSwitch) {
    fabric.oversubscription = m.number("oversubscription", 1, 1000);
    fabric.nodes_per_leaf = m.integer("nodes_per_leaf", 1, kMostWorld);
  }
  m.finish();
  return fabric;
}

/// Vertex ids by name, to resolve the ends of links.
class VertexNames {
 public:
  bool add(const std::string& name) {
    if (!index_.emplace(name, names_.size()).second) return false;
    names_.push_back(name);
    return true;
  }
  VertexId find(MapReader& link, std::string_view key) {
    const std::string name = link.text(key);
    if (const auto it = index_.find(name); it != index_.end()) return VertexId(it->second);
    if (!link.has(key)) return VertexId();
    // Finding the nearest name takes time proportional to the number of names, so it is done only for the first few
    // errors.
    constexpr int kMostSuggestions = 20;
    const std::string hint = ++unknown_ <= kMostSuggestions ? suggestion(name, names_) : "";
    link.complain(key, fmt::format("{} is no vertex{}", in_quotes(name), hint));
    return VertexId();
  }

 private:
  std::unordered_map<std::string, std::size_t> index_;
  std::vector<std::string> names_;
  int unknown_ = 0;
};

Vertex read_vertex(MapReader m, VertexNames& names) {
  Vertex v{.name = m.text("name"), .kind = m.choice<VertexKind>("kind", kVertexKindNames), .node = std::nullopt};
  if (m.has("node") || v.kind == VertexKind::Gpu) v.node = static_cast<int>(m.integer("node", 0, kMostWorld));
  m.finish();
  // A vertex with a duplicate or missing name keeps its position, so that ids match the list.
  if (!names.add(v.name) && m.has("name")) {
    m.complain("name", fmt::format("{} names an earlier vertex too", in_quotes(v.name)));
  }
  return v;
}

LinkTier tier_between(const Vertex& from, const Vertex& to) {
  if (from.node && from.node == to.node) return LinkTier::IntraNode;
  if (from.kind == VertexKind::NetworkSwitch && to.kind == VertexKind::NetworkSwitch) return LinkTier::Core;
  return LinkTier::Nic;
}

}  // namespace

ClusterTemplate read_template(MapReader m) {
  ClusterTemplate out{.nodes = m.integer("nodes", 1, kMostWorld),
                      .gpus_per_node = m.integer("gpus_per_node", 1, kMostPerNode),
                      .intra_node = NvSwitch{},
                      .fabric = std::nullopt};
  if (m.has("used_per_node"))
    out.used_per_node = m.integer("used_per_node", 1, std::max<std::int64_t>(1, out.gpus_per_node));
  out.intra_node = read_intra_node(m.map("intra_node"), out.gpus_per_node);
  if (m.has("fabric")) {
    out.fabric = read_fabric(m.map("fabric"));
  } else {
    static_cast<void>(m.find("fabric"));
    if (out.nodes > 1) m.complain("", fmt::format("missing key \"fabric\": it joins the {} nodes", out.nodes));
  }
  if (out.used_per_node && !std::holds_alternative<NvSwitch>(out.intra_node))
    m.complain("used_per_node", "is for GPUs on a switch; expected intra_node of kind nvswitch");
  if (out.nodes * out.gpus_per_node > kMostWorld) {
    m.complain("nodes",
               fmt::format("{} nodes of {} GPUs are more than {} GPUs", out.nodes, out.gpus_per_node, kMostWorld));
  }
  m.finish();
  return out;
}

Topology read_topology(MapReader& cluster) {
  Topology out;
  VertexNames names;
  for (const auto& [item, path] : cluster.list("vertices")) {
    out.vertices.push_back(read_vertex(MapReader(*item, path, cluster.diagnostics()), names));
  }
  for (const auto& [item, path] : cluster.list("links")) {
    MapReader m(*item, path, cluster.diagnostics());
    Link link{.from = names.find(m, "from"),
              .to = names.find(m, "to"),
              .bandwidth = m.quantity<BytesPerSecond>("bandwidth"),
              .latency = m.quantity<Seconds>("latency", Sign::NonNegative),
              .tier = LinkTier::IntraNode};
    const bool duplex = m.boolean_or("duplex", false);
    if (out.vertices.empty()) continue;
    link.tier = m.choice_or<LinkTier>(
        "tier", tier_between(out.vertices[link.from.index()], out.vertices[link.to.index()]), kLinkTierNames);
    m.finish();
    if (m.has("from") && m.has("to") && m.node().find("from")->scalar == m.node().find("to")->scalar) {
      m.complain("to", "joins a vertex to itself");
    }
    out.links.push_back(link);
    if (duplex) {
      std::swap(link.from, link.to);
      out.links.push_back(link);
    }
  }
  return out;
}

}  // namespace moeplan
