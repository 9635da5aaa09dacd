#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "model/costs/compute.hpp"
#include "model/text/reader.hpp"
#include "model/text/unit_text.hpp"
#include "profiler/fits/profile.hpp"
#include "profiler/statistics.hpp"

namespace moeplan::profiler {

namespace {

constexpr std::size_t kSmallest = 20;      // number of GEMMs whose median time is the launch overhead
constexpr double kLaunchBound = 0.02;      // largest fraction of a launch-bound GEMM's time that its work takes at the
                                           // GPU's peak, i.e. 10% at a fifth of the peak
constexpr std::size_t kLeastInBucket = 5;  // fewest GEMMs for a median, e.g. of a half-decade
constexpr double kLargeBytes = 64e6;       // larger than every GPU's cache
constexpr double kFastestShare = 1.05;     // fraction of the peak: boost clocks slightly exceed the datasheet's

double flops_of(const GemmSample& s) {
  return 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
}

double bytes_of(const GemmSample& s, Dtype dtype) {
  const auto m = static_cast<double>(s.m), n = static_cast<double>(s.n), k = static_cast<double>(s.k);
  return (m * k + k * n + m * n) * static_cast<double>(size_of(dtype));
}

Dtype dtype_of(std::span<const GemmSample> samples, const GpuSpec& gpu) {
  for (const GemmSample& s : samples) {
    if (s.dtype == samples.front().dtype) continue;
    throw InputError(Diagnostic{s.where, "dtype",
                                fmt::format("is {} after {}: one profile is of one format; cut the file in two",
                                            s.dtype, samples.front().dtype)});
  }
  for (const auto& [dtype, name] : kDtypeNames) {
    if (name != samples.front().dtype) continue;
    if (gpu.peak.contains(dtype)) return dtype;
  }
  throw InputError(
      Diagnostic{samples.front().where, "dtype", fmt::format("{} has no peak on {}", samples.front().dtype, gpu.name)});
}

/// The launch overhead; none if too few GEMMs are launch-bound.
std::optional<Seconds> launch_of(std::span<const GemmSample> samples, const GpuSpec& gpu, Dtype dtype) {
  const double peak = gpu.peak.at(dtype).value(), bandwidth = gpu.hbm_bandwidth.value();
  std::vector<std::pair<double, double>> by_flops;
  for (const GemmSample& s : samples) {
    const double at_peak = std::max(flops_of(s) / peak, bytes_of(s, dtype) / bandwidth);
    if (at_peak <= kLaunchBound * s.time.value()) by_flops.emplace_back(flops_of(s), s.time.value());
  }
  if (by_flops.size() < kLeastInBucket) return std::nullopt;
  std::sort(by_flops.begin(), by_flops.end());
  std::vector<double> times;
  for (std::size_t i = 0; i < std::min(kSmallest, by_flops.size()); ++i) times.push_back(by_flops[i].second);
  return Seconds(median(std::move(times)));
}

}  // namespace

GemmFit fit_gemms(std::span<const GemmSample> samples, const GpuSpec& gpu) {
  const Dtype dtype = dtype_of(samples, gpu);
  const double peak = gpu.peak.at(dtype).value(), bandwidth = gpu.hbm_bandwidth.value();
  const std::optional<Seconds> launch = launch_of(samples, gpu, dtype);
  GemmFit fit{.dtype = dtype,
              .launch = launch.value_or(gpu.launch_overhead),
              .measures_launch = launch.has_value(),
              .efficiency = {},
              .quality = {}};
  Diagnostics wrong;
  std::map<int, std::vector<double>> by_half_decade;
  std::vector<double> memory;
  for (const GemmSample& s : samples) {
    const double flops = flops_of(s), bytes = bytes_of(s, dtype), time = s.time.value();
    if (flops / time > kFastestShare * peak) {
      wrong.add(
          s.where, "",
          fmt::format("is impossible: {} of {}", human(FlopsPerSecond(flops / time)), human(FlopsPerSecond(peak))));
    }
    const double net = time - fit.launch.value();
    if (net <= 0) continue;
    if (bytes / bandwidth < time / 2) {
      by_half_decade[static_cast<int>(std::floor(2 * std::log10(flops)))].push_back(flops / (net * peak));
    }
    if (bytes >= kLargeBytes && bytes / bandwidth >= 2 * flops / peak) memory.push_back(bytes / (net * bandwidth));
  }
  wrong.throw_if_any();
  for (auto& [half_decade, shares] : by_half_decade) {
    if (shares.size() < kLeastInBucket) continue;
    const double share = std::clamp(median(std::move(shares)), 1e-6, 1.0);
    fit.efficiency.push_back({std::pow(10, half_decade / 2.0 + 0.25), share});
  }
  if (fit.efficiency.empty()) {
    throw InputError(
        Diagnostic{samples.front().where, "",
                   fmt::format("and the rest: no {} GEMMs of about one size are decided by FLOPs; measure larger ones",
                               kLeastInBucket)});
  }
  if (memory.size() >= kLeastInBucket) fit.memory_efficiency = std::min(1.0, median(std::move(memory)));
  GpuSpec fitted = gpu;
  fitted.gemm_efficiency = fit.efficiency;
  fitted.launch_overhead = fit.launch;
  std::vector<double> errors;
  double mean = 0, left = 0, all = 0;
  for (const GemmSample& s : samples) mean += std::log(s.time.value()) / static_cast<double>(samples.size());
  for (const GemmSample& s : samples) {
    const auto bytes = static_cast<std::int64_t>(bytes_of(s, dtype));
    const double ratio = gemm_time(fitted, dtype, {s.m, s.n, s.k}, bytes) / s.time;
    errors.push_back(std::abs(ratio - 1));
    left += std::pow(std::log(ratio), 2);
    all += std::pow(std::log(s.time.value()) - mean, 2);
    if (errors.back() <= fit.quality.worst_error) continue;
    fit.quality.worst_error = errors.back();
    fit.quality.worst_at = Bytes(flops_of(s));
  }
  fit.quality.points = samples.size();
  fit.quality.median_error = median(std::move(errors));
  fit.quality.r2 = all > 0 ? 1 - left / all : 0;
  return fit;
}

Node gemm_profile(const GemmFit& fit, const std::string& source) {
  Node curve = Node::list();
  for (const EfficiencyPoint& p : fit.efficiency) {
    Node point = Node::map();
    point.set("flops", Node::text(fmt::format("{:.3g}", p.flops)));
    point.set("efficiency", Node::text(fmt::format("{:.3g}", p.efficiency)));
    for (Entry& e : point.entries) e.value.is_string = false;
    curve.items.push_back(std::move(point));
  }
  Node profile = Node::map(), origins = Node::map();
  const std::string from = fmt::format("measured: {} ({})", source, name_of<Dtype>(kDtypeNames, fit.dtype));
  profile.set("gemm_efficiency", std::move(curve));
  profile.set("operators", Node::text("none"));  // else the models of the GPU's file would answer, not these figures
  origins.set("gemm_efficiency", Node::text(from + ", median by half-decade of FLOPs"));
  if (fit.measures_launch) {
    profile.set("launch_overhead", Node::text(fmt::format("{:.4g} us", fit.launch.value() * 1e6)));
    origins.set("launch_overhead", Node::text(from + ", median of the 20 smallest GEMMs"));
  }
  if (fit.memory_efficiency) {
    Node share = Node::text(fmt::format("{:.3g}", *fit.memory_efficiency));
    share.is_string = false;
    profile.set("memory_efficiency", std::move(share));
    origins.set("memory_efficiency", Node::text(from + ", GEMMs of 64 MB and more that bytes decide"));
  }
  profile.set("origins", std::move(origins));
  return profile;
}

std::string fit_table(const GemmFit& fit) {
  std::string out = fmt::format("{} GEMMs: launch {}{}", name_of<Dtype>(kDtypeNames, fit.dtype), human(fit.launch),
                                fit.measures_launch ? "" : " (the GPU's file: no GEMM here is small enough to tell)");
  if (fit.memory_efficiency) out += fmt::format(", {:.1f}% of the memory's bandwidth", 100 * *fit.memory_efficiency);
  out += fmt::format("\n{:>12}{:>12}\n", "FLOPs", "of peak");
  for (const EfficiencyPoint& p : fit.efficiency)
    out += fmt::format("{:>12.3g}{:>11.1f}%\n", p.flops, 100 * p.efficiency);
  out += fmt::format("{} points, r2 {:.5f}, residuals: median {:.1f}%, worst {:.1f}% at {:.3g} FLOPs\n",
                     fit.quality.points, fit.quality.r2, 100 * fit.quality.median_error, 100 * fit.quality.worst_error,
                     fit.quality.worst_at.value());
  return out;
}

}  // namespace moeplan::profiler
