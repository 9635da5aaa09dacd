#include "profiler/fits/measured_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/text/origins.hpp"
#include "model/text/reader.hpp"
#include "profiler/fits/source_text.hpp"

namespace moeplan::profiler {

namespace {

/// The files of the samples that `is_used` accepts, in the order read.
template <class IsUsed>
std::string files_of(std::span<const CollectiveSample> samples, IsUsed is_used) {
  std::vector<std::string> files;
  std::set<std::string> known;
  for (const CollectiveSample& s : samples) {
    if (is_used(s) && known.insert(s.where.file).second) files.push_back(s.where.file);
  }
  return listed_files(files);
}

class Builder {
 public:
  Builder(const SimilarCluster& like, const MeasuredMachine& measured, std::span<const CollectiveSample> samples)
      : like_(like), measured_(measured), samples_(samples) {
    out_.document = like.document;
    out_.machine = like.machine;
    out_.document.set("name", Node::text(measured.name));
    if (measured.gpu) out_.document.set("gpu", Node::text(*measured.gpu));
    if (const Node* origins = like.document.find("origins")) {
      for (const Entry& e : origins->entries) {
        const bool is_replaced = e.key.starts_with("collectives") || (measured.gpu && e.key.starts_with("gpu"));
        if (!is_replaced) origin(e.key, kept_origin(e.value.scalar));
      }
    }
  }

  MeasuredCluster built(std::span<const CollectiveFit> fits) {
    set_shape();
    set_intra_node();
    set_nic();
    set_collectives(fits);
    set_models();
    out_.document.set("origins", std::move(origins_));
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::string kept_origin(const std::string& origin) const {
    return fmt::format("assumed: as {} ({})", plain(like_.name), origin);
  }
  void origin(const std::string& path, std::string text) { origins_.set(path, Node::text(std::move(text))); }

  Node& machine_node() { return *out_.document.find("template"); }

  /// Nodes, GPUs of a node, and NICs in proportion.
  void set_shape() {
    std::int64_t nodes = std::max<std::int64_t>(1, std::ssize(measured_.hosts)), gpus = 1;
    const CollectiveSample* widest = &samples_.front();
    for (const CollectiveSample& s : samples_) {
      nodes = std::max(nodes, s.shape.nodes);
      const std::int64_t here = s.shape.ranks / s.shape.nodes;
      if (here > gpus) widest = &s;
      gpus = std::max(gpus, here);
    }
    if (nodes > 1 && !like_.machine.fabric) {
      throw InputError(Diagnostic{{"--like"},
                                  "",
                                  fmt::format("{} has no fabric, and the logs are of {} nodes; name a cluster of "
                                              "several nodes",
                                              like_.name, nodes)});
    }
    const std::string all = files_of(samples_, [](const CollectiveSample&) { return true; });
    out_.machine.nodes = nodes;
    out_.machine.gpus_per_node = gpus;
    machine_node().set("nodes", Node::integer(nodes));
    machine_node().set("gpus_per_node", Node::integer(gpus));
    origin("template.nodes", "measured: nodes that the logs name: " + all);
    origin("template.gpus_per_node", fmt::format("measured: the most ranks of a node: {}:{}",
                                                 listed_files({widest->where.file}), widest->where.line));
    if (out_.machine.fabric && gpus != like_.machine.gpus_per_node) set_nics(gpus);
  }

  void set_nics(std::int64_t gpus) {
    const std::int64_t before = like_.machine.fabric->nics_per_node;
    const std::int64_t nics = std::max<std::int64_t>(1, before * gpus / like_.machine.gpus_per_node);
    out_.machine.fabric->nics_per_node = nics;
    machine_node().find("fabric")->set("nics_per_node", Node::integer(nics));
    origin("template.fabric.nics_per_node", fmt::format("assumed: as {}, with {} NICs for {} GPUs", plain(like_.name),
                                                        before, like_.machine.gpus_per_node));
    out_.kept.push_back(
        fmt::format("GPUs of a node: {}, the most ranks of a node in the logs, and NICs: {}; {} has {} "
                    "and {}",
                    gpus, nics, like_.name, like_.machine.gpus_per_node, before));
  }

  void set_rate(Node& links, const std::string& key, const std::string& path, const LinkRate& rate) {
    links.set(key, Node::text(fmt::format("{:.4g} GB/s", rate.rate.value() * 1e-9)));
    origin(path, "measured: " + rate.source());
  }

  void keep(bool is_intra_node, const std::string& path, BytesPerSecond rate) {
    const bool has_any = std::any_of(samples_.begin(), samples_.end(),
                                     [&](const CollectiveSample& s) { return (s.shape.nodes == 1) == is_intra_node; });
    const std::string where = is_intra_node ? "inside a node" : "between nodes";
    const std::string why = has_any
                                ? fmt::format("the logs {} have no message of {} or more", where, human(kLeastForRate))
                                : fmt::format("there are no logs {}", where);
    out_.kept.push_back(fmt::format("{} = {}, as {}: {}", path, human(rate), like_.name, why));
  }

  void set_intra_node() {
    const std::string path = "template.intra_node.bandwidth";
    auto* links = std::get_if<NvSwitch>(&out_.machine.intra_node);
    if (!links) {
      out_.kept.push_back(
          fmt::format("template.intra_node, as {}: several links inside a node cannot be told from a collective's time",
                      like_.name));
      return;
    }
    out_.intra_node = intra_node_rate(samples_);
    if (!out_.intra_node) return keep(true, path, links->bandwidth);
    links->bandwidth = out_.intra_node->rate;
    set_rate(*machine_node().find("intra_node"), "bandwidth", path, *out_.intra_node);
  }

  void set_nic() {
    if (!out_.machine.fabric) return;
    const std::string path = "template.fabric.nic_bandwidth";
    Fabric& fabric = *out_.machine.fabric;
    out_.nic = nic_rate(samples_, fabric.nics_per_node);
    if (!out_.nic) return keep(false, path, fabric.nic_bandwidth);
    fabric.nic_bandwidth = out_.nic->rate;
    set_rate(*machine_node().find("fabric"), "nic_bandwidth", path, *out_.nic);
  }

  /// The fitted entries, each with the logs that it was fitted to.
  void set_collectives(std::span<const CollectiveFit> fits) {
    const Node profile = collective_profile(fits, "");
    out_.document.set("collectives", *profile.find("collectives"));
    std::size_t entry = 0;
    for (const CollectiveFit& f : fits) {
      const std::string files = files_of(samples_, [&](const CollectiveSample& s) {
        return s.collective == f.collective && s.shape == f.shape && s.in_place == f.in_place;
      });
      for (std::size_t piece = 0; piece < f.curve.pieces.size(); ++piece, ++entry) {
        origin(fmt::format("collectives[{}]", entry), "measured: nccl-tests " + files);
      }
    }
  }

  void set_models() {
    const auto* inside = std::get_if<NvSwitch>(&out_.machine.intra_node);
    if (!like_.models || !inside) return;
    Node document = *like_.models;
    std::erase_if(document.entries, [](const Entry& e) { return e.key == "sources"; });
    document.set("cluster", Node::text(measured_.name));
    std::int64_t largest = 1;
    for (const CollectiveSample& s : samples_) largest = std::max(largest, s.shape.ranks);
    document.set("measured_ranks", Node::integer(largest));
    Node origins = Node::map();
    if (const Node* all = like_.models->find("origins")) {
      for (const Entry& e : all->entries) origins.set(e.key, Node::text(kept_origin(e.value.scalar)));
    }
    LinkRates links{.intra_node = inside->bandwidth, .nic = BytesPerSecond(0)};
    if (out_.machine.fabric) links.nic = out_.machine.fabric->nic_bandwidth;
    out_.models = fitted_models(document, links, samples_);
    const LinkFactors& f = out_.models->factors;
    const std::string fit = fmt::format(
        "measured: fitted to {}: {} with bandwidths x{:.3g} inside nodes, x{:.3g} of NICs, "
        "latencies x{:.3g}",
        files_of(samples_, [](const CollectiveSample&) { return true; }), plain(like_.name), f.intra_node, f.nic,
        f.latency);
    for (const char* key : {"measured_on", "measured_ranks"}) origins.set(key, Node::text(fit));
    if (f.latency != 1) origins.set("latency_factor", Node::text(fit));
    out_.models->document.set("origins", std::move(origins));
    out_.document.set("collective_models", out_.models->document);
  }

  const SimilarCluster& like_;
  const MeasuredMachine& measured_;
  std::span<const CollectiveSample> samples_;
  MeasuredCluster out_;
  Node origins_ = Node::map();
};

}  // namespace

MeasuredCluster measured_cluster(const SimilarCluster& like, const MeasuredMachine& measured,
                                 std::span<const CollectiveSample> samples, std::span<const CollectiveFit> fits) {
  return Builder(like, measured, samples).built(fits);
}

}  // namespace moeplan::profiler
