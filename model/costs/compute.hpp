// What computations cost on a GPU. MODELS section 1.
#pragma once

#include <span>

#include "model/base/quantity.hpp"
#include "model/machine/gpu.hpp"
#include "model/program/resolve.hpp"

namespace moeplan {

/// Share of the peak that a GEMM of this many FLOPs reaches: linear in log(flops) between the points of the GPU's
/// curve, constant beyond its ends.
[[nodiscard]] double gemm_efficiency(const GpuSpec& gpu, double flops);

/// The same of a grouped GEMM whose products have this many FLOPs together: from the curve of grouped GEMMs where the
/// GPU has one.
[[nodiscard]] double grouped_gemm_efficiency(const GpuSpec& gpu, double flops);

/// The peak for a format: its own; tf32 falls back to fp32, fp8 and int8 to the fastest 16-bit one, 16-bit ones to each
/// other, then to fp32.
[[nodiscard]] FlopsPerSecond peak_rate(const GpuSpec& gpu, Dtype dtype);

/// Roofline: launch + max(flops / (peak efficiency), bytes / hbm_bandwidth). `bytes` are those of all operands.
[[nodiscard]] Seconds gemm_time(const GpuSpec& gpu, Dtype dtype, const GemmShape& shape, std::int64_t bytes);

/// One launch for all products. Each product's output is cut into tiles of tile_rows x tile_columns, the last ones
/// padded; the tiles of all products run in waves of num_sms, the last wave as long as a full one. So small products
/// lose. The GPU's own launch overhead and share of the HBM bandwidth for grouped GEMMs count where it has them.
[[nodiscard]] Seconds grouped_gemm_time(const GpuSpec& gpu, Dtype dtype, std::span<const GemmShape> products,
                                        std::int64_t bytes);

/// Fused attention: launch + max(flops / (peak attention_efficiency), bytes / hbm_bandwidth).
[[nodiscard]] Seconds attention_time(const GpuSpec& gpu, Dtype dtype, double flops, std::int64_t bytes);

/// A memory-bound kernel: launch + bytes / (hbm_bandwidth memory_efficiency); nothing at all for no bytes.
[[nodiscard]] Seconds kernel_time(const GpuSpec& gpu, std::int64_t bytes);

/// What a computation's time is made of: one of `math` and `memory` hides behind the other.
struct ComputeParts {
  Seconds launch;
  Seconds math;
  Seconds memory;
  [[nodiscard]] Seconds time() const { return launch + (math < memory ? memory : math); }
};

/// Of a compute operation of a Program on one rank, alone on its GPU. A codec takes launch + bytes of its rows /
/// codec_throughput, or what a memory-bound kernel does where the GPU has no such figure.
[[nodiscard]] ComputeParts compute_parts(const Program& program, const Operation& operation, RankId rank,
                                         const GpuSpec& gpu);

/// The time of a compute operation of a Program on one rank, alone on its GPU.
[[nodiscard]] Seconds compute_time(const Program& program, const Operation& operation, RankId rank, const GpuSpec& gpu);

}  // namespace moeplan
