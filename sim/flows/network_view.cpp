#include "sim/flows/network_view.hpp"

#include <map>
#include <tuple>

#include "model/program/equal_ranks.hpp"
#include "model/program/resolve.hpp"

namespace moeplan::sim {

NetworkView::NetworkView(const Program& program, const Cluster& cluster, bool use_symmetry)
    : program_(program),
      cluster_(cluster),
      symmetry_(use_symmetry ? representatives_view(program, cluster) : nullptr),
      ranks_(static_cast<std::size_t>(symmetry_ ? symmetry_->representatives : program.world_size)) {}

std::size_t NetworkView::resources() const {
  return symmetry_ ? symmetry_->capacity.size() : cluster_.topology.links.size();
}

std::vector<double> NetworkView::capacities() const {
  if (symmetry_) return symmetry_->capacity;
  std::vector<double> capacities;
  capacities.reserve(cluster_.topology.links.size());
  for (const Link& link : cluster_.topology.links) capacities.push_back(link.bandwidth.value());
  return capacities;
}

ResourceId NetworkView::resource_of(LinkId link) const {
  if (!symmetry_) return ResourceId(link.value());
  return ResourceId(static_cast<std::size_t>(symmetry_->orbit_of(link)));
}

double NetworkView::bytes_on_link(LinkId link) const {
  return symmetry_ ? symmetry_->bytes_per_link[resource_of(link).index()] : 1.0;
}

std::vector<Transfer> NetworkView::transfers(const Operation& operation, RankId r) const {
  if (symmetry_) return merged_transfers(operation, r);
  std::vector<Transfer> transfers;
  for (const Flow& f : group_flows(program_, operation, r)) transfers.push_back({f.from, f.to, f.bytes, 1.0});
  return transfers;
}

std::vector<Transfer> NetworkView::merged_transfers(const Operation& operation, RankId r) const {
  const Communication& communication = *operation.communication();
  const GroupFamily& family = program_.group(communication.group);
  std::vector<Transfer> transfers;
  std::map<std::tuple<RankId, RankId, std::int32_t, std::int64_t>, std::size_t> merged;
  for (std::int64_t p = 0; p < family.size; ++p) {
    const RankId from = family.member(r, p);
    if (simulated(from) != from) break;
    for (const Flow& f : flows_from(program_, operation, from)) {
      // Each flow of a ring has its own path.
      const std::int32_t path = runs_in_rings(communication) ? f.to.value() : symmetry_->route_between(from, f.to);
      const auto [it, is_new] = merged.try_emplace({from, simulated(f.to), path, f.bytes}, transfers.size());
      if (is_new) {
        transfers.push_back({f.from, f.to, f.bytes, 1.0});
      } else {
        transfers[it->second].weight += 1;
      }
    }
  }
  return transfers;
}

Seconds NetworkView::latency(const Operation& operation, RankId from, RankId to) const {
  return symmetry_ ? route_of_flow(*symmetry_, program_, operation, from, to).latency
                   : cluster_.cached_route(from, to).latency;
}

void NetworkView::append_uses(const Operation& operation, RankId from, RankId to, std::vector<FlowUse>& uses) const {
  if (symmetry_) {
    for (const auto& [orbit, share] : route_of_flow(*symmetry_, program_, operation, from, to).orbits) {
      uses.push_back({ResourceId(orbit), share});
    }
  } else {
    for (const RouteLink& l : cluster_.cached_route(from, to).links)
      uses.push_back({ResourceId(l.link.value()), l.share});
  }
}

}  // namespace moeplan::sim
