#include "model/collectives/collective_models.hpp"

#include <algorithm>

#include "model/text/origins.hpp"

namespace moeplan {

namespace {

constexpr std::int64_t kFarBeyond = 4;

using Cost = std::optional<CollectiveCost>;

void keep_faster(Cost& best, const Cost& other) {
  if (other && (!best || other->time() < best->time())) best = other;
}

void keep_slower(Cost& worst, const Cost& other) {
  if (other && (!worst || other->time() > worst->time())) worst = other;
}

/// The fastest algorithm for exactly this group. It grows with nodes as long as the largest power of two below them
/// does not change (ring_model.hpp).
Cost fastest(const CollectiveModels& models, Collective collective, GroupShape shape, Bytes bytes, bool in_place) {
  if (collective == Collective::AllToAll) {
    return models.all_to_all ? all_to_all_cost(*models.all_to_all, models.network, shape, bytes, in_place) : Cost();
  }
  if (collective == Collective::SendReceive) {
    return models.send_receive ? send_receive_cost(*models.send_receive, models.network, shape, bytes) : Cost();
  }
  Cost best;
  for (const RingModel& ring : models.rings) {
    if (can_run(ring, collective)) {
      keep_faster(best, ring_cost(ring, models.network, collective, shape, bytes, in_place));
    }
  }
  if (collective != Collective::AllReduce) return best;
  if (models.nvls) keep_faster(best, nvls_cost(*models.nvls, models.network, shape, bytes));
  for (const Collective half : {Collective::ReduceScatter, Collective::AllGather}) {
    if (best) keep_slower(best, fastest(models, half, shape, bytes, in_place));
  }
  for (const TreeModel& tree : models.trees) keep_faster(best, tree_cost(tree, models.network, shape, bytes));
  return best;
}

/// The slowest of the groups of up to `shape.nodes` nodes: it suffices to look at the largest between two powers of
/// two, and at two nodes, which keep some protocols longer.
Cost never_falling(const CollectiveModels& models, Collective collective, GroupShape shape, Bytes bytes,
                   bool in_place) {
  Cost slowest = fastest(models, collective, shape, bytes, in_place);
  if (!slowest) return slowest;
  const std::int64_t per_node = shape.ranks / shape.nodes;
  const auto look_at = [&](std::int64_t nodes) {
    if (nodes >= shape.nodes || per_node * nodes < 2) return;
    keep_slower(slowest, fastest(models, collective, {per_node * nodes, nodes}, bytes, in_place));
  };
  look_at(2);
  for (std::int64_t power = 2; power - 1 < shape.nodes; power *= 2) look_at(power - 1);
  return slowest;
}

}  // namespace

bool answers(const CollectiveModels& models, std::string_view source) {
  return models.sources.empty() ||
         std::any_of(models.sources.begin(), models.sources.end(),
                     [&](const std::string& name) { return source.find(name) != std::string_view::npos; });
}

std::optional<CollectiveCost> collective_cost(const CollectiveModels& models, Collective collective, GroupShape shape,
                                              Bytes bytes, bool in_place) {
  if (shape.ranks < 2) return CollectiveCost{Seconds(0), Seconds(0), Seconds(0), Seconds(0), "none"};
  Cost cost = never_falling(models, collective, shape, bytes, in_place);
  if (cost) {
    cost->launch += models.launch;
    cost->total += models.launch;
  }
  return cost;
}

const DispatcherModel* find_dispatcher(const CollectiveModels& models, std::string_view dispatcher,
                                       std::string_view mode, std::string_view combine_format, std::int64_t nodes) {
  constexpr std::string_view kSpecial = "low_precision";  // has kernels of its own
  for (const DispatcherModel& m : models.dispatchers) {
    const bool is_named = m.dispatcher == dispatcher && (mode.empty() || m.mode == mode);
    const bool crosses = m.dispatch.nic.has_value();
    const bool has_format = m.combine_format.empty() ? combine_format != kSpecial : m.combine_format == combine_format;
    if (is_named && has_format && crosses == (nodes > 1)) return &m;
  }
  return nullptr;
}

bool is_extrapolated(GroupShape shape, std::int64_t measured_ranks) {
  return shape.ranks > kFarBeyond * measured_ranks;
}

bool restates(const CollectiveModels& models, Collective collective, GroupShape shape) {
  if (shape.nodes > 1 && models.network.fits_all) return true;
  return collective == Collective::SendReceive && models.send_receive && models.send_receive->fits_all;
}

CollectiveModels read_collective_models(const Node& document) {
  Diagnostics wrong;
  MapReader file(document, "", wrong);
  read_origins(file);
  CollectiveModels m{.cluster = file.text("cluster"),
                     .sources = {},
                     .ranks_per_node = file.integer("ranks_per_node", 1, 65536),
                     .measured_ranks = file.integer("measured_ranks", 1, 1 << 24),
                     .fits_none = file.boolean_or("fits_none", false),
                     .measured_on = {},
                     .launch = file.quantity<Seconds>("launch", Sign::NonNegative),
                     .network = {},
                     .rings = {},
                     .trees = {},
                     .nvls = {},
                     .all_to_all = {},
                     .send_receive = {},
                     .dispatchers = {}};
  if (file.has("measured_on")) {
    MapReader rates = file.map("measured_on");
    m.measured_on = {.intra_node = rates.quantity<BytesPerSecond>("intra_node_bandwidth", Sign::Positive),
                     .nic = rates.quantity_or("nic_bandwidth", BytesPerSecond(0))};
    rates.finish();
  }
  for (const auto& [node, path] : file.list_or_empty("sources")) m.sources.push_back(node->scalar);
  if (file.has("network")) m.network = read_network(file.map("network"));
  if (file.has("host_memory")) m.network.host_memory = read_host_memory(file.map("host_memory"));
  for (const auto& [entry, path] : file.list_or_empty("rings"))
    m.rings.push_back(read_ring_model({*entry, path, wrong}));
  for (const auto& [entry, path] : file.list_or_empty("trees"))
    m.trees.push_back(read_tree_model({*entry, path, wrong}));
  if (file.has("nvls")) m.nvls = read_nvls_model(file.map("nvls"));
  if (file.has("all_to_all")) m.all_to_all = read_all_to_all_model(file.map("all_to_all"));
  if (file.has("send_receive")) m.send_receive = read_send_receive_model(file.map("send_receive"));
  for (const auto& [entry, path] : file.list_or_empty("dispatchers")) {
    m.dispatchers.push_back(read_dispatcher_model({*entry, path, wrong}));
  }
  scale(m, {.latency = file.number_or("latency_factor", 1, 1e-3, 1e3)});
  check_origins(file);
  file.finish();
  wrong.throw_if_any();
  return m;
}

}  // namespace moeplan
