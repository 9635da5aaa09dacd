// From measured operations to a cluster file: the machine that ran them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cuda_runtime/measure/measure.hpp"
#include "model/text/document.hpp"
#include "profiler/profile.hpp"

namespace moeplan::runtime {

/// What a curve or line says of the operations that it was fitted to.
struct RateFit {
  std::string what;
  Seconds launch{};
  double rate = 0;  // FLOP/s of the largest, or bytes per second
  profiler::FitQuality quality;
};

/// On what was measured, and what of it no measurement tells.
struct MeasuredMachine {
  bool has_gpus = false;
  std::string processor = {};         // a core or GPU
  std::int64_t processors = 1;        // that a machine has
  double memory = 0;                  // bytes of one
  std::int64_t multiprocessors = 1;   // of one
  std::int64_t ranks = 1, nodes = 1;  // as many ranks on each machine
  std::string clocks = {};            // of GPUs, while it was measured (SeenClocks::text)

  /// Processors of a machine that ranks ran on: where there are fewer GPUs than ranks, all ranks share one.
  [[nodiscard]] std::int64_t used() const;
  [[nodiscard]] std::int64_t ranks_per_processor() const;
};

struct MachineFit {
  Dtype dtype = Dtype::Fp32;                           // of all but the other peaks
  std::map<Dtype, double> peaks;                       // FLOP/s of the fastest product, by format
  Seconds launch{};                                    // of a memory-bound kernel of no bytes
  double copy_rate = 0;                                // bytes per second that a copy of rows reads and writes
  double kernel_rate = 0;                              // of all memory-bound kernels
  std::vector<EfficiencyPoint> gemm, grouped_gemm;     // shares of the peak
  std::vector<std::pair<std::string, double>> codecs;  // name, bytes of plain rows per second
  std::optional<double> slowdown;                      // of a product beside an all-to-all; none with one rank
  std::vector<profiler::CollectiveFit> collectives;
  profiler::CurveFit pairs;   // an all-to-all and an all-gather of n bytes each at once: alpha_o + n beta_o
  std::vector<RateFit> fits;  // in the order of the table
};

/// `measured` as of `benchmarks`, by index.
[[nodiscard]] MachineFit fit_machine(const std::vector<Benchmark>& benchmarks, const std::vector<Measured>& measured,
                                     const MeasuredMachine& machine);

/// A cluster of the machines that ranks ran on: complete, and includable.
[[nodiscard]] Node machine_profile(const MachineFit& fit, const MeasuredMachine& machine);
/// One of its cores or GPUs alone, as a file of configs/gpus.
[[nodiscard]] Node processor_profile(const MachineFit& fit, const MeasuredMachine& machine);

/// What was fitted, with r2 and residuals, and how many measurements ended for which reason.
[[nodiscard]] std::string machine_table(const MachineFit& fit, const std::vector<Measured>& measured);

}  // namespace moeplan::runtime
