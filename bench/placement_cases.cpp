#include "bench/placement_cases.hpp"

#include <algorithm>

#include "planner/placement/exact_placement.hpp"

namespace moeplan::bench {

using namespace planner;

namespace {

/// HPWNV nodes of Pro-Prophet (configs/clusters/proprophet_hpwnv.yaml: PCIe 3.0 x16, one 100 Gb/s NIC per node), RTX
/// 3090 in fp32 at 0.9 of the peak (assumed there), MoE-GPT-M (hidden 1024, FFN 2048); 8,192 tokens per rank as in the
/// trace, sequences of 1,024 (assumed). State: parameters and Adam's two moments.
Case rtx3090() {
  constexpr double kM = 1024, kH = 2048, kL = 1024, kTokens = 8192, kRate = 35.6e12 * 0.9;
  constexpr double kParameters = 2 * kM * kH;
  return {"HPWNV: 4 x 4 RTX 3090, MoE-GPT-M, training",
          {.ranks = 16,
           .ranks_per_node = 4,
           .slots = 6,
           .token_time = Seconds(2 * kParameters / kRate),
           .token_bytes = Bytes(4 * kM),
           .parameter_bytes = Bytes(4 * kParameters),
           .gradient_bytes = Bytes(4 * kParameters),
           .state_bytes = Bytes(3 * 4 * kParameters),
           .rank_bandwidth = BytesPerSecond(15.75e9),
           .nic_bandwidth = BytesPerSecond(12.5e9),
           .node_bandwidth = BytesPerSecond(12.5e9),
           .overlaps_transfers = true,
           .non_expert_time = Seconds(kTokens * (8 * kM * kM + 4 * kL * kM) / kRate)},
          {.expert_groups = 8}};
}

/// DGX H100 (configs/clusters/dgx_h100.yaml: 450 GB/s NVLink, 400 Gb/s NIC per GPU), experts of DeepSeek-V3 (hidden
/// 7168, FFN 2048, gated) in bf16 at 0.6 of 989 TFLOP/s (assumed). State: fp32 weight, Adam's two moments, and the bf16
/// weight. Concurrent attention: 8 M^2 per token as an approximation of latent attention (assumed).
Case h100(bool trains) {
  constexpr double kM = 7168, kH = 2048, kTokens = 8192, kRate = 989e12 * 0.6;
  constexpr double kParameters = 3 * kM * kH;
  return {
      trains ? "DGX H100: 2 x 8, experts of DeepSeek-V3, training" : "DGX H100: 2 x 8, experts of DeepSeek-V3, forward",
      {.ranks = 16,
       .ranks_per_node = 8,
       .slots = 6,
       .token_time = Seconds(2 * kParameters / kRate),
       .token_bytes = Bytes(2 * kM),
       .parameter_bytes = Bytes(2 * kParameters),
       .gradient_bytes = Bytes(2 * kParameters),
       .state_bytes = Bytes(14 * kParameters),
       .rank_bandwidth = BytesPerSecond(450e9),
       .nic_bandwidth = BytesPerSecond(50e9),
       .node_bandwidth = BytesPerSecond(400e9),
       .trains = trains,
       .overlaps_transfers = trains,
       .non_expert_time = Seconds(kTokens * 8 * kM * kM / kRate)},
      {.expert_groups = 8}};
}

std::vector<RoutingScenario> scenarios() {
  std::vector<RoutingScenario> list;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const double s : {0.5, 1.0}) {
      list.push_back({.shape = RoutingShape::Zipf, .zipf_exponent = s, .sampled = true, .seed = seed});
      list.push_back({.shape = RoutingShape::Lognormal, .lognormal_sigma = s, .sampled = true, .seed = seed});
    }
  }
  return list;
}

/// The planned and the exact placements for an objective ("load", or the time on a machine), over all scenarios.
ExactRow exact_row(const std::string& name, std::int64_t ranks, std::int64_t nodes, std::int64_t experts,
                   std::int64_t budget) {
  ExactRow row{.objective = name, .ranks = ranks, .nodes = nodes, .experts = experts};
  PlacementDevices devices = name == "time, HPWNV" ? rtx3090().devices : h100(true).devices;
  devices.ranks = ranks;
  devices.ranks_per_node = (ranks + nodes - 1) / nodes;
  devices.slots = (experts + ranks - 1) / ranks;  // one holder per expert
  if (name == "load") devices.token_bytes = Bytes(0);
  for (const RoutingScenario& scenario : scenarios()) {
    const RoutingCounts counts = make_routing(scenario, ranks, experts, 2048, 2, devices.slots);
    const auto placed = [&](const char* strategy) {
      return *find_placement_strategy(strategy)->place({counts, devices}).placement;
    };
    const auto time_of = [&](const Placement& p) { return layer_time(counts, p, devices).total; };
    const Placement ours = placed("auto");
    Seconds bound;  // lower bound over all placements
    if (name == "load") {
      const ExactLoad exact = exact_load(counts.expert_load(), ranks, devices.slots);
      bound = devices.token_time * (3.0 * static_cast<double>(exact.lower_bound));
      row.proved += exact.proved ? 1 : 0;
      row.searched += static_cast<double>(exact.nodes);
    } else {
      std::vector<std::int64_t> start;
      for (const ExpertPlacement& place : ours.experts) start.push_back(place.home.value());
      const ExactPrice exact = exact_price(counts, devices, start, budget);
      bound = exact.lower_bound;
      row.proved += exact.proved ? 1 : 0;
      row.searched += static_cast<double>(exact.nodes);
      row.widest_gap = std::max(row.widest_gap, exact.price / bound - 1);
    }
    ++row.instances;
    const double ratio = time_of(ours) / bound, theirs = time_of(placed("smartmoe")) / bound;
    row.mean_ratio += ratio;
    row.worst_ratio = std::max(row.worst_ratio, ratio);
    row.mean_smartmoe += theirs;
    row.worst_smartmoe = std::max(row.worst_smartmoe, theirs);
  }
  row.searched /= row.instances;
  row.mean_ratio /= row.instances;
  row.mean_smartmoe /= row.instances;
  return row;
}

}  // namespace

std::vector<Case> cases() { return {rtx3090(), h100(true), h100(false)}; }

std::vector<ExactRow> exact_rows(bool has_long) {
  std::vector<ExactRow> rows;
  const auto solve = [&](const char* objective, std::int64_t ranks, std::int64_t nodes, std::int64_t experts,
                         std::int64_t budget = kExactPlacementBudget) {
    rows.push_back(exact_row(objective, ranks, nodes, experts, budget));
  };
  solve("load", 4, 2, 8);
  solve("load", 4, 2, 16);
  solve("load", 8, 2, 16);
  solve("load", 7, 1, 21);
  solve("load", 8, 2, 24);
  constexpr std::int64_t kLongBudget = 500'000'000,
                         kShortBudget = 2'000'000;  // for two nodes; for one node, with the slowest search nodes
  for (const char* machine : {"time, DGX H100", "time, HPWNV"}) {
    solve(machine, 4, 2, 8);
    solve(machine, 4, 2, 16);
    solve(machine, 8, 2, 8);
    solve(machine, 8, 2, 16);
    if (!has_long) continue;
    solve(machine, 8, 2, 24, kLongBudget);
    solve(machine, 8, 4, 24);
    solve(machine, 8, 1, 24, kShortBudget);
  }
  return rows;
}

}  // namespace moeplan::bench
