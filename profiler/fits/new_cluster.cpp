#include "profiler/fits/new_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/text/origins.hpp"

namespace moeplan::profiler {

namespace {

/// Bandwidth of an NVLink in each direction by GPU (datasheets: 25 GB/s up to NVLink 4, 50 GB/s from NVLink 5, 14 GB/s
/// of the RTX 3090).
double nvlink_rate(const std::string& gpu) {
  if (gpu.find("rtx") != std::string::npos) return 14.0625e9;
  return gpu.find("b200") != std::string::npos || gpu.find("b300") != std::string::npos ? 50e9 : 25e9;
}

std::string rate_text(double bytes_per_second) { return fmt::format("{:.5g} GB/s", bytes_per_second * 1e-9); }

std::string gbps_text(BytesPerSecond rate) { return fmt::format("{:.6g} Gbps", rate.value() / 1.25e8); }

class NewClusterBuilder {
 public:
  NewClusterBuilder(const ClusterFacts& facts, const std::optional<SimilarCluster>& like) : facts_(facts), like_(like) {
    document_ = Node::map();
    template_ = Node::map();
  }

  NewCluster built() {
    document_.set("name", Node::text(facts_.name));
    document_.set("gpu", Node::text(facts_.gpu));
    shape();
    intra_node();
    fabric();
    document_.set("template", template_);
    software();
    document_.set("origins", origins_);
    return {std::move(document_), std::move(notes_)};
  }

 private:
  [[noreturn]] static void fail(const char* option, std::string message) {
    throw InputError(Diagnostic{{option}, "", std::move(message)});
  }
  void origin(const std::string& path, std::string text) { origins_.set(path, Node::text(std::move(text))); }
  [[nodiscard]] std::string as_like(const std::string& path) const {
    return fmt::format("assumed: as {} ({})", like_->name, origin_at(like_->document, path));
  }
  [[nodiscard]] std::string shown() const { return "measured: " + facts_.source; }
  [[nodiscard]] const Node* of_like(const char* key) const {
    const Node* machine = like_ ? like_->document.find("template") : nullptr;
    return machine ? machine->find(key) : nullptr;
  }

  void shape() {
    nodes_ = facts_.nodes ? *facts_.nodes : facts_.fabric ? facts_.fabric->nodes : 1;
    template_.set("nodes", Node::integer(nodes_));
    origin("template.nodes", facts_.nodes    ? "assumed: as given by --nodes"
                             : facts_.fabric ? shown()
                                             : "assumed: one node, since --nodes does not say how many");
    if (facts_.gpus_per_node) {
      gpus_ = *facts_.gpus_per_node;
      origin("template.gpus_per_node",
             facts_.spare ? fmt::format("assumed: {} of the {} GPUs of an NVLink domain, the others are spare", gpus_,
                                        gpus_ + *facts_.spare)
                          : "assumed: as given by --nvlink-domain or --gpus-per-node");
    } else if (facts_.node) {
      gpus_ = facts_.node->gpus;
      origin("template.gpus_per_node", shown());
    } else if (like_) {
      gpus_ = like_->machine.gpus_per_node;
      origin("template.gpus_per_node", as_like("template.gpus_per_node"));
    } else {
      fail("--gpus-per-node", "is needed: no shipped cluster has this GPU");
    }
    template_.set("gpus_per_node", Node::integer(gpus_));
  }

  void intra_node() {
    const Node* like = of_like("intra_node");
    if (facts_.node) {
      for (const std::string& text : facts_.node->left_out) notes_.push_back("left out: " + text);
      // Files of virtual machines show no NVLink: the shipped machine with this GPU has switches all the same.
      const bool shows_links = facts_.node->switch_links > 0 || !facts_.node->direct.empty();
      const bool is_switched = like_ && std::holds_alternative<NvSwitch>(like_->machine.intra_node);
      if (!shows_links && !is_switched)
        notes_.push_back(fmt::format("{} shows no NVLink: the GPUs are connected by PCIe alone", facts_.source));
      if (shows_links || !is_switched) return shown_links();
      notes_.push_back(fmt::format("{} shows no NVLink: links inside a node as {}", facts_.source, like_->name));
    }
    if (!like)
      fail("--like", "is needed: no shipped cluster has this GPU, and nothing says how its GPUs are connected");
    template_.set("intra_node", *like);
    origin("template.intra_node", as_like("template.intra_node.bandwidth"));
    origin("template.intra_node.latency", as_like("template.intra_node.latency"));
  }

  void shown_links() {
    const NodeTopology& node = *facts_.node;
    const double rate = nvlink_rate(facts_.gpu);
    Node links = Node::map();
    const std::string path = "template.intra_node";
    if (node.switch_links > 0) {
      links.set("kind", Node::text("nvswitch"));
      links.set("bandwidth", Node::text(rate_text(static_cast<double>(node.switch_links) * rate)));
      origin(path + ".bandwidth",
             fmt::format("{}: {} NVLinks a GPU, {} each (datasheet)", shown(), node.switch_links, rate_text(rate)));
    } else {
      pcie_tree(links, node.direct.empty() ? path : path + ".pcie", !node.direct.empty());
      if (!node.direct.empty()) {
        links.set("kind", Node::text("nvlink_mesh"));
        Node list = Node::list();
        for (const NvLinks& l : node.direct) {
          if (l.a >= gpus_ || l.b >= gpus_) continue;
          Node link = Node::map();
          link.set("a", Node::integer(l.a));
          link.set("b", Node::integer(l.b));
          link.set("bandwidth", Node::text(rate_text(static_cast<double>(l.count) * rate)));
          list.items.push_back(std::move(link));
        }
        links.set("links", std::move(list));
        origin(path + ".links", fmt::format("{}: NVLinks, {} each (datasheet)", shown(), rate_text(rate)));
      }
    }
    links.set("latency", Node::text("0.5 us"));
    origin(path + ".latency", "assumed: 0.5 us a hop inside a node, not measured");
    template_.set("intra_node", std::move(links));
  }

  /// The keys of a PCIe tree, in a map of their own where NVLinks are next to it.
  void pcie_tree(Node& links, const std::string& path, bool is_nested) {
    const NodeTopology& node = *facts_.node;
    Node tree = Node::map();
    if (!is_nested) tree.set("kind", Node::text("pcie_tree"));
    tree.set("gpus_per_switch", Node::integer(node.gpus_per_switch));
    tree.set("switches_per_bridge", Node::integer(node.switches_per_bridge));
    const double slot = node.pcie_bandwidth ? node.pcie_bandwidth->value() : assumed_slot();
    tree.set("pcie_bandwidth", Node::text(rate_text(slot)));
    tree.set("inter_bridge_bandwidth", Node::text("41.6 GB/s"));
    if (is_nested) tree.set("latency", Node::text("0.5 us"));
    origin(path, shown());
    origin(path + ".pcie_bandwidth", node.pcie_bandwidth
                                         ? shown() + ": link_speed and link_width of the GPUs"
                                         : "assumed: x16 of the GPU's PCI Express generation, 128b/130b coding");
    origin(path + ".inter_bridge_bandwidth",
           "assumed: two UPI links of 10.4 GT/s x 2 B, 20.8 GB/s each; topology files do not show it");
    if (is_nested) origin(path + ".latency", "assumed: 0.5 us a PCIe hop, not measured");
    if (is_nested) {
      links.set("pcie", std::move(tree));
    } else {
      links = std::move(tree);
    }
  }

  /// PCI Express 5 from Hopper on, 3 up to Volta and Turing, else 4: x16, each direction.
  [[nodiscard]] double assumed_slot() const {
    const auto has = [&](const char* part) { return facts_.gpu.find(part) != std::string::npos; };
    if (has("h100") || has("h200") || has("h800") || has("h20") || has("b200") || has("b300")) return 63.015e9;
    return has("v100") || has("2080") ? 15.754e9 : 31.508e9;
  }

  void fabric() {
    const Node* like = of_like("fabric");
    const bool shows_nics = facts_.node && facts_.node->nics > 0 && facts_.node->nic_bandwidth;
    if (!like && !facts_.nics && !shows_nics && !facts_.fabric) {
      if (nodes_ > 1)
        fail("--nics", "is needed for several nodes, e.g. 8x400Gbps: no file and no shipped cluster says it");
      notes_.push_back("no network between nodes: nothing says how fast its NICs are; name them by --nics");
      return;
    }
    const std::string path = "template.fabric";
    Node fabric = Node::map();
    const bool is_single = facts_.fabric && facts_.fabric->switches == 1;
    if (like) {
      fabric = *like;
      for (const char* key : {"kind", "latency"}) origin(path + "." + key, as_like(path + "." + key));
      for (const char* key : {"oversubscription", "nodes_per_leaf"}) {
        if (is_single) std::erase_if(fabric.entries, [&](const Entry& e) { return e.key == key; });
        if (fabric.find(key)) origin(path + "." + key, as_like(path + "." + key));
      }
    } else {
      fabric.set("kind", Node::text("rail_optimised"));
      fabric.set("latency", Node::text("1 us"));
      if (!is_single) {
        fabric.set("oversubscription", Node::integer(1));
        fabric.set("nodes_per_leaf", Node::integer(32));
      }
      origin(path, "assumed: rails of 32 nodes a leaf without oversubscription; --like names another machine");
      origin(path + ".latency", "assumed: 1 us from GPU to switch and from switch to GPU, a usual InfiniBand figure");
    }
    nics(fabric, path, like);
    if (facts_.fabric) switches(fabric, path);
    template_.set("fabric", std::move(fabric));
  }

  void nics(Node& fabric, const std::string& path, const Node* like) {
    std::int64_t count = 0;
    std::optional<BytesPerSecond> rate;
    std::string from;
    if (facts_.nics) {
      count = facts_.nics->count, rate = facts_.nics->bandwidth, from = "assumed: as given by --nics";
      constexpr std::int64_t kMostGpusOfNic = 4;  // more share one NIC in no machine that is sold with a fabric
      if (gpus_ > kMostGpusOfNic * count)
        notes_.push_back(
            fmt::format("--nics: all {} GPUs of a node share {} NICs; a rack has those of all its hosts, "
                        "e.g. 72x400Gbps",
                        gpus_, count));
    } else if (facts_.fabric) {
      count = facts_.fabric->nics_per_node, rate = facts_.fabric->nic_bandwidth, from = shown();
    } else if (facts_.node && facts_.node->nics > 0) {
      count = facts_.node->nics, rate = facts_.node->nic_bandwidth, from = shown();
    }
    if (count == 0) {
      const std::int64_t before = like_->machine.fabric->nics_per_node, gpus = like_->machine.gpus_per_node;
      count = std::max<std::int64_t>(1, before * gpus_ / gpus);
      from = fmt::format("assumed: as {}, with {} NICs for {} GPUs", like_->name, before, gpus);
    }
    fabric.set("nics_per_node", Node::integer(count));
    origin(path + ".nics_per_node", from);
    if (rate) {
      fabric.set("nic_bandwidth", Node::text(gbps_text(*rate)));
      origin(path + ".nic_bandwidth", from);
    } else {
      origin(path + ".nic_bandwidth", as_like(path + ".nic_bandwidth"));
      notes_.push_back(fmt::format("bandwidth of the NICs: {}, as {}; name it by --nics",
                                   like->find("nic_bandwidth")->scalar, like_->name));
    }
  }

  void switches(Node& fabric, const std::string& path) {
    const FabricTopology& f = *facts_.fabric;
    for (const std::string& text : f.left_out) notes_.push_back("left out: " + text);
    const bool is_single = f.switches == 1;
    fabric.set("kind", Node::text(is_single ? "single_switch" : "rail_optimised"));
    origin(path + ".kind",
           f.has_rails || is_single
               ? shown()
               : fmt::format("assumed: rails, though the ports of most hosts in {} are on one leaf switch",
                             facts_.source));
    if (is_single) return;
    fabric.set("oversubscription", Node::number(f.oversubscription));
    fabric.set("nodes_per_leaf", Node::integer(f.nodes_per_leaf));
    origin(path + ".oversubscription", shown());
    origin(path + ".nodes_per_leaf", shown());
  }

  void software() {
    if (!like_) {
      document_.set("collective_startup", Node::text("20 us"));
      document_.set("message_overhead", Node::integer(0));
      origin("collective_startup", "assumed: 20 us, as clusters of PCIe machines; not measured");
      origin("message_overhead", "assumed: 0, within the start-up; not measured");
      return;
    }
    for (const char* key : {"collectives", "collective_startup", "message_overhead"}) {
      const Node* value = like_->document.find(key);
      if (!value || value->kind == Node::Kind::List) continue;  // measured on that machine alone
      document_.set(key, *value);
      if (std::string_view(key) != "collectives") origin(key, as_like(key));
    }
  }

  const ClusterFacts& facts_;
  const std::optional<SimilarCluster>& like_;
  Node document_, template_, origins_ = Node::map();
  std::vector<std::string> notes_;
  std::int64_t nodes_ = 1, gpus_ = 1;
};

}  // namespace

NewCluster new_cluster(const ClusterFacts& facts, const std::optional<SimilarCluster>& like) {
  return NewClusterBuilder(facts, like).built();
}

}  // namespace moeplan::profiler
