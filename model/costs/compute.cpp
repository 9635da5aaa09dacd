#include "model/costs/compute.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <optional>

#include "model/base/whole_numbers.hpp"
#include "model/costs/codec.hpp"
#include "model/operators/operator_models.hpp"

namespace moeplan {

namespace {

Seconds hbm_time(const GpuSpec& gpu, std::int64_t bytes) {
  return Bytes(static_cast<double>(bytes)) / gpu.hbm_bandwidth;
}

/// The shorter of math and memory is hidden.
ComputeParts roofline(Seconds launch, Seconds math, Seconds memory) {
  return {launch, math, memory, std::max(math, memory)};
}

ComputeParts gemm_parts(const GpuSpec& gpu, Dtype dtype, const GemmShape& shape, std::int64_t bytes) {
  const double flops = flops_of(shape);
  if (flops == 0) return {};
  const Seconds math = Flops(flops) / (peak_rate(gpu, dtype) * gemm_efficiency(gpu, flops));
  return roofline(gpu.launch_overhead, math, hbm_time(gpu, bytes));
}

/// The rows of the output tile of a product of m rows, one of `sources` of an expert.
std::int64_t tile_rows_for(const GpuSpec& gpu, std::int64_t m, std::int64_t sources) {
  constexpr std::uint64_t kLeastTileRows = 16;  // of tensor cores' instructions
  if (sources == 1) return gpu.tile_rows;
  const auto needed = static_cast<std::int64_t>(std::bit_ceil(std::max(static_cast<std::uint64_t>(m), kLeastTileRows)));
  return std::min(gpu.tile_rows, needed);
}

ComputeParts grouped_gemm_parts(const GpuSpec& gpu, Dtype dtype, std::span<const GemmShape> products,
                                std::int64_t bytes, std::int64_t sources, bool fills_waves) {
  double flops = 0;
  double padded = 0;
  std::int64_t tiles = 0;
  for (const GemmShape& s : products) {
    if (s.m == 0 || s.n == 0 || s.k == 0) continue;
    const std::int64_t tile_rows = tile_rows_for(gpu, s.m, sources);
    const std::int64_t rows = ceil_div(s.m, tile_rows), columns = ceil_div(s.n, gpu.tile_columns);
    flops += flops_of(s);
    padded += flops_of({rows * tile_rows, columns * gpu.tile_columns, s.k});
    tiles += rows * columns;
  }
  if (flops == 0) return {};
  // Below one wave a library splits along k instead of leaving SMs idle; the efficiency curve covers that range.
  const double waves = static_cast<double>(tiles) / static_cast<double>(gpu.num_sms);
  const double quantised = fills_waves || waves <= 1 ? 1 : std::ceil(waves) / waves;
  const Seconds math = Flops(padded * quantised) / (peak_rate(gpu, dtype) * grouped_gemm_efficiency(gpu, flops));
  return roofline(gpu.grouped_gemm_launch_overhead.value_or(gpu.launch_overhead), math,
                  hbm_time(gpu, bytes) / gpu.grouped_gemm_memory_efficiency.value_or(1));
}

ComputeParts attention_parts(const GpuSpec& gpu, Dtype dtype, double flops, std::int64_t bytes) {
  if (flops == 0) return {};
  const Seconds math = Flops(flops) / (peak_rate(gpu, dtype) * gpu.attention_efficiency);
  return roofline(gpu.launch_overhead, math, hbm_time(gpu, bytes));
}

/// A memory-bound kernel: launch + bytes / (hbm_bandwidth efficiency), or longer for its elements; zero for zero bytes.
ComputeParts kernel_parts(const GpuSpec& gpu, double efficiency, std::int64_t bytes, Seconds elements = Seconds(0)) {
  if (bytes == 0) return {};
  const Seconds moved = Bytes(static_cast<double>(bytes)) / (gpu.hbm_bandwidth * efficiency);
  return roofline(gpu.launch_overhead, Seconds(0), std::max(moved, elements));
}

/// The time of a kernel's elements, if they bound it: those that it writes, or of the rows that it adds.
Seconds element_time(const Program& program, const Operation& operation, Kernel kernel, RankId rank,
                     const GpuSpec& gpu) {
  const std::optional<ElementRate> rate = element_rate(kernel, gpu);
  if (!rate || !rate->per_second) return Seconds(0);
  std::int64_t elements = 0;
  for (const Slice& s : kernel == Kernel::GeneralPass ? operation.writes : operation.reads)
    elements += row_count(program, s.rows, rank) * program.buffer(s.buffer).columns;
  return Seconds(static_cast<double>(elements) / *rate->per_second);
}

double efficiency_of(Kernel kernel, const GpuSpec& gpu) {
  switch (kernel) {
    case Kernel::Encode:
    case Kernel::EncodeBackward:
    case Kernel::ScatterAdd:
    case Kernel::IndexAdd:
    case Kernel::Decode:
    case Kernel::DecodeBackward:
    case Kernel::SortRows: return gpu.permutation_efficiency.value_or(gpu.memory_efficiency);
    case Kernel::QuantiseTensor:
      if (gpu.fp8_operands_in_any_layout) return gpu.memory_efficiency;
      [[fallthrough]];
    case Kernel::Quantise: return gpu.cast_efficiency.value_or(gpu.memory_efficiency);
    case Kernel::NormBackward: return gpu.norm_backward_efficiency.value_or(gpu.memory_efficiency);
    case Kernel::Activation: return gpu.activation_efficiency.value_or(gpu.memory_efficiency);
    case Kernel::ActivationBackward: return gpu.activation_backward_efficiency.value_or(gpu.memory_efficiency);
    case Kernel::Loss:
    case Kernel::LossBackward: return gpu.loss_efficiency.value_or(gpu.memory_efficiency);
    default: return gpu.memory_efficiency;
  }
}

/// What a cast would write for products that need a copy in columns, on a GPU whose products do not; the result of a
/// product that its kernel still has in registers.
std::int64_t bytes_not_moved(const Program& program, const Operation& operation, Kernel kernel, RankId rank,
                             const GpuSpec& gpu) {
  if (kernel == Kernel::Epilogue) return byte_count(program, operation.reads.front(), rank);
  const bool has_columns = kernel == Kernel::QuantiseTensor && operation.writes.size() > 1;
  return has_columns && gpu.fp8_operands_in_any_layout ? byte_count(program, operation.writes[1], rank) : 0;
}

ComputeParts codec_parts(const Program& program, const Operation& operation, const Codec& codec, RankId rank,
                         const GpuSpec& gpu) {
  const std::int64_t rows = byte_count(program, (codec.decodes ? operation.writes : operation.reads).front(), rank);
  if (rows == 0) return {};
  const Seconds startup = codec_startup(gpu, codec.format);
  const auto known = gpu.codec_throughput.find(codec.format);
  if (known == gpu.codec_throughput.end()) {
    ComputeParts parts = kernel_parts(gpu, gpu.memory_efficiency, compute_load(program, operation, rank).bytes);
    parts.launch = startup;
    return parts;
  }
  return roofline(startup, Seconds(0), Bytes(static_cast<double>(rows)) / known->second);
}

/// The figures that price products of a number format: those of bf16 for fp16, whose rates and bytes are the same;
/// none for int8.
std::optional<MathFormat> format_of_products(Dtype dtype) {
  switch (dtype) {
    case Dtype::Fp32: return MathFormat::Fp32;
    case Dtype::Tf32: return MathFormat::Tf32;
    case Dtype::Fp16:
    case Dtype::Bf16: return MathFormat::Bf16;
    case Dtype::Fp8: return MathFormat::Fp8;
    case Dtype::Int8: return std::nullopt;
  }
  return std::nullopt;
}

GemmPhase phase_of(const Gemm& gemm) {
  if (gemm.form == Gemm::Form::TN) return GemmPhase::Wgrad;
  return gemm.form == Gemm::Form::NT ? GemmPhase::Dgrad : GemmPhase::Forward;
}

ComputeParts product_parts(const GpuSpec& gpu, Dtype dtype, const Gemm& gemm, const ComputeLoad& load,
                           bool fills_waves) {
  if (load.flops == 0) return {};
  const std::optional<MathFormat> format = gemm.format ? gemm.format : format_of_products(dtype);
  const GemmCall call{.phase = phase_of(gemm), .quantises = !gemm.format};
  if (gemm.grouped) {
    const auto cost = gpu.operators && format
                          ? training_grouped_gemm_cost(*gpu.operators, *format, load.products, call, load.sources)
                          : std::nullopt;
    if (cost) return {cost->launch, cost->math, cost->memory, cost->overlapped};
    return grouped_gemm_parts(gpu, dtype, load.products, load.bytes, load.sources, fills_waves);
  }
  const GemmShape& shape = load.products.front();
  const auto cost = gpu.operators && format ? training_gemm_cost(*gpu.operators, *format, shape, call) : std::nullopt;
  if (!cost) return gemm_parts(gpu, dtype, shape, load.bytes);
  return {cost->launch + cost->extra, cost->math, cost->memory + cost->quantisation,
          cost->overlapped + cost->quantisation};
}

/// The time of whole sequences, or of the part of one that the FLOPs are.
std::optional<ComputeParts> modelled_attention(const OperatorModels& operators, Dtype dtype,
                                               const AttentionCore& attention, std::int64_t tokens, double flops) {
  const bool is_wide = dtype == Dtype::Fp32 || dtype == Dtype::Tf32;
  if (is_wide || attention.sequence_length == 0 || tokens == 0) return std::nullopt;
  const AttentionShape shape{.batch = ceil_div(tokens, attention.sequence_length),
                             .sequence_length = attention.sequence_length,
                             .query_heads = attention.heads.query_heads,
                             .kv_heads = attention.heads.kv_heads,
                             .head_dim = attention.heads.head_dim,
                             .v_head_dim = attention.heads.v_head_dim,
                             .is_causal = attention.causal,
                             .is_backward = attention.backward,
                             .window = attention.window};
  const auto cost = training_attention_cost(operators, shape, attention.format.value_or(MathFormat::Bf16));
  if (!cost) return std::nullopt;
  AttentionShape whole = shape;
  whole.is_backward = false;
  const double share = flops / ((attention.backward ? kAttentionBackwardProducts : 1.0) * attention_flops(whole));
  const Seconds work = (cost->time() - cost->launch) * std::min(share, 1.0);
  return ComputeParts{cost->launch, work, Seconds(0), work};
}

/// Linear interpolation in log(flops) between the points, constant beyond the ends.
double efficiency_at(const std::vector<EfficiencyPoint>& curve, double flops) {
  if (flops <= curve.front().flops) return curve.front().efficiency;
  if (flops >= curve.back().flops) return curve.back().efficiency;
  const auto high = std::lower_bound(curve.begin(), curve.end(), flops,
                                     [](const EfficiencyPoint& p, double f) { return p.flops < f; });
  const auto low = high - 1;
  const double t = std::log(flops / low->flops) / std::log(high->flops / low->flops);
  return low->efficiency + t * (high->efficiency - low->efficiency);
}

/// The work of the kernel that a product is one of several equal parts of: all rows, and the weights once.
ComputeLoad whole_kernel(const Program& program, const Operation& operation, RankId rank, ComputeLoad load) {
  for (GemmShape& product : load.products) product.m *= operation.parts;
  load.flops *= static_cast<double>(operation.parts);
  for (const std::vector<Slice>* slices : {&operation.reads, &operation.writes}) {
    for (const Slice& s : *slices) {
      if (s.rows.kind == Rows::Kind::Routed) load.bytes += (operation.parts - 1) * byte_count(program, s, rank);
    }
  }
  return load;
}

ComputeParts product_part(const Program& program, const Operation& operation, const Gemm& gemm, RankId rank,
                          const GpuSpec& gpu, Dtype dtype, const ComputeLoad& load) {
  if (operation.parts == 1) return product_parts(gpu, dtype, gemm, load, program.fills_waves);
  const ComputeLoad whole = whole_kernel(program, operation, rank, load);
  const ComputeParts all = product_parts(gpu, dtype, gemm, whole, program.fills_waves);
  const Seconds math = all.math / gpu.fused_exchange_efficiency;
  const Seconds longer = std::max(math - std::max(all.math, all.memory), Seconds(0));
  const double share = 1.0 / static_cast<double>(operation.parts);
  return {all.launch, math * share, all.memory * share, (all.overlapped + longer) * share};
}

ComputeParts parts_of_one_kernel(const Program& program, const Operation& operation, RankId rank, const GpuSpec& gpu) {
  if (const auto* codec = std::get_if<Codec>(&operation.work))
    return codec_parts(program, operation, *codec, rank, gpu);
  const ComputeLoad load = compute_load(program, operation, rank);
  if (const auto* kernel = std::get_if<Kernel>(&operation.work)) {
    const std::int64_t bytes = load.bytes - bytes_not_moved(program, operation, *kernel, rank, gpu);
    ComputeParts parts =
        kernel_parts(gpu, efficiency_of(*kernel, gpu), bytes, element_time(program, operation, *kernel, rank, gpu));
    if (*kernel == Kernel::Epilogue) parts.launch = Seconds(0);
    return parts;
  }
  const Dtype dtype = program.buffer(operation.reads.front().buffer).dtype;
  if (const auto* gemm = std::get_if<Gemm>(&operation.work))
    return product_part(program, operation, *gemm, rank, gpu, dtype, load);
  if (const auto* attention = std::get_if<AttentionCore>(&operation.work)) {
    const std::int64_t tokens = row_count(program, operation.reads.front().rows, rank);
    const auto parts =
        gpu.operators ? modelled_attention(*gpu.operators, dtype, *attention, tokens, load.flops) : std::nullopt;
    return parts ? *parts : attention_parts(gpu, dtype, load.flops, load.bytes);
  }
  return attention_parts(gpu, dtype, load.flops, load.bytes);
}

}  // namespace

double gemm_efficiency(const GpuSpec& gpu, double flops) { return efficiency_at(gpu.gemm_efficiency, flops); }

double grouped_gemm_efficiency(const GpuSpec& gpu, double flops) {
  return efficiency_at(gpu.grouped_gemm_efficiency ? *gpu.grouped_gemm_efficiency : gpu.gemm_efficiency, flops);
}

FlopsPerSecond peak_rate(const GpuSpec& gpu, Dtype dtype) {
  const auto find = [&](Dtype d) {
    const auto it = gpu.peak.find(d);
    return it == gpu.peak.end() ? FlopsPerSecond(0) : it->second;
  };
  if (const FlopsPerSecond own = find(dtype); own.value() > 0) return own;
  if (dtype != Dtype::Fp32 && dtype != Dtype::Tf32) {
    const FlopsPerSecond half = std::max(find(Dtype::Bf16), find(Dtype::Fp16));
    if (half.value() > 0) return half;
  }
  if (const FlopsPerSecond single = find(Dtype::Fp32); single.value() > 0) return single;
  return std::max_element(gpu.peak.begin(), gpu.peak.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->second;
}

Seconds gemm_time(const GpuSpec& gpu, Dtype dtype, const GemmShape& shape, std::int64_t bytes) {
  return gemm_parts(gpu, dtype, shape, bytes).time();
}

Seconds grouped_gemm_time(const GpuSpec& gpu, Dtype dtype, std::span<const GemmShape> products, std::int64_t bytes,
                          std::int64_t sources) {
  return grouped_gemm_parts(gpu, dtype, products, bytes, sources, false).time();
}

Seconds attention_time(const GpuSpec& gpu, Dtype dtype, double flops, std::int64_t bytes) {
  return attention_parts(gpu, dtype, flops, bytes).time();
}

const GemmModel* figures_of_products(const GpuSpec& gpu, Dtype dtype, std::optional<Precision> precision) {
  const std::optional<MathFormat> format = precision ? format_of(*precision) : format_of_products(dtype);
  return gpu.operators && format ? find_gemm_model(*gpu.operators, *format, "") : nullptr;
}

std::optional<ElementRate> element_rate(Kernel kernel, const GpuSpec& gpu) {
  switch (kernel) {
    case Kernel::GeneralPass: return ElementRate{"general_pass", gpu.element_rates.general_pass};
    case Kernel::ScatterAdd: return ElementRate{"scatter_add", gpu.element_rates.scatter_add};
    case Kernel::IndexAdd: return ElementRate{"index_add", gpu.element_rates.index_add};
    default: return std::nullopt;
  }
}

ComputeParts compute_parts(const Program& program, const Operation& operation, RankId rank, const GpuSpec& gpu) {
  if (operation.kernels == 0) return {};
  ComputeParts parts = parts_of_one_kernel(program, operation, rank, gpu);
  if (parts.time() > Seconds(0)) parts.launch += static_cast<double>(operation.kernels - 1) * gpu.launch_overhead;
  parts.launch = parts.launch / static_cast<double>(operation.parts);
  return parts;
}

Seconds compute_time(const Program& program, const Operation& operation, RankId rank, const GpuSpec& gpu) {
  return compute_parts(program, operation, rank, gpu).time();
}

Seconds host_time(const GpuSpec& gpu, const Launches& launches) {
  return static_cast<double>(launches.operations) * gpu.host_time_per_operation;
}

Seconds host_copy_time(const Program& program, const Operation& operation, RankId rank, const GpuSpec& gpu) {
  assert(gpu.host_bandwidth && "missing_figures()");
  if (operation.kernels == 0) return Seconds(0);
  std::int64_t bytes = 0;
  for (const std::vector<Slice>* slices : {&operation.reads, &operation.writes}) {
    for (const Slice& s : *slices) bytes += byte_count(program, s, rank);
  }
  return Bytes(static_cast<double>(bytes)) / *gpu.host_bandwidth;
}

}  // namespace moeplan
