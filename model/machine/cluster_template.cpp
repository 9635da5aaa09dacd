#include "model/machine/cluster_template.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/diagnostics.hpp"
#include "model/base/whole_numbers.hpp"

namespace moeplan {

namespace {

class Builder {
 public:
  Builder(const ClusterTemplate& machine, std::int64_t nodes) : machine_(machine), nodes_(nodes) {}

  Topology build() {
    check_size();
    std::vector<std::vector<VertexId>> nics;
    for (std::int64_t n = 0; n < nodes_; ++n) nics.push_back(add_node(static_cast<int>(n)));
    if (machine_.fabric) add_fabric(*machine_.fabric, nics);
    out_.vertices.shrink_to_fit();
    out_.links.shrink_to_fit();
    return std::move(out_);
  }

 private:
  VertexId add(std::string name, VertexKind kind, std::optional<int> node) {
    out_.vertices.push_back({std::move(name), kind, node});
    return VertexId(out_.vertices.size() - 1);
  }
  void lead(VertexId from, VertexId to, BytesPerSecond bandwidth, Seconds latency, LinkTier tier) {
    out_.links.push_back({from, to, bandwidth, latency, tier});
  }
  void join(VertexId a, VertexId b, BytesPerSecond bandwidth, Seconds latency, LinkTier tier) {
    lead(a, b, bandwidth, latency, tier);
    lead(b, a, bandwidth, latency, tier);
  }

  [[nodiscard]] bool is(FabricKind kind) const { return machine_.fabric && machine_.fabric->kind == kind; }
  [[nodiscard]] std::int64_t nics_per_node() const { return machine_.fabric ? machine_.fabric->nics_per_node : 0; }
  /// Number of existing groups of nodes_per_leaf nodes, of which the first `nodes_` nodes are built.
  [[nodiscard]] std::int64_t groups() const {
    return ceil_div(std::max(nodes_, machine_.nodes), machine_.fabric->nodes_per_leaf);
  }
  [[nodiscard]] std::int64_t groups_built() const { return ceil_div(nodes_, machine_.fabric->nodes_per_leaf); }

  /// An upper bound on the number of links, before any is created.
  void check_size() const {
    const double gpus = static_cast<double>(machine_.gpus_per_node), nics = static_cast<double>(nics_per_node());
    double bridges = 0, mesh = 0;
    if (const auto* m = std::get_if<NvlinkMesh>(&machine_.intra_node)) {
      mesh = static_cast<double>(m->links.size());
      bridges = static_cast<double>(bridge_count(m->pcie));
    }
    if (const auto* tree = std::get_if<PcieTree>(&machine_.intra_node))
      bridges = static_cast<double>(bridge_count(*tree));
    const double planes = is(FabricKind::DualPlane) ? 2 : 1;
    double cables = static_cast<double>(nodes_) *
                    (3 * gpus + bridges * bridges / 2 + mesh + 2 * planes * nics + std::max(gpus, nics));
    if (is(FabricKind::RailOnly)) cables += static_cast<double>(nodes_) * (gpus + std::max(gpus, nics));
    if (is(FabricKind::Dragonfly)) {
      cables += static_cast<double>(groups_built()) * static_cast<double>(groups_built()) / 2;
    }
    if (2 * cables <= static_cast<double>(kMostLinks)) return;
    throw InputError({{},
                      "",
                      fmt::format("{} nodes of {} GPUs and {} NICs need about {:.3g} links, more than {}", nodes_,
                                  machine_.gpus_per_node, nics_per_node(), 2 * cables, kMostLinks)});
  }

  std::vector<VertexId> add_node(int node) {
    std::vector<VertexId> gpus, nics;
    for (std::int64_t i = 0; i < machine_.gpus_per_node; ++i) {
      gpus.push_back(add(fmt::format("node{}.gpu{}", node, i), VertexKind::Gpu, node));
    }
    for (std::int64_t i = 0; i < nics_per_node(); ++i) {
      nics.push_back(add(fmt::format("node{}.nic{}", node, i), VertexKind::Nic, node));
    }
    if (const auto* tree = std::get_if<PcieTree>(&machine_.intra_node)) add_tree(*tree, node, gpus, nics);
    if (const auto* sw = std::get_if<NvSwitch>(&machine_.intra_node)) add_nvswitch(*sw, node, gpus, nics);
    if (const auto* mesh = std::get_if<NvlinkMesh>(&machine_.intra_node)) {
      for (const NvLink& link : mesh->links) {
        join(gpus[static_cast<std::size_t>(link.a)], gpus[static_cast<std::size_t>(link.b)], link.bandwidth,
             mesh->latency, LinkTier::IntraNode);
      }
      add_tree(mesh->pcie, node, gpus, nics);
    }
    return nics;
  }

  [[nodiscard]] std::int64_t bridge_count(const PcieTree& tree) const {
    return ceil_div(machine_.gpus_per_node, std::max<std::int64_t>(1, tree.gpus_per_switch) * tree.switches_per_bridge);
  }

  void add_tree(const PcieTree& tree, int node, const std::vector<VertexId>& gpus, const std::vector<VertexId>& nics) {
    const auto bridge_total = static_cast<std::size_t>(bridge_count(tree));
    const auto per_bridge = static_cast<std::size_t>(tree.switches_per_bridge);
    std::vector<VertexId> bridges;
    for (std::size_t i = 0; i < bridge_total; ++i) {
      bridges.push_back(add(fmt::format("node{}.bridge{}", node, i), VertexKind::HostBridge, node));
      for (std::size_t j = 0; j < i; ++j) {
        join(bridges[j], bridges[i], tree.inter_bridge_bandwidth, tree.latency, LinkTier::IntraNode);
      }
    }
    const auto slot = [&](VertexId a, VertexId b) {
      join(a, b, tree.pcie_bandwidth, tree.latency, LinkTier::IntraNode);
    };
    if (tree.gpus_per_switch == 0) {
      for (std::size_t g = 0; g < gpus.size(); ++g) slot(gpus[g], bridges[g / per_bridge]);
    } else {
      const auto per_switch = static_cast<std::size_t>(tree.gpus_per_switch);
      for (std::size_t s = 0; s * per_switch < gpus.size(); ++s) {
        const VertexId sw = add(fmt::format("node{}.pcie_switch{}", node, s), VertexKind::PcieSwitch, node);
        slot(sw, bridges[s / per_bridge]);
        for (std::size_t g = s * per_switch; g < std::min(gpus.size(), (s + 1) * per_switch); ++g) slot(gpus[g], sw);
      }
    }
    for (std::size_t i = 0; i < nics.size(); ++i) slot(bridges[i * bridges.size() / nics.size()], nics[i]);
  }

  void add_nvswitch(const NvSwitch& nvswitch, int node, const std::vector<VertexId>& gpus,
                    const std::vector<VertexId>& nics) {
    const VertexId sw = add(fmt::format("node{}.nvswitch", node), VertexKind::NvSwitch, node);
    const std::vector<VertexId> relays = add_nvlinks(nvswitch, node, gpus, sw);
    const auto near_nic = [&](VertexId a, VertexId b) {
      join(a, b, machine_.fabric->nic_bandwidth, Seconds(0), LinkTier::Nic);
    };
    const auto relay = [&](std::size_t gpu, VertexId to) {
      if (!relays.empty()) lead(relays[gpu], to, machine_.fabric->nic_bandwidth, Seconds(0), LinkTier::Nic);
    };
    if (nics.size() >= gpus.size()) {
      for (std::size_t i = 0; i < nics.size(); ++i) {
        const std::size_t g = i * gpus.size() / nics.size();
        near_nic(gpus[g], nics[i]);
        relay(g, nics[i]);
      }
      return;
    }
    // One port per GPU; with a shared port, the path between GPUs of one NIC through it would be as short as through
    // the switch.
    for (std::size_t i = 0; i < nics.size(); ++i) {
      for (std::size_t g = i * gpus.size() / nics.size(); g < (i + 1) * gpus.size() / nics.size(); ++g) {
        const VertexId port = add(fmt::format("node{}.port{}", node, g), VertexKind::PcieSwitch, node);
        near_nic(gpus[g], port);
        near_nic(port, nics[i]);
        relay(g, port);
      }
    }
  }

  /// The NVLinks of a node's GPUs. If GPUs relay to their NICs, also their ends at the GPUs, which then part what is
  /// for the GPU from what it relays: both take its NVLinks' bandwidth.
  std::vector<VertexId> add_nvlinks(const NvSwitch& nvswitch, int node, const std::vector<VertexId>& gpus,
                                    VertexId sw) {
    std::vector<VertexId> ends;
    const auto nvlink = [&](VertexId from, VertexId to, Seconds latency) {
      lead(from, to, nvswitch.bandwidth, latency, LinkTier::IntraNode);
    };
    for (std::size_t g = 0; g < gpus.size(); ++g) {
      nvlink(gpus[g], sw, nvswitch.latency);
      if (is(FabricKind::RailOnly)) {
        ends.push_back(add(fmt::format("node{}.nvlink{}", node, g), VertexKind::NvSwitch, node));
        nvlink(sw, ends.back(), nvswitch.latency);
        nvlink(ends.back(), gpus[g], Seconds(0));
      } else {
        nvlink(sw, gpus[g], nvswitch.latency);
      }
    }
    return ends;
  }

  void add_fabric(const Fabric& fabric, const std::vector<std::vector<VertexId>>& nics) {
    switch (fabric.kind) {
      case FabricKind::SingleSwitch: return add_single_switch(fabric, nics);
      case FabricKind::RailOptimised:
      case FabricKind::RailOnly: return add_rails(fabric, nics, "", fabric.nic_bandwidth);
      case FabricKind::DualPlane:
        for (const char* plane : {"plane0.", "plane1."}) add_rails(fabric, nics, plane, fabric.nic_bandwidth / 2);
        return;
      case FabricKind::Dragonfly: return add_dragonfly(fabric, nics);
    }
  }

  void add_single_switch(const Fabric& fabric, const std::vector<std::vector<VertexId>>& nics) {
    const VertexId core = add("core", VertexKind::NetworkSwitch, std::nullopt);
    for (const auto& node : nics) {
      for (const VertexId nic : node) join(nic, core, fabric.nic_bandwidth, fabric.latency, LinkTier::Nic);
    }
  }

  /// Leaves for the rails of each group, and the spine, or one for each rail, in a plane of the given ports.
  void add_rails(const Fabric& fabric, const std::vector<std::vector<VertexId>>& nics, const std::string& plane,
                 BytesPerSecond port) {
    const auto rails = static_cast<std::size_t>(fabric.nics_per_node);
    const auto per_leaf = static_cast<std::size_t>(fabric.nodes_per_leaf);
    const BytesPerSecond up = port * (static_cast<double>(fabric.nodes_per_leaf) / fabric.oversubscription);
    std::vector<VertexId> spines;  // by rail
    for (std::size_t rail = 0; rail < rails; ++rail) {
      const bool is_shared = fabric.kind != FabricKind::RailOnly;
      spines.push_back(is_shared && rail > 0 ? spines.front()
                                             : add(is_shared ? plane + "spine" : fmt::format("spine.rail{}", rail),
                                                   VertexKind::NetworkSwitch, std::nullopt));
    }
    for (std::size_t group = 0; group * per_leaf < nics.size(); ++group) {
      for (std::size_t rail = 0; rail < rails; ++rail) {
        const VertexId leaf =
            add(fmt::format("{}leaf{}.rail{}", plane, group, rail), VertexKind::NetworkSwitch, std::nullopt);
        join(leaf, spines[rail], up, fabric.latency, LinkTier::Core);
        for (std::size_t n = group * per_leaf; n < std::min(nics.size(), (group + 1) * per_leaf); ++n) {
          join(nics[n][rail], leaf, port, fabric.latency, LinkTier::Nic);
        }
      }
    }
  }

  void add_dragonfly(const Fabric& fabric, const std::vector<std::vector<VertexId>>& nics) {
    const auto per_group = static_cast<std::size_t>(fabric.nodes_per_leaf);
    const double others = static_cast<double>(std::max<std::int64_t>(1, groups() - 1));
    const double group_nics = static_cast<double>(fabric.nodes_per_leaf) * static_cast<double>(fabric.nics_per_node);
    const BytesPerSecond global = fabric.nic_bandwidth * (group_nics / (fabric.oversubscription * others));
    std::vector<VertexId> switches;
    for (std::size_t g = 0; g * per_group < nics.size(); ++g) {
      switches.push_back(add(fmt::format("group{}", g), VertexKind::NetworkSwitch, std::nullopt));
      for (std::size_t n = g * per_group; n < std::min(nics.size(), (g + 1) * per_group); ++n) {
        for (const VertexId nic : nics[n]) join(nic, switches[g], fabric.nic_bandwidth, fabric.latency, LinkTier::Nic);
      }
      for (std::size_t h = 0; h < g; ++h) join(switches[h], switches[g], global, fabric.latency, LinkTier::Core);
    }
  }

  const ClusterTemplate& machine_;
  std::int64_t nodes_;
  Topology out_;
};

}  // namespace

bool is_rack(const ClusterTemplate& machine) {
  constexpr std::int64_t kLargestHost = 16;
  return machine.fabric && std::holds_alternative<NvSwitch>(machine.intra_node) && machine.gpus_per_node > kLargestHost;
}

std::int64_t used_per_node(const ClusterTemplate& machine, std::int64_t gpus) {
  const std::int64_t all = machine.gpus_per_node;
  if (machine.used_per_node) return *machine.used_per_node;
  if (!is_rack(machine) || gpus <= all || gpus % all == 0) return all;
  const bool grows = gpus > machine.nodes * all;
  for (std::int64_t used = all; 2 * used >= all; --used) {
    if (gpus % used == 0 && (grows || gpus / used <= machine.nodes)) return used;
  }
  return all;
}

ClusterTemplate used_part(ClusterTemplate machine, std::int64_t gpus) {
  const std::int64_t all = machine.gpus_per_node, used = used_per_node(machine, gpus);
  if (machine.fabric) {
    std::int64_t& nics = machine.fabric->nics_per_node;
    nics = std::max<std::int64_t>(1, nics * used / all);
  }
  machine.gpus_per_node = used;
  return machine;
}

Topology expand(const ClusterTemplate& machine, std::int64_t nodes) { return Builder(machine, nodes).build(); }

}  // namespace moeplan
