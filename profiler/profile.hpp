// From measured times to what a cluster or GPU file includes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/machine/gpu.hpp"
#include "model/text/document.hpp"
#include "profiler/curve_fit.hpp"
#include "profiler/samples.hpp"

namespace moeplan::profiler {

/// The samples of one collective on groups of one shape.
struct CollectiveFit {
  Collective collective;
  GroupShape shape;
  bool in_place;
  Bytes smallest{};
  Bytes largest{};
  FitQuality line;  // of one straight line through all sizes
  CurveFit curve;   // what the profile holds
};

/// One fit for each collective, shape and column, in that order; number formats together. Samples in place are fitted
/// beside those out of place only for an all-to-all, by the fastest of repeated runs, and where the two differ by more
/// than 2 % (median). Programs send from one buffer to another, so that in-place times serve other shapes of groups
/// alone (measured_cost.hpp): they say what the network between ranks can do, and of several pairs of nodes the fastest
/// says it best. Raises InputError with the line of samples that are impossible: faster than 100 TB/s a rank (assumed:
/// thirty times today's fastest memory).
[[nodiscard]] std::vector<CollectiveFit> fit_collectives(std::span<const CollectiveSample> samples);

/// `collectives:` and their origin, to be included by a cluster file. `source` says what was measured, e.g. the files.
[[nodiscard]] Node collective_profile(std::span<const CollectiveFit> fits, const std::string& source);

/// One line a fit: shape, points, sizes, pieces, alpha and rate of the largest sizes, r2, residuals; the straight
/// line's residuals beside.
[[nodiscard]] std::string fit_table(std::span<const CollectiveFit> fits);

/// Whether the smallest messages were small enough to tell the start-up: alpha is a tenth of their time or more. Where
/// not, the profile says no alpha, and the cluster's start-up holds.
[[nodiscard]] bool tells_startup(const CollectiveFit& fit);

/// The same fits as a cluster of this `collective_startup` holds them.
[[nodiscard]] CollectiveCosts costs_of(std::span<const CollectiveFit> fits, Seconds startup);

/// A GPU's GEMMs. How: as configs/gpus says of H100's.
struct GemmFit {
  Dtype dtype = Dtype::Bf16;
  Seconds launch{};                           // median of the twenty launch-bound ones with the fewest FLOPs
  bool measures_launch = true;                // false: fewer than five are launch-bound, and it is the GPU's own
  std::vector<EfficiencyPoint> efficiency;    // median by half-decade of FLOPs, where FLOPs decide
  std::optional<double> memory_efficiency{};  // median where bytes decide, and are 64 MB or more
  FitQuality quality;                         // of gemm_time(); worst_at is in FLOPs
};

/// Of one format. `gpu` gives the peak and the memory's bandwidth. Raises InputError for a format without a peak, for
/// several formats, for GEMMs more than 5 % faster than the peak (with their line), and where no GEMM is large enough.
[[nodiscard]] GemmFit fit_gemms(std::span<const GemmSample> samples, const GpuSpec& gpu);

/// `gemm_efficiency:`, `launch_overhead:` and `memory_efficiency:`, as far as they were measured, and their origins, to
/// be included by a GPU file.
[[nodiscard]] Node gemm_profile(const GemmFit& fit, const std::string& source);
[[nodiscard]] std::string fit_table(const GemmFit& fit);

}  // namespace moeplan::profiler
