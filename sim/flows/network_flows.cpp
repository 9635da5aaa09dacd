#include "sim/flows/network_flows.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace moeplan::sim {

NetworkFlows::NetworkFlows(std::unique_ptr<Network> network, NetworkView& view, double slowdown)
    : network_(std::move(network)), view_(view), slowdown_(slowdown), caps_(view.ranks()) {
  for (const double capacity : view_.capacities()) network_->add_resource(capacity);
}

std::optional<SimTime> NetworkFlows::next_completion(SimTime now) {
  apply_changes();
  const auto t = network_->next_completion();
  if (!t) return std::nullopt;
  // A time within rounding of a whole picosecond is not rounded up to the next one.
  const double picoseconds = std::ceil((*t - coincidence(*t)) * 1e12);
  if (!(picoseconds < 0x1p63)) throw_time_out_of_range(*t);
  return std::max(SimTime(static_cast<std::int64_t>(picoseconds)), now);
}

std::span<const FlowId> NetworkFlows::advance(SimTime now, double at_least) {
  apply_changes();
  clock_ = std::max({clock_, now.seconds().value(), at_least});
  completed_.clear();
  network_->advance(clock_, completed_);
  return completed_;
}

FlowId NetworkFlows::start(const Operation& operation, const Transfer& transfer, std::optional<BytesPerSecond> rate_cap,
                           SimTime now) {
  apply_changes();
  clock_ = std::max(clock_, now.seconds().value());
  uses_.clear();
  // A rank's message to itself crosses no link.
  if (transfer.from != transfer.to) view_.append_uses(operation, transfer.from, transfer.to, uses_);
  if (rate_cap) {
    uses_.push_back({cap(transfer.from, operation.stream, Direction::Send, *rate_cap), 1.0});
    // A single representative receives symmetrically to what it sends, so one cap is enough.
    if (view_.simulated_ranks().size() > 1) {
      uses_.push_back({cap(view_.simulated(transfer.to), operation.stream, Direction::Receive, *rate_cap), 1.0});
    }
  }
  return network_->start(uses_, static_cast<double>(transfer.bytes), transfer.weight, clock_);
}

void NetworkFlows::set_computing(RankId r, bool computing) {
  if (slowdown_ == 1) return;
  caps_[r.index()].computing = computing;
  changed_.push_back(r);
}

void NetworkFlows::apply_changes() {
  for (const RankId r : changed_) {
    RankCaps& rank = caps_[r.index()];
    if (std::exchange(rank.slowed, rank.computing) == rank.computing) continue;
    const double divisor = rank.slowed ? slowdown_ : 1;
    for (const Cap& c : rank.caps) network_->set_capacity(c.resource, view_.weight(r) * c.rate / divisor, clock_);
  }
  changed_.clear();
}

ResourceId NetworkFlows::cap(RankId r, Stream stream, Direction direction, BytesPerSecond rate) {
  RankCaps& rank = caps_[r.index()];
  for (const Cap& c : rank.caps) {
    if (c.stream == stream && c.direction == direction && c.rate == rate.value()) return c.resource;
  }
  const double now = rank.slowed ? rate.value() / slowdown_ : rate.value();
  rank.caps.push_back({stream, direction, rate.value(), network_->add_resource(view_.weight(r) * now)});
  return rank.caps.back().resource;
}

}  // namespace moeplan::sim
