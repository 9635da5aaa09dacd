// The fixed point of levels: see fast_network.hpp.
#include <algorithm>
#include <cmath>

#include "sim/network/fast_network.hpp"

namespace moeplan::sim {

namespace {

constexpr auto kHigher = [](const auto& a, const auto& b) { return a.key > b.key; };

}  // namespace

void FastNetwork::mark(std::int32_t l) {
  Link& k = link(l);
  if (k.dirty) return;
  k.dirty = true;
  inflow_[at(l)].limit = kInfinity;
  if (k.pushes.empty()) {
    dirty_leaves_.push_back(l);
    return;
  }
  dirty_.push_back({band(l).level, l});
  std::push_heap(dirty_.begin(), dirty_.end(), kHigher);
}

/// Adds to R, and marks the link dirty if R then exceeds its limit.
void FastNetwork::add_rate(std::int32_t l, double rate) {
  Inflow& in = inflow_[at(l)];
  in.rate += rate;
  if (in.rate > in.limit) mark(l);
}

void FastNetwork::set_limit(std::int32_t l) {
  const Link& k = link(l);
  const bool is_deaf = k.dirty || !k.kept;
  inflow_[at(l)].limit = is_deaf ? kInfinity : k.owned > 0 ? -kInfinity : k.capacity * (1 + 4 * kTie);
}

void FastNetwork::settle() {
  budget_ = 10'000 + 100 * static_cast<std::int64_t>(links_.size());
  while (true) {
    while (!tight_.empty()) {
      const std::int32_t l = tight_.back();
      tight_.pop_back();
      if (!link(l).kept && link(l).ceiling_sum > link(l).capacity) keep(l);
    }
    if (--budget_ < 0) return refill_everything();
    if (!dirty_.empty()) {
      const std::int32_t l = dirty_.front().link;
      std::pop_heap(dirty_.begin(), dirty_.end(), kHigher);
      dirty_.pop_back();
      settle(l);
    } else if (!dirty_leaves_.empty()) {
      const std::int32_t l = dirty_leaves_.back();
      dirty_leaves_.pop_back();
      settle(l);
    } else {
      return;
    }
  }
}

void FastNetwork::settle(std::int32_t l) {
  ++counters_.settled;
  Link& k = link(l);
  k.dirty = false;
  set_limit(l);
  if (!k.kept) return;
  if (k.owned == 0) {
    band(l).level = kInfinity;
    if (inflow_[at(l)].rate > k.capacity * (1 + 4 * kTie)) return resolve(l);
    if (static_cast<std::size_t>(++k.kept_for) > k.members.size()) try_quiet(l);
    return;
  }
  const double level = (k.capacity - inflow_[at(l)].rate) / k.owned_load;
  if (!(level > 0) || level > k.ceiling || static_cast<std::size_t>(++k.kept_for) > k.members.size() + 1024)
    return resolve(l);
  if (level < band(l).lower * (1 - kTie)) return take_below(l);
  if (level > band(l).upper * (1 + kTie)) return give_above(l);
  set_level(l, level);
}

void FastNetwork::set_clock(std::int32_t l) {
  Link& k = link(l);
  if (band(l).level != kInfinity) k.clock += band(l).level * (now_ - k.clock_time);
  k.clock_time = now_;
}

void FastNetwork::set_level(std::int32_t l, double level) {
  Link& k = link(l);
  const double change = level - band(l).level;
  if (change == 0) return;
  set_clock(l);
  band(l).level = level;
  if (k.push_loads.empty()) {
    const double rate = k.push_load * change;
    for (const Push& push : k.pushes) add_rate(push.link, rate);
  } else {
    for (std::size_t p = 0; p < k.pushes.size(); ++p) add_rate(k.pushes[p].link, k.push_loads[p] * change);
  }
  if (change > 0 || k.end == kInfinity) schedule(l);
}

/// The level at which the link is full, given the lowest level of every flow's other links; infinite if the link is not
/// full. g(x) = sum of load * min(x, other) is concave and increasing: Newton's method from the left ascends to g(x) =
/// C in finitely many steps, one for each change of the set of flows limited by x.
double FastNetwork::water_level(std::int32_t l) {
  meetings_.clear();
  double all = 0;
  double taken_by_others = 0;
  for (const std::int32_t member : link(l).members) {
    const Flow& f = flow(member);
    Barrier m{kInfinity, 0, member, kNobody};
    for (int use = 0; use < count(f); ++use) {
      const std::int32_t other = crossed(f, use);
      if (other == l) {
        m.load = load(f, use);
      } else if (const double level = band(other).level; m.other_link < 0 || level < m.other) {
        m.other = level;
        m.other_link = other;
      }
    }
    all += m.load;
    taken_by_others += m.load * m.other;
    meetings_.push_back(m);
  }
  const double capacity = link(l).capacity;
  if (taken_by_others <= capacity * (1 + kTie)) return kInfinity;
  double x = capacity / all;
  while (true) {
    double taken = 0;
    double growing = 0;
    for (const Barrier& m : meetings_) (m.other < x ? taken : growing) += m.other < x ? m.load * m.other : m.load;
    if (growing == 0) return x;
    const double next = (capacity - taken) / growing;
    if (!(next > x)) return x;
    x = next;
  }
}

/// Scans the link's flows, solves its level exactly, and moves the flows whose owner changes.
void FastNetwork::resolve(std::int32_t l) {
  ++counters_.resolved;
  link(l).kept_for = 0;
  const double x = water_level(l);
  if (x == kInfinity) return give_all_away(l);
  claim(l, x);
}

void FastNetwork::give_all_away(std::int32_t l) {
  for (const Barrier& m : meetings_) {
    if (flow(m.flow).owner == l) move(m.flow, m.other_link);
  }
  band(l).level = kInfinity;
  inflow_[at(l)].rate = 0;
  for (const Barrier& m : meetings_) inflow_[at(l)].rate += m.load * band(flow(m.flow).owner).level;
  try_quiet(l);
}

void FastNetwork::claim(std::int32_t l, double x) {
  keep(l);
  Link& k = link(l);
  if (band(l).level == kInfinity) {
    set_clock(l);
    band(l).level = x;
  } else {
    set_level(l, x);
  }
  const double raised = x * kCeiling - k.ceiling;
  k.ceiling = x * kCeiling;
  for (const Barrier& m : meetings_) {
    const Flow& f = flow(m.flow);
    if (f.owner != l) continue;
    for (int use = 0; use < count(f); ++use) {
      if (crossed(f, use) != l && !link(crossed(f, use)).kept) add_ceiling(crossed(f, use), load(f, use) * raised);
    }
  }
  for (const Barrier& m : meetings_) {
    const Flow& f = flow(m.flow);
    if (m.other > x * (1 + kTie)) {
      if (f.owner != l) move(m.flow, l);
      continue;
    }
    const double runs_at = f.owner == kNobody ? kInfinity : band(f.owner).level;
    if (m.other < x * (1 - kTie)) {
      if (f.owner == l || runs_at > m.other * (1 + kTie)) move(m.flow, m.other_link);
    } else if (runs_at > x * (1 + kTie)) {
      move(m.flow, l);
    }
  }
  k.owned_load = 0;
  inflow_[at(l)].rate = 0;
  for (const Barrier& m : meetings_) {
    const Flow& f = flow(m.flow);
    if (f.owner == l) {
      k.owned_load += m.load;
    } else {
      inflow_[at(l)].rate += m.load * band(f.owner).level;
    }
  }
  if (k.owned == 0) {
    band(l).level = kInfinity;
    return;
  }
  const double level = (k.capacity - inflow_[at(l)].rate) / k.owned_load;
  set_level(l, level > 0.5 * x ? level : x);  // x if the owned load is so small that it is lost in the rounding of R
  set_bands(l);
  schedule(l);
}

/// Handles a level that rises above those of other links on the paths of owned flows: hands these flows over. Each
/// takes less than the current level with it, so the level only increases: Newton's method from the left.
void FastNetwork::give_above(std::int32_t l) {
  ++counters_.corrected;
  Link& k = link(l);
  moved_.clear();
  double level = (k.capacity - inflow_[at(l)].rate) / k.owned_load;
  while (true) {
    candidates_.clear();
    for (const Push& push : k.pushes) {
      if (band(push.link).level < level * (1 - kTie)) {
        candidates_.emplace_back(band(push.link).level,
                                 link(push.link).members[at(crossings_[at(push.crossing)].place)]);
      }
    }
    if (candidates_.empty()) break;
    for (const auto& [other, id] : candidates_) {
      const Flow& f = flow(id);
      if (f.owner != l) continue;  // already handed over: several of its links have lower levels
      std::int32_t least = crossed(f, 0) == l ? crossed(f, 1) : crossed(f, 0);
      for (int use = 0; use < count(f); ++use) {
        if (crossed(f, use) != l && band(crossed(f, use)).level < band(least).level) least = crossed(f, use);
      }
      move(id, least, l);
      moved_.push_back(id);
    }
    if (k.owned == 0) {
      band(l).level = kInfinity;
      mark(l);
      return;
    }
    level = (k.capacity - inflow_[at(l)].rate) / k.owned_load;
  }
  if (level > k.ceiling) return resolve(l);
  set_level(l, level);
  band(l).upper = kInfinity;
  for (const Push& push : k.pushes) separate(l, push.link);
  part_moved(l);
}

/// Handles a level that falls below those of the owners of other flows: takes these flows over, from the highest level
/// down, as long as the level is lower.
void FastNetwork::take_below(std::int32_t l) {
  ++counters_.corrected;
  Link& k = link(l);
  moved_.clear();
  candidates_.clear();
  double level = (k.capacity - inflow_[at(l)].rate) / k.owned_load;
  for (std::size_t m = at(k.owned); m < k.members.size(); ++m) {
    const std::int32_t owner = flow(k.members[m]).owner;
    if (owner < 0) continue;
    if (const double other = band(owner).level; other > level * (1 + kTie)) {
      candidates_.emplace_back(-other, k.members[m]);
    }
  }
  std::sort(candidates_.begin(), candidates_.end());
  for (const auto& [negated, id] : candidates_) {
    if (-negated <= level * (1 + kTie)) break;
    move(id, l, l);
    moved_.push_back(id);
    level = (k.capacity - inflow_[at(l)].rate) / k.owned_load;
  }
  if (level > k.ceiling || level > band(l).upper * (1 + kTie)) return resolve(l);
  set_level(l, level);
  band(l).lower = 0;
  for (std::size_t m = at(k.owned); m < k.members.size(); ++m) {
    if (const std::int32_t owner = flow(k.members[m]).owner; owner >= 0) separate(owner, l);
  }
  part_moved(l);
}

/// Makes the bands of l and of the links of the flows just moved from or to it disjoint.
void FastNetwork::part_moved(std::int32_t l) {
  for (const std::int32_t id : moved_) {
    const Flow& f = flow(id);
    if (f.owner != l) {
      separate(f.owner, l);
      continue;
    }
    for (int use = 0; use < count(f); ++use) {
      if (crossed(f, use) != l) separate(l, crossed(f, use));
    }
  }
}

/// Makes `to` the owner of the flow.
void FastNetwork::move(std::int32_t id, std::int32_t to, std::int32_t not_parted_from) {
  ++counters_.moved;
  Flow& f = flow(id);
  const std::int32_t from = f.owner;
  Link& taker = link(to);
  const double level_before = from < 0 ? 0 : band(from).level;
  const double ceiling_before = from < 0 ? 0 : link(from).ceiling;
  const double left = remaining(f);
  double from_load = 0;
  set_clock(to);
  if (taker.owned == 0) {
    taker.clock = 0;
    taker.horizon = kNoHorizon;
  }
  for (int other = 0; other < count(f); ++other) {
    const std::int32_t l = crossed(f, other);
    Link& k = link(l);
    const double a = load(f, other);
    if (l == to) {
      k.owned_load += a;
      inflow_[at(l)].rate -= a * level_before;
      if (from >= 0) drop_push(from, f, other);
    } else if (l == from) {
      k.owned_load -= a;
      from_load = a;
      inflow_[at(l)].rate += a * band(to).level;
      add_push(to, f, other);
    } else if (k.kept) {
      inflow_[at(l)].rate += a * (band(to).level - level_before);
      if (from >= 0) drop_push(from, f, other);
      add_push(to, f, other);
    } else {
      add_ceiling(l, a * (taker.ceiling - ceiling_before));
    }
    if (k.kept) mark(l);
  }
  set_owner(id, to);
  if (from >= 0) mend_owned_load(from, from_load);
  f.target = taker.clock + left;
  push_due(to, id);
  schedule(to);
  for (int other = 0; other < count(f); ++other) {
    if (crossed(f, other) != to && crossed(f, other) != not_parted_from) separate(to, crossed(f, other));
  }
}

/// Gives a new flow an owner: the link with the lowest level on its path or, if all levels are infinite, the link that
/// this flow alone would fill first.
void FastNetwork::place(std::int32_t id) {
  const Flow& f = flow(id);
  if (f.owner != kNobody) return;
  std::int32_t least = crossed(f, 0);
  int narrowest = 0;
  for (int use = 1; use < count(f); ++use) {
    if (band(crossed(f, use)).level < band(least).level) least = crossed(f, use);
    if (link(crossed(f, use)).capacity / load(f, use) < link(crossed(f, narrowest)).capacity / load(f, narrowest)) {
      narrowest = use;
    }
  }
  if (band(least).level < kInfinity) return move(id, least);
  resolve(crossed(f, narrowest));
}

}  // namespace moeplan::sim
