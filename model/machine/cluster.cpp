#include "model/machine/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "model/collectives/collective_models.hpp"
#include "model/machine/machine_reader.hpp"
#include "model/text/origins.hpp"

namespace moeplan {

namespace {

/// The shape of the groups that an entry was measured on; none: any shape.
void read_shape(MapReader& m, CollectiveKey& key) {
  const bool inside = key.span == Span::IntraNode;
  if (m.has("ranks")) {
    key.ranks = m.integer("ranks", 2, kMostWorld);
    key.nodes = inside ? m.integer_or("nodes", 1, 1, 1) : m.integer("nodes", 2, kMostWorld);
    if (key.ranks < key.nodes) m.complain("ranks", fmt::format("{} ranks are on {} nodes", key.ranks, key.nodes));
  } else {
    static_cast<void>(m.find("ranks"));
    if (m.has("nodes")) m.complain("nodes", "stands without ranks");
    static_cast<void>(m.find("nodes"));
  }
  key.in_place = m.boolean_or("in_place", false);
  if (key.in_place && !m.has("ranks")) m.complain("in_place", "stands without ranks");
  key.from = m.quantity_or("from", Bytes(0));
}

struct ReadCollectives {
  CollectiveCosts costs;
  std::vector<CollectiveKey> without_alpha;  // these get the cluster's start-up time
};

ReadCollectives read_collectives(MapReader& cluster) {
  constexpr BytesPerSecond kFastest(1e14);  // assumed: thirty times the bandwidth of today's fastest GPU memory
  ReadCollectives out;
  std::map<CollectiveKey, MapReader> all_reduces;
  for (const auto& [item, path] : cluster.list_or_empty("collectives")) {
    MapReader m(*item, path, cluster.diagnostics());
    CollectiveKey key{.collective = m.choice<Collective>("collective", kCollectiveNames),
                      .span = m.choice<Span>("span", kSpanNames)};
    read_shape(m, key);
    const AlphaBeta cost{.alpha = m.quantity_or("alpha", Seconds(0)), .beta = m.quantity<SecondsPerByte>("beta")};
    m.finish();
    if (!m.has("collective") || !m.has("span")) continue;
    // A rank sends at least half of n (for the all-to-all of two ranks).
    if (m.has("beta") && 0.5 / cost.beta.value() > kFastest.value()) {
      m.complain("beta", fmt::format("{} is impossible: a rank would send more than {}",
                                     in_quotes(m.find("beta")->scalar), human(kFastest)));
    }
    if (!out.costs.emplace(key, cost).second) m.complain("collective", text_of(key) + " stands in the list twice");
    if (!m.has("alpha")) out.without_alpha.push_back(key);
    if (m.has("beta") && key.collective == Collective::AllReduce) all_reduces.emplace(key, m);
  }
  // Entries for a shape are measured one by one and scatter on a busy machine: their prices are bounded instead.
  for (const FastAllReduce& fast : fast_all_reduces(out.costs)) {
    const auto found = all_reduces.find(fast.key);
    if (fast.key.ranks > 0 || found == all_reduces.end()) continue;
    found->second.complain("beta", text_of(fast) +
                                       "; correct one of them, or leave out the all_reduce, which then "
                                       "costs both of its halves");
  }
  return out;
}

/// The datasheet bandwidths of a template whose GPUs all have the same: on a switch, or on PCIe alone; none for others.
std::optional<LinkRates> link_rates(const std::variant<ClusterTemplate, Topology>& machine) {
  const auto* shape = std::get_if<ClusterTemplate>(&machine);
  if (!shape) return std::nullopt;
  const BytesPerSecond nic = shape->fabric ? shape->fabric->nic_bandwidth : BytesPerSecond(0);
  if (const auto* nvswitch = std::get_if<NvSwitch>(&shape->intra_node)) return LinkRates{nvswitch->bandwidth, nic};
  if (const auto* tree = std::get_if<PcieTree>(&shape->intra_node)) return LinkRates{tree->pcie_bandwidth, nic};
  return std::nullopt;
}

/// The models of collectives in proportion to the machine's links, if `collectives` or `collective_models` holds some.
std::shared_ptr<const CollectiveModels> read_models(MapReader& cluster,
                                                    const std::variant<ClusterTemplate, Topology>& machine) {
  const Node* node = cluster.find("collectives");
  if (!node || node->kind != Node::Kind::Map) node = cluster.find("collective_models");
  if (!node || node->kind != Node::Kind::Map) return nullptr;
  CollectiveModels models = read_collective_models(*node);
  const auto* shape = std::get_if<ClusterTemplate>(&machine);
  if (shape && shape->fabric && models.network.nics_per_node > 0)
    models.network.nics_per_node = shape->fabric->nics_per_node;
  const std::optional<LinkRates> own = link_rates(machine);
  if (own && models.measured_on) {
    const LinkRates& from = *models.measured_on;
    const bool has_nics = own->nic > BytesPerSecond(0) && from.nic > BytesPerSecond(0);
    scale(models, {.intra_node = own->intra_node / from.intra_node, .nic = has_nics ? own->nic / from.nic : 1});
  }
  return std::make_shared<const CollectiveModels>(std::move(models));
}

/// Reads exactly one of the two forms of cluster description.
std::variant<ClusterTemplate, Topology> read_machine(MapReader& cluster) {
  const bool is_template = cluster.has("template");
  const bool is_explicit = cluster.has("vertices") || cluster.has("links");
  if (is_template && is_explicit) {
    cluster.complain("template",
                     "cannot be combined with vertices or links; a machine is either a template or explicit");
  }
  if (!is_template && !is_explicit) {
    cluster.complain("", "describes no machine; expected template, or vertices and links");
    static_cast<void>(cluster.find("template"));
    static_cast<void>(cluster.find("vertices"));
    static_cast<void>(cluster.find("links"));
    return Topology{};
  }
  if (is_template) {
    static_cast<void>(cluster.find("vertices"));
    static_cast<void>(cluster.find("links"));
    return read_template(cluster.map("template"));
  }
  Topology machine = read_topology(cluster);
  const bool has_gpu = std::any_of(machine.vertices.begin(), machine.vertices.end(),
                                   [](const Vertex& v) { return v.kind == VertexKind::Gpu; });
  if (!has_gpu && cluster.has("vertices")) cluster.complain("vertices", "has no vertex of kind gpu");
  return machine;
}

}  // namespace

ClusterSpec read_cluster(const Node& document) {
  constexpr std::array<std::string_view, 3> kReadElsewhere{"gpu", "collectives", "collective_models"};
  Diagnostics diagnostics;
  MapReader cluster(document, "", diagnostics);
  read_origins(cluster);
  const std::string name = cluster.text("name");
  const GpuSpec gpu = read_gpu(cluster.map("gpu"));
  auto machine = read_machine(cluster);
  std::shared_ptr<const CollectiveModels> models = read_models(cluster, machine);
  const Node* named = cluster.find("collectives");
  const bool is_list =
      !named || named->kind == Node::Kind::List || (named->kind == Node::Kind::Scalar && named->scalar != "none");
  ReadCollectives collectives = is_list ? read_collectives(cluster) : ReadCollectives{};
  ClusterSpec spec{.name = name,
                   .gpu = gpu,
                   .machine = std::move(machine),
                   .collectives = std::move(collectives.costs),
                   .collective_models = std::move(models),
                   .collective_startup = cluster.quantity<Seconds>("collective_startup", Sign::NonNegative),
                   .message_overhead = cluster.quantity<Seconds>("message_overhead", Sign::NonNegative),
                   .ranks_per_gpu = cluster.integer_or("ranks_per_gpu", 1, 1, kMostRanksPerGpu)};
  constexpr const char* kReduction = "reduction_bandwidth";
  if (cluster.find(kReduction)) spec.reduction_bandwidth = cluster.quantity<BytesPerSecond>(kReduction);
  for (const CollectiveKey& key : collectives.without_alpha) spec.collectives.at(key).alpha = spec.collective_startup;
  check_origins(cluster, kReadElsewhere);
  cluster.finish();
  diagnostics.throw_if_any();
  return spec;
}

}  // namespace moeplan
