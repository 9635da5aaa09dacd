#include "sim/program/exchanges.hpp"

#include <algorithm>
#include <utility>

#include "model/program/equal_ranks.hpp"
#include "model/program/resolve.hpp"

namespace moeplan::sim {

void Exchanges::arrive(RankId r, const OperationInstance& instance) {
  const std::int32_t id = exchange_of(r, instance);
  Exchange& e = exchanges_[static_cast<std::size_t>(id)];
  const Operation& operation = operation_of(program_, instance);
  const GroupId group = operation.communication()->group;
  const std::size_t position = view_.place(group, r).position;
  e.arrived[position] = true;
  if (e.transfers_of[position].empty()) {
    events_.push({.time = events_.now() + SimTime::from_seconds(e.cost.startup),
                  .kind = EventKind::IdleExchangeEnd,
                  .rank = r,
                  .exchange = id});
    return;
  }
  std::map<SimTime, std::vector<std::int32_t>> starts;
  for (const std::int32_t t : e.transfers_of[position]) {
    const Transfer& transfer = e.transfers[static_cast<std::size_t>(t)];
    const RankId peer = transfer.from == r ? view_.simulated(transfer.to) : transfer.from;
    if (!e.arrived[view_.place(group, peer).position]) continue;
    starts[events_.now() + SimTime::from_seconds(startup(e, operation, transfer))].push_back(t);
  }
  for (auto& [time, transfers] : starts) {
    events_.push(
        {.time = time, .kind = EventKind::FlowStart, .rank = r, .exchange = id, .flows = std::move(transfers)});
  }
}

void Exchanges::send(RankId from, const OperationInstance& instance) {
  const Operation& operation = operation_of(program_, instance);
  const auto& message = std::get<Send>(operation.work);
  const RankId to = program_.group(message.group).shifted(from, message.shift);
  const Transfer transfer{from, to, byte_count(program_, operation.reads.front(), from), 1.0};
  const std::int32_t id = add({instance, {transfer}, communication_cost(program_, operation, from, cluster_)});
  const Exchange& e = exchanges_[static_cast<std::size_t>(id)];
  Seconds delay = e.cost.startup;
  if (e.cost.add_route_latency && from != to) delay += view_.latency(operation, from, to);
  events_.push({.time = events_.now() + SimTime::from_seconds(delay),
                .kind = EventKind::FlowStart,
                .rank = from,
                .exchange = id,
                .flows = {0}});
}

Seconds Exchanges::startup(const Exchange& exchange, const Operation& operation, const Transfer& transfer) {
  if (!exchange.cost.add_route_latency) return exchange.cost.startup;
  return exchange.cost.startup +
         (exchange.ring_latency ? *exchange.ring_latency : view_.latency(operation, transfer.from, transfer.to));
}

std::int32_t Exchanges::exchange_of(RankId r, const OperationInstance& instance) {
  const GroupId group = operation_of(program_, instance).communication()->group;
  const Key key(instance.block_number, instance.operation, view_.place(group, r).group.value());
  const auto [it, is_new] = exchange_index_.try_emplace(key);
  if (is_new) {
    Exchange e = new_exchange(r, instance);
    e.key = key;
    it->second = add(std::move(e));
  }
  return it->second;
}

std::int32_t Exchanges::add(Exchange exchange) {
  if (forgotten_.empty()) {
    exchanges_.push_back(std::move(exchange));
    return static_cast<std::int32_t>(exchanges_.size()) - 1;
  }
  const std::int32_t id = forgotten_.back();
  forgotten_.pop_back();
  exchanges_[static_cast<std::size_t>(id)] = std::move(exchange);
  return id;
}

void Exchanges::leave(std::int32_t exchange) {
  Exchange& e = exchanges_[static_cast<std::size_t>(exchange)];
  if (--e.present > 0 || view_.symmetry()) return;
  if (e.key) exchange_index_.erase(*e.key);
  forgotten_.push_back(exchange);
}

Exchanges::Exchange Exchanges::new_exchange(RankId r, const OperationInstance& instance) {
  const Operation& operation = operation_of(program_, instance);
  const GroupId group = operation.communication()->group;
  Exchange e{instance, view_.transfers(operation, r),
             communication_cost(program_, operation, program_.group(group).base(r), cluster_)};
  if (runs_in_rings(*operation.communication()) && e.cost.add_route_latency) {
    e.ring_latency = Seconds(0);
    for (const Transfer& t : e.transfers) {
      e.ring_latency = std::max(*e.ring_latency, view_.latency(operation, t.from, t.to));
    }
  }
  const std::size_t size = view_.place(group, r).size;
  e.present = size;
  e.transfers_of.resize(size);
  e.arrived.assign(size, false);
  e.open_transfers.assign(size, 0);
  for (std::size_t t = 0; t < e.transfers.size(); ++t) {
    const auto end_at = [&](RankId end) {
      const std::size_t position = view_.place(group, end).position;
      e.transfers_of[position].push_back(static_cast<std::int32_t>(t));
      ++e.open_transfers[position];
    };
    const RankId from = e.transfers[t].from, to = view_.simulated(e.transfers[t].to);
    end_at(from);
    if (to != from) end_at(to);  // else what it receives is symmetric to what it sends
  }
  return e;
}

void Exchanges::start_flows(const Event& event) {
  const Exchange& e = exchanges_[static_cast<std::size_t>(event.exchange)];
  const Operation& operation = operation_of(program_, e.instance);
  for (const std::int32_t t : event.flows) {
    const Transfer& transfer = e.transfers[static_cast<std::size_t>(t)];
    const FlowId id = flows_.start(operation, transfer, e.cost.rate_cap, events_.now());
    running_.resize(id.index() + 1);
    running_[id.index()] = {event.exchange, t};
  }
}

Exchanges::Ended Exchanges::end_flow(FlowId flow) {
  const RunningFlow& running = running_[flow.index()];
  Exchange& e = exchanges_[static_cast<std::size_t>(running.exchange)];
  Ended ended{running.exchange, e.transfers[static_cast<std::size_t>(running.transfer)], {}, {}};
  const Operation& operation = operation_of(program_, e.instance);
  const RankId from = ended.transfer.from, to = view_.simulated(ended.transfer.to);
  if (!operation.communication()) {  // a Send
    ended.sender = from;
    return ended;
  }
  const GroupId group = operation.communication()->group;
  const auto is_last = [&](RankId end) { return --e.open_transfers[view_.place(group, end).position] == 0; };
  if (is_last(from)) ended.sender = from;
  if (to != from && is_last(to)) ended.receiver = to;
  return ended;
}

void Exchanges::clear() {
  exchanges_.clear();
  forgotten_.clear();
  exchange_index_.clear();
}

}  // namespace moeplan::sim
