#include "model/machine/gpu.hpp"

#include <fmt/format.h>

#include <array>

#include "model/operators/operator_models.hpp"
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

template <typename Q>
std::map<WireFormat, Q> read_codecs(MapReader& gpu, std::string_view key, Sign sign) {
  std::map<WireFormat, Q> out;
  if (!gpu.find(key)) return out;
  MapReader codecs = gpu.map(key);
  for (const auto& [format, name] : kWireFormatNames) {
    if (codecs.find(name)) out[format] = codecs.quantity<Q>(name, sign);
  }
  codecs.finish();
  return out;
}

ReferenceRates rates_of(const GpuSpec& gpu) {
  const auto peak = [&](Dtype dtype) {
    const auto it = gpu.peak.find(dtype);
    return it == gpu.peak.end() ? FlopsPerSecond(0) : it->second;
  };
  return {.num_sms = gpu.num_sms,
          .bf16 = peak(Dtype::Bf16),
          .fp8 = peak(Dtype::Fp8),
          .hbm_bandwidth = gpu.hbm_bandwidth,
          .launch_overhead = gpu.launch_overhead};
}

/// Reads the embedded operator models, in proportion to the GPU's rates; `none`: there are none.
void read_operators(MapReader& gpu, GpuSpec& spec) {
  const Node* operators = gpu.find("operators");
  if (!operators || (operators->kind == Node::Kind::Scalar && operators->scalar == "none")) return;
  OperatorModels models = read_operator_models(gpu.map("operators"));
  for (const char* key : {"gemm_efficiency", "attention_efficiency", "grouped_gemm_efficiency"}) {
    const Node* share = gpu.find(key);
    if (!share || !set_on_command_line(*share)) continue;
    gpu.complain(key,
                 "has no effect in addition to operators, which price products and attention; set operators=none too");
  }
  const ReferenceRates own = rates_of(spec);
  if (models.measured_on) scale(models, rate_factors(*models.measured_on, own));
  models.num_sms = own.num_sms;
  spec.operators = std::make_shared<const OperatorModels>(std::move(models));
}

void read_kernel_efficiencies(MapReader& gpu, GpuSpec& spec) {
  const auto read = [&](const char* key, std::optional<double>& share) {
    if (gpu.find(key)) share = gpu.number(key, kLeastShare, 1);
  };
  read("cast_efficiency", spec.cast_efficiency);
  read("permutation_efficiency", spec.permutation_efficiency);
  read("norm_backward_efficiency", spec.norm_backward_efficiency);
  read("activation_efficiency", spec.activation_efficiency);
  read("activation_backward_efficiency", spec.activation_backward_efficiency);
  read("loss_efficiency", spec.loss_efficiency);
  spec.fused_exchange_efficiency = gpu.number_or("fused_exchange_efficiency", 1, kLeastShare, 1);
}

ElementRates read_element_rates(MapReader rates) {
  constexpr double kMost = 1e15;
  ElementRates out;
  const auto read = [&](const char* key, std::optional<double>& rate) {
    if (rates.find(key)) rate = rates.number(key, 1, kMost);
  };
  read("general_pass", out.general_pass);
  read("scatter_add", out.scatter_add);
  read("index_add", out.index_add);
  rates.finish();
  return out;
}

RuntimeMemory read_runtime_memory(MapReader memory) {
  RuntimeMemory out{.context = memory.quantity<Bytes>("context", Sign::NonNegative),
                    .communicator = memory.quantity<Bytes>("communicator", Sign::NonNegative),
                    .fragmentation = memory.number("fragmentation", 0, 1)};
  if (memory.has("workspaces")) out.workspaces = memory.quantity<Bytes>("workspaces", Sign::NonNegative);
  memory.finish();
  return out;
}

}  // namespace

GpuSpec read_gpu(MapReader gpu) {
  constexpr std::array<std::string_view, 1> kReadElsewhere{"operators"};
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
  read_kernel_efficiencies(gpu, spec);
  spec.fp8_operands_in_any_layout = gpu.boolean_or("fp8_operands_in_any_layout", false);
  if (gpu.find("element_rates")) spec.element_rates = read_element_rates(gpu.map("element_rates"));
  if (gpu.find("slowdown_beside_computation"))
    spec.slowdown_beside_computation = gpu.number("slowdown_beside_computation", 1, kMostSlowdown);
  if (gpu.find("runtime_memory")) spec.runtime_memory = read_runtime_memory(gpu.map("runtime_memory"));
  if (gpu.find("host_time_per_operation"))
    spec.host_time_per_operation = gpu.quantity<Seconds>("host_time_per_operation", Sign::NonNegative);
  if (gpu.find("host_bandwidth")) spec.host_bandwidth = gpu.quantity<BytesPerSecond>("host_bandwidth");
  read_grouped_gemm(gpu, spec);
  spec.codec_throughput = read_codecs<BytesPerSecond>(gpu, "codec_throughput", Sign::Positive);
  spec.codec_startup = read_codecs<Seconds>(gpu, "codec_startup", Sign::NonNegative);
  read_operators(gpu, spec);
  if (has_peak && spec.peak.empty()) gpu.complain("peak", "names no number format; expected e.g. {bf16: 989 TFLOP/s}");
  check_origins(gpu, kReadElsewhere);
  gpu.finish();
  return spec;
}

void scale_operators(GpuSpec& gpu, const RateFactors& factors) {
  if (!gpu.operators) return;
  OperatorModels scaled = *gpu.operators;
  scale(scaled, factors);
  gpu.operators = std::make_shared<const OperatorModels>(std::move(scaled));
}

}  // namespace moeplan
