#include "planner/placement/layer_time.hpp"

#include <algorithm>
#include <cassert>

#include "planner/placement/migration.hpp"

namespace moeplan::planner {

namespace {

double most(const std::vector<std::int64_t>& amounts) {
  std::int64_t largest = 0;
  for (const std::int64_t amount : amounts) largest = std::max(largest, amount);
  return static_cast<double>(largest);
}

}  // namespace

LayerTraffic::LayerTraffic(const ExpertColumns& columns, const PlacementDevices& devices)
    : columns_(&columns), devices_(devices), divider_(devices.ranks, devices.ranks_per_node) {
  assert(columns.sources() == devices.ranks && "every rank is a source");
  const auto ranks = static_cast<std::size_t>(devices.ranks), nodes = static_cast<std::size_t>(devices.nodes());
  for (std::int64_t r = 0; r < devices.ranks; ++r) node_.push_back(static_cast<std::size_t>(devices.node_of(r)));
  load_.assign(ranks, 0);
  for (Ports* ports : {&tokens_, &experts_}) {
    for (auto* by_rank : {&ports->out_near, &ports->in_near, &ports->out_far, &ports->in_far})
      by_rank->assign(ranks, 0);
    for (auto* by_node : {&ports->node_out, &ports->node_in}) by_node->assign(nodes, 0);
  }
}

void LayerTraffic::pass(Ports& ports, std::size_t from, std::size_t to, std::int64_t amount) const {
  if (from == to) return;
  if (node_[from] == node_[to]) {
    ports.out_near[from] += amount;
    ports.in_near[to] += amount;
    return;
  }
  ports.out_far[from] += amount;
  ports.in_far[to] += amount;
  ports.node_out[node_[from]] += amount;
  ports.node_in[node_[to]] += amount;
}

void LayerTraffic::apply_alone(std::size_t expert, std::size_t home, std::int64_t sign) {
  const auto column = columns_->column(expert);
  const std::int64_t load = sign * columns_->load(expert);
  const std::size_t home_node = node_[home], m = static_cast<std::size_t>(devices_.ranks_per_node);
  std::int64_t near = 0;
  for (std::size_t node = 0; node < tokens_.node_out.size(); ++node) {
    const std::size_t first = node * m, end = std::min(first + m, column.size());
    std::vector<std::int64_t>& out = node == home_node ? tokens_.out_near : tokens_.out_far;
    std::int64_t sum = 0;
    for (std::size_t s = first; s < end; ++s) {
      out[s] += sign * column[s];
      sum += column[s];
    }
    (node == home_node ? near : tokens_.node_out[node]) += sign * sum;
  }
  const std::int64_t own = sign * column[home];
  tokens_.out_near[home] -= own;
  tokens_.in_near[home] += near - own;
  tokens_.in_far[home] += load - near;
  tokens_.node_in[home_node] += load - near;
  load_[home] += load;
}

void LayerTraffic::apply(std::size_t expert, const ExpertPlacement& place, Nearest nearest, std::int64_t sign) {
  if (place.holders.size() == 1) return apply_alone(expert, place.home.index(), sign);
  for (const TokenFlow& flow : divider_.divide(columns_->column(expert), place, nearest)) {
    load_[flow.rank.index()] += sign * flow.tokens;
    pass(tokens_, flow.source.index(), flow.rank.index(), sign * flow.tokens);
  }
  if (!devices_.trains) return;
  chains_ += sign;
  // The chain runs from the home through the rest of its node, then through the holders of the other nodes in order.
  std::size_t last = place.home.index();
  const std::size_t home_node = node_[last];
  for (const bool in_home_node : {true, false}) {
    for (const ExpertHolder& holder : place.holders) {
      const std::size_t rank = holder.rank.index();
      if (holder.rank == place.home || (node_[rank] == home_node) != in_home_node) continue;
      pass(experts_, last, rank, sign);
      last = rank;
    }
  }
}

double LayerTraffic::busiest(const Ports& p) const {
  return std::max({std::max(most(p.out_near), most(p.in_near)) / devices_.rank_bandwidth.value(),
                   std::max(most(p.out_far), most(p.in_far)) / devices_.nic_bandwidth.value(),
                   std::max(most(p.node_out), most(p.node_in)) / devices_.node_bandwidth.value()});
}

LayerTime LayerTraffic::time() const {
  LayerTime t;
  t.compute = devices_.token_time * most(load_);
  t.exchange = Seconds(busiest(tokens_) * devices_.token_bytes.value());
  if (!devices_.trains) {
    t.total = 2 * t.exchange + t.compute;
    return t;
  }
  const double transfer = chains_ > 0 ? busiest(experts_) : 0;
  t.parameters = Seconds(transfer * devices_.parameter_bytes.value());
  t.gradients = Seconds(transfer * devices_.gradient_bytes.value());
  Seconds parameters = t.parameters, gradients = t.gradients;
  if (devices_.overlaps_transfers) {
    const Seconds hidden = t.compute + devices_.non_expert_time;
    parameters = std::max(Seconds(0), parameters - hidden);
    gradients = std::max(Seconds(0), gradients - 2 * hidden);
  }
  t.total = 4 * t.exchange + 3 * t.compute + parameters + gradients;
  return t;
}

std::size_t LayerTraffic::busiest_rank() const {
  return static_cast<std::size_t>(std::max_element(load_.begin(), load_.end()) - load_.begin());
}

std::size_t LayerTraffic::busiest_port() const {
  std::size_t busiest_one = 0;
  double longest = -1;
  for (std::size_t r = 0; r < node_.size(); ++r) {
    const auto near = static_cast<double>(std::max(tokens_.out_near[r], tokens_.in_near[r]));
    const auto far = static_cast<double>(std::max(tokens_.out_far[r], tokens_.in_far[r]));
    const auto node = static_cast<double>(std::max(tokens_.node_out[node_[r]], tokens_.node_in[node_[r]]));
    // The last term breaks ties between the ranks of the busiest node by the load of their own NICs.
    const double port = std::max({near / devices_.rank_bandwidth.value(), far / devices_.nic_bandwidth.value(),
                                  node / devices_.node_bandwidth.value()}) +
                        1e-6 * far / devices_.nic_bandwidth.value();
    if (port > longest) {
      longest = port;
      busiest_one = r;
    }
  }
  return busiest_one;
}

LayerTime layer_time(const RoutingCounts& counts, const Placement& placement, const PlacementDevices& devices) {
  const ExpertColumns columns(counts);
  LayerTraffic traffic(columns, devices);
  for (std::size_t e = 0; e < placement.experts.size(); ++e) traffic.add(e, placement.experts[e], placement.nearest);
  return traffic.time();
}

Seconds migration_time(const Placement& from, const Placement& to, const PlacementDevices& devices) {
  const ExpertColumns none(RoutingCounts::uniform(devices.ranks, 1, 0));
  LayerTraffic states(none, devices);
  LayerTraffic::Ports &homes = states.tokens_, &replicas = states.experts_;
  for (const ExpertMove& move : expert_moves(from, to, devices.ranks_per_node, devices.trains))
    states.pass(devices.trains ? homes : replicas, move.from.index(), move.to.index(), 1);
  return Seconds(states.busiest(homes) * devices.state_bytes.value() +
                 states.busiest(replicas) * devices.parameter_bytes.value());
}

std::vector<std::int64_t> rank_loads(const RoutingCounts& counts, const Placement& placement,
                                     const PlacementDevices& devices) {
  const ExpertColumns columns(counts);
  LayerTraffic traffic(columns, devices);
  for (std::size_t e = 0; e < placement.experts.size(); ++e) traffic.add(e, placement.experts[e], placement.nearest);
  return {traffic.loads().begin(), traffic.loads().end()};
}

}  // namespace moeplan::planner
