// Filling whole connected components anew, and the check of the definition: see fast_network.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "sim/fast_network.hpp"
#include "sim/max_min.hpp"

namespace moeplan {

void FastNetwork::flush() {
  if (starting_.empty()) return;
  // Few starts among many running flows are placed one by one; else the components that they touch are filled anew.
  constexpr std::size_t kFew = 16;
  if (starting_.size() > kFew && starting_.size() >= at(running_) / 8) {
    fill(starting_);
  } else {
    for (const std::int32_t f : starting_) place(f);
  }
  starting_.clear();
  if (starting_.capacity() > at(running_) / 8) starting_.shrink_to_fit();
  settle();
  if (checked_) check();
}

/// Where settling does not come to rest within its budget (rounding at a tie wider than kTie): solves all anew.
void FastNetwork::refill_everything() {
  ++counters_.refilled;
  std::vector<std::int32_t> seeds;
  for (std::int32_t f = 0; at(f) < flows_.size(); ++f) {
    if (flow(f).owner != kEnded) seeds.push_back(f);
  }
  fill(seeds);
  for (std::int32_t l = 0; at(l) < links_.size(); ++l) {
    link(l).dirty = false;
    set_limit(l);
  }
  dirty_.clear();
  dirty_leaves_.clear();
  tight_.clear();
}

void FastNetwork::collect_component(std::span<const std::int32_t> seeds) {
  component_links_.clear();
  component_flows_.assign(seeds.begin(), seeds.end());
  std::vector<bool> seen_flow(flows_.size());
  std::vector<bool> seen_link(links_.size());
  for (const std::int32_t f : seeds) seen_flow[at(f)] = true;
  for (std::size_t next = 0; next < component_flows_.size(); ++next) {
    const Flow f = flow(component_flows_[next]);
    for (int use = 0; use < f.count; ++use) {
      const std::int32_t l = way(f, use);
      if (seen_link[at(l)] || link(l).capacity == kInfinity) continue;
      seen_link[at(l)] = true;
      component_links_.push_back(l);
      for (const Member& m : link(l).members) {
        if (seen_flow[at(m.flow)]) continue;
        seen_flow[at(m.flow)] = true;
        component_flows_.push_back(m.flow);
      }
    }
  }
  std::sort(component_links_.begin(), component_links_.end());
  std::sort(component_flows_.begin(), component_flows_.end());
}

void FastNetwork::fill(std::span<const std::int32_t> seeds) {
  collect_component(seeds);
  counters_.filled += static_cast<std::int64_t>(component_links_.size());
  for (const std::int32_t id : component_flows_) flow(id).target = remaining(flow(id));
  for (const std::int32_t id : component_flows_) flow(id).owner = kNobody;
  for (const std::int32_t l : component_links_) {
    Link& k = link(l);
    k.owned_load = k.clock = k.lower = k.ceiling = k.ceiling_sum = 0;
    k.level = k.upper = k.end = kInfinity;
    inflow_[at(l)] = {};
    k.clock_time = now_;
    k.owned = k.kept_for = 0;
    k.kept = false;
    k.pushes.clear();
    k.due.clear();
  }
  fill_levels();
  derive_from_levels();
  // A large fill is rare: what it needed is given back.
  component_flows_ = {};
  component_links_ = {};
}

/// Progressive filling with a heap of the levels at which links would be full. These only rise, so that a stale entry
/// is a lower bound.
void FastNetwork::fill_levels() {
  struct Growing {
    double load = 0;
    double summed = 0;  // load when last summed afresh
    double taken = 0;
    std::int32_t count = 0;
  };
  std::vector<Growing> growing(links_.size());
  std::vector<Ranked> next;
  const auto level_of = [&](std::int32_t l) {
    return std::max(0.0, link(l).capacity - growing[at(l)].taken) / growing[at(l)].load;
  };
  for (const std::int32_t l : component_links_) {
    for (const Member& m : link(l).members) {
      growing[at(l)].load += load(flow(m.flow), use_of(flow(m.flow), l));
      ++growing[at(l)].count;
    }
    growing[at(l)].summed = growing[at(l)].load;
    if (growing[at(l)].count > 0) next.push_back({level_of(l), l});
  }
  std::make_heap(next.begin(), next.end(), std::greater<>());
  while (!next.empty()) {
    Ranked least = next.front();
    std::pop_heap(next.begin(), next.end(), std::greater<>());
    next.pop_back();
    if (growing[at(least.link)].count == 0) continue;
    // What is left of a sum after much was taken from it is summed afresh before rounding shows.
    constexpr double kShows = 1e-3;
    if (Growing& g = growing[at(least.link)]; g.load < kShows * g.summed) {
      g.load = 0;
      for (const Member& m : link(least.link).members) {
        if (flow(m.flow).owner == kNobody) g.load += load(flow(m.flow), use_of(flow(m.flow), least.link));
      }
      g.summed = g.load;
    }
    const double level = level_of(least.link);
    if (level > least.key) {
      least.key = level;
      next.push_back(least);
      std::push_heap(next.begin(), next.end(), std::greater<>());
      continue;
    }
    link(least.link).level = least.key;
    for (const Member& m : link(least.link).members) {
      Flow& f = flow(m.flow);
      if (f.owner != kNobody) continue;
      for (std::int16_t use = 0; use < f.count; ++use) {
        Growing& g = growing[at(way(f, use))];
        g.load -= load(f, use);
        g.taken += load(f, use) * least.key;
        --g.count;
        if (way(f, use) == least.link) f.owner = use;
      }
    }
  }
}

/// Everything that follows from the levels and owners of a component.
void FastNetwork::derive_from_levels() {
  for (const std::int32_t l : component_links_) {
    if (link(l).level < kInfinity) link(l).ceiling = link(l).level * kCeiling;
  }
  for (const std::int32_t l : component_links_) {
    Link& k = link(l);
    sort_out_members(l);
    k.due.reserve(at(k.owned));
    for (const Member& m : k.members) {
      const Flow& f = flow(m.flow);
      const double a = load(f, use_of(f, l));
      if (m.owner == l) {
        k.owned_load += a;
        k.due.push_back({f.target, m.flow});
      } else {
        inflow_[at(l)].rate += a * link(m.owner).level;
        k.ceiling_sum += a * link(m.owner).ceiling;
      }
    }
  }
  for (const std::int32_t l : component_links_) {
    Link& k = link(l);
    k.kept = k.level < kInfinity || k.ceiling_sum > k.capacity;
  }
  for (const std::int32_t id : component_flows_) {
    const Flow& f = flow(id);
    for (int use = 0; use < f.count; ++use) {
      if (use != f.owner && link(way(f, use)).kept) add_push(owner_of(f), f, use);
    }
  }
  for (const std::int32_t l : component_links_) {
    order_due(l);
    if (link(l).owned > 0) set_bands(l);
    schedule(l);
    set_limit(l);
    if (link(l).kept) mark(l);
  }
}

void FastNetwork::check() const {
  std::vector<double> capacity;
  std::vector<double> weight;
  std::vector<std::int32_t> first{0};
  std::vector<std::int32_t> resource;
  std::vector<double> share;
  std::vector<double> rate;
  std::vector<double> kept_rate(links_.size());
  for (const Link& k : links_) capacity.push_back(k.capacity);
  for (const Flow& f : flows_) {
    if (f.owner == kEnded) continue;
    rate.push_back(links_[at(owner_of(f))].level);
    weight.push_back(1);
    for (int use = 0; use < f.count; ++use) {
      resource.push_back(way(f, use));
      share.push_back(load(f, use));
      if (use != f.owner) kept_rate[at(way(f, use))] += load(f, use) * rate.back();
    }
    first.push_back(static_cast<std::int32_t>(resource.size()));
  }
  constexpr double kTolerance = 1e-10;
  for (std::size_t l = 0; l < links_.size(); ++l) {
    if (links_[l].kept && std::abs(kept_rate[l] - inflow_[l].rate) > kTolerance * capacity[l]) {
      throw std::logic_error(fmt::format("resource {} keeps a rate of {} B/s of flows that others own; it is {}", l,
                                         inflow_[l].rate, kept_rate[l]));
    }
  }
  const double violation = max_min_violation({capacity, weight, first, resource, share}, rate);
  if (violation > kTolerance) {
    throw std::logic_error(fmt::format("at {} s the rates are {} away from max-min fairness", now_, violation));
  }
}

}  // namespace moeplan
