#include "cuda_runtime/measure/machine_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "model/base/whole_numbers.hpp"
#include "model/costs/compute.hpp"
#include "model/text/unit_text.hpp"
#include "profiler/statistics.hpp"

namespace moeplan::runtime {

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

std::vector<profiler::MeasuredPoint> points_of(const std::vector<Sample>& samples, double Benchmark::*n) {
  std::vector<profiler::MeasuredPoint> out;
  for (const Sample& s : samples) out.push_back({Bytes(s.benchmark.*n), Seconds(s.time)});
  return out;
}

/// The quality of predicted times against measured ones; n in FLOPs.
profiler::FitQuality quality(const std::vector<Sample>& samples, const std::vector<double>& predicted) {
  profiler::FitQuality out;
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
  out.median_error = profiler::median(errors);
  out.r2 = all > 0 ? 1 - left / all : 0;
  return out;
}

/// The output tile size of grouped products. assumed: 128 x 128, the usual choice of GEMM libraries on GPUs. On a core,
/// the measured curve already includes the effect of blocking.
std::int64_t tile(const MeasuredMachine& machine) { return machine.has_gpus ? 128 : 1; }

/// The processor as the cost model sees it. Quantities not yet fitted are ideal.
GpuSpec spec_of(const MachineFit& fit, const MeasuredMachine& machine) {
  GpuSpec gpu{};
  gpu.peak[fit.dtype] = FlopsPerSecond(fit.peaks.at(fit.dtype));
  gpu.hbm_bandwidth = BytesPerSecond(fit.copy_rate);
  gpu.gemm_efficiency = fit.gemm.empty() ? std::vector<EfficiencyPoint>{{1, 1}} : fit.gemm;
  gpu.grouped_gemm_efficiency = fit.grouped_gemm.empty() ? std::vector<EfficiencyPoint>{{1, 1}} : fit.grouped_gemm;
  gpu.num_sms = machine.multiprocessors;
  gpu.tile_rows = gpu.tile_columns = tile(machine);
  return gpu;
}

/// The predicted time of one product or several, without the launch.
Seconds product_time(const GpuSpec& gpu, const Benchmark& b, double bytes) {
  const std::vector<GemmShape>& products = b.products;
  const auto whole = static_cast<std::int64_t>(bytes);
  return b.kind == Kind::GroupedGemm ? grouped_gemm_time(gpu, b.dtype, products, whole)
                                     : gemm_time(gpu, b.dtype, products.front(), whole);
}

/// The median fraction of the peak per half-decade of FLOPs, over times without the launch, for compute-bound products.
std::vector<EfficiencyPoint> efficiency(const std::vector<Sample>& samples, const MachineFit& fit,
                                        const MeasuredMachine& machine) {
  constexpr double kLeastShare = 0.1;  // least fraction of a time attributed to the product, however long the launch
  const GpuSpec perfect = spec_of(fit, machine);
  std::map<int, std::vector<Sample>> bins, by_bytes;
  for (const Sample& s : samples) {
    const bool flops_decide = s.benchmark.bytes / fit.copy_rate < s.time / 2;
    (flops_decide ? bins : by_bytes)[static_cast<int>(std::floor(2 * std::log10(s.benchmark.flops)))].push_back(s);
  }
  if (bins.empty()) bins = by_bytes;
  std::vector<EfficiencyPoint> out;
  for (const auto& [bin, members] : bins) {
    std::vector<double> shares, flops;
    for (const Sample& s : members) {
      const double math = std::max(s.time - fit.launch.value(), kLeastShare * s.time);
      shares.push_back(std::min(1.0, product_time(perfect, s.benchmark, 0).value() / math));
      flops.push_back(s.benchmark.flops);
    }
    out.push_back({profiler::median(flops), profiler::median(shares)});
  }
  return out;
}

RateFit product_fit(const std::string& what, const std::vector<Sample>& samples, const MachineFit& fit,
                    const MeasuredMachine& machine) {
  const GpuSpec gpu = spec_of(fit, machine);
  std::vector<double> predicted;
  double fastest = 0;
  for (const Sample& s : samples) {
    predicted.push_back(fit.launch.value() + product_time(gpu, s.benchmark, s.benchmark.bytes).value());
    fastest = std::max(fastest, s.benchmark.flops / s.time);
  }
  return {what, fit.launch, fastest, quality(samples, predicted)};
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

/// The GPU memory of the runtime, in addition to tensors.
void set_runtime_memory(Node& gpu, Node& origins) {
  Node& memory = gpu.set("runtime_memory", Node::map());
  memory.set("context", text("1 GB"));
  memory.set("communicator", text("134 MB"));
  memory.set("fragmentation", Node::number(0.05));
  origins.set("runtime_memory", text("assumed: a CUDA context with its libraries takes about 1 GB; not measured"));
  origins.set("runtime_memory.communicator",
              text("assumed: 4 MiB (NCCL_BUFFSIZE's default) for each of 16 channels and 2 neighbours"));
  origins.set("runtime_memory.fragmentation", text("assumed: 5 % of what comes and goes; not measured"));
}

std::string source_of(const MeasuredMachine& m) {
  const std::string on = m.has_gpus ? fmt::format("{} x {}", m.used(), m.processor)
                                    : fmt::format("{} cores of {}", m.processors, m.processor);
  std::string out = fmt::format("moeplan profile: {} ranks on {}", m.ranks, on);
  if (m.nodes > 1) out += fmt::format(" in each of {} machines", m.nodes);
  if (m.has_gpus) out += fmt::format(", {}", m.clocks);
  return out;
}

double fastest(const MachineFit& fit, bool between_machines) {
  double out = 0;
  for (const profiler::CollectiveFit& c : fit.collectives) {
    if ((c.shape.nodes > 1) == between_machines) out = std::max(out, (c.largest / c.curve.time(c.largest)).value());
  }
  return out;
}

/// The links of the cluster. Predictions of collectives use the measured curves instead.
void set_machine(Node& out, const MachineFit& fit, const MeasuredMachine& m, Node& origins) {
  const bool are_shared = !m.has_gpus || m.ranks_per_processor() > 1 || fit.collectives.empty();
  Node& machine = out.set("template", Node::map());
  machine.set("nodes", Node::integer(m.nodes));
  machine.set("gpus_per_node", Node::integer(m.used()));
  Node& inside = machine.set("intra_node", Node::map());
  inside.set("kind", text("nvswitch"));
  // The bandwidth of collectives is measured on all ranks at once, so that shared links must not account for sharing
  // again.
  const double each = std::max(fit.copy_rate, fastest(fit, false));
  const double inner = are_shared ? each * static_cast<double>(m.ranks) : fastest(fit, m.used() == 1);
  inside.set("bandwidth", text(four_digits(inner) + " B/s"));
  inside.set("latency", Node::integer(0));
  origins.set(
      "template.intra_node.bandwidth",
      text(are_shared
               ? "assumed: as much for each rank as one copies, so that measured collectives, which shared it, decide"
               : "assumed: bytes of the fastest collective, so that measured collectives decide"));
  if (m.nodes == 1) return;
  Node& fabric = machine.set("fabric", Node::map());
  fabric.set("kind", text("rail_optimised"));
  fabric.set("nics_per_node", Node::integer(m.used()));
  fabric.set("nic_bandwidth", text(four_digits(fastest(fit, true)) + " B/s"));
  fabric.set("latency", Node::integer(0));
  fabric.set("oversubscription", Node::integer(1));
  fabric.set("nodes_per_leaf", Node::integer(m.nodes));
  origins.set("template.fabric",
              text("assumed: a NIC for each GPU, as fast as the fastest collective between machines, so that measured "
                   "collectives decide"));
}

/// The line through the times of memory-bound kernels; sets launch, kernel_rate and copy_rate.
profiler::CurveFit fit_kernels(const std::vector<Sample>& kernels, const std::vector<Sample>& copies, MachineFit& out) {
  // A layer executes each kernel about equally often, so the bandwidth is that of all kernels together.
  std::map<std::size_t, profiler::MeasuredPoint> together;
  for (const Sample& s : kernels) {
    profiler::MeasuredPoint& p = together[s.benchmark.size];
    p.n += Bytes(s.benchmark.bytes);
    p.time += Seconds(s.time);
  }
  std::vector<profiler::MeasuredPoint> sums;
  const auto kinds = static_cast<double>(kernels.size()) / static_cast<double>(together.size());
  for (const auto& [size, p] : together) sums.push_back({p.n / kinds, p.time / kinds});
  profiler::CurveFit kernel = profiler::fit_line(sums);
  out.launch = kernel.pieces.front().cost.alpha;
  out.kernel_rate = 1 / kernel.pieces.front().cost.beta.value();
  out.copy_rate = std::max(out.kernel_rate, copies.back().benchmark.bytes / copies.back().time);
  return kernel;
}

/// The time of products concurrent with an all-to-all, relative to the products alone; none without measurements. Each
/// participating rank multiplies, and the slowdown excludes the sharing of a GPU's throughput between ranks.
std::optional<double> slowdown(const std::vector<Sample>& concurrent, const std::vector<Sample>& products,
                               const MeasuredMachine& machine) {
  std::optional<double> out;
  const auto sharing = [&](const Benchmark& b) {
    return machine.has_gpus ? static_cast<double>(std::min(b.ranks, machine.ranks_per_processor())) : 1.0;
  };
  for (const Sample& shared : concurrent) {
    for (const Sample& alone : products) {
      if (alone.benchmark.size != shared.benchmark.size) continue;
      out = std::max(1.0, shared.time / (alone.time * sharing(shared.benchmark)));
    }
  }
  return out;
}

/// The factor on the time of an all-to-all while its ranks multiply; none if the same all-to-all was not measured
/// alone.
///
/// Products and all-to-all start together. Assumed: where the all-to-all lasts longer than the products, the rest of it
/// runs as fast as alone, so that of its time t, of which an overlap o is concurrent with products, t - o + o / factor
/// is the time alone. `products`: by the same ranks, during that all-to-all.
std::optional<double> exchange_slowdown(const std::vector<Sample>& concurrent, const std::vector<Sample>& products,
                                        const std::vector<Sample>& collectives) {
  constexpr double kMost = 10;  // assumed: above, an all-to-all waits for the end of the products
  std::optional<double> out;
  for (const Sample& shared : concurrent) {
    const Benchmark& b = shared.benchmark;
    for (const Sample& alone : collectives) {
      const Benchmark& a = alone.benchmark;
      const bool is_same =
          a.collective == b.collective && a.bytes == b.bytes && a.ranks == b.ranks && a.nodes == b.nodes;
      if (!is_same || products.empty()) continue;
      const auto count = static_cast<double>(sizes_of(b.scale).concurrent_products);
      const double overlap = std::min(shared.time, count * products.front().time);
      const double progress = overlap - std::max(0.0, shared.time - alone.time);
      out = overlap / std::max(progress, overlap / kMost);
    }
  }
  return out;
}

std::vector<profiler::CollectiveSample> collective_samples(const std::vector<Sample>& samples) {
  std::vector<profiler::CollectiveSample> out;
  for (const Sample& s : samples) {
    out.push_back({s.benchmark.collective,
                   {s.benchmark.ranks, s.benchmark.nodes},
                   Bytes(s.benchmark.bytes),
                   Seconds(s.time),
                   false,
                   std::string(name_of<Dtype>(kDtypeNames, s.benchmark.dtype)),
                   "",
                   {}});
  }
  return out;
}

}  // namespace

std::int64_t MeasuredMachine::used() const {
  const std::int64_t local = ranks / nodes;
  return has_gpus && local > processors ? 1 : std::min(processors, local);
}

std::int64_t MeasuredMachine::ranks_per_processor() const { return ceil_div(ranks / nodes, used()); }

Node processor_profile(const MachineFit& f, const MeasuredMachine& m) {
  Node gpu = Node::map();
  gpu.set("name", text(m.has_gpus ? m.processor : "core of " + m.processor));
  Node& peaks = gpu.set("peak", Node::map());
  for (const auto& [dtype, rate] : f.peaks) {
    peaks.set(std::string(name_of<Dtype>(kDtypeNames, dtype)), text(four_digits(rate) + " FLOP/s"));
  }
  gpu.set("memory", text(four_digits(m.memory) + " B"));
  gpu.set("hbm_bandwidth", text(four_digits(f.copy_rate) + " B/s"));
  gpu.set("gemm_efficiency", efficiency_node(f.gemm));
  gpu.set("grouped_gemm_efficiency", efficiency_node(f.grouped_gemm));
  gpu.set("attention_efficiency", Node::number(0.5));
  gpu.set("memory_efficiency", Node::number(std::min(1.0, f.kernel_rate / f.copy_rate)));
  gpu.set("launch_overhead", text(four_digits(f.launch.value()) + " s"));
  gpu.set("num_sms", Node::integer(m.multiprocessors));
  for (const char* one : {"tile_rows", "tile_columns"}) gpu.set(one, Node::integer(tile(m)));
  gpu.set("slowdown_beside_communication", Node::number(f.slowdown.value_or(1)));
  if (f.exchange_slowdown) gpu.set("slowdown_beside_computation", Node::number(*f.exchange_slowdown));
  Node& codecs = gpu.set("codec_throughput", Node::map());
  for (const auto& [name, rate] : f.codecs) codecs.set(name, text(four_digits(rate) + " B/s"));
  Node origins = Node::map();
  origins.set("", text(m.has_gpus ? fmt::format("measured: moeplan profile on {}, {}", m.processor, m.clocks)
                                  : "measured: moeplan profile on " + m.processor));
  if (f.sustained) {
    origins.set("peak",
                text(fmt::format("measured: single products, at the clocks of short bursts; {} products in a row "
                                 "run at {} FLOP/s",
                                 f.sustained_products, four_digits(*f.sustained))));
  }
  origins.set("attention_efficiency", text("assumed: half of the peak; attention is not executed"));
  if (m.has_gpus) {
    for (const char* one : {"tile_rows", "tile_columns"}) {
      origins.set(one, text("assumed: 128 x 128 output tiles, the usual choice of GEMM libraries"));
    }
    set_runtime_memory(gpu, origins);
  } else {
    origins.set("memory", text("assumed: 1 GB a core, room for an executed layer"));
    for (const char* one : {"num_sms", "tile_rows", "tile_columns"}) {
      origins.set(one, text("assumed: by definition, the measured curve has whatever blocks there are"));
    }
  }
  if (!f.slowdown) {
    origins.set("slowdown_beside_communication", text("assumed: none; with one rank there is no communication"));
  }
  if (f.exchange_slowdown) {
    origins.set("slowdown_beside_computation",
                text("measured: an all-to-all while products run, against the same all-to-all alone"));
  }
  gpu.set("origins", std::move(origins));
  return gpu;
}

MachineFit fit_machine(const std::vector<Benchmark>& benchmarks, const std::vector<Measured>& measured,
                       const MeasuredMachine& machine) {
  MachineFit out;
  const auto of = [&](Kind kind, const std::string& name = "") { return samples_of(benchmarks, measured, kind, name); };
  const std::vector<Sample> gemms = of(Kind::Gemm), grouped = of(Kind::GroupedGemm), kernels = of(Kind::Kernel);
  out.dtype = gemms.front().benchmark.dtype;
  for (const std::vector<Sample>& products : {gemms, grouped, of(Kind::Peak)}) {
    for (const Sample& s : products) {
      double& peak = out.peaks[s.benchmark.dtype];
      peak = std::max(peak, s.benchmark.flops / s.time);
    }
  }
  for (const Sample& s : of(Kind::Sustained)) {
    out.sustained = s.benchmark.flops / s.time;
    out.sustained_products = sizes_of(s.benchmark.scale).sustained;
  }
  const profiler::CurveFit kernel = fit_kernels(kernels, of(Kind::Kernel, "copy"), out);
  const std::vector<EfficiencyPoint> single = efficiency(gemms, out, machine);
  out.grouped_gemm = efficiency(grouped, out, machine);
  out.gemm = single;
  out.fits = {product_fit("products", gemms, out, machine),
              product_fit("grouped products", grouped, out, machine),
              {"memory-bound kernels together", out.launch, out.kernel_rate, kernel.quality},
              {"and one by one", out.launch, out.kernel_rate,
               profiler::quality_of(kernel, points_of(kernels, &Benchmark::bytes))}};
  for (const Sample& s : of(Kind::Codec)) {
    const double rate = s.benchmark.bytes / std::max(s.time - out.launch.value(), s.time / 2);
    out.codecs.emplace_back(s.benchmark.name, rate);
  }
  const std::vector<Sample> concurrent = of(Kind::Concurrent);
  out.slowdown = slowdown(concurrent, grouped, machine);
  out.exchange_slowdown = exchange_slowdown(of(Kind::ConcurrentExchange), concurrent, of(Kind::Collective));
  const std::vector<profiler::CollectiveSample> collectives = collective_samples(of(Kind::Collective));
  if (!collectives.empty()) out.collectives = profiler::fit_collectives(collectives);
  if (const auto pairs = of(Kind::Pair); !pairs.empty()) {
    out.pairs = profiler::fit_line(points_of(pairs, &Benchmark::bytes));
    const AlphaBeta& cost = out.pairs.pieces.front().cost;
    out.fits.push_back({"all-to-all and all-gather at once", cost.alpha, 1 / cost.beta.value(), out.pairs.quality});
  }
  return out;
}

Node machine_profile(const MachineFit& fit, const MeasuredMachine& machine) {
  Node out = Node::map(), origins = Node::map();
  out.set("name", text(machine.has_gpus ? "gpus" : "host"));
  const std::string source = source_of(machine);
  double startup = 0;
  if (!fit.collectives.empty()) {
    Node collectives = profiler::collective_profile(fit.collectives, source);
    out.set("collectives", *collectives.find("collectives"));
    startup = fit.collectives.front().curve.pieces.front().cost.alpha.value();
  }
  out.set("gpu", processor_profile(fit, machine));
  out.set("ranks_per_gpu", Node::integer(machine.ranks_per_processor()));
  origins.set("", text("measured: " + source));
  if (!fit.collectives.empty()) origins.set("collectives", text("measured: " + source));
  set_machine(out, fit, machine, origins);
  out.set("collective_startup", text(four_digits(startup) + " s"));
  if (fit.collectives.empty()) origins.set("collective_startup", text("assumed: none; with one rank nothing is sent"));
  out.set("message_overhead", Node::integer(0));
  origins.set("message_overhead", text("assumed: within the measured start-up"));
  out.set("origins", std::move(origins));
  return out;
}

std::string machine_table(const MachineFit& fit, const std::vector<Measured>& measured) {
  std::string out = fmt::format("{:<30}{:>7} {:>11}{:>16}{:>9}{:>9}{:>9}\n", "computation and pairs", "points",
                                "launch", "rate", "r2", "median", "worst");
  for (const RateFit& f : fit.fits) {
    const bool is_product = f.what.ends_with("products");
    out += fmt::format("{:<30}{:>7} {:>11}{:>16}{:>9.5f}{:>8.1f}%{:>8.1f}%\n", f.what, f.quality.points,
                       human(f.launch), is_product ? human(FlopsPerSecond(f.rate)) : human(BytesPerSecond(f.rate)),
                       f.quality.r2, 100 * f.quality.median_error, 100 * f.quality.worst_error);
  }
  for (const auto& [name, rate] : fit.codecs) {
    out += fmt::format("{:<30}{:>7} {:>11}{:>16}\n", "codec " + name, 1, "", human(BytesPerSecond(rate)));
  }
  for (const auto& [dtype, rate] : fit.peaks) {
    out += fmt::format("{:<30}{:>7} {:>11}{:>16}\n",
                       fmt::format("fastest product in {}", name_of<Dtype>(kDtypeNames, dtype)), 1, "",
                       human(FlopsPerSecond(rate)));
  }
  if (fit.sustained) {
    out += fmt::format("{:<30}{:>7} {:>11}{:>16}\n", fmt::format("{} products in a row", fit.sustained_products), 1, "",
                       human(FlopsPerSecond(*fit.sustained)));
  }
  if (fit.slowdown)
    out += fmt::format("products concurrent with an all-to-all take {:.2f} times as long\n", *fit.slowdown);
  if (fit.exchange_slowdown)
    out += fmt::format("an all-to-all concurrent with products takes {:.2f} times as long\n", *fit.exchange_slowdown);
  out += "\n";
  if (!fit.collectives.empty()) out += profiler::fit_table(fit.collectives);
  std::map<std::string, std::size_t> reasons;
  for (const Measured& m : measured) ++reasons[m.stopped_by];
  out += fmt::format("{} measurements:", measured.size());
  for (const auto& [reason, count] : reasons)
    out += fmt::format(" {} {}", count, reason.empty() ? "without a time" : reason);
  return out + " (precise: the median's 95% interval is within 5%)\n";
}

}  // namespace moeplan::runtime
