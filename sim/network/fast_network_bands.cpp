// The bands in which levels move freely, and the links whose R is kept: see fast_network.hpp.
#include "sim/network/fast_network.hpp"

namespace moeplan::sim {

/// Makes the bands of a flow's owner and of another link on its path disjoint.
void FastNetwork::separate(std::int32_t owner, std::int32_t other) {
  Band& p = band(owner);
  Band& q = band(other);
  if (q.level == kInfinity || p.upper <= q.lower) return;
  if (p.level > q.level * (1 + kTie)) {
    mark(owner);
    mark(other);
  }
  const double middle = 0.5 * (p.level + q.level);
  if (q.lower >= middle) {
    p.upper = q.lower;
  } else if (p.upper <= middle) {
    q.lower = p.upper;
  } else {
    p.upper = q.lower = middle;
  }
}

/// Recomputes N after `lost` was subtracted from it, if so little remains that rounding errors would be visible.
void FastNetwork::mend_owned_load(std::int32_t l, double lost) {
  constexpr double kShows = 1e-3;
  Link& k = link(l);
  if (k.owned_load > kShows * lost) return;
  k.owned_load = 0;
  for (std::size_t m = 0; m < at(k.owned); ++m) {
    const Flow& f = flow(k.members[m]);
    k.owned_load += load(f, use_of(f, l));
  }
}

void FastNetwork::set_bands(std::int32_t l) {
  Link& k = link(l);
  band(l).lower = 0;
  band(l).upper = kInfinity;
  for (const Push& push : k.pushes) separate(l, push.link);
  for (std::size_t m = at(k.owned); m < k.members.size(); ++m) {
    if (const std::int32_t owner = flow(k.members[m]).owner; owner >= 0) separate(owner, l);
  }
}

void FastNetwork::add_ceiling(std::int32_t l, double amount) {
  Link& k = link(l);
  k.ceiling_sum += amount;
  if (k.ceiling_sum > k.capacity) tight_.push_back(l);
}

/// Starts maintaining R of a quiet link.
void FastNetwork::keep(std::int32_t l) {
  Link& k = link(l);
  if (k.kept) return;
  k.kept = true;
  k.kept_for = 0;
  inflow_[at(l)].rate = 0;
  for (const std::int32_t m : k.members) {
    const Flow& f = flow(m);
    if (f.owner < 0) continue;
    const int use = use_of(f, l);
    inflow_[at(l)].rate += load(f, use) * band(f.owner).level;
    add_push(f.owner, f, use);
  }
  mark(l);
}

void FastNetwork::try_quiet(std::int32_t l) {
  Link& k = link(l);
  k.kept_for = 0;
  if (!k.kept) return;
  double sum = 0;
  for (const std::int32_t m : k.members) {
    const Flow& f = flow(m);
    if (f.owner < 0) return;
    sum += load(f, use_of(f, l)) * link(f.owner).ceiling;
  }
  if (sum > kQuietAgain * k.capacity) return;
  k.kept = false;
  set_limit(l);
  k.ceiling_sum = sum;
  for (const std::int32_t m : k.members) drop_push(flow(m).owner, flow(m), use_of(flow(m), l));
}

}  // namespace moeplan::sim
