#include "model/collectives/tree_model.hpp"

#include <algorithm>
#include <cmath>

namespace moeplan {

std::optional<CollectiveCost> tree_cost(const TreeModel& model, const Network& network, GroupShape shape, Bytes bytes) {
  if (shape.nodes == 1 || network.nics_per_node == 0) return std::nullopt;
  Seconds hop = model.network_step;
  if (model.hop_bandwidth) hop += bytes / *model.hop_bandwidth;
  const double depth = std::log2(static_cast<double>(shape.nodes));
  const Seconds steps = model.base + model.step * (2 * (shape.per_node() - 1)) + hop * (2 * depth);
  const Seconds transfer = bytes * 2.0 / model.bandwidth;
  return CollectiveCost{.total = network.base + steps + transfer,
                        .launch = network.base,
                        .steps = steps,
                        .transfer = transfer,
                        .algorithm = "tree " + model.protocol};
}

std::optional<CollectiveCost> nvls_cost(const NvlsModel& model, const Network& network, GroupShape shape, Bytes bytes) {
  CollectiveCost cost{.total = Seconds(0),
                      .launch = Seconds(0),
                      .steps = model.base + model.step * shape.per_node(),
                      .transfer = bytes / model.bandwidth,
                      .algorithm = "NVLS"};
  if (shape.nodes > 1) {
    if (!model.network_step || network.nics_per_node == 0) return std::nullopt;
    const auto nodes = static_cast<double>(shape.nodes);
    const Bytes through_nics = bytes * (2 * (nodes - 1) / nodes);
    cost.launch = network.base;
    cost.steps += *model.network_step * (2 * std::log2(nodes));
    cost.transfer = std::max(cost.transfer, through_nics / network.node_bandwidth(shape.per_node()));
  }
  cost.total = cost.launch + cost.steps + cost.transfer;
  return cost;
}

TreeModel read_tree_model(MapReader entry) {
  TreeModel m{.protocol = entry.text("protocol"),
              .base = entry.quantity<Seconds>("base", Sign::NonNegative),
              .step = entry.quantity<Seconds>("step", Sign::NonNegative),
              .network_step = entry.quantity<Seconds>("network_step", Sign::NonNegative),
              .bandwidth = entry.quantity<BytesPerSecond>("bandwidth")};
  if (entry.has("hop_bandwidth")) m.hop_bandwidth = entry.quantity<BytesPerSecond>("hop_bandwidth");
  entry.finish();
  return m;
}

NvlsModel read_nvls_model(MapReader map) {
  NvlsModel m{.base = map.quantity<Seconds>("base", Sign::NonNegative),
              .step = map.quantity<Seconds>("step", Sign::NonNegative),
              .bandwidth = map.quantity<BytesPerSecond>("bandwidth")};
  if (map.has("network_step")) m.network_step = map.quantity<Seconds>("network_step", Sign::NonNegative);
  map.finish();
  return m;
}

}  // namespace moeplan
