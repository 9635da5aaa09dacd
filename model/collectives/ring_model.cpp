#include "model/collectives/ring_model.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

#include "model/collectives/read_collectives.hpp"

namespace moeplan {

namespace {

/// Whether the tuner leaves the protocol: by the chunks of the largest power of two of nodes that the group has, or of
/// 8 nodes, which the limits were measured on: in between it would leave sooner than 8 nodes do, and time would fall as
/// nodes grow. Between two nodes a chunk that is passed on whole crosses once, which never made it leave.
bool is_left(const RingNetwork& between, GroupShape shape, Bytes bytes) {
  constexpr std::uint64_t kMeasuredNodes = 8;  // Polaris (alcf-nccl-tests 385be33)
  if (!between.largest_chunk || (shape.nodes == 2 && between.hop_bandwidth)) return false;
  const auto floor = std::bit_floor(static_cast<std::uint64_t>(shape.nodes));
  const auto nodes = static_cast<double>(shape.nodes == 2 ? floor : std::max(kMeasuredNodes, floor));
  return bytes / (shape.per_node() * nodes) > *between.largest_chunk;
}

}  // namespace

bool can_run(const RingModel& model, Collective collective) {
  return std::find(model.collectives.begin(), model.collectives.end(), collective) != model.collectives.end();
}

std::optional<CollectiveCost> ring_cost(const RingModel& model, const Network& network, Collective collective,
                                        GroupShape shape, Bytes bytes, bool in_place) {
  assert(can_run(model, collective) && "a ring is asked for what it runs");
  const auto n = static_cast<double>(shape.ranks);
  const double k = collective == Collective::AllReduce ? 2 : 1;
  const Bytes sent = bytes * (k * (n - 1) / n);
  const bool copies = !in_place && collective != Collective::AllReduce;
  const Seconds own = copies ? (bytes / n) / model.bandwidth * model.own : Seconds(0);
  const Seconds ramp = model.ramp * (sent / (sent + model.ramp_bytes));
  const double steps = k * (n - 1);
  CollectiveCost cost{
      .total = Seconds(0), .launch = Seconds(0), .steps = Seconds(0), .transfer = Seconds(0), .algorithm = ""};
  cost.algorithm = "ring " + model.protocol;
  if (shape.nodes == 1) {
    cost.steps = model.base + model.step * steps;
    const Seconds shared = network.host_time(n, sent * model.expansion);
    cost.transfer = std::max(sent / model.bandwidth + own, shared - model.step * steps) + ramp;
    cost.total = cost.steps + cost.transfer;
    return cost;
  }
  if (!model.network || network.nics_per_node == 0) return std::nullopt;
  const RingNetwork& between = *model.network;
  if (is_left(between, shape, bytes)) return std::nullopt;
  const double crossing = k * static_cast<double>(shape.nodes - 1);
  Seconds hop = between.step;
  if (between.hop_bandwidth) hop += (bytes / n) / *between.hop_bandwidth;
  const Seconds latency =
      between.pass * k + std::max(model.step, between.overhead) * (steps - crossing) + hop * crossing;
  const BytesPerSecond rate =
      std::min(between.bandwidth.value_or(model.bandwidth), network.node_bandwidth(shape.per_node()));
  const Seconds transfer = sent / rate + own;
  cost.launch = network.base;
  cost.steps = model.base + std::max(latency - transfer, Seconds(0));
  cost.transfer = transfer + ramp;
  cost.total = network.base + model.base + std::max(latency, transfer) + ramp;
  return cost;
}

RingModel read_ring_model(MapReader entry) {
  RingModel m{.collectives = {},
              .protocol = entry.text("protocol"),
              .base = entry.quantity<Seconds>("base", Sign::NonNegative),
              .step = entry.quantity<Seconds>("step", Sign::NonNegative),
              .bandwidth = entry.quantity<BytesPerSecond>("bandwidth"),
              .own = entry.number_or("own", 0, 0, 1),
              .ramp = entry.quantity_or<Seconds>("ramp", Seconds(0)),
              .ramp_bytes = entry.quantity_or<Bytes>("ramp_bytes", Bytes(1)),
              .expansion = entry.number_or("expansion", 1, 1, 16),
              .network = {}};
  m.collectives = read_collectives(entry, {Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce});
  if (entry.has("network")) {
    MapReader map = entry.map("network");
    RingNetwork network{.step = map.quantity<Seconds>("step", Sign::NonNegative),
                        .pass = map.quantity_or<Seconds>("pass", Seconds(0)),
                        .overhead = map.quantity_or<Seconds>("overhead", Seconds(0)),
                        .bandwidth = {},
                        .hop_bandwidth = {},
                        .largest_chunk = {}};
    if (map.has("bandwidth")) network.bandwidth = map.quantity<BytesPerSecond>("bandwidth");
    if (map.has("hop_bandwidth")) network.hop_bandwidth = map.quantity<BytesPerSecond>("hop_bandwidth");
    if (map.has("largest_chunk")) network.largest_chunk = map.quantity<Bytes>("largest_chunk");
    map.finish();
    m.network = network;
  }
  entry.finish();
  return m;
}

}  // namespace moeplan
