// The time of computations on a GPU: by the models of its kernels (model/operators) where the GPU has figures of the
// format, else by a roofline with shares of the peak. MODELS section 1.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "model/base/quantity.hpp"
#include "model/machine/gpu.hpp"
#include "model/operators/precision.hpp"
#include "model/program/resolve.hpp"

namespace moeplan {

struct GemmModel;  // model/operators/gemm_model.hpp

/// The fraction of peak that a GEMM of `flops` FLOPs reaches: linear in log(flops) between the points of the GPU's
/// curve, constant beyond its ends.
[[nodiscard]] double gemm_efficiency(const GpuSpec& gpu, double flops);

/// The fraction of peak of a grouped GEMM whose products have `flops` FLOPs in total, from the curve of grouped GEMMs
/// if the GPU has one.
[[nodiscard]] double grouped_gemm_efficiency(const GpuSpec& gpu, double flops);

/// The peak throughput for a format: its own; tf32 falls back to fp32, fp8 and int8 to the fastest 16-bit format,
/// 16-bit formats to each other, then to fp32.
[[nodiscard]] FlopsPerSecond peak_rate(const GpuSpec& gpu, Dtype dtype);

/// Roofline: launch + max(flops / (peak efficiency), bytes / hbm_bandwidth). `bytes` is the size of all operands.
[[nodiscard]] Seconds gemm_time(const GpuSpec& gpu, Dtype dtype, const GemmShape& shape, std::int64_t bytes);

/// Time of a grouped GEMM: one launch for all products. Each product's output is cut into tiles of tile_rows x
/// tile_columns, the last ones padded; the tiles of all products run in waves of num_sms, and the last wave takes as
/// long as a full one. Small products are therefore inefficient. Products by source (`sources` of an expert) have tiles
/// no higher than their rows need, a power of two from 16 on. The GPU's own launch overhead and fraction of the HBM
/// bandwidth for grouped GEMMs apply if given.
[[nodiscard]] Seconds grouped_gemm_time(const GpuSpec& gpu, Dtype dtype, std::span<const GemmShape> products,
                                        std::int64_t bytes, std::int64_t sources = 1);

/// Fused attention: launch + max(flops / (peak attention_efficiency), bytes / hbm_bandwidth).
[[nodiscard]] Seconds attention_time(const GpuSpec& gpu, Dtype dtype, double flops, std::int64_t bytes);

/// The rate of a kernel that its elements may bound, with its key in the GPU's element_rates; none for other kernels.
/// Without a rate the kernel's bytes alone price it.
struct ElementRate {
  std::string_view key;
  std::optional<double> per_second;
};
[[nodiscard]] std::optional<ElementRate> element_rate(Kernel kernel, const GpuSpec& gpu);

/// The parts of a computation's time. The longer of `math` and `memory` hides the shorter, or most of it.
struct ComputeParts {
  Seconds launch;
  Seconds math;
  Seconds memory;
  Seconds overlapped;  // math and memory together
  [[nodiscard]] Seconds time() const { return launch + overlapped; }
};

/// The figures of the GPU's kernels that price products in a recipe's format, without one in a number format (fp16:
/// those of bf16, whose rates and bytes are the same); null if there are none.
[[nodiscard]] const GemmModel* figures_of_products(const GpuSpec& gpu, Dtype dtype,
                                                   std::optional<Precision> precision = {});

/// The time parts of a compute operation of a Program on one rank, alone on its GPU. Of its kernels one does the work,
/// and each takes a launch.
///
/// Products with figures in their format (figures_of_products()) take training_gemm_cost and
/// training_grouped_gemm_cost, others gemm_time and grouped_gemm_time. A product of form NT is an input gradient, one
/// of form TN a weight gradient. Attention takes the time of training_attention_model if there is one, in bf16 for
/// operands of 16 bits or fewer. A window, and a part of a sequence (context parallelism), take their share of the
/// FLOPs of whole sequences without one. Fused
/// products take the roofline of attention_time(). A codec takes
/// codec_startup + bytes of its rows / codec_throughput, or the time of a memory-bound kernel in place of the second
/// term if the GPU has no such number.
[[nodiscard]] ComputeParts compute_parts(const Program& program, const Operation& operation, RankId rank,
                                         const GpuSpec& gpu);

/// The time of a compute operation of a Program on one rank, alone on its GPU.
[[nodiscard]] Seconds compute_time(const Program& program, const Operation& operation, RankId rank, const GpuSpec& gpu);

/// The time that the GPU's host CPU needs to launch operations.
[[nodiscard]] Seconds host_time(const GpuSpec& gpu, const Launches& launches);

/// The time of a HostCopy between a rank's GPU and its host's memory at GpuSpec::host_bandwidth, whatever else happens
/// on the GPU; zero without a kernel of its own.
[[nodiscard]] Seconds host_copy_time(const Program& program, const Operation& operation, RankId rank,
                                     const GpuSpec& gpu);

}  // namespace moeplan
