#include "sim/flows/network_view.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "model/base/disjoint_sets.hpp"
#include "model/program/equal_ranks.hpp"
#include "model/program/resolve.hpp"

namespace moeplan::sim {

NetworkView::NetworkView(const Program& program, const Cluster& cluster, std::shared_ptr<const SymmetricView> symmetry)
    : program_(program), cluster_(cluster), symmetry_(std::move(symmetry)), places_(program.groups.size()) {
  const auto ranks = static_cast<std::size_t>(symmetry_ ? symmetry_->representatives : program.world_size);
  for (std::size_t i = 0; i < ranks; ++i) simulated_.push_back(symmetry_ ? symmetry_->representative(i) : RankId(i));
}

NetworkView::Place NetworkView::place(GroupId family, RankId r) const {
  if (symmetry_ && !symmetry_->class_of.empty()) return places_of_classes(family)[symmetry_->number_of(r)];
  const GroupFamily& groups = program_.group(family);
  return {groups.base(r), static_cast<std::size_t>(groups.position(r)), static_cast<std::size_t>(groups.size)};
}

const std::vector<NetworkView::Place>& NetworkView::places_of_classes(GroupId family) const {
  std::vector<Place>& places = places_[family.index()];
  if (!places.empty()) return places;
  DisjointSets in_one_group(simulated_.size());
  const GroupFamily& groups = program_.group(family);
  for (std::int64_t r = 0; r < program_.world_size; ++r) {
    const RankId rank(static_cast<std::int32_t>(r));
    in_one_group.join(symmetry_->number_of(rank), symmetry_->number_of(groups.base(rank)));
  }
  std::vector<std::size_t> members(simulated_.size(), 0);
  for (std::size_t c = 0; c < simulated_.size(); ++c) {
    const std::size_t least = in_one_group.least(c);
    places.push_back({simulated_[least], members[least]++, 0});
  }
  for (std::size_t c = 0; c < simulated_.size(); ++c) places[c].size = members[in_one_group.least(c)];
  return places;
}

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
  std::vector<Transfer> transfers;
  std::map<std::tuple<RankId, RankId, std::int32_t, std::int64_t>, std::size_t> merged;
  std::vector<RankId> senders;
  const RankId group = place(communication.group, r).group;
  std::copy_if(simulated_.begin(), simulated_.end(), std::back_inserter(senders),
               [&](RankId sender) { return place(communication.group, sender).group == group; });
  for (const Flow& f : flows_from(program_, operation, senders)) {
    // Each flow of a ring has its own path.
    const std::int32_t path = runs_in_rings(communication) ? f.to.value() : symmetry_->route_between(f.from, f.to);
    const auto [it, is_new] = merged.try_emplace({f.from, simulated(f.to), path, f.bytes}, transfers.size());
    if (is_new) {
      transfers.push_back({f.from, f.to, f.bytes, weight(f.from)});
    } else {
      transfers[it->second].weight += weight(f.from);
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
