// Profiles: cost curves fitted to measured times, written as documents that a cluster or GPU file includes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/machine/gpu.hpp"
#include "model/text/document.hpp"
#include "profiler/fits/curve_fit.hpp"
#include "profiler/tables/samples.hpp"

namespace moeplan::profiler {

/// The fit of one collective on groups of one shape.
struct CollectiveFit {
  Collective collective;
  GroupShape shape;
  bool in_place;
  Bytes smallest{};  // sizes measured
  Bytes largest{};
  FitQuality line;  // of one straight line through all sizes
  CurveFit curve;   // the curve that goes into the profile
};

/// Fits one curve for each collective, group shape and column (out-of-place, in-place), in that order; all number
/// formats are fitted together. In-place samples are fitted in addition to out-of-place ones only for an all-to-all,
/// from the fastest of repeated measurements, and only if the two curves differ by more than 2 % (median). Programs
/// send from one buffer to another, so in-place times are used only to predict groups of other shapes
/// (measured_cost.hpp): they show the performance of the network between ranks, best in the fastest of several pairs of
/// nodes. Raises InputError with the line of every impossible sample: faster than 100 TB/s per rank (assumed:
/// thirty times today's fastest memory).
[[nodiscard]] std::vector<CollectiveFit> fit_collectives(std::span<const CollectiveSample> samples);

/// The document with `collectives:` and their origin, to be included by a cluster file. `source` names the measurement,
/// e.g. the files.
[[nodiscard]] Node collective_profile(std::span<const CollectiveFit> fits, const std::string& source);

/// A text table with one line per fit: shape, points, sizes, pieces, alpha of the smallest and bandwidth of the largest
/// sizes, r2, residuals, and the residuals of the straight line for comparison.
[[nodiscard]] std::string fit_table(std::span<const CollectiveFit> fits);

/// Whether the smallest messages were small enough to determine the start-up time: alpha is at least a tenth of their
/// time. Otherwise the profile has no alpha, and the cluster's `collective_startup` applies.
[[nodiscard]] bool tells_startup(const CollectiveFit& fit);

/// The fits as the collective costs of a cluster whose `collective_startup` is `startup`.
[[nodiscard]] CollectiveCosts costs_of(std::span<const CollectiveFit> fits, Seconds startup);

/// The GEMM performance of a GPU, by the method that configs/gpus describes for the H100.
struct GemmFit {
  Dtype dtype = Dtype::Bf16;
  Seconds launch{};                         // median of the twenty launch-bound GEMMs with the fewest FLOPs
  bool measures_launch = true;              // false: fewer than five GEMMs are launch-bound; `launch` is the GPU's own
  std::vector<EfficiencyPoint> efficiency;  // median per half-decade of FLOPs over compute-bound GEMMs
  std::optional<double> memory_efficiency{};  // median over memory-bound GEMMs of 64 MB or more
  FitQuality quality;                         // of gemm_time(); worst_at is in FLOPs
};

/// Fits the GEMMs of one number format; `gpu` provides the peak and the memory bandwidth. Raises InputError for a
/// format without a peak, for several formats, for GEMMs more than 5 % faster than the peak (with their line), and if
/// no GEMM is large enough.
[[nodiscard]] GemmFit fit_gemms(std::span<const GemmSample> samples, const GpuSpec& gpu);

/// The document with those of `gemm_efficiency:`, `launch_overhead:` and `memory_efficiency:` that were measured, and
/// their origins, to be included by a GPU file.
[[nodiscard]] Node gemm_profile(const GemmFit& fit, const std::string& source);

/// A text table of the fit.
[[nodiscard]] std::string fit_table(const GemmFit& fit);

}  // namespace moeplan::profiler
