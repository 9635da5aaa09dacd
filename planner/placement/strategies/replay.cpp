#include "planner/placement/strategies/replay.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "model/base/whole_numbers.hpp"
#include "model/workload/routing_statistics.hpp"

namespace moeplan::planner {

namespace {

/// A placement in use, and the loads that it was planned for.
struct Served {
  Placement placement;
  std::vector<std::int64_t> planned_for;  // expert loads; empty before the first plan
  Seconds exchange{};                     // of the preceding iteration; the next planning overlaps with it
};

/// The strategy's placement, or `none` if it has none.
Placement planned(const RoutingCounts& counts, const PlacementStrategy& strategy, const ReplayOptions& o,
                  const Placement& current, std::int64_t iterations) {
  const PlacementProblem problem{
      .counts = counts, .devices = o.devices, .options = o.options, .current = &current, .iterations = iterations};
  PlacementAnswer answer = strategy.place(problem);
  return answer.placement ? std::move(*answer.placement) : contiguous_placement(counts.experts(), o.devices.ranks);
}

double ratio_of_balance(double before, double after) {
  if (after > 0) return before / after;
  return before > 0 ? std::numeric_limits<double>::infinity() : 1;
}

void add_up(ReplayTable& table) {
  double log_rb = 0, finite = 0;
  for (const ReplayRow& row : table.rows) {
    table.plans += row.planned ? 1 : 0;
    table.time_before += row.time_before;
    table.time += row.time;
    table.migration += row.migration;
    table.plan += row.plan;
    table.mean_max_over_mean_before += row.max_over_mean_before / static_cast<double>(table.rows.size());
    table.mean_max_over_mean += row.max_over_mean / static_cast<double>(table.rows.size());
    if (!std::isfinite(row.rb) || row.rb <= 0) continue;
    log_rb += std::log(row.rb);
    ++finite;
  }
  table.mean_rb = finite > 0 ? std::exp(log_rb / finite) : 1;
}

}  // namespace

ReplayTable replay(const RoutingTrace& trace, const PlacementStrategy& strategy, const ReplayOptions& o) {
  assert(trace.sources() == o.devices.ranks && o.interval > 0 && "every rank is a source");
  const Placement none = contiguous_placement(trace.experts(), o.devices.ranks);
  std::vector<Served> layers(static_cast<std::size_t>(trace.layers()), Served{none, {}, {}});
  ReplayTable table;
  for (std::size_t i = 0; i < trace.iterations().size(); ++i) {
    for (std::int64_t layer = 0; layer < trace.layers(); ++layer) {
      Served& served = layers[static_cast<std::size_t>(layer)];
      const RoutingCounts counts = trace.counts(i, layer);
      ReplayRow row{.iteration = i, .layer = layer, .planned = false};
      if (o.foresight || i > 0) {
        const std::size_t known = o.foresight ? i : i - 1;
        std::vector<std::int64_t> load = trace.expert_load(known, layer);
        row.planned = served.planned_for.empty() ||
                      (o.drift_trigger ? drift(served.planned_for, load) > *o.drift_trigger
                                       : (o.foresight ? i : i - 1) % static_cast<std::size_t>(o.interval) == 0);
        if (row.planned) {
          Placement next = planned(trace.counts(known, layer), strategy, o, served.placement, o.interval);
          row.migration = migration_time(served.placement, next, o.devices);
          row.plan = std::max(Seconds(0), o.plan_time - served.exchange);
          served.placement = std::move(next);
          served.planned_for = std::move(load);
        }
      }
      const std::vector<std::int64_t> before = rank_loads(counts, none, o.devices);
      const std::vector<std::int64_t> after = rank_loads(counts, served.placement, o.devices);
      row.max_over_mean_before = max_over_mean(before);
      row.max_over_mean = max_over_mean(after);
      row.rb = ratio_of_balance(balance_degree(before), balance_degree(after));
      row.time_before = layer_time(counts, none, o.devices).total;
      const LayerTime time = layer_time(counts, served.placement, o.devices);
      row.time = time.total;
      served.exchange = time.exchange;
      table.rows.push_back(row);
    }
  }
  add_up(table);
  return table;
}

namespace {

/// The largest number of slots that a rank fills beyond its homes.
std::int64_t most_replicas(const Placement& placement, std::int64_t ranks) {
  std::vector<std::int64_t> replicas = slots_filled(placement, ranks);
  for (const ExpertPlacement& place : placement.experts) --replicas[place.home.index()];
  return *std::max_element(replicas.begin(), replicas.end());
}

Bytes replica_memory(std::int64_t replicas, const PlacementDevices& d) {
  return static_cast<double>(replicas) * (d.trains ? d.parameter_bytes + d.gradient_bytes : d.parameter_bytes);
}

}  // namespace

BreakEven break_even(const RoutingTrace& trace, std::int64_t layer, std::size_t from, std::int64_t spacing,
                     const PlacementStrategy& strategy, const ReplayOptions& o) {
  assert(from < trace.iterations().size() && spacing > 0 && "planned from an iteration of the trace");
  const Placement none = contiguous_placement(trace.experts(), o.devices.ranks);
  const RoutingCounts known = trace.counts(from, layer);
  const Placement placement = planned(known, strategy, o, none, o.interval);
  BreakEven result;
  result.cost = migration_time(none, placement, o.devices) +
                std::max(Seconds(0), o.plan_time - layer_time(known, none, o.devices).exchange);
  result.memory = replica_memory(most_replicas(placement, o.devices.ranks), o.devices);
  Seconds gained{};
  for (std::size_t i = from + 1; i < trace.iterations().size(); ++i) {
    const RoutingCounts counts = trace.counts(i, layer);
    const Seconds gain = layer_time(counts, none, o.devices).total - layer_time(counts, placement, o.devices).total;
    if (gain <= Seconds(0)) break;
    gained += gain;
    ++result.lasts;
  }
  if (result.lasts == 0) return result;
  result.gain = gained / static_cast<double>(result.lasts);
  result.iterations = result.cost / result.gain;
  result.breaks_even = static_cast<double>(result.lasts * spacing) >= *result.iterations;
  return result;
}

std::vector<RedundancyPoint> redundancy_curve(const RoutingTrace& trace, std::int64_t layer, std::int64_t most,
                                              const PlacementStrategy& strategy, const ReplayOptions& o) {
  assert(trace.iterations().size() > 1 && "plans are made from the iteration before");
  const std::int64_t share = ceil_div(trace.experts(), o.devices.ranks);
  const Placement none = contiguous_placement(trace.experts(), o.devices.ranks);
  std::vector<RedundancyPoint> curve;
  for (std::int64_t redundant = 0; redundant <= most; ++redundant) {
    ReplayOptions at = o;
    at.devices.slots = share + redundant;
    RedundancyPoint point{.redundant = redundant, .memory = replica_memory(redundant, o.devices)};
    const auto n = static_cast<double>(trace.iterations().size() - 1);
    for (std::size_t i = 1; i < trace.iterations().size(); ++i) {
      const Placement placement = planned(trace.counts(i - 1, layer), strategy, at, none, o.interval);
      const RoutingCounts counts = trace.counts(i, layer);
      point.time += layer_time(counts, placement, at.devices).total / n;
      point.max_over_mean += max_over_mean(rank_loads(counts, placement, at.devices)) / n;
    }
    curve.push_back(point);
  }
  return curve;
}

}  // namespace moeplan::planner
