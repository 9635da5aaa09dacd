// The fit of measured operations to a cluster file that describes the hardware on which they executed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cuda_runtime/measure/measure.hpp"
#include "model/text/document.hpp"
#include "profiler/fits/profile.hpp"

namespace moeplan::runtime {

/// Parameters and quality of a fitted curve or line.
struct RateFit {
  std::string what;
  Seconds launch{};
  double rate = 0;  // FLOP/s of the largest operation, or bytes per second
  profiler::FitQuality quality;
};

/// The hardware of a measurement, including properties that cannot be measured.
struct MeasuredMachine {
  bool has_gpus = false;
  std::string processor = {};         // name of a core or GPU
  std::int64_t processors = 1;        // per node
  double memory = 0;                  // bytes per processor
  std::int64_t multiprocessors = 1;   // per processor
  std::int64_t ranks = 1, nodes = 1;  // evenly distributed
  std::string clocks = {};            // of GPUs, during the measurement (SeenClocks::text)
  bool multiplies_fp8 = false;        // every processor

  /// Processors of a node used by ranks: if there are fewer GPUs than ranks, all ranks share one.
  [[nodiscard]] std::int64_t used() const;
  [[nodiscard]] std::int64_t ranks_per_processor() const;
  [[nodiscard]] MeasuredRanks measured_ranks() const {
    return {ranks, nodes, ranks_per_processor() > 1, multiplies_fp8};
  }
};

struct MachineFit {
  Dtype dtype = Dtype::Fp32;                           // of everything except the other formats' peaks
  std::map<Dtype, double> peaks;                       // FLOP/s of the fastest product, by format
  std::optional<double> sustained;                     // FLOP/s of many products in a row, in `dtype`
  std::int64_t sustained_products = 0;                 // how many
  Seconds launch{};                                    // of a memory-bound kernel without data
  double copy_rate = 0;                                // bytes read and written per second by row copies
  double kernel_rate = 0;                              // bytes per second over all memory-bound kernels
  std::vector<EfficiencyPoint> gemm, grouped_gemm;     // fractions of the peak
  std::vector<std::pair<std::string, double>> codecs;  // name, and bytes of plain rows per second
  std::optional<double> slowdown;                      // of products concurrent with an all-to-all; none with one rank
  std::optional<double> exchange_slowdown;             // of an all-to-all while products run; none if not measured
  std::vector<profiler::CollectiveFit> collectives;
  profiler::CurveFit pairs;   // concurrent all-to-all and all-gather of n bytes each: alpha_o + n beta_o
  std::vector<RateFit> fits;  // in the order of the table
};

/// Fits the measurements. measured[i] belongs to benchmarks[i].
[[nodiscard]] MachineFit fit_machine(const std::vector<Benchmark>& benchmarks, const std::vector<Measured>& measured,
                                     const MeasuredMachine& machine);

/// The complete cluster document of the nodes that were measured; can be included.
[[nodiscard]] Node machine_profile(const MachineFit& fit, const MeasuredMachine& machine);
/// The document of one of its cores or GPUs, as in configs/gpus.
[[nodiscard]] Node processor_profile(const MachineFit& fit, const MeasuredMachine& machine);

/// A table of the fits with r2 and residuals, and the number of measurements by reason of termination.
[[nodiscard]] std::string machine_table(const MachineFit& fit, const std::vector<Measured>& measured);

}  // namespace moeplan::runtime
