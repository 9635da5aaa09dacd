#include "model/machine/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

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

std::string description(const CollectiveKey& key) {
  std::string text =
      fmt::format("{} {}", name_of<Collective>(kCollectiveNames, key.collective), name_of<Span>(kSpanNames, key.span));
  if (key.ranks > 0) text += fmt::format(" of {} ranks", key.ranks);
  if (key.from > Bytes(0)) text += fmt::format(" from {}", human(key.from));
  return text;
}

struct ReadCollectives {
  CollectiveCosts costs;
  std::vector<CollectiveKey> without_alpha;  // these get the cluster's start-up time
};

/// The cost from the measured pieces of exactly this shape; none if there are none.
std::optional<Seconds> time_of(const CollectiveCosts& costs, CollectiveKey key, Bytes n) {
  key.from = n;
  auto piece = costs.upper_bound(key);
  const auto is_alike = [&](const CollectiveKey& other) {
    key.from = other.from;
    return other == key;
  };
  if (piece != costs.begin() && is_alike(std::prev(piece)->first)) --piece;
  if (piece == costs.end() || !is_alike(piece->first)) return std::nullopt;
  return piece->second.alpha + n * piece->second.beta;
}

/// An all-reduce measured faster, by more than noise, than a collective that it contains.
struct TooFast {
  Collective contained;
  Bytes n;
  Seconds time, least;
};

/// An all-reduce of zeros except for a rank's own part is an all-gather, and one whose result is used only in part is a
/// reduce-scatter, so it takes no less time. Of 240 such pairs of NCCL's times on 2, 4 and 8 A100 or H100
/// (aiconfigurator 095f58a, 1 MiB and above) four are below, all of one size, by 16% at most; a quarter therefore
/// exceeds noise. Small messages, which may use other protocols, are not compared.
std::optional<TooFast> too_fast(const CollectiveCosts& costs, const CollectiveKey& all_reduce) {
  constexpr double kNoise = 0.25, kSmallest = 0x1p20, kLargest = 0x1p30;
  std::optional<TooFast> worst;
  for (const Collective contained : {Collective::ReduceScatter, Collective::AllGather}) {
    CollectiveKey key = all_reduce;
    key.collective = contained;
    for (double n = kSmallest; n <= kLargest; n *= 4) {
      const auto time = time_of(costs, all_reduce, Bytes(n)), least = time_of(costs, key, Bytes(n));
      if (!time || !least || *time >= *least * (1 - kNoise)) continue;
      if (!worst || *time / *least < worst->time / worst->least) worst = TooFast{contained, Bytes(n), *time, *least};
    }
  }
  return worst;
}

ReadCollectives read_collectives(MapReader& cluster) {
  constexpr BytesPerSecond kFastest(1e14);  // assumed: thirty times the bandwidth of today's fastest GPU memory
  ReadCollectives out;
  std::vector<std::pair<CollectiveKey, MapReader>> all_reduces;
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
    if (!out.costs.emplace(key, cost).second) m.complain("collective", description(key) + " stands in the list twice");
    if (!m.has("alpha")) out.without_alpha.push_back(key);
    // Entries for a shape are measured one by one and scatter on a busy machine: their prices are bounded instead.
    const bool is_general = key.ranks == 0 && key.from == Bytes(0);
    if (m.has("beta") && key.collective == Collective::AllReduce && is_general) all_reduces.emplace_back(key, m);
  }
  for (auto& [key, m] : all_reduces) {
    const std::optional<TooFast> found = too_fast(out.costs, key);
    if (!found) continue;
    const std::string_view contained = name_of<Collective>(kCollectiveNames, found->contained);
    m.complain("beta",
               fmt::format("{} takes {} for {}, less than the {} of {} that it contains; correct one of them, "
                           "or leave out the all_reduce, which then costs both of its halves",
                           description(key), human(found->time), human(found->n), contained, human(found->least)));
  }
  return out;
}

/// The datasheet bandwidths of a template whose nodes are joined by a switch; none for others.
std::optional<LinkRates> link_rates(const std::variant<ClusterTemplate, Topology>& machine) {
  const auto* shape = std::get_if<ClusterTemplate>(&machine);
  const auto* inside = shape ? std::get_if<NvSwitch>(&shape->intra_node) : nullptr;
  if (!inside) return std::nullopt;
  return LinkRates{inside->bandwidth, shape->fabric ? shape->fabric->nic_bandwidth : BytesPerSecond(0)};
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
  for (const CollectiveKey& key : collectives.without_alpha) spec.collectives.at(key).alpha = spec.collective_startup;
  check_origins(cluster, kReadElsewhere);
  cluster.finish();
  diagnostics.throw_if_any();
  return spec;
}

}  // namespace moeplan
