#include "sim/traffic/traffic.hpp"

#include <algorithm>

#include "sim/network/fast_network.hpp"
#include "sim/traffic/traffic_classes.hpp"

namespace moeplan::sim {

namespace {

/// Runs all started flows to their end and calls ended(flow, time) for each.
template <class Ended>
void drain(Network& network, Ended&& ended) {
  std::vector<FlowId> done;
  while (const auto t = network.next_completion()) {
    done.clear();
    network.advance(*t, done);
    for (const FlowId f : done) ended(f, *t);
  }
}

TrafficResult from_decoupled(const TrafficMatrix& matrix, const TrafficNetwork& network,
                             const DecoupledTraffic& decoupled, bool with_flow_finish) {
  TrafficResult result{0, 0, TrafficMethod::Decoupled, 0, {}};
  for (std::size_t l = 0; l < decoupled.finish_s.size(); ++l) {
    if (decoupled.flows[l] == 0) continue;
    ++result.classes;
    result.finish_s = std::max(result.finish_s, decoupled.finish_s[l]);
    result.sum_flow_finish_s += static_cast<double>(decoupled.flows[l]) * decoupled.finish_s[l];
  }
  if (!with_flow_finish) return result;
  std::vector<FlowUse> uses;
  for (const TrafficFlow& f : matrix.flows) {
    uses.clear();
    if (f.src != f.dst && f.bytes > 0) network.route(f.src, f.dst, uses);
    const bool is_free = uses.empty();
    result.flow_finish_s.push_back(
        is_free ? 0
                : decoupled.finish_s[uses[holding_use(uses, network.capacity, decoupled.by_last)].resource.index()]);
  }
  return result;
}

TrafficResult from_classes(const TrafficClasses& classes, bool with_flow_finish) {
  FastNetwork engine;
  for (const double c : classes.capacity) engine.add_resource(c);
  std::vector<FlowUse> uses;
  for (std::size_t c = 0; c < classes.bytes.size(); ++c) {
    uses.clear();
    double weight = 0;
    for (const auto& use : classes.uses[c]) weight = std::max(weight, use.load);
    for (const auto& use : classes.uses[c]) uses.push_back({ResourceId(use.resource_class), use.load / weight});
    engine.start(uses, classes.bytes[c], weight, 0);
  }
  std::vector<double> finish(classes.bytes.size());
  drain(engine, [&](FlowId f, double t) { finish[f.index()] = t; });
  TrafficResult result{0, 0, TrafficMethod::Classes, static_cast<std::int64_t>(classes.bytes.size()), {}};
  for (const double t : finish) result.finish_s = std::max(result.finish_s, t);
  std::vector<std::int64_t> members(classes.bytes.size());
  for (const std::int32_t c : classes.class_of_flow) {
    if (c >= 0) ++members[static_cast<std::size_t>(c)];
    if (with_flow_finish) result.flow_finish_s.push_back(c < 0 ? 0 : finish[static_cast<std::size_t>(c)]);
  }
  for (std::size_t c = 0; c < members.size(); ++c) {
    result.sum_flow_finish_s += static_cast<double>(members[c]) * finish[c];
  }
  return result;
}

TrafficResult from_flows(const TrafficMatrix& matrix, const TrafficNetwork& network, bool with_flow_finish) {
  std::vector<FlowUse> uses;
  const auto find_uses = [&](const TrafficFlow& f) {
    uses.clear();
    if (f.src != f.dst) network.route(f.src, f.dst, uses);
  };
  std::size_t number_of_uses = 0;
  for (const TrafficFlow& f : matrix.flows) {
    find_uses(f);
    number_of_uses += uses.size();
  }
  FastNetwork engine;
  engine.reserve(matrix.flows.size(), number_of_uses);
  for (const double c : network.capacity) engine.add_resource(c);
  for (const TrafficFlow& f : matrix.flows) {
    find_uses(f);
    engine.start(uses, f.bytes, 1, 0);
  }
  TrafficResult result{0, 0, TrafficMethod::Flows, static_cast<std::int64_t>(matrix.flows.size()), {}};
  if (with_flow_finish) result.flow_finish_s.resize(matrix.flows.size());
  drain(engine, [&](FlowId f, double t) {
    result.finish_s = t;
    result.sum_flow_finish_s += t;
    if (with_flow_finish) result.flow_finish_s[f.index()] = t;
  });
  return result;
}

}  // namespace

TrafficResult simulate_traffic(const TrafficMatrix& matrix, const TrafficNetwork& network, bool with_flow_finish) {
  if (const auto decoupled = decoupled_traffic(matrix, network)) {
    return from_decoupled(matrix, network, *decoupled, with_flow_finish);
  }
  if (const auto classes = traffic_classes(matrix, network)) return from_classes(*classes, with_flow_finish);
  return from_flows(matrix, network, with_flow_finish);
}

}  // namespace moeplan::sim
