#include "sim/network/fast_network.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace moeplan::sim {

void FastNetwork::reserve(std::size_t flows, std::size_t uses) {
  flows_.reserve(flows + 1);
  crossings_.reserve(uses);
}

ResourceId FastNetwork::add_resource(double capacity_bytes_per_s) {
  assert(capacity_bytes_per_s > 0 && "a resource has a positive capacity");
  links_.emplace_back().capacity = capacity_bytes_per_s;
  band_.emplace_back();
  inflow_.emplace_back();
  return ResourceId(links_.size() - 1);
}

void FastNetwork::set_capacity(ResourceId resource, double capacity_bytes_per_s, double now) {
  assert(now >= now_ && "time does not go back");
  const std::int32_t l = resource.value();
  Link& k = link(l);
  assert(capacity_bytes_per_s > 0 && capacity_bytes_per_s < kInfinity && k.capacity < kInfinity);
  if (now > now_) {
    flush();
    now_ = now;
  }
  k.capacity = capacity_bytes_per_s;
  if (k.members.empty()) return;
  is_unsettled_ = true;
  if (k.kept) {
    mark(l);
  } else if (k.ceiling_sum > k.capacity) {
    tight_.push_back(l);
  }
}

std::int32_t FastNetwork::interned_loads(std::span<const double> loads) {
  const auto next = static_cast<std::int32_t>(load_.size());
  if (at(last_loads_) + loads.size() <= load_.size() &&
      std::equal(loads.begin(), loads.end(), load_.begin() + last_loads_)) {
    return last_loads_;
  }
  const auto [entry, is_new] = load_index_.try_emplace({loads.begin(), loads.end()}, next);
  if (is_new) load_.insert(load_.end(), loads.begin(), loads.end());
  return last_loads_ = entry->second;
}

FlowId FastNetwork::start(std::span<const FlowUse> uses, double bytes, double weight, double now) {
  assert(now >= now_ && "time does not go back");
  assert(bytes >= 0 && std::isfinite(bytes) && weight > 0 && "a flow has bytes and a positive weight");
  if (now > now_) {
    flush();
    now_ = now;
  }
  const FlowId id(started_++);
  new_loads_.clear();
  const auto first = static_cast<std::int32_t>(crossings_.size());
  bool is_held = false;
  for (const FlowUse& use : uses) {
    Link& l = links_[use.resource.index()];
    l.promised += weight * use.share * bytes;
    is_held = is_held || l.capacity < kInfinity;
    const auto seen = std::find_if(crossings_.begin() + first, crossings_.end(),
                                   [&](const Crossing& w) { return w.link == use.resource.value(); });
    if (seen == crossings_.end()) {
      crossings_.push_back({use.resource.value(), 0, 0});
      new_loads_.push_back(weight * use.share);
    } else {
      new_loads_[static_cast<std::size_t>(seen - crossings_.begin() - first)] += weight * use.share;
    }
  }
  if (!is_held || bytes == 0) {
    crossings_.resize(at(first));
    immediate_.push_back(id);
    return id;
  }
  const std::int32_t f = number_of(flows_.back());
  for (std::size_t use = at(first); use < crossings_.size(); ++use) {
    std::vector<std::int32_t>& members = link(crossings_[use].link).members;
    crossings_[use].place = static_cast<std::int32_t>(members.size());
    members.push_back(f);
  }
  flows_.back() = {bytes, first, kNobody};
  flows_.push_back({0, static_cast<std::int32_t>(crossings_.size()), kEnded});
  if (!ids_.empty() || id.value() != f) {
    while (ids_.size() < at(f)) ids_.push_back(static_cast<std::int32_t>(ids_.size()));
    ids_.push_back(id.value());
  }
  if (const std::int32_t loads = interned_loads(new_loads_); !loads_.empty() || loads != 0) {
    loads_.resize(at(f));
    loads_.push_back(loads);
  }
  ++running_;
  return id;
}

double FastNetwork::remaining(const Flow& f) const {
  if (f.owner == kNobody) return f.target;
  const Link& l = links_[at(f.owner)];
  return std::max(0.0, f.target - (l.clock + band(f.owner).level * (now_ - l.clock_time)));
}

bool FastNetwork::is_current(std::int32_t l, const Due& due) const {
  const Flow& f = flows_[at(due.flow)];
  return f.owner == l && f.target == due.target;
}

/// Brings the owned flow that ends next to the front of the heap; false if the link owns no flow.
bool FastNetwork::find_due(std::int32_t l) {
  Link& k = link(l);
  while (!k.due.empty() && !is_current(l, k.due.front())) {
    std::pop_heap(k.due.begin(), k.due.end(), std::greater<>());
    k.due.pop_back();
  }
  if (k.due.empty() && k.owned > 0) collect_due(l);
  return !k.due.empty();
}

/// Rebuilds the heap from the eighth of the owned flows that end first.
void FastNetwork::collect_due(std::int32_t l) {
  constexpr std::ptrdiff_t kFew = 32;  // at least this many are collected together
  Link& k = link(l);
  collected_.clear();
  for (std::size_t m = 0; m < at(k.owned); ++m) collected_.push_back({flow(k.members[m]).target, k.members[m]});
  auto end = collected_.end();
  k.horizon = kNoHorizon;
  if (k.owned > kFew) {
    end = collected_.begin() + std::max<std::ptrdiff_t>(kFew, k.owned / 8);
    std::nth_element(collected_.begin(), end - 1, collected_.end(), std::less<>());
    k.horizon = *(end - 1);
  }
  k.due.assign(collected_.begin(), end);
  std::make_heap(k.due.begin(), k.due.end(), std::greater<>());
}

void FastNetwork::push_due(std::int32_t l, std::int32_t f) {
  Link& k = link(l);
  const Due due{flow(f).target, f};
  if (due > k.horizon) return;
  // Instead of growing a heap in which most entries would be stale or far ahead, rebuild it: entries take 16 bytes.
  if (k.due.size() == k.due.capacity() && k.due.size() > 64 + at(k.owned) / 4) return collect_due(l);
  k.due.push_back(due);
  std::push_heap(k.due.begin(), k.due.end(), std::greater<>());
}

double FastNetwork::end_of(std::int32_t l) const {
  const Link& k = links_[at(l)];
  return std::max(now_, k.clock_time + (k.due.front().target - k.clock) / band(l).level);
}

void FastNetwork::schedule(std::int32_t l) {
  Link& k = link(l);
  const double end = find_due(l) && band(l).level < kInfinity ? end_of(l) : kInfinity;
  if (end >= k.end) return;  // the entry in ends_ is a lower bound, re-examined when it reaches the top
  k.end = end;
  ends_.push_back({end, l});
  std::push_heap(ends_.begin(), ends_.end(), std::greater<>());
}

std::optional<double> FastNetwork::next_completion() {
  flush();
  if (!immediate_.empty()) return now_;
  while (!ends_.empty()) {
    const Ranked first = ends_.front();
    Link& k = link(first.link);
    if (first.key == k.end && find_due(first.link) && end_of(first.link) <= first.key) return first.key;
    std::pop_heap(ends_.begin(), ends_.end(), std::greater<>());
    ends_.pop_back();
    if (first.key != k.end) continue;
    k.end = kInfinity;
    schedule(first.link);
  }
  return std::nullopt;
}

void FastNetwork::complete(std::int32_t f) {
  Flow& ending = flow(f);
  const std::int32_t l = ending.owner;
  Link& owner = link(l);
  double owned_load = 0;
  for (int use = 0; use < count(ending); ++use) {
    Link& k = link(crossed(ending, use));
    if (crossed(ending, use) == l) {
      owned_load = load(ending, use);
      continue;
    }
    if (!k.kept) {
      k.ceiling_sum -= load(ending, use) * owner.ceiling;
      continue;
    }
    drop_push(l, ending, use);
    add_rate(crossed(ending, use), -load(ending, use) * band(l).level);
  }
  owner.owned_load -= owned_load;
  remove(f);
  mend_owned_load(l, owned_load);
  ending.owner = kEnded;
  --running_;
  mark(l);
}

void FastNetwork::process_event(double t, std::vector<FlowId>& completed) {
  const double last = t + coincidence(t);
  now_ = t;
  completed.insert(completed.end(), immediate_.begin(), immediate_.end());
  immediate_.clear();
  bool has_ended = false;
  std::vector<std::int32_t> met;
  while (!ends_.empty() && ends_.front().key <= last) {
    const Ranked first = ends_.front();
    std::pop_heap(ends_.begin(), ends_.end(), std::greater<>());
    ends_.pop_back();
    Link& k = link(first.link);
    if (first.key != k.end) continue;
    k.end = kInfinity;
    met.push_back(first.link);
    while (find_due(first.link) && end_of(first.link) <= last) {
      const std::int32_t f = k.due.front().flow;
      has_ended = true;
      completed.push_back(id_of(f));
      std::pop_heap(k.due.begin(), k.due.end(), std::greater<>());
      k.due.pop_back();
      complete(f);
    }
  }
  settle();
  for (const std::int32_t l : met) schedule(l);
  if (has_ended) ++counters_.events;
  if (checked_) check();
}

void FastNetwork::advance(double now, std::vector<FlowId>& completed) {
  assert(now >= now_ && "time does not go back");
  const double last = now + coincidence(now);
  CompletionOrder order;
  for (auto t = next_completion(); t && *t <= last; t = next_completion()) {
    order.begin_event(std::min(*t, now), completed);
    process_event(std::min(*t, now), completed);
    order.end_event(completed);
    if (flows_.size() > 1024 + 4 * at(running_)) compact();
  }
  now_ = now;
}

double FastNetwork::bytes_carried(ResourceId resource) const {
  const Link& l = links_[resource.index()];
  double left = 0;
  for (const std::int32_t m : l.members) {
    const Flow& f = flows_[at(m)];
    left += load(f, use_of(f, resource.value())) * remaining(f);
  }
  return l.promised - left;
}

std::vector<RunningFlow> FastNetwork::running() {
  flush();
  std::vector<RunningFlow> list;
  for (const FlowId id : immediate_) list.push_back({id, kInfinity, 0});
  for (const Flow& f : flows_) {
    if (f.owner != kEnded) list.push_back({id_of(number_of(f)), band(f.owner).level, remaining(f)});
  }
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return list;
}

/// Releases the storage of flows that have ended; flows keep their order.
void FastNetwork::compact() {
  std::vector<std::int32_t> ids;
  ids.reserve(at(running_));
  std::int32_t next = 0;
  std::int32_t next_crossing = 0;
  for (std::int32_t number = 0; at(number) + 1 < flows_.size(); ++number) {
    const Flow& f = flow(number);
    if (f.owner == kEnded) continue;
    const int uses = count(f);
    for (int use = 0; use < uses; ++use) {
      const Crossing w = crossings_[at(f.first + use)];
      link(w.link).members[at(w.place)] = next;
      if (w.link != f.owner && link(w.link).kept) link(f.owner).pushes[at(w.push)].crossing = next_crossing + use;
      crossings_[at(next_crossing + use)] = w;
    }
    ids.push_back(id_of(number).value());
    if (!loads_.empty()) loads_[at(next)] = loads_[at(number)];
    flow(next) = {f.target, next_crossing, f.owner};
    next_crossing += uses;
    ++next;
  }
  flows_.resize(at(next) + 1);
  flows_.back() = {0, next_crossing, kEnded};
  crossings_.resize(at(next_crossing));
  if (!loads_.empty()) loads_.resize(at(next));
  ids_ = std::move(ids);
  first_starting_ = next;
  for (std::int32_t l = 0; at(l) < links_.size(); ++l) {
    Link& k = link(l);
    k.due.clear();
    if (k.owned > 0) collect_due(l);
    if (k.owned == 0) try_quiet(l);
  }
}

std::unique_ptr<Network> make_fast_network() { return std::make_unique<FastNetwork>(); }

}  // namespace moeplan::sim
