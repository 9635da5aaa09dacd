#include "planner/search/place_experts.hpp"

#include <algorithm>
#include <cassert>
#include <map>

#include "model/base/whole_numbers.hpp"
#include "model/costs/compute.hpp"
#include "model/costs/memory.hpp"
#include "model/workload/routing_statistics.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/layer/block_builder.hpp"
#include "planner/lowering/blocks/gated_routing.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/placement/slots.hpp"
#include "planner/placement/strategies/strategy_text.hpp"
#include "sim/program/simulate.hpp"

namespace moeplan::planner {

namespace {

/// The bandwidth of the route between two ranks.
BytesPerSecond way_bandwidth(const Cluster& cluster, RankId from, RankId to) {
  BytesPerSecond least(1e30);
  for (const RouteLink& l : cluster.route(from, to).links)
    least = std::min(least, cluster.topology.links[l.link.index()].bandwidth / l.share);
  return least;
}

struct Bandwidths {
  BytesPerSecond rank, nic, node;
};
/// The bandwidths between neighbouring ranks of the first node (rank), and from a rank (nic) or from all ranks of the
/// first node together (node) to the second node.
Bandwidths bandwidths(const Cluster& cluster) {
  const std::int64_t node = std::min(cluster.ranks_per_node(), cluster.world_size());
  const auto id = [](std::int64_t r) { return RankId(static_cast<std::int32_t>(r)); };
  Bandwidths out{BytesPerSecond(1e30), BytesPerSecond(1e30), BytesPerSecond(1e30)};
  for (std::int64_t r = 0; r + 1 < node; ++r) out.rank = std::min(out.rank, way_bandwidth(cluster, id(r), id(r + 1)));
  if (cluster.world_size() < 2 * node) return out;
  std::map<LinkId, double> load;  // by link, with every rank sending the same amount
  for (std::int64_t r = 0; r < node; ++r) {
    out.nic = std::min(out.nic, way_bandwidth(cluster, id(r), id(r + node)));
    for (const RouteLink& l : cluster.route(id(r), id(r + node)).links) load[l.link] += l.share;
  }
  for (const auto& [link, ranks] : load) {
    const BytesPerSecond all = cluster.topology.links[link.index()].bandwidth * (static_cast<double>(node) / ranks);
    out.node = std::min(out.node, all);
  }
  return out;
}

PlacementDevices devices_of(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                            const Candidate& c, const LayerSpec& layer, std::int64_t redundant_experts,
                            std::int64_t tokens) {
  const Degrees& d = c.degrees;
  const Moe& moe = std::get<Moe>(layer.ffn);
  Program scratch;
  const GroupFamily holders = scratch.group(add_groups(scratch, d, c.rank_order).ep);
  const auto groups = static_cast<double>(d.edp);  // whose counts are summed; each has a part of the tokens
  const double parameters = static_cast<double>(expert_parameters(moe, model.hidden_size)) / static_cast<double>(d.esp);
  const auto size = static_cast<double>(size_of(workload.dtype));
  const double rank_tokens = static_cast<double>(tokens * moe.top_k * d.esp);  // with even loads
  const double rate = peak_rate(cluster.gpu, workload.dtype).value();
  const double expert_rate = rate * grouped_gemm_efficiency(cluster.gpu, 2 * parameters * rank_tokens);
  const double dense = static_cast<double>(dense_parameters(model, layer)) / static_cast<double>(d.tp);
  const double dense_flops = 2 * dense * static_cast<double>(tokens * d.tp);
  assert(workload.global_batch >= d.dp * c.micro_batch && "an iteration has a microbatch for every replica");
  const auto microbatches = static_cast<double>(workload.global_batch / (d.dp * c.micro_batch));
  const Bandwidths b = bandwidths(cluster);
  return {.ranks = d.ep,
          .ranks_per_node = members_per_node(cluster.ranks_per_node(), holders),
          .slots = ceil_div(moe.num_experts, d.ep) + redundant_experts,
          .token_time = Seconds(2 * parameters / expert_rate / groups),
          .token_bytes = Bytes(size * static_cast<double>(moe.row_columns(model.hidden_size)) / groups),
          .parameter_bytes = Bytes(parameters * size / microbatches),
          .gradient_bytes = Bytes(parameters * size / microbatches),
          .state_bytes = Bytes(parameters * static_cast<double>(weight_bytes(workload) + optimizer_bytes(workload))),
          .rank_bandwidth = b.rank,
          .nic_bandwidth = b.nic,
          .node_bandwidth = b.node,
          .trains = workload.mode == Mode::Train,
          .overlaps_transfers = workload.mode == Mode::Train,
          .non_expert_time = Seconds(dense_flops / (rate * gemm_efficiency(cluster.gpu, dense_flops)))};
}

std::int64_t group_tokens(const Workload& workload, const Candidate& c) {
  return c.micro_batch * (workload.sequence_length / c.degrees.cp);
}

}  // namespace

std::vector<PlacedLayer> placed_layers(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                                       const Candidate& candidate, std::int64_t redundant_experts) {
  const std::vector<std::size_t> kinds = routing_kinds(model, workload.recorded.has_value());
  const std::int64_t tokens = group_tokens(workload, candidate) / candidate.degrees.tp;
  Program scratch;
  const GroupFamily holders = scratch.group(add_groups(scratch, candidate.degrees, candidate.rank_order).ep);
  std::vector<PlacedLayer> out;
  std::size_t number = 0;
  for (const RepeatedLayers& run : model.layers) {
    for (std::int64_t i = 0; i < run.repeat; ++i) {
      for (const LayerSpec& layer : run.pattern) {
        const Moe* moe = std::get_if<Moe>(&layer.ffn);
        if (!moe) continue;
        const std::size_t kind = kinds[number++];
        if (kind < out.size()) {
          ++out[kind].layers;
          continue;
        }
        const RoutingCounts counts =
            gated_routing(*moe, workload, tokens, candidate, cluster.ranks_per_node(), kind).counts;
        out.push_back({*moe, 1, counts_by_position(counts, holders),
                       devices_of(model, workload, cluster, candidate, layer, redundant_experts, tokens)});
      }
    }
  }
  return out;
}

double imbalance(const std::vector<PlacedLayer>& layers, const std::vector<Placement>& places) {
  double most = 1;
  for (std::size_t k = 0; k < layers.size(); ++k) {
    const PlacedLayer& l = layers[k];
    const Placement place = places.empty() ? contiguous_placement(l.counts.experts(), l.devices.ranks) : places[k];
    most = std::max(most, max_over_mean(rank_loads(l.counts, place, l.devices)));
  }
  return most;
}

PlacementGoal goal_within_iteration(std::int64_t routing_kinds, const Candidate& candidate, std::int64_t most_ranks) {
  const bool may_simulate = routing_kinds <= 2 && candidate.degrees.ranks_per_stage() <= most_ranks;
  return may_simulate ? PlacementGoal::Simulated : PlacementGoal::Iteration;
}

Seconds simulated_layer_time(const Moe& moe, std::int64_t hidden_size, std::int64_t tokens, const Workload& workload,
                             const Candidate& candidate, const Cluster& cluster, std::int64_t microbatches,
                             std::size_t kind) {
  const auto time = [&](bool moves_copies) {
    const Program program =
        lower_moe_layer(moe, hidden_size, tokens, workload, candidate, cluster.ranks_per_node(), moves_copies, kind);
    return sim::simulate(program, cluster, {.keep_spans = false}).makespan.seconds();
  };
  const Seconds moving = time(true);
  if (microbatches == 1) return moving;
  const auto n = static_cast<double>(microbatches);
  return (moving + (n - 1) * time(false)) / n;
}

bool holds_contiguous_experts(const Candidate& c) {
  return std::all_of(c.expert_places.begin(), c.expert_places.end(), [&](const Placement& p) {
    return p.experts == contiguous_placement(std::ssize(p.experts), c.degrees.ep).experts;
  });
}

PlacedCandidate with_placement(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                               const Candidate& base, const PlacementChoice& strategy, std::int64_t redundant_experts,
                               PlacementGoal goal) {
  PlacedCandidate out{base};
  out.candidate.placement = strategy;
  out.candidate.redundant_experts = redundant_experts;
  out.candidate.expert_places.clear();
  const std::vector<PlacedLayer> layers = placed_layers(model, workload, cluster, base, redundant_experts);
  Candidate alone = stage_alone(base);
  const std::int64_t microbatches = workload.global_batch / (base.degrees.dp * base.micro_batch);
  for (std::size_t kind = 0; kind < layers.size(); ++kind) {
    const PlacedLayer& layer = layers[kind];
    PlacementProblem problem{.counts = layer.counts, .devices = layer.devices, .options = {}};
    problem.options.expert_groups = layer.moe.expert_groups;
    problem.options = strategy.with_options(problem.options);
    if (goal == PlacementGoal::LayerAlone || strategy->has_blocking_transfers())
      problem.devices.overlaps_transfers = false;
    if (goal == PlacementGoal::Simulated) {
      problem.price = [&](const RoutingCounts&, const Placement& placement) {
        alone.expert_places.assign(layers.size(), placement);
        return simulated_layer_time(layer.moe, layer.moe.row_columns(model.hidden_size), group_tokens(workload, base),
                                    workload, alone, cluster, microbatches, kind);
      };
    }
    PlacementAnswer answer = strategy->place(problem);
    if (!answer.placement) {
      out.infeasibility = std::move(answer.infeasibility);
      out.infeasibility->text = strategy.name() + ": " + out.infeasibility->text;
      return out;
    }
    out.candidate.expert_places.push_back(std::move(*answer.placement));
  }
  return out;
}

}  // namespace moeplan::planner
