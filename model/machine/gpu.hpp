// A GPU as the cost models see it. Files: configs/gpus.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/base/quantity.hpp"
#include "model/machine/dtype.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// A point of a curve: a GEMM of this many operations reaches this share of the peak.
struct EfficiencyPoint {
  double flops;
  double efficiency;  // (0, 1]
  bool operator==(const EfficiencyPoint&) const = default;
};

/// What a job holds in a GPU's memory besides its tensors.
struct RuntimeMemory {
  Bytes context = Bytes(0);       // the driver's context, libraries' code and workspaces
  Bytes communicator = Bytes(0);  // buffers of one communicator, of more than one rank
  double fragmentation = 0;       // what the allocator cannot use, as a share of what comes and goes
  bool operator==(const RuntimeMemory&) const = default;
};

struct GpuSpec {
  std::string name;
  std::map<Dtype, FlopsPerSecond> peak;  // dense, by the format that is multiplied
  Bytes memory;                          // usable device memory
  BytesPerSecond hbm_bandwidth;
  std::vector<EfficiencyPoint> gemm_efficiency;  // ascending in flops, at least one
  double attention_efficiency;                   // share of peak of a fused attention kernel, (0, 1]
  double memory_efficiency;                      // share of hbm_bandwidth of memory-bound kernels, (0, 1]
  Seconds launch_overhead;                       // of one kernel
  std::int64_t num_sms;
  std::int64_t tile_rows;     // rows of the output tile of a grouped GEMM: an expert's rows are padded to this
  std::int64_t tile_columns;  // columns of that tile
  double slowdown_beside_communication;  // factor >= 1 on compute while communication kernels run
  RuntimeMemory runtime_memory = {};     // nothing where a file does not say

  // Grouped GEMMs (those of the experts), where they were measured apart from single ones. What is absent is as for
  // single GEMMs: gemm_efficiency, the whole hbm_bandwidth, launch_overhead.
  std::optional<std::vector<EfficiencyPoint>> grouped_gemm_efficiency = {};  // by the FLOPs of all products together
  std::optional<double> grouped_gemm_memory_efficiency = {};  // share of hbm_bandwidth at which operands stream, (0, 1]
  std::optional<Seconds> grouped_gemm_launch_overhead = {};   // of one grouped GEMM, sorting rows by expert included

  /// Bytes of rows (not of what is sent) that a codec takes in or gives out a second, where that was measured; else it
  /// is a memory-bound kernel.
  std::map<WireFormat, BytesPerSecond> codec_throughput = {};

  bool operator==(const GpuSpec&) const = default;
};

/// Reads one GPU (the content of a file of configs/gpus, or the same inside a cluster).
[[nodiscard]] GpuSpec read_gpu(MapReader gpu);

}  // namespace moeplan
