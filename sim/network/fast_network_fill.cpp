// Progressive filling of whole connected components, and the check of the definition: see fast_network.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "sim/network/fast_network.hpp"
#include "sim/network/max_min.hpp"

namespace moeplan::sim {

void FastNetwork::flush() {
  const std::int32_t end = number_of(flows_.back());
  if (first_starting_ == end && !is_unsettled_) return;
  is_unsettled_ = false;
  // A few starts among many running flows are inserted one by one; otherwise their components are solved again.
  constexpr std::int32_t kFew = 16;
  const std::int32_t starting = end - first_starting_;
  if (starting > kFew && starting >= running_ / 8) {
    fill(first_starting_);
  } else {
    for (std::int32_t f = first_starting_; f < end; ++f) place(f);
  }
  first_starting_ = end;
  settle();
  if (checked_) check();
}

/// Solves everything again, if settling does not converge within its budget (rounding at a tie wider than kTie).
void FastNetwork::refill_everything() {
  ++counters_.refilled;
  fill(0);
  for (std::int32_t l = 0; at(l) < links_.size(); ++l) {
    link(l).dirty = false;
    set_limit(l);
  }
  dirty_.clear();
  dirty_leaves_.clear();
  tight_.clear();
}

/// Collects the links of finite capacity reachable from the new flows, from `first_seed` on.
void FastNetwork::collect_component(std::int32_t first_seed) {
  component_links_.clear();
  std::vector<bool> seen(links_.size());
  const auto meet_links_of = [&](const Flow& f) {
    for (int use = 0; use < count(f); ++use) {
      const std::int32_t l = crossed(f, use);
      if (seen[at(l)] || link(l).capacity == kInfinity) continue;
      seen[at(l)] = true;
      component_links_.push_back(l);
    }
  };
  for (std::int32_t f = first_seed; f < number_of(flows_.back()); ++f) {
    if (flow(f).owner != kEnded) meet_links_of(flow(f));
  }
  for (std::size_t next = 0; next < component_links_.size(); ++next) {
    for (const std::int32_t m : link(component_links_[next]).members) meet_links_of(flow(m));
  }
  std::sort(component_links_.begin(), component_links_.end());
}

void FastNetwork::fill(std::int32_t first_seed) {
  collect_component(first_seed);
  counters_.filled += static_cast<std::int64_t>(component_links_.size());
  for (const std::int32_t l : component_links_) {
    for (const std::int32_t m : link(l).members) {
      flow(m).target = remaining(flow(m));
      flow(m).owner = kNobody;
    }
  }
  for (const std::int32_t l : component_links_) {
    Link& k = link(l);
    k.owned_load = k.clock = band(l).lower = k.ceiling = k.ceiling_sum = 0;
    band(l).level = band(l).upper = k.end = kInfinity;
    inflow_[at(l)] = {};
    k.clock_time = now_;
    k.owned = k.kept_for = 0;
    k.kept = false;
    k.pushes.clear();
    k.push_loads.clear();
    k.due.clear();
  }
  fill_levels();
  derive_from_levels();
}

/// Progressive filling with a heap of the levels at which links become full. These levels only increase, so a stale
/// entry is a lower bound.
void FastNetwork::fill_levels() {
  struct Growing {
    double load = 0;
    double summed = 0;  // load when last recomputed as a sum
    double taken = 0;
    std::int32_t count = 0;
  };
  std::vector<Growing> growing(links_.size());
  std::vector<Ranked> next;
  const auto level_of = [&](std::int32_t l) {
    return std::max(0.0, link(l).capacity - growing[at(l)].taken) / growing[at(l)].load;
  };
  for (const std::int32_t l : component_links_) {
    for (const std::int32_t m : link(l).members) {
      growing[at(l)].load += load(flow(m), use_of(flow(m), l));
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
    // After much has been subtracted from a load, it is recomputed before rounding errors become visible.
    constexpr double kShows = 1e-3;
    if (Growing& g = growing[at(least.link)]; g.load < kShows * g.summed) {
      g.load = 0;
      for (const std::int32_t m : link(least.link).members) {
        if (flow(m).owner == kNobody) g.load += load(flow(m), use_of(flow(m), least.link));
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
    band(least.link).level = least.key;
    for (const std::int32_t m : link(least.link).members) {
      Flow& f = flow(m);
      if (f.owner != kNobody) continue;
      f.owner = least.link;
      for (int use = 0; use < count(f); ++use) {
        Growing& g = growing[at(crossed(f, use))];
        g.load -= load(f, use);
        g.taken += load(f, use) * least.key;
        --g.count;
      }
    }
  }
}

/// Derives all other state of a component from its levels and owners.
void FastNetwork::derive_from_levels() {
  for (const std::int32_t l : component_links_) {
    if (band(l).level < kInfinity) link(l).ceiling = band(l).level * kCeiling;
  }
  for (const std::int32_t l : component_links_) {
    Link& k = link(l);
    sort_out_members(l);
    for (const std::int32_t m : k.members) {
      const Flow& f = flow(m);
      const double a = load(f, use_of(f, l));
      if (f.owner == l) {
        k.owned_load += a;
      } else {
        inflow_[at(l)].rate += a * band(f.owner).level;
        k.ceiling_sum += a * link(f.owner).ceiling;
      }
    }
  }
  for (const std::int32_t l : component_links_) {
    Link& k = link(l);
    k.kept = band(l).level < kInfinity || k.ceiling_sum > k.capacity;
  }
  for (const std::int32_t l : component_links_) {
    const auto for_each_push = [&](auto&& act) {
      for (std::size_t m = 0; m < at(link(l).owned); ++m) {
        const Flow& f = flow(link(l).members[m]);
        for (int use = 0; use < count(f); ++use) {
          if (crossed(f, use) != l && link(crossed(f, use)).kept) act(f, use);
        }
      }
    };
    std::size_t pushes = 0;
    for_each_push([&](const Flow&, int) { ++pushes; });
    link(l).pushes.reserve(pushes);
    for_each_push([&](const Flow& f, int use) { add_push(l, f, use); });
  }
  for (const std::int32_t l : component_links_) {
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
    rate.push_back(band(f.owner).level);
    weight.push_back(1);
    for (int use = 0; use < count(f); ++use) {
      resource.push_back(crossed(f, use));
      share.push_back(load(f, use));
      if (crossed(f, use) != f.owner) kept_rate[at(crossed(f, use))] += load(f, use) * rate.back();
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

}  // namespace moeplan::sim
