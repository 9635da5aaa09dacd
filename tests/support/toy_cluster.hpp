// A small cluster whose times can be worked out by hand. Each GPU has a link of its own to its node's switch, and each
// switch has one link to a core: 10 GB/s in each direction inside a node, 2 GB/s in each direction between nodes for a
// whole node.
#pragma once

#include <cstdint>
#include <string>

#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"

namespace moeplan::tests {

inline constexpr double kGpuRate = 10e9;     // bytes per second
inline constexpr double kNodeRate = 2e9;     // bytes per second
inline constexpr double kPeak = 1e12;        // FLOP/s, reached by every GEMM
inline constexpr double kMemoryRate = 1e11;  // bytes per second, of every kernel

/// A GPU whose kernels and GEMMs reach the peak, without launch overhead or slowdown.
inline GpuSpec toy_gpu() {
  return {.name = "toy",
          .peak = {{Dtype::Fp32, FlopsPerSecond(kPeak)}, {Dtype::Bf16, FlopsPerSecond(2 * kPeak)}},
          .memory = Bytes(1e9),
          .hbm_bandwidth = BytesPerSecond(kMemoryRate),
          .gemm_efficiency = {{1, 1.0}},
          .attention_efficiency = 1,
          .memory_efficiency = 1,
          .launch_overhead = Seconds(0),
          .num_sms = 4,
          .tile_rows = 1,
          .tile_columns = 1,
          .slowdown_beside_communication = 1};
}

/// A toy cluster with `latency` per hop, no measured collectives, and no start-up time or message overhead.
inline Cluster toy_cluster(int nodes, int gpus_per_node, Seconds latency = Seconds(0)) {
  Topology topology;
  std::vector<VertexId> gpus;
  std::vector<int> node_of_rank;
  const auto vertex = [&](const std::string& name, VertexKind kind, std::optional<int> node) {
    topology.vertices.push_back({name, kind, node});
    return VertexId(topology.vertices.size() - 1);
  };
  const auto cable = [&](VertexId a, VertexId b, double rate, LinkTier tier) {
    topology.links.push_back({a, b, BytesPerSecond(rate), latency, tier});
    topology.links.push_back({b, a, BytesPerSecond(rate), latency, tier});
  };
  const VertexId core = vertex("core", VertexKind::NetworkSwitch, std::nullopt);
  for (int n = 0; n < nodes; ++n) {
    const VertexId node_switch = vertex("switch " + std::to_string(n), VertexKind::NvSwitch, n);
    cable(node_switch, core, kNodeRate, LinkTier::Nic);
    for (int g = 0; g < gpus_per_node; ++g) {
      gpus.push_back(vertex("gpu " + std::to_string(n * gpus_per_node + g), VertexKind::Gpu, n));
      node_of_rank.push_back(n);
      cable(gpus.back(), node_switch, kGpuRate, LinkTier::IntraNode);
    }
  }
  Routes routes(topology);
  return {.name = "toy",
          .gpu = toy_gpu(),
          .topology = topology,
          .gpu_of_rank = gpus,
          .node_of_rank = node_of_rank,
          .collectives = {},
          .collective_startup = Seconds(0),
          .message_overhead = Seconds(0),
          .routes = std::move(routes)};
}

/// A slice of `bytes` bytes of a new buffer with one-byte columns, for Programs written by hand.
inline Slice bytes_of(Program& program, std::int64_t bytes) {
  program.buffers.push_back({"bytes " + std::to_string(program.buffers.size()), 1, Dtype::Int8});
  return {BufferId(program.buffers.size() - 1), Rows::fixed(bytes)};
}

/// A kernel that takes `bytes` / kMemoryRate seconds.
inline Operation kernel_of(Program& program, std::int64_t bytes, Stream stream = Stream::Compute,
                           std::vector<std::int32_t> after = {}) {
  return {.name = "kernel",
          .op_class = OpClass::Norm,
          .stream = stream,
          .work = Kernel::Add,
          .reads = {bytes_of(program, bytes)},
          .writes = {},
          .after = std::move(after)};
}

/// A collective with size n (see AlphaBeta; for an all-gather, a multiple of the group's size).
inline Operation collective_of(Program& program, Collective collective, GroupId group, std::int64_t n,
                               Stream stream = Stream::Inter, std::vector<std::int32_t> after = {}) {
  const std::int64_t size = program.group(group).size;
  const Slice data = bytes_of(program, collective == Collective::AllGather ? n / size : n);
  return {.name = "collective",
          .op_class = OpClass::Dispatch,
          .stream = stream,
          .work = Communication{.collective = collective, .group = group},
          .reads = {data},
          .writes = {data},
          .after = std::move(after)};
}

/// A Program of one empty block, executed once.
inline Program one_block(std::int64_t world, std::vector<GroupFamily> groups = {}) {
  Program program;
  program.world_size = world;
  program.groups = std::move(groups);
  program.blocks.push_back({.name = "block", .operations = {}});
  program.stages.front().push_back({.block = BlockId(0)});
  return program;
}

}  // namespace moeplan::tests
