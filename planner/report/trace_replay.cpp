#include "planner/report/trace_replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "model/base/diagnostics.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/placement/strategies/placement_choice.hpp"
#include "planner/search/place_experts.hpp"

namespace moeplan::planner {

namespace {

/// The mean number of tokens of a source in a layer.
std::int64_t tokens_of_source(const RoutingTrace& trace, std::int64_t top_k) {
  double selections = 0;
  for (std::size_t i = 0; i < trace.iterations().size(); ++i) {
    for (std::int64_t layer = 0; layer < trace.layers(); ++layer) {
      for (const std::int64_t load : trace.expert_load(i, layer)) selections += static_cast<double>(load);
    }
  }
  const double rows =
      static_cast<double>(trace.iterations().size()) * static_cast<double>(trace.layers() * trace.sources() * top_k);
  return std::max<std::int64_t>(1, std::llround(selections / rows));
}

}  // namespace

PlacementDevices trace_devices(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                               const RoutingTrace& trace, std::int64_t redundant_experts, const std::string& name) {
  assert(cluster.world_size() >= trace.sources() && "a rank for every source");
  const std::vector<Moe> layers = moe_layers(model);
  if (layers.empty()) throw InputError(Diagnostic{{model.name}, "", "has no MoE layer, so there is nothing to place"});
  const Moe& moe = layers.front();
  if (moe.num_experts != trace.experts()) {
    throw InputError(
        Diagnostic{{name},
                   "",
                   fmt::format("is of {} experts, {} has {}; expected a model with as many, for example by "
                               "-C model.ffns.NAME.num_experts={}",
                               trace.experts(), model.name, moe.num_experts, trace.experts())});
  }
  Workload traced = workload;
  traced.recorded.reset();
  traced.routing = {};
  traced.gate = {};
  traced.capacity_factor.reset();
  traced.micro_batch = 1;
  traced.global_batch = trace.sources();
  traced.sequence_length = tokens_of_source(trace, moe.top_k);
  Candidate candidate;
  candidate.degrees = {.dp = trace.sources(), .ep = trace.sources()};
  return placed_layers(model, traced, cluster, candidate, redundant_experts).front().devices;
}

std::vector<StrategyReplay> replays(const RoutingTrace& trace, std::span<const std::string> strategies,
                                    const ReplayOptions& options,
                                    const std::function<void(std::int64_t, std::int64_t)>& progress) {
  std::vector<StrategyReplay> out;
  const RoutingCounts first = trace.counts(0, 0);
  for (const std::string& name : strategies) {
    if (progress) progress(std::ssize(out), std::ssize(strategies));
    const PlacementChoice strategy(name);
    StrategyReplay replayed{.strategy = name};
    ReplayOptions own = options;
    own.options = strategy.with_options(own.options);
    const PlacementAnswer answer = strategy->place({.counts = first, .devices = own.devices, .options = own.options});
    replayed.infeasibility = answer.infeasibility;
    if (answer.placement) replayed.table = replay(trace, *strategy, own);
    out.push_back(std::move(replayed));
  }
  if (progress) progress(std::ssize(out), std::ssize(strategies));
  return out;
}

}  // namespace moeplan::planner
