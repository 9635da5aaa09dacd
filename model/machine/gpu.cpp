#include "model/machine/gpu.hpp"

#include <fmt/format.h>

#include "model/text/origins.hpp"

namespace moeplan {

namespace {

constexpr double kLeastShare = 1e-6;  // fraction of a peak or a bandwidth; smaller values are errors
constexpr double kMostFlops = 1e24;   // of one GEMM
/// CPU ranks that share cores with their own communication were measured above 100.
constexpr double kMostSlowdown = 1e6;

std::map<Dtype, FlopsPerSecond> read_peak(MapReader peak) {
  std::map<Dtype, FlopsPerSecond> out;
  for (const auto& [dtype, name] : kDtypeNames) {
    if (const auto rate = peak.quantity_or<FlopsPerSecond>(name, FlopsPerSecond(0), Sign::Positive); peak.has(name)) {
      out[dtype] = rate;
    }
  }
  peak.finish();
  return out;
}

/// A constant, or a curve of points with ascending flops.
std::vector<EfficiencyPoint> read_efficiency(MapReader& gpu, std::string_view key) {
  const Node* node = gpu.find(key);
  if (!node || node->kind != Node::Kind::List) return {{1, gpu.number(key, kLeastShare, 1)}};
  std::vector<EfficiencyPoint> curve;
  for (const auto& [item, path] : gpu.list(key)) {
    MapReader point(*item, path, gpu.diagnostics());
    const EfficiencyPoint p{.flops = point.number("flops", 1, kMostFlops),
                            .efficiency = point.number("efficiency", kLeastShare, 1)};
    point.finish();
    if (!curve.empty() && p.flops <= curve.back().flops) {
      point.complain("flops", fmt::format("{} is not more than the point before; expected an ascending list", p.flops));
    }
    curve.push_back(p);
  }
  if (curve.empty()) gpu.complain(key, "is an empty list; expected a number or points {flops, efficiency}");
  return curve;
}

/// Reads the keys of grouped GEMMs, all optional.
void read_grouped_gemm(MapReader& gpu, GpuSpec& spec) {
  constexpr std::string_view kCurve = "grouped_gemm_efficiency", kMemory = "grouped_gemm_memory_efficiency",
                             kLaunch = "grouped_gemm_launch_overhead";
  if (gpu.find(kCurve)) spec.grouped_gemm_efficiency = read_efficiency(gpu, kCurve);
  if (gpu.find(kMemory)) spec.grouped_gemm_memory_efficiency = gpu.number(kMemory, kLeastShare, 1);
  if (gpu.find(kLaunch)) spec.grouped_gemm_launch_overhead = gpu.quantity<Seconds>(kLaunch, Sign::NonNegative);
}

std::map<WireFormat, BytesPerSecond> read_codecs(MapReader& gpu) {
  std::map<WireFormat, BytesPerSecond> out;
  if (!gpu.find("codec_throughput")) return out;
  MapReader codecs = gpu.map("codec_throughput");
  for (const auto& [format, name] : kWireFormatNames) {
    if (codecs.find(name)) out[format] = codecs.quantity<BytesPerSecond>(name, Sign::Positive);
  }
  codecs.finish();
  return out;
}

RuntimeMemory read_runtime_memory(MapReader memory) {
  const RuntimeMemory out{.context = memory.quantity<Bytes>("context", Sign::NonNegative),
                          .communicator = memory.quantity<Bytes>("communicator", Sign::NonNegative),
                          .fragmentation = memory.number("fragmentation", 0, 1)};
  memory.finish();
  return out;
}

}  // namespace

GpuSpec read_gpu(MapReader gpu) {
  read_origins(gpu);
  const bool has_peak = gpu.has("peak");
  GpuSpec spec{.name = gpu.text("name"),
               .peak = read_peak(gpu.map("peak")),
               .memory = gpu.quantity<Bytes>("memory"),
               .hbm_bandwidth = gpu.quantity<BytesPerSecond>("hbm_bandwidth"),
               .gemm_efficiency = read_efficiency(gpu, "gemm_efficiency"),
               .attention_efficiency = gpu.number("attention_efficiency", kLeastShare, 1),
               .memory_efficiency = gpu.number("memory_efficiency", kLeastShare, 1),
               .launch_overhead = gpu.quantity<Seconds>("launch_overhead", Sign::NonNegative),
               .num_sms = gpu.integer("num_sms", 1, 65536),
               .tile_rows = gpu.integer("tile_rows", 1, 65536),
               .tile_columns = gpu.integer("tile_columns", 1, 65536),
               .slowdown_beside_communication = gpu.number("slowdown_beside_communication", 1, kMostSlowdown)};
  if (gpu.find("runtime_memory")) spec.runtime_memory = read_runtime_memory(gpu.map("runtime_memory"));
  read_grouped_gemm(gpu, spec);
  spec.codec_throughput = read_codecs(gpu);
  if (has_peak && spec.peak.empty()) gpu.complain("peak", "names no number format; expected e.g. {bf16: 989 TFLOP/s}");
  check_origins(gpu);
  gpu.finish();
  return spec;
}

}  // namespace moeplan
