// From measured operations to a cluster file: the machine that ran them.
#pragma once

#include <string>
#include <vector>

#include "cli/measure/measure.hpp"
#include "model/base/document.hpp"
#include "profiler/profile.hpp"

namespace moeplan {

/// What a curve or line says of the operations that it was fitted to.
struct RateFit {
  std::string what;
  Seconds launch{};
  double rate = 0;  // FLOP/s of the largest, or bytes per second
  FitQuality quality;
};

struct MachineFit {
  double peak = 0;                                     // FLOP/s of the fastest product
  Seconds launch{};                                    // of a memory-bound kernel of no bytes
  double copy_rate = 0;                                // bytes per second that a copy of rows reads and writes
  double kernel_rate = 0;                              // of all memory-bound kernels
  std::vector<EfficiencyPoint> gemm, grouped_gemm;     // shares of the peak
  std::vector<std::pair<std::string, double>> codecs;  // name, bytes of plain rows per second
  double slowdown = 1;                                 // of a product beside an all-to-all
  std::vector<CollectiveFit> collectives;
  CurveFit pairs;             // an all-to-all and an all-gather of n bytes each at once: alpha_o + n beta_o
  std::vector<RateFit> fits;  // in the order of the table
};

/// `measured` as of `benchmarks`, by index.
[[nodiscard]] MachineFit fit_machine(const std::vector<Benchmark>& benchmarks, const std::vector<Measured>& measured);

/// A cluster of one node with so many cores, on which so many ranks run: complete, and includable.
[[nodiscard]] Node machine_profile(const MachineFit& fit, const std::string& processor, std::int64_t cores,
                                   std::int64_t ranks);

/// What was fitted, with r2 and residuals, and how many measurements ended for which reason.
[[nodiscard]] std::string machine_table(const MachineFit& fit, const std::vector<Measured>& measured);

}  // namespace moeplan
