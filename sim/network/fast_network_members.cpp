// The flows on each link and the links to which it pushes: see fast_network.hpp.
#include <utility>

#include "sim/network/fast_network.hpp"

namespace moeplan::sim {

int FastNetwork::use_of(const Flow& f, std::int32_t l) const {
  int use = 0;
  while (crossed(f, use) != l) ++use;
  return use;
}

void FastNetwork::swap_members(std::int32_t l, std::int32_t a, std::int32_t b) {
  if (a == b) return;
  std::vector<std::int32_t>& members = link(l).members;
  std::swap(members[at(a)], members[at(b)]);
  for (const std::int32_t place : {a, b}) {
    const Flow& f = flow(members[at(place)]);
    crossings_[at(f.first + use_of(f, l))].place = place;
  }
}

/// Makes a link on the flow's path its owner; owned flows remain the first members.
void FastNetwork::set_owner(std::int32_t id, std::int32_t owner) {
  Flow& f = flow(id);
  for (int use = 0; use < count(f); ++use) {
    const std::int32_t l = crossed(f, use);
    if (l == f.owner) swap_members(l, crossings_[at(f.first + use)].place, --link(l).owned);
    if (l == owner) swap_members(l, crossings_[at(f.first + use)].place, link(l).owned++);
  }
  f.owner = owner;
}

/// Sorts a link's members so that owned flows are first, after progressive filling has set the owners. Links of
/// infinite capacity keep any order.
void FastNetwork::sort_out_members(std::int32_t l) {
  Link& k = link(l);
  k.members.shrink_to_fit();
  k.owned = 0;
  for (std::size_t i = 0; i < k.members.size(); ++i) {
    if (flow(k.members[i]).owner == l) std::swap(k.members[i], k.members[at(k.owned++)]);
  }
  for (std::size_t i = 0; i < k.members.size(); ++i) {
    const Flow& f = flow(k.members[i]);
    crossings_[at(f.first + use_of(f, l))].place = static_cast<std::int32_t>(i);
  }
}

/// Removes an owned flow from every link. The last owned flow (on the owner) and the last member fill the gaps.
void FastNetwork::remove(std::int32_t id) {
  const Flow& f = flow(id);
  for (int use = 0; use < count(f); ++use) {
    const std::int32_t l = crossed(f, use);
    Link& k = link(l);
    const auto fill_hole = [&](std::int32_t hole, std::int32_t from) {
      if (hole == from) return;
      const std::int32_t m = k.members[at(from)];
      k.members[at(hole)] = m;
      crossings_[at(flow(m).first + use_of(flow(m), l))].place = hole;
    };
    std::int32_t hole = crossings_[at(f.first + use)].place;
    if (l == f.owner) {
      fill_hole(hole, --k.owned);
      hole = k.owned;
    }
    fill_hole(hole, static_cast<std::int32_t>(k.members.size()) - 1);
    k.members.pop_back();
  }
}

void FastNetwork::add_push(std::int32_t owner, const Flow& f, int use) {
  Link& k = link(owner);
  const std::int32_t w = f.first + use;
  const double a = load(f, use);
  if (k.pushes.empty()) k.push_load = a;
  if (k.push_loads.empty() && a != k.push_load) k.push_loads.assign(k.pushes.size(), k.push_load);
  if (!k.push_loads.empty()) k.push_loads.push_back(a);
  crossings_[at(w)].push = static_cast<std::int32_t>(k.pushes.size());
  // Grows in small steps, since a link that becomes kept adds pushes to many others.
  if (k.pushes.size() == k.pushes.capacity()) k.pushes.reserve(k.pushes.size() + k.pushes.size() / 8 + 4);
  k.pushes.push_back({crossed(f, use), w});
}

void FastNetwork::drop_push(std::int32_t owner, const Flow& f, int use) {
  Link& k = link(owner);
  const std::int32_t place = crossings_[at(f.first + use)].push;
  k.pushes[at(place)] = k.pushes.back();
  crossings_[at(k.pushes[at(place)].crossing)].push = place;
  k.pushes.pop_back();
  if (k.push_loads.empty()) return;
  k.push_loads[at(place)] = k.push_loads.back();
  k.push_loads.pop_back();
}

}  // namespace moeplan::sim
