#include "sim/fast_network.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace moeplan {

namespace {

/// Least first; the first flow first where targets tie.
constexpr auto kLater = [](const auto& a, const auto& b) {
  return a.target != b.target ? a.target > b.target : a.flow > b.flow;
};

}  // namespace

void FastNetwork::reserve(std::size_t flows) {
  flows_.reserve(flows);
  way_.reserve(2 * flows);
  starting_.reserve(flows);
}

ResourceId FastNetwork::add_resource(double capacity_bytes_per_s) {
  assert(capacity_bytes_per_s > 0 && "a resource has a positive capacity");
  links_.emplace_back().capacity = capacity_bytes_per_s;
  inflow_.emplace_back();
  return ResourceId(links_.size() - 1);
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
  const auto first = static_cast<std::int32_t>(way_.size());
  bool is_held = false;
  for (const FlowUse& use : uses) {
    Link& l = links_[use.resource.index()];
    l.promised += weight * use.share * bytes;
    is_held = is_held || l.capacity < kInfinity;
    const auto seen =
        std::find_if(way_.begin() + first, way_.end(), [&](const Way& w) { return w.link == use.resource.value(); });
    if (seen == way_.end()) {
      way_.push_back({use.resource.value(), 0, 0});
      new_loads_.push_back(weight * use.share);
    } else {
      new_loads_[static_cast<std::size_t>(seen - way_.begin() - first)] += weight * use.share;
    }
  }
  if (!is_held || bytes == 0) {
    way_.resize(at(first));
    immediate_.push_back(id);
    return id;
  }
  const auto f = static_cast<std::int32_t>(flows_.size());
  for (std::size_t use = at(first); use < way_.size(); ++use) {
    std::vector<Member>& members = link(way_[use].link).members;
    way_[use].place = static_cast<std::int32_t>(members.size());
    members.push_back({f, kNobody});
  }
  flows_.push_back(
      {bytes, id.value(), first, interned_loads(new_loads_), static_cast<std::int16_t>(new_loads_.size()), kNobody});
  starting_.push_back(f);
  ++running_;
  return id;
}

double FastNetwork::remaining(const Flow& f) const {
  if (f.owner == kNobody) return f.target;
  const Link& l = links_[at(owner_of(f))];
  return std::max(0.0, f.target - (l.clock + l.level * (now_ - l.clock_time)));
}

bool FastNetwork::is_current(std::int32_t l, const Due& due) const {
  const Flow& f = flows_[at(due.flow)];
  return f.owner >= 0 && f.target == due.target && owner_of(f) == l;
}

void FastNetwork::drop_stale_due(std::int32_t l) {
  std::vector<Due>& due = link(l).due;
  while (!due.empty() && !is_current(l, due.front())) {
    std::pop_heap(due.begin(), due.end(), kLater);
    due.pop_back();
  }
}

void FastNetwork::push_due(std::int32_t l, std::int32_t f) {
  std::vector<Due>& due = link(l).due;
  due.push_back({flow(f).target, f});
  std::push_heap(due.begin(), due.end(), kLater);
}

void FastNetwork::order_due(std::int32_t l) { std::make_heap(link(l).due.begin(), link(l).due.end(), kLater); }

double FastNetwork::end_of(std::int32_t l) const {
  const Link& k = links_[at(l)];
  return std::max(now_, k.clock_time + (k.due.front().target - k.clock) / k.level);
}

void FastNetwork::schedule(std::int32_t l) {
  drop_stale_due(l);
  Link& k = link(l);
  const double end = k.due.empty() || k.level == kInfinity ? kInfinity : end_of(l);
  if (end >= k.end) return;  // the entry in ends_ is a lower bound: looked at again when it is met
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
    if (first.key == k.end) {
      drop_stale_due(first.link);
      if (!k.due.empty() && end_of(first.link) <= first.key) return first.key;
    }
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
  const std::int32_t l = owner_of(ending);
  Link& owner = link(l);
  for (int use = 0; use < ending.count; ++use) {
    Link& k = link(way(ending, use));
    if (use == ending.owner) continue;
    if (!k.kept) {
      k.ceiling_sum -= load(ending, use) * owner.ceiling;
      continue;
    }
    drop_push(l, ending, use);
    add_rate(way(ending, use), -load(ending, use) * owner.level);
  }
  owner.owned_load -= load(ending, ending.owner);
  remove(f);
  mend_owned_load(l, load(ending, ending.owner));
  ending.owner = kEnded;
  --running_;
  mark(l);
}

void FastNetwork::process_event(double t, std::vector<FlowId>& completed) {
  const double last = t + coincidence(t);
  now_ = t;
  completed.insert(completed.end(), immediate_.begin(), immediate_.end());
  immediate_.clear();
  std::vector<std::int32_t> ended;
  std::vector<std::int32_t> met;
  while (!ends_.empty() && ends_.front().key <= last) {
    const Ranked first = ends_.front();
    std::pop_heap(ends_.begin(), ends_.end(), std::greater<>());
    ends_.pop_back();
    Link& k = link(first.link);
    if (first.key != k.end) continue;
    k.end = kInfinity;
    met.push_back(first.link);
    for (drop_stale_due(first.link); !k.due.empty(); drop_stale_due(first.link)) {
      if (end_of(first.link) > last) break;
      const std::int32_t f = k.due.front().flow;
      ended.push_back(f);
      completed.push_back(FlowId(flow(f).id));
      std::pop_heap(k.due.begin(), k.due.end(), kLater);
      k.due.pop_back();
      complete(f);
    }
  }
  settle();
  for (const std::int32_t l : met) schedule(l);
  if (!ended.empty()) ++counters_.events;
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
    if (flows_.size() > 1024 + 2 * at(running_)) compact();
  }
  now_ = now;
}

double FastNetwork::bytes_carried(ResourceId resource) const {
  const Link& l = links_[resource.index()];
  double left = 0;
  for (const Member& m : l.members) {
    const Flow& f = flows_[at(m.flow)];
    left += load(f, use_of(f, resource.value())) * remaining(f);
  }
  return l.promised - left;
}

std::vector<RunningFlow> FastNetwork::running() {
  flush();
  std::vector<RunningFlow> list;
  for (const FlowId id : immediate_) list.push_back({id, kInfinity, 0});
  for (const Flow& f : flows_) {
    if (f.owner != kEnded) list.push_back({FlowId(f.id), links_[at(owner_of(f))].level, remaining(f)});
  }
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return list;
}

/// Gives the storage of flows that have ended back; flows keep their order.
void FastNetwork::compact() {
  for (std::int32_t l = 0; at(l) < links_.size(); ++l) {
    std::erase_if(link(l).due, [&](const Due& due) { return !is_current(l, due); });
  }
  std::vector<std::int32_t> moved_to(flows_.size(), -1);
  std::int32_t next = 0;
  std::int32_t next_way = 0;
  for (std::int32_t id = 0; at(id) < flows_.size(); ++id) {
    Flow f = flow(id);
    if (f.owner == kEnded) continue;
    const std::int32_t owner = owner_of(f);
    for (int use = 0; use < f.count; ++use) {
      const Way w = way_[at(f.first + use)];
      link(w.link).members[at(w.place)].flow = next;
      if (use != f.owner && link(w.link).kept) link(owner).pushes[at(w.push)].way = next_way + use;
      way_[at(next_way + use)] = w;
    }
    f.first = next_way;
    next_way += f.count;
    moved_to[at(id)] = next;
    flow(next++) = f;
  }
  flows_.resize(at(next));
  way_.resize(at(next_way));
  for (std::int32_t l = 0; at(l) < links_.size(); ++l) {
    for (Due& due : link(l).due) due.flow = moved_to[at(due.flow)];
    order_due(l);
    if (link(l).owned == 0) try_quiet(l);
  }
}

std::unique_ptr<Network> make_fast_network() { return std::make_unique<FastNetwork>(); }

}  // namespace moeplan
