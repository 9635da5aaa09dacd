#include "model/costs/operation_price.hpp"

#include <algorithm>

#include "model/costs/communication.hpp"
#include "model/costs/compute.hpp"
#include "model/program/equal_ranks.hpp"
#include "model/program/resolve.hpp"
#include "model/program/same_work.hpp"

namespace moeplan {

namespace {

/// A representative's part of a communication.
struct Part {
  std::vector<std::pair<const SymmetricView::OrbitRoute*, double>> crossed{};  // bytes that it sends or receives
  double sent = 0, received = 0, latency = 0;
  std::optional<double> least_latency{};  // none without a flow
  void add(const SymmetricView::OrbitRoute& route, double bytes, bool waits) {
    crossed.emplace_back(&route, bytes);
    if (!waits) return;
    latency = std::max(latency, route.latency.value());
    least_latency = std::min(least_latency.value_or(route.latency.value()), route.latency.value());
  }
};

/// Equal for operations that do the same work (same_work).
std::size_t shape_key(const Program& program, const Operation& op) {
  std::size_t key = op.work.index();
  const auto add = [&](auto value) {
    key = (key ^ (key >> 29U)) * 0x9E3779B97F4A7C15U + static_cast<std::size_t>(value);
  };
  add(op.kernels);
  add(op.parts);
  if (const auto* kernel = std::get_if<Kernel>(&op.work)) add(*kernel);
  if (const auto* launches = std::get_if<Launches>(&op.work)) add(launches->operations);
  if (const Communication* c = op.communication()) {
    add(c->collective);
    add(c->group.index());
    add(c->first);
    add(c->count);
    add(c->of);
  }
  for (const std::vector<Slice>* slices : {&op.reads, &op.writes}) {
    add(slices->size());
    for (const Slice& s : *slices) {
      const Buffer& buffer = program.buffer(s.buffer);
      add(buffer.columns);
      add(buffer.dtype);
      add(s.rows.kind);
      add(s.rows.each);
      add(s.rows.experts);
      add(s.rows.behind);
    }
  }
  return key;
}

/// Whether a computation has the same rows on every rank. Sufficient, not necessary.
bool same_on_all_ranks(const Program& program, const Operation& op) {
  const auto is_even = [&](const Slice& s) { return even_rows(program, s.rows); };
  return std::all_of(op.reads.begin(), op.reads.end(), is_even) &&
         std::all_of(op.writes.begin(), op.writes.end(), is_even);
}

}  // namespace

const OperationPrice* CommunicationPrices::find(const Key& key) const {
  const std::lock_guard lock(mutex_);
  const auto at = known_.find(key);
  return at == known_.end() ? nullptr : &at->second;
}

const OperationPrice& CommunicationPrices::add(const Key& key, OperationPrice price) {
  const std::lock_guard lock(mutex_);
  return known_.try_emplace(key, std::move(price)).first->second;
}

OperationPricer::OperationPricer(const Program& program, const Cluster& cluster, const SymmetricView* view,
                                 bool first_alone, CommunicationPrices* shared)
    : program_(program),
      cluster_(cluster),
      all_(view ? view->capacity.size() : cluster.topology.links.size()),
      own_(view ? view->capacity.size() : cluster.topology.links.size()),
      view_(view),
      first_alone_(first_alone),
      shared_(shared),
      hashes_(program) {}

std::size_t OperationPricer::ranks() const {
  if (first_alone_) return 1;
  return static_cast<std::size_t>(view_ ? view_->representatives : program_.world_size);
}

std::size_t OperationPricer::links() const {
  if (first_alone_) return 0;
  return view_ ? view_->capacity.size() : cluster_.topology.links.size();
}

const OperationPrice& OperationPricer::price(const Operation& op) {
  std::vector<Known>& candidates = known_by_shape_[shape_key(program_, op)];
  for (const Known& known : candidates) {
    if (same_work(program_, *known.operation, op)) return *known.price;
  }
  const std::optional<CommunicationPrices::Key> key = shared_key(op);
  const OperationPrice* price = key ? shared_->find(*key) : nullptr;
  if (!price) price = key ? &shared_->add(*key, priced(op)) : &own_prices_.emplace_back(priced(op));
  candidates.push_back({&op, price});
  return *price;
}

std::optional<CommunicationPrices::Key> OperationPricer::shared_key(const Operation& op) {
  if (!shared_ || !op.communication() || !(view_ || first_alone_)) return std::nullopt;
  const std::optional<CommunicationHash> hash = hashes_.of(op);
  if (!hash) return std::nullopt;
  return CommunicationPrices::Key{&cluster_, view_, *hash};
}

OperationPrice OperationPricer::priced(const Operation& op) {
  OperationPrice price;
  if (op.communication()) {
    link_seconds_.assign(links(), 0.0);
    price.times = view_ ? representatives(op) : first_alone_ ? first_rank(op) : communication(op);
    for (std::size_t l = 0; l < link_seconds_.size(); ++l) {
      if (link_seconds_[l] > 0) price.link_seconds.emplace_back(l, link_seconds_[l]);
    }
  } else if (op.computes()) {
    const std::size_t distinct = ranks() > 1 && same_on_all_ranks(program_, op) ? 1 : ranks();
    for (std::size_t r = 0; r < distinct; ++r) {
      price.times.alone.push_back(compute_time(program_, op, RankId(r), cluster_.gpu).value());
    }
    price.times.alone.resize(ranks(), price.times.alone.front());
    price.times.together = price.times.alone;
    share_gpus(price.times.together);
  } else if (std::holds_alternative<HostCopy>(op.work)) {
    for (std::size_t r = 0; r < ranks(); ++r) {
      price.times.together.push_back(host_copy_time(program_, op, RankId(r), cluster_.gpu).value());
    }
    // No exchange follows copies in their block, so that a rank with few goes on before the others.
    const auto least = std::min_element(price.times.together.begin(), price.times.together.end());
    price.times.alone.assign(ranks(), *least);
  } else {
    const auto* launches = std::get_if<Launches>(&op.work);
    price.times.alone.assign(ranks(), launches ? host_time(cluster_.gpu, *launches).value() : 0.0);
    price.times.together = price.times.alone;
  }
  return price;
}

void OperationPricer::share_gpus(std::vector<double>& times) const {
  if (cluster_.ranks_per_gpu == 1 || first_alone_) return;
  const auto shared_by = static_cast<std::size_t>(cluster_.ranks_per_gpu);
  const std::vector<double> alone = times;
  for (std::size_t r = 0; r < times.size(); ++r) {
    const std::size_t first = r - r % shared_by, last = std::min(first + shared_by, times.size());
    times[r] = 0;
    for (std::size_t other = first; other < last; ++other) times[r] += std::min(alone[r], alone[other]);
  }
}

OperationTimes OperationPricer::representatives(const Operation& op) {
  const GroupFamily& family = program_.group(op.communication()->group);
  const std::size_t count = ranks();
  std::vector<Part> parts(count);
  const auto add = [](LinkLoad& load, const SymmetricView::OrbitRoute& route, double bytes) {
    for (const auto& [orbit, share] : route.orbits) load.add(static_cast<std::size_t>(orbit), bytes * share);
  };
  all_.clear();
  std::vector<CommunicationCost> costs;  // equal within a group
  std::vector<RankId> representatives;
  for (std::size_t r = 0; r < count; ++r) {
    const std::size_t base = family.base(RankId(r)).index();
    costs.push_back(base < r ? costs[base] : communication_cost(program_, op, RankId(r), cluster_));
    representatives.emplace_back(r);
  }
  for (const Flow& flow : flows_from(program_, op, representatives)) {
    const auto bytes = static_cast<double>(flow.bytes);
    const SymmetricView::OrbitRoute& route = route_of_flow(*view_, program_, op, flow.from, flow.to);
    const std::size_t from = flow.from.index(), to = view_->number_of(flow.to);
    const bool waits = costs[from].add_route_latency;
    add(all_, route, bytes);
    parts[from].sent += bytes;
    parts[to].received += bytes;
    parts[from].add(route, bytes, waits);
    if (to != from) parts[to].add(route, bytes, waits);
  }
  const double links = slowest(all_);
  all_.for_each([&](std::size_t orbit, double bytes) { link_seconds_[orbit] += bytes / view_->capacity[orbit]; });
  std::vector<double> longest(count, 0.0);  // latency, by the group's first rank
  for (std::size_t r = 0; r < count; ++r) {
    double& of_group = longest[family.base(RankId(r)).index()];
    of_group = std::max(of_group, parts[r].latency);
  }
  OperationTimes out;
  for (std::size_t r = 0; r < count; ++r) {
    Part& p = parts[r];
    if (runs_in_rings(*op.communication())) {
      p.latency = longest[family.base(RankId(r)).index()];
      if (p.least_latency) p.least_latency = p.latency;
    }
    const double capped = costs[r].rate_cap ? std::max(p.sent, p.received) / costs[r].rate_cap->value() : 0.0;
    const double startup = costs[r].startup.value();
    own_.clear();
    for (const auto& [route, bytes] : p.crossed) add(own_, *route, bytes);
    out.alone.push_back(startup + p.least_latency.value_or(0) + std::max(slowest(own_), capped));
    out.together.push_back(startup + p.latency + std::max(links, capped));
  }
  return out;
}

double OperationPricer::slowest(const LinkLoad& load) const {
  if (view_) return load.slowest([&](std::size_t orbit) { return view_->capacity[orbit]; });
  return load.slowest([&](std::size_t link) { return cluster_.topology.links[link].bandwidth.value(); });
}

OperationTimes OperationPricer::first_rank(const Operation& op) {
  const RankId rank(0);
  const CommunicationCost cost = communication_cost(program_, op, rank, cluster_);
  double sent = 0, received = 0, latency = 0, least_latency = 0;
  bool any = false;
  own_.clear();
  for (const bool out : {true, false}) {
    for (const Flow& flow : out ? flows_from(program_, op, rank) : flows_to(program_, op, rank)) {
      const auto bytes = static_cast<double>(flow.bytes);
      const Route& route = cluster_.cached_route(flow.from, flow.to);
      for (const RouteLink& l : route.links) own_.add(l.link.index(), bytes * l.share);
      (out ? sent : received) += bytes;
      if (!cost.add_route_latency) continue;
      latency = std::max(latency, route.latency.value());
      least_latency = any ? std::min(least_latency, route.latency.value()) : route.latency.value();
      any = true;
    }
  }
  if (runs_in_rings(*op.communication())) least_latency = latency;
  double most = slowest(own_);
  if (cost.rate_cap) most = std::max(most, std::max(sent, received) / cost.rate_cap->value());
  const double time = cost.startup.value() + least_latency + most;
  return {{time}, {time}};
}

OperationTimes OperationPricer::communication(const Operation& op) {
  const auto world = static_cast<std::size_t>(program_.world_size);
  const GroupFamily& family = program_.group(op.communication()->group);
  OperationTimes out{std::vector<double>(world, 0.0), std::vector<double>(world, 0.0)};
  std::vector<double> startup(world, 0.0), capped(world, 0.0);
  all_.clear();
  for (std::size_t r = 0; r < world; ++r) {
    if (family.base(RankId(r)) != RankId(r)) continue;
    price_group(op, RankId(r), out.alone, startup, capped);
  }
  const double links = slowest(all_);
  for (std::size_t r = 0; r < world; ++r) out.together[r] = startup[r] + std::max(links, capped[r]);
  return out;
}

void OperationPricer::price_group(const Operation& op, RankId base, std::vector<double>& alone,
                                  std::vector<double>& startup, std::vector<double>& capped) {
  const GroupFamily& family = program_.group(op.communication()->group);
  const std::vector<Flow> flows = group_flows(program_, op, base);
  const CommunicationCost cost = communication_cost(program_, op, base, cluster_);
  const auto size = static_cast<std::size_t>(family.size);
  std::vector<double> out(size, 0.0), in(size, 0.0), latency(size, 0.0);
  std::vector<std::optional<double>> least_latency(size);  // none without flows; a route's latency may be zero
  std::vector<std::vector<std::pair<LinkId, double>>> loads(size);
  for (const Flow& flow : flows) {
    const auto bytes = static_cast<double>(flow.bytes);
    const Route& route = cluster_.cached_route(flow.from, flow.to);
    const auto from = static_cast<std::size_t>(family.position(flow.from));
    const auto to = static_cast<std::size_t>(family.position(flow.to));
    out[from] += bytes;
    in[to] += bytes;
    for (const RouteLink& l : route.links) {
      all_.add(l.link.index(), bytes * l.share);
      link_seconds_[l.link.index()] += bytes * l.share / cluster_.topology.links[l.link.index()].bandwidth.value();
      loads[from].emplace_back(l.link, bytes * l.share);
      if (to != from) loads[to].emplace_back(l.link, bytes * l.share);
    }
    if (!cost.add_route_latency) continue;
    for (const std::size_t end : {from, to}) {
      latency[end] = std::max(latency[end], route.latency.value());
      least_latency[end] = std::min(least_latency[end].value_or(route.latency.value()), route.latency.value());
    }
  }
  if (runs_in_rings(*op.communication())) {
    const double longest = *std::max_element(latency.begin(), latency.end());
    for (std::size_t p = 0; p < size; ++p) {
      latency[p] = longest;
      if (least_latency[p]) least_latency[p] = longest;
    }
  }
  for (std::size_t p = 0; p < size; ++p) {
    const std::size_t r = family.member(base, static_cast<std::int64_t>(p)).index();
    own_.clear();
    for (const auto& [link, bytes] : loads[p]) own_.add(link.index(), bytes);
    const double most = std::max(out[p], in[p]);
    capped[r] = cost.rate_cap ? most / cost.rate_cap->value() : 0.0;
    // All of the rank's flows wait for at least the smallest of their latencies.
    alone[r] = cost.startup.value() + least_latency[p].value_or(0) + std::max(slowest(own_), capped[r]);
    startup[r] = cost.startup.value() + latency[p];
  }
}

}  // namespace moeplan
