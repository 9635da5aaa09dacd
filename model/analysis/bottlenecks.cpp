#include "model/analysis/bottlenecks.hpp"

#include <algorithm>
#include <utility>

#include "model/costs/communication.hpp"
#include "model/costs/compute.hpp"
#include "model/program/equal_ranks.hpp"
#include "model/program/resolve.hpp"

namespace moeplan {

namespace {

/// Takes up to `wanted` of the remaining time.
SimTime take(SimTime& left, Seconds wanted) {
  const SimTime taken = std::min(left, SimTime::from_seconds(wanted));
  left = left - taken;
  return taken;
}

/// Whether `rest` is within the rounding error of whole picoseconds at several instants, too short for its own
/// interval.
bool is_rounding(SimTime rest, SimTime of) {
  constexpr std::int64_t kPicoseconds = 16;
  return rest.picoseconds() <= std::max(kPicoseconds, of.picoseconds() / 1'000'000);
}

}  // namespace

BottleneckAttribution::BottleneckAttribution(const Program& program, const Cluster& cluster)
    : program_(program), cluster_(cluster) {
  view_ = equal_ranks_view(program, cluster);
}

std::vector<LimitedTime> BottleneckAttribution::of_computation(const Operation& operation, RankId rank,
                                                               SimTime duration) const {
  const ComputeParts parts = compute_parts(program_, operation, rank, cluster_.gpu);
  std::vector<LimitedTime> out;
  SimTime left = duration;
  if (const SimTime launch = take(left, parts.launch); launch > SimTime()) out.push_back({Bottleneck::Launch, launch});
  const Bottleneck bottleneck = parts.math >= parts.memory ? Bottleneck::TensorCores : Bottleneck::Memory;
  SimTime work = take(left, parts.overlapped);
  if (is_rounding(left, duration)) {
    work += left;
    left = SimTime();
  }
  if (work > SimTime()) out.push_back({bottleneck, work});
  if (left > SimTime()) out.push_back({cluster_.ranks_per_gpu > 1 ? Bottleneck::SharedGpu : Bottleneck::Slowed, left});
  return out;
}

std::vector<LimitedTime> BottleneckAttribution::of_communication(BlockId block, std::int32_t operation, RankId rank,
                                                                 SimTime duration) {
  const Part& p = part(block, operation, rank);
  std::vector<LimitedTime> out;
  SimTime left = duration;
  SimTime startup = take(left, p.startup);
  if (p.linked == Seconds(0) && p.capped == Seconds(0)) {
    startup += left;
    left = SimTime();
  }
  if (startup > SimTime()) out.push_back({Bottleneck::StartUp, startup});
  if (left == SimTime()) return out;
  append_transfer(out, left, duration, p.capped, p.linked, p.busiest);
  return out;
}

void BottleneckAttribution::append_transfer(std::vector<LimitedTime>& out, SimTime left, SimTime duration,
                                            Seconds capped, Seconds linked, std::optional<LinkId> busiest) const {
  const bool by_rate = capped >= linked;
  const auto absorb_rounding = [&](SimTime time) {
    return is_rounding(left, duration) ? time + std::exchange(left, SimTime()) : time;
  };
  const SimTime transfer = absorb_rounding(take(left, std::max(capped, linked)));
  if (transfer > SimTime())
    out.push_back({by_rate ? Bottleneck::MeasuredRate : Bottleneck::Link, transfer, by_rate ? std::nullopt : busiest});
  const Seconds slowed = capped * cluster_.gpu.slowdown_beside_computation - std::max(capped, linked);
  const SimTime longer = slowed > Seconds(0) ? absorb_rounding(take(left, slowed)) : SimTime();
  if (longer > SimTime()) out.push_back({Bottleneck::SlowedTransfer, longer, std::nullopt});
  if (left > SimTime()) out.push_back({Bottleneck::SharedLinks, left, busiest});
}

std::vector<LimitedTime> BottleneckAttribution::of_message(const Operation& operation, RankId rank, SimTime duration) {
  const Send& send = std::get<Send>(operation.work);
  const Route& route = cluster_.cached_route(rank, program_.group(send.group).shifted(rank, send.shift));
  const CommunicationCost cost = communication_cost(program_, operation, rank, cluster_);
  const Bytes bytes(static_cast<double>(byte_count(program_, operation.reads.front(), rank)));
  Seconds linked;
  std::optional<LinkId> slowest;
  for (const RouteLink& l : route.links) {
    const Seconds time = bytes * l.share / cluster_.topology.links[l.link.index()].bandwidth;
    if (slowest && time <= linked) continue;
    linked = time;
    slowest = l.link;
  }
  std::vector<LimitedTime> out;
  SimTime left = duration;
  const SimTime startup = take(left, cost.add_route_latency ? cost.startup + route.latency : cost.startup);
  if (startup > SimTime()) out.push_back({Bottleneck::StartUp, startup});
  const Seconds capped = cost.rate_cap ? bytes / *cost.rate_cap : Seconds(0);
  append_transfer(out, left, duration, capped, linked, slowest);
  return out;
}

const std::vector<RankId>& BottleneckAttribution::peers(BlockId block, std::int32_t index, RankId rank) {
  const auto [it, is_new] = peers_.try_emplace({block, index, rank});
  std::vector<RankId>& out = it->second;
  if (!is_new) return out;
  const Operation& operation = program_.operation(block, index);
  for (const Flow& f : flows_from(program_, operation, rank)) out.push_back(f.to);
  for (const Flow& f : flows_to(program_, operation, rank)) out.push_back(f.from);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

const BottleneckAttribution::Part& BottleneckAttribution::part(BlockId block, std::int32_t index, RankId rank) {
  const auto [it, is_new] = parts_.try_emplace({block, index, rank});
  Part& p = it->second;
  if (!is_new) return p;
  const Operation& operation = program_.operation(block, index);
  const CommunicationCost cost = communication_cost(program_, operation, rank, cluster_);
  const Load& all = load(block, index);
  std::vector<Flow> flows = flows_from(program_, operation, rank);
  const std::vector<Flow> received = flows_to(program_, operation, rank);
  flows.insert(flows.end(), received.begin(), received.end());
  Seconds latency;
  double most = 0;  // bytes that a rank at one end of these flows sends or receives
  for (const Flow& f : flows) {
    most = std::max({most, all.out[f.from.index()], all.in[f.to.index()]});
    const Route& route = cluster_.cached_route(f.from, f.to);
    latency = std::max(latency, route.latency);
    for (const RouteLink& l : route.links) {
      const Seconds time(all.link_seconds[l.link.index()]);
      if (p.busiest && (time < p.linked || (time == p.linked && l.link >= *p.busiest))) continue;
      p.linked = time;
      p.busiest = l.link;
    }
  }
  if (runs_in_rings(*operation.communication()) && cost.add_route_latency) {
    for (const Flow& f : group_flows(program_, operation, rank)) {
      latency = std::max(latency, cluster_.cached_route(f.from, f.to).latency);
    }
  }
  p.startup = cost.add_route_latency ? cost.startup + latency : cost.startup;
  if (cost.rate_cap) p.capped = Bytes(most) / *cost.rate_cap;
  return p;
}

const BottleneckAttribution::Load& BottleneckAttribution::load(BlockId block, std::int32_t index) {
  const auto [it, is_new] = loads_.try_emplace({block, index});
  Load& all = it->second;
  if (!is_new) return all;
  const Operation& operation = program_.operation(block, index);
  const GroupFamily& family = program_.group(operation.communication()->group);
  const std::vector<Link>& links = cluster_.topology.links;
  all.link_seconds.assign(links.size(), 0.0);
  all.out.assign(static_cast<std::size_t>(program_.world_size), 0.0);
  all.in = all.out;
  if (view_) {
    add_equal_ranks(operation, all);
    return all;
  }
  for (std::int64_t r = 0; r < program_.world_size; ++r) {
    const RankId rank(static_cast<std::int32_t>(r));
    if (family.base(rank) != rank) continue;
    for (const Flow& f : group_flows(program_, operation, rank)) {
      const auto bytes = static_cast<double>(f.bytes);
      all.out[f.from.index()] += bytes;
      all.in[f.to.index()] += bytes;
      for (const RouteLink& l : cluster_.cached_route(f.from, f.to).links) {
        all.link_seconds[l.link.index()] += bytes * l.share / links[l.link.index()].bandwidth.value();
      }
    }
  }
  return all;
}

/// Rank 0's traffic represents that of all ranks.
void BottleneckAttribution::add_equal_ranks(const Operation& operation, Load& all) const {
  std::vector<double> orbit_seconds(view_->capacity.size(), 0.0);
  double sent = 0;
  for (const Flow& f : flows_from(program_, operation, RankId(0))) {
    const auto bytes = static_cast<double>(f.bytes);
    sent += bytes;
    for (const auto& [orbit, share] : route_of_flow(*view_, program_, operation, f.from, f.to).orbits) {
      orbit_seconds[static_cast<std::size_t>(orbit)] +=
          bytes * share / view_->capacity[static_cast<std::size_t>(orbit)];
    }
  }
  std::fill(all.out.begin(), all.out.end(), sent);
  std::fill(all.in.begin(), all.in.end(), sent);
  for (std::size_t l = 0; l < all.link_seconds.size(); ++l) {
    all.link_seconds[l] = orbit_seconds[static_cast<std::size_t>(view_->orbit_of(LinkId(l)))];
  }
}

}  // namespace moeplan
