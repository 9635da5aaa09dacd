#include "planner/report/sensitivity.hpp"

#include <algorithm>

#include "model/base/in_parallel.hpp"
#include "model/collectives/collective_models.hpp"
#include "model/operators/reference_rates.hpp"
#include "planner/plan/plan.hpp"
#include "sim/program/simulate_stages.hpp"

namespace moeplan::planner {

namespace {

constexpr double kMore = 1.1;
constexpr double kLess = 0.9;

bool has_tier(const Cluster& cluster, LinkTier tier) {
  const auto& links = cluster.topology.links;
  return std::any_of(links.begin(), links.end(), [&](const Link& l) { return l.tier == tier; });
}

void scale_tier(Topology& topology, LinkTier tier, double factor) {
  for (Link& l : topology.links) {
    if (l.tier == tier) l.bandwidth *= factor;
  }
}

std::shared_ptr<const CollectiveModels> scaled(const std::shared_ptr<const CollectiveModels>& models, Resource resource,
                                               double factor) {
  LinkFactors factors;
  if (resource == Resource::IntraNodeBandwidth) factors.intra_node = factor;
  if (resource == Resource::NicBandwidth) factors.nic = factor;
  if (resource == Resource::CollectiveStartup) factors.latency = factor;
  if (!models || factors == LinkFactors{}) return models;
  CollectiveModels out = *models;
  scale(out, factors);
  return std::make_shared<const CollectiveModels>(std::move(out));
}

}  // namespace

const std::vector<ResourceInfo>& resources() {
  static const std::vector<ResourceInfo> all{
      {Resource::IntraNodeBandwidth, "intra_node_bandwidth", "bandwidth inside nodes", "+10%", kMore},
      {Resource::NicBandwidth, "nic_bandwidth", "NIC bandwidth", "+10%", kMore},
      {Resource::CoreBandwidth, "core_bandwidth", "bandwidth of the network core", "+10%", kMore},
      {Resource::LinkLatency, "link_latency", "latency of links", "-10%", kLess},
      {Resource::CollectiveStartup, "collective_startup", "start-up of collectives (alpha)", "-10%", kLess},
      {Resource::CollectiveRate, "collective_rate", "measured rate of collectives (1/beta)", "+10%", 1 / kMore},
      {Resource::GpuFlops, "gpu_flops", "GPU FLOP/s", "+10%", kMore},
      {Resource::HbmBandwidth, "hbm_bandwidth", "HBM bandwidth", "+10%", kMore},
      {Resource::KernelLaunch, "kernel_launch", "launch overhead of kernels", "-10%", kLess},
      {Resource::Host, "host", "host time per operation", "-10%", kLess}};
  return all;
}

std::vector<ResourceInfo> resources_of(const Cluster& cluster) {
  std::vector<ResourceInfo> out;
  for (const ResourceInfo& r : resources()) {
    if (r.resource == Resource::IntraNodeBandwidth && !has_tier(cluster, LinkTier::IntraNode)) continue;
    if (r.resource == Resource::NicBandwidth && !has_tier(cluster, LinkTier::Nic)) continue;
    if (r.resource == Resource::CoreBandwidth && !has_tier(cluster, LinkTier::Core)) continue;
    const bool has_rates = !cluster.collectives.empty() || cluster.reduction_bandwidth;
    if (r.resource == Resource::CollectiveRate && !has_rates) continue;
    if (r.resource == Resource::Host && cluster.gpu.host_time_per_operation == Seconds(0)) continue;
    out.push_back(r);
  }
  return out;
}

Cluster scaled(const Cluster& cluster, Resource resource, double factor) {
  Topology topology = cluster.topology;
  GpuSpec gpu = cluster.gpu;
  CollectiveCosts collectives = cluster.collectives;
  Seconds startup = cluster.collective_startup, overhead = cluster.message_overhead;
  std::optional<BytesPerSecond> reduction = cluster.reduction_bandwidth;
  switch (resource) {
    case Resource::IntraNodeBandwidth: scale_tier(topology, LinkTier::IntraNode, factor); break;
    case Resource::NicBandwidth:
      scale_tier(topology, LinkTier::Nic, factor);
      // In a template the core is sized for its NICs: the capacity below a switch divided by the oversubscription.
      if (!cluster.natural_boundaries.empty()) scale_tier(topology, LinkTier::Core, factor);
      break;
    case Resource::CoreBandwidth: scale_tier(topology, LinkTier::Core, factor); break;
    case Resource::LinkLatency:
      for (Link& l : topology.links) l.latency *= factor;
      break;
    case Resource::CollectiveStartup:
      startup *= factor;
      overhead *= factor;
      for (auto& [key, cost] : collectives) cost.alpha *= factor;
      break;
    case Resource::CollectiveRate:
      for (auto& [key, cost] : collectives) cost.beta *= factor;
      if (reduction) *reduction *= 1 / factor;
      break;
    case Resource::GpuFlops:
      for (auto& [dtype, peak] : gpu.peak) peak *= factor;
      scale_operators(gpu, {.bf16 = factor, .fp8 = factor});
      break;
    case Resource::HbmBandwidth:
      gpu.hbm_bandwidth *= factor;
      scale_operators(gpu, {.memory = factor});
      scale_tier(topology, LinkTier::Memory, factor);
      break;
    case Resource::KernelLaunch:
      gpu.launch_overhead *= factor;
      if (gpu.grouped_gemm_launch_overhead) *gpu.grouped_gemm_launch_overhead *= factor;
      scale_operators(gpu, {.launch = factor});
      break;
    case Resource::Host: gpu.host_time_per_operation *= factor; break;
  }
  Routes routes(topology);
  return {.name = cluster.name,
          .gpu = std::move(gpu),
          .topology = std::move(topology),
          .gpu_of_rank = cluster.gpu_of_rank,
          .node_of_rank = cluster.node_of_rank,
          .collectives = std::move(collectives),
          .collective_models = scaled(cluster.collective_models, resource, factor),
          .collective_startup = startup,
          .message_overhead = overhead,
          .reduction_bandwidth = reduction,
          .routes = std::move(routes),
          .natural_boundaries = cluster.natural_boundaries,
          .ranks_per_gpu = cluster.ranks_per_gpu,
          .memory_links = cluster.memory_links};
}

std::vector<Sensitivity> sensitivities(const Program& program, const Cluster& cluster, SimTime makespan,
                                       const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const std::vector<ResourceInfo> all = resources_of(cluster);
  const auto makespan_with = [&](const ResourceInfo& r) {
    const Cluster changed = scaled(cluster, r.resource, r.factor);
    StageClusters machines(changed);
    return sim::simulate(program, machines, {.keep_spans = false}).makespan;
  };
  const auto at_once = static_cast<std::size_t>(threads_or_cores(0));
  std::vector<Sensitivity> out;
  for (std::size_t from = 0; from < all.size(); from += at_once) {
    if (progress) progress(static_cast<std::int64_t>(from), static_cast<std::int64_t>(all.size()));
    std::vector<SimTime> round(std::min(at_once, all.size() - from));
    in_parallel(round.size(), static_cast<int>(at_once),
                [&](std::size_t i) { round[i] = makespan_with(all[from + i]); });
    for (std::size_t i = 0; i < round.size(); ++i) {
      const SimTime now = round[i];
      const auto saved = static_cast<double>((makespan - now).picoseconds());
      const double gain = makespan > SimTime() ? saved / static_cast<double>(makespan.picoseconds()) : 0;
      out.push_back({all[from + i], now, gain});
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const Sensitivity& a, const Sensitivity& b) { return a.gain > b.gain; });
  return out;
}

}  // namespace moeplan::planner
