#include "cli/measure/machine_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "model/base/unit_text.hpp"
#include "model/base/whole_numbers.hpp"
#include "model/costs/compute.hpp"
#include "profiler/statistics.hpp"

namespace moeplan {

namespace {

using Kind = Benchmark::Kind;

struct Sample {
  const Benchmark& benchmark;
  double time;
};

std::vector<Sample> samples_of(const std::vector<Benchmark>& benchmarks, const std::vector<Measured>& measured,
                               Kind kind, const std::string& name = "") {
  std::vector<Sample> out;
  for (std::size_t i = 0; i < benchmarks.size(); ++i) {
    const bool is_wanted = benchmarks[i].kind == kind && (name.empty() || benchmarks[i].name == name);
    if (is_wanted && measured[i].median > 0) out.push_back({benchmarks[i], measured[i].median});
  }
  return out;
}

std::vector<MeasuredPoint> points_of(const std::vector<Sample>& samples, double Benchmark::*n) {
  std::vector<MeasuredPoint> out;
  for (const Sample& s : samples) out.push_back({Bytes(s.benchmark.*n), Seconds(s.time)});
  return out;
}

/// How well predicted times meet measured ones; n by FLOPs.
FitQuality quality(const std::vector<Sample>& samples, const std::vector<double>& predicted) {
  FitQuality out;
  out.points = samples.size();
  std::vector<double> errors;
  double mean = 0, left = 0, all = 0;
  for (const Sample& s : samples) mean += std::log(s.time) / static_cast<double>(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    errors.push_back(std::abs(predicted[i] / samples[i].time - 1));
    if (errors.back() >= out.worst_error) {
      out.worst_error = errors.back();
      out.worst_at = Bytes(samples[i].benchmark.flops);
    }
    left += std::pow(std::log(predicted[i] / samples[i].time), 2);
    all += std::pow(std::log(samples[i].time) - mean, 2);
  }
  out.median_error = median(errors);
  out.r2 = all > 0 ? 1 - left / all : 0;
  return out;
}

/// Median share of the peak by half-decade of FLOPs, of times without the launch.
std::vector<EfficiencyPoint> efficiency(const std::vector<Sample>& samples, double peak, Seconds launch) {
  constexpr double kLeastShare = 0.1;  // of a time that is taken for the product's, however long the launch
  std::map<int, std::vector<Sample>> bins;
  for (const Sample& s : samples) bins[static_cast<int>(std::floor(2 * std::log10(s.benchmark.flops)))].push_back(s);
  std::vector<EfficiencyPoint> out;
  for (const auto& [bin, members] : bins) {
    std::vector<double> shares, flops;
    for (const Sample& s : members) {
      const double math = std::max(s.time - launch.value(), kLeastShare * s.time);
      shares.push_back(std::min(1.0, s.benchmark.flops / math / peak));
      flops.push_back(s.benchmark.flops);
    }
    out.push_back({median(flops), median(shares)});
  }
  return out;
}

RateFit product_fit(const std::string& what, const std::vector<Sample>& samples,
                    const std::vector<EfficiencyPoint>& curve, double peak, Seconds launch) {
  std::vector<double> predicted;
  for (const Sample& s : samples) {
    GpuSpec gpu{};
    gpu.gemm_efficiency = curve;
    predicted.push_back(launch.value() + s.benchmark.flops / (peak * gemm_efficiency(gpu, s.benchmark.flops)));
  }
  return {what, launch, peak * curve.back().efficiency, quality(samples, predicted)};
}

std::string four_digits(double v) { return fmt::format("{:.4g}", v); }

Node efficiency_node(const std::vector<EfficiencyPoint>& curve) {
  Node out = Node::list();
  for (const EfficiencyPoint& p : curve) {
    Node point = Node::map();
    point.set("flops", Node::number(p.flops));
    point.set("efficiency", Node::number(p.efficiency));
    out.items.push_back(std::move(point));
  }
  return out;
}

Node text(const std::string& t) { return Node::text(t); }

Node gpu_node(const MachineFit& f, const std::string& processor, double memory) {
  Node gpu = Node::map();
  gpu.set("name", text("core of " + processor));
  gpu.set("peak", Node::map()).set("fp32", text(four_digits(f.peak) + " FLOP/s"));
  gpu.set("memory", text(four_digits(memory) + " B"));
  gpu.set("hbm_bandwidth", text(four_digits(f.copy_rate) + " B/s"));
  gpu.set("gemm_efficiency", efficiency_node(f.gemm));
  gpu.set("grouped_gemm_efficiency", efficiency_node(f.grouped_gemm));
  gpu.set("attention_efficiency", Node::number(0.5));
  gpu.set("memory_efficiency", Node::number(std::min(1.0, f.kernel_rate / f.copy_rate)));
  gpu.set("launch_overhead", text(four_digits(f.launch.value()) + " s"));
  for (const char* one : {"num_sms", "tile_rows", "tile_columns"}) gpu.set(one, Node::integer(1));
  gpu.set("slowdown_beside_communication", Node::number(f.slowdown));
  Node& codecs = gpu.set("codec_throughput", Node::map());
  for (const auto& [name, rate] : f.codecs) codecs.set(name, text(four_digits(rate) + " B/s"));
  Node& origins = gpu.set("origins", Node::map());
  origins.set("", text("measured: moeplan profile on " + processor));
  origins.set("memory", text("assumed: 1 GB a core, room for an executed layer"));
  origins.set("attention_efficiency", text("assumed: half of the peak; attention is not executed"));
  for (const char* one : {"num_sms", "tile_rows", "tile_columns"}) {
    origins.set(one, text("assumed: by definition, the measured curve has whatever blocks there are"));
  }
  return gpu;
}

}  // namespace

MachineFit fit_machine(const std::vector<Benchmark>& benchmarks, const std::vector<Measured>& measured) {
  MachineFit out;
  const auto of = [&](Kind kind, const std::string& name = "") { return samples_of(benchmarks, measured, kind, name); };
  const std::vector<Sample> gemms = of(Kind::Gemm), grouped = of(Kind::GroupedGemm), kernels = of(Kind::Kernel);
  for (const auto* products : {&gemms, &grouped}) {
    for (const Sample& s : *products) out.peak = std::max(out.peak, s.benchmark.flops / s.time);
  }
  // A layer runs each kernel about as often as the others: the rate is that of all of them together.
  std::map<std::size_t, MeasuredPoint> together;
  for (const Sample& s : kernels) {
    MeasuredPoint& p = together[s.benchmark.size];
    p.n += Bytes(s.benchmark.bytes);
    p.time += Seconds(s.time);
  }
  std::vector<MeasuredPoint> sums;
  const auto kinds = static_cast<double>(kernels.size()) / static_cast<double>(together.size());
  for (const auto& [size, p] : together) sums.push_back({p.n / kinds, p.time / kinds});
  const CurveFit kernel = fit_line(sums);
  const std::vector<Sample> copies = of(Kind::Kernel, "copy");
  out.launch = kernel.pieces.front().cost.alpha;
  out.kernel_rate = 1 / kernel.pieces.front().cost.beta.value();
  out.copy_rate = std::max(out.kernel_rate, copies.back().benchmark.bytes / copies.back().time);
  out.gemm = efficiency(gemms, out.peak, out.launch);
  out.grouped_gemm = efficiency(grouped, out.peak, out.launch);
  out.fits = {
      product_fit("products", gemms, out.gemm, out.peak, out.launch),
      product_fit("grouped products", grouped, out.grouped_gemm, out.peak, out.launch),
      {"memory-bound kernels together", out.launch, out.kernel_rate, kernel.quality},
      {"and one by one", out.launch, out.kernel_rate, quality_of(kernel, points_of(kernels, &Benchmark::bytes))}};
  for (const Sample& s : of(Kind::Codec)) {
    const double rate = s.benchmark.bytes / std::max(s.time - out.launch.value(), s.time / 2);
    out.codecs.emplace_back(s.benchmark.name, rate);
  }
  for (const Sample& beside : of(Kind::Beside)) {
    for (const Sample& alone : gemms) {
      if (alone.benchmark.size == beside.benchmark.size) out.slowdown = std::max(1.0, beside.time / alone.time);
    }
  }
  std::vector<CollectiveSample> collectives;
  for (const Sample& s : of(Kind::Collective)) {
    collectives.push_back({s.benchmark.collective,
                           {s.benchmark.ranks, 1},
                           Bytes(s.benchmark.bytes),
                           Seconds(s.time),
                           false,
                           "fp32",
                           "",
                           {}});
  }
  if (!collectives.empty()) out.collectives = fit_collectives(collectives);
  if (const auto pairs = of(Kind::Pair); !pairs.empty()) {
    out.pairs = fit_line(points_of(pairs, &Benchmark::bytes));
    const AlphaBeta& cost = out.pairs.pieces.front().cost;
    out.fits.push_back({"all-to-all beside all-gather", cost.alpha, 1 / cost.beta.value(), out.pairs.quality});
  }
  return out;
}

Node machine_profile(const MachineFit& fit, const std::string& processor, std::int64_t cores, std::int64_t ranks) {
  constexpr double kMemory = 1e9;  // bytes a core
  const std::int64_t used = std::min(cores, ranks);
  Node out = Node::map();
  out.set("name", text("host"));
  const std::string source = fmt::format("moeplan profile: {} ranks on {} cores of {}", ranks, cores, processor);
  double startup = 0, fastest = 0;
  if (!fit.collectives.empty()) {
    Node collectives = collective_profile(fit.collectives, source);
    out.set("collectives", *collectives.find("collectives"));
    startup = fit.collectives.front().curve.pieces.front().cost.alpha.value();
    for (const CollectiveFit& c : fit.collectives) {
      fastest = std::max(fastest, (c.largest / c.curve.time(c.largest)).value());
    }
  }
  out.set("gpu", gpu_node(fit, processor, kMemory));
  out.set("ranks_per_gpu", Node::integer(ceil_div(ranks, used)));
  Node& machine = out.set("template", Node::map());
  machine.set("nodes", Node::integer(1));
  machine.set("gpus_per_node", Node::integer(used));
  Node& inside = machine.set("intra_node", Node::map());
  inside.set("kind", text("nvswitch"));
  // What collectives reach is measured with all ranks at once: the links must not count their sharing again.
  inside.set("bandwidth", text(four_digits(std::max(fit.copy_rate, fastest) * static_cast<double>(ranks)) + " B/s"));
  inside.set("latency", Node::integer(0));
  out.set("collective_startup", text(four_digits(startup) + " s"));
  out.set("message_overhead", Node::integer(0));
  Node& origins = out.set("origins", Node::map());
  origins.set("", text("measured: " + source));
  origins.set("collectives", text("measured: " + source));
  origins.set(
      "template.intra_node.bandwidth",
      text("assumed: as much for each rank as a core copies, so that measured collectives, which shared it, decide"));
  origins.set("message_overhead", text("assumed: within the measured start-up"));
  return out;
}

std::string machine_table(const MachineFit& fit, const std::vector<Measured>& measured) {
  std::string out = fmt::format("{:<30}{:>7} {:>11}{:>16}{:>9}{:>9}{:>9}\n", "computation and pairs", "points",
                                "launch", "rate", "r2", "median", "worst");
  for (const RateFit& f : fit.fits) {
    const bool is_product = f.what.ends_with("products");
    out +=
        fmt::format("{:<30}{:>7} {:>11}{:>16}{:>9.5f}{:>8.1f}%{:>8.1f}%\n", f.what, f.quality.points, human(f.launch),
                    is_product ? fmt::format("{:.2f} GFLOP/s", f.rate * 1e-9) : human(BytesPerSecond(f.rate)),
                    f.quality.r2, 100 * f.quality.median_error, 100 * f.quality.worst_error);
  }
  for (const auto& [name, rate] : fit.codecs) {
    out += fmt::format("{:<30}{:>7} {:>11}{:>16}\n", "codec " + name, 1, "", human(BytesPerSecond(rate)));
  }
  out += fmt::format("a product beside an all-to-all takes {:.2f} times as long\n\n", fit.slowdown);
  if (!fit.collectives.empty()) out += fit_table(fit.collectives);
  std::map<std::string, std::size_t> reasons;
  for (const Measured& m : measured) ++reasons[m.stopped_by];
  out += fmt::format("{} measurements:", measured.size());
  for (const auto& [reason, count] : reasons)
    out += fmt::format(" {} {}", count, reason.empty() ? "without a time" : reason);
  return out + " (precise: the median's 95% interval is within 5%)\n";
}

}  // namespace moeplan
