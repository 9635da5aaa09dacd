#include "model/collectives/all_to_all_model.hpp"

#include <algorithm>
#include <cmath>

namespace moeplan {

namespace {

constexpr double kLlExpansion = 2;  // bytes moved for each one sent: NCCL's LL has a flag of 4 bytes after every 4

/// The transfer among `ranks` of one node, each with a buffer of `bytes`, after its peers' start-up; 0 for a rank
/// alone.
Seconds inside(const AllToAllModel& model, const Network& network, double ranks, Bytes bytes, bool in_place) {
  if (ranks < 2) return Seconds(0);
  const Bytes sent = bytes * ((ranks - 1) / ranks);
  const Seconds own = in_place ? Seconds(0) : (bytes / ranks) / model.bandwidth * model.own;
  const Seconds peers = model.peer * (ranks - 1);
  const Seconds ll = std::max(bytes / model.ll_bandwidth, network.host_time(ranks, sent * kLlExpansion) - peers);
  const Seconds simple = model.simple_base +
                         std::max(sent / model.bandwidth + own, network.host_time(ranks, sent) - peers) +
                         model.ramp * (sent / (sent + model.ramp_bytes));
  return std::min(ll, simple);
}

}  // namespace

std::optional<CollectiveCost> all_to_all_cost(const AllToAllModel& model, const Network& network, GroupShape shape,
                                              Bytes bytes, bool in_place) {
  const double m = shape.per_node();
  CollectiveCost cost{.total = Seconds(0),
                      .launch = model.base,
                      .steps = model.peer * (m - 1),
                      .transfer = Seconds(0),
                      .algorithm = "pairwise messages"};
  if (shape.nodes == 1) {
    cost.transfer = inside(model, network, m, bytes, in_place);
    cost.total = cost.launch + cost.steps + cost.transfer;
    return cost;
  }
  if (!model.network || network.nics_per_node == 0) return std::nullopt;
  const auto n = static_cast<double>(shape.ranks);
  const auto nodes = static_cast<double>(shape.nodes);
  const Bytes crossing = bytes * ((n - m) / n);
  const AllToAllNetwork& between = *model.network;
  const BytesPerSecond nics = network.node_bandwidth(m) / m;
  const Seconds out = crossing / nics + between.ramp * (crossing / (crossing + between.ramp_bytes));
  const Seconds fabric =
      shape.nodes == 2 && between.pair_bandwidth
          ? crossing / std::min(nics, *between.pair_bandwidth)
          : crossing / std::min(nics, between.bandwidth.value_or(nics)) * (1 + between.contention * std::log2(nodes));
  cost.launch += network.base;
  cost.steps += between.peer * (n - m);
  cost.transfer = std::max({inside(model, network, m, bytes / nodes, in_place), out, fabric - cost.steps});
  cost.total = cost.launch + cost.steps + cost.transfer;
  return cost;
}

std::optional<CollectiveCost> send_receive_cost(const SendReceiveModel& model, const Network& network, GroupShape shape,
                                                Bytes bytes) {
  CollectiveCost cost{.total = model.base + bytes / model.bandwidth,
                      .launch = model.base,
                      .steps = Seconds(0),
                      .transfer = bytes / model.bandwidth,
                      .algorithm = "message"};
  if (shape.nodes == 1) return cost;
  if (!model.connection || network.nics_per_node == 0) return std::nullopt;
  const BytesPerSecond nic = network.node_bandwidth(shape.per_node()) / shape.per_node();
  cost.launch += network.base;
  cost.transfer = bytes / std::min({nic, model.bandwidth, *model.connection});
  cost.total = cost.launch + cost.transfer;
  return cost;
}

AllToAllModel read_all_to_all_model(MapReader map) {
  AllToAllModel m{.base = map.quantity<Seconds>("base", Sign::NonNegative),
                  .peer = map.quantity<Seconds>("peer", Sign::NonNegative),
                  .ll_bandwidth = map.quantity<BytesPerSecond>("ll_bandwidth"),
                  .simple_base = map.quantity<Seconds>("simple_base", Sign::NonNegative),
                  .bandwidth = map.quantity<BytesPerSecond>("bandwidth"),
                  .own = map.number_or("own", 0, 0, 1),
                  .ramp = map.quantity_or<Seconds>("ramp", Seconds(0)),
                  .ramp_bytes = map.quantity_or<Bytes>("ramp_bytes", Bytes(1)),
                  .network = {}};
  if (map.has("network")) {
    MapReader between = map.map("network");
    AllToAllNetwork network{.peer = between.quantity<Seconds>("peer", Sign::NonNegative),
                            .bandwidth = {},
                            .pair_bandwidth = {},
                            .contention = between.number_or("contention", 0, 0, 10),
                            .ramp = between.quantity_or<Seconds>("ramp", Seconds(0)),
                            .ramp_bytes = between.quantity_or<Bytes>("ramp_bytes", Bytes(1))};
    if (between.has("bandwidth")) network.bandwidth = between.quantity<BytesPerSecond>("bandwidth");
    if (between.has("pair_bandwidth")) network.pair_bandwidth = between.quantity<BytesPerSecond>("pair_bandwidth");
    between.finish();
    m.network = network;
  }
  map.finish();
  return m;
}

SendReceiveModel read_send_receive_model(MapReader map) {
  SendReceiveModel m{.base = map.quantity<Seconds>("base", Sign::NonNegative),
                     .bandwidth = map.quantity<BytesPerSecond>("bandwidth"),
                     .connection = {},
                     .fits_all = map.boolean_or("fits_all", false)};
  if (map.has("connection")) m.connection = map.quantity<BytesPerSecond>("connection");
  map.finish();
  return m;
}

}  // namespace moeplan
