#include "model/costs/codec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "model/base/diagnostics.hpp"
#include "model/base/whole_numbers.hpp"

namespace moeplan {

namespace {

/// The dispatch and combine names in a pair's name.
std::pair<std::string_view, std::string_view> names_in_pair(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos) return {name, name};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

/// The format of a name: no format for "none", none for an unknown name.
std::optional<std::optional<WireFormat>> parse_codec(std::string_view name) {
  if (name == "none") return std::optional<WireFormat>{};
  const auto it = std::find_if(codecs().begin(), codecs().end(), [&](const CodecEntry& c) { return c.name == name; });
  if (it == codecs().end()) return std::nullopt;
  return std::optional(it->format);
}

}  // namespace

std::span<const CodecEntry> codecs() {
  static constexpr std::array<CodecEntry, 4> kCodecs{{
      {"fp16", WireFormat::Fp16, "every value rounded to fp16: half of fp32 [ScheMoE sec. 3]"},
      {"int8", WireFormat::Int8,
       "every value as int8, with a scale and a zero point a row in messages of their own "
       "[ScheMoE sec. 3]"},
      {"fp8_block", WireFormat::Fp8Block,
       "every value as fp8 (E4M3), with a scale per 128 values; experts of the recipe fp8_block multiply what is "
       "dispatched so [DeepSeek-V3 sec. 3.3.2]"},
      {"zfp", WireFormat::Zfp, "zfp's fixed rate, 8 bits a value unless the workload says otherwise [Lindstrom 2014]"},
  }};
  return kCodecs;
}

std::vector<WirePart> wire_parts(WireFormat format, const CodecOptions& options, std::int64_t columns) {
  switch (format) {
    case WireFormat::Fp16: return {{".fp16", columns, Dtype::Fp16}};
    case WireFormat::Int8: {
      std::vector<WirePart> parts{{".int8", columns, Dtype::Int8}};
      constexpr std::array<std::string_view, 2> kOfRow{".int8.scale", ".int8.zero"};
      for (std::int64_t i = 0; i < options.int8_row_messages; ++i) {
        parts.push_back({kOfRow[static_cast<std::size_t>(i)], 1, Dtype::Fp32});
      }
      return parts;
    }
    case WireFormat::Fp8Block:
      return {{".fp8", columns, Dtype::Int8}, {".fp8.scale", ceil_div(columns, kFp8Block), Dtype::Fp32}};
    case WireFormat::Zfp: return {{".zfp", ceil_div(columns * options.zfp_bits, 8), Dtype::Int8}};
  }
  return {};
}

std::optional<CodecPair> parse_codec_pair(std::string_view name) {
  const auto [dispatch, combine] = names_in_pair(name);
  const auto dispatched = parse_codec(dispatch), combined = parse_codec(combine);
  if (!dispatched || !combined) return std::nullopt;
  return CodecPair{*dispatched, *combined};
}

std::string codec_pair_error(std::string_view name) {
  const auto [dispatch, combine] = names_in_pair(name);
  for (const std::string_view codec : {dispatch, combine}) {
    if (parse_codec(codec)) continue;
    std::vector<std::string> names{"none"};
    for (const CodecEntry& c : codecs()) names.emplace_back(c.name);
    return fmt::format("{} is not known{}", in_quotes(codec), suggestion(codec, names));
  }
  return "";
}

std::string codec_pair_name(const CodecPair& pair) {
  const auto name = [](const std::optional<WireFormat>& format) {
    return format ? std::string(name_of<WireFormat>(kWireFormatNames, *format)) : std::string("none");
  };
  return pair.dispatch == pair.combine ? name(pair.dispatch)
                                       : fmt::format("{}/{}", name(pair.dispatch), name(pair.combine));
}

std::vector<CodecPair> codec_pairs(const Workload& workload) {
  std::vector<std::optional<WireFormat>> formats{std::nullopt};
  formats.insert(formats.end(), workload.codecs.allowed.begin(), workload.codecs.allowed.end());
  std::vector<CodecPair> pairs;
  for (const auto& dispatch : formats) {
    for (const auto& combine : formats) pairs.push_back({dispatch, combine});
  }
  return pairs;
}

namespace {

std::int64_t wire_bytes(WireFormat format, const Workload& workload, std::int64_t columns) {
  std::int64_t bytes = 0;
  for (const WirePart& p : wire_parts(format, workload.codecs, columns)) bytes += p.columns * size_of(p.dtype);
  return bytes;
}

}  // namespace

bool is_operand(WireFormat format, const std::optional<Precision>& precision) {
  return format == WireFormat::Fp8Block && precision == Precision::Fp8Block;
}

Seconds codec_startup(const GpuSpec& gpu, WireFormat format) {
  const auto known = gpu.codec_startup.find(format);
  return known == gpu.codec_startup.end() ? gpu.launch_overhead : known->second;
}

bool never_slower(WireFormat format, WireFormat than, const Workload& workload, const GpuSpec& gpu,
                  std::int64_t columns) {
  const auto own = gpu.codec_throughput.find(format), other = gpu.codec_throughput.find(than);
  if (is_operand(than, workload.precision)) return false;  // which is not decoded
  const bool is_known = own != gpu.codec_throughput.end();
  if (is_known != (other != gpu.codec_throughput.end())) return false;  // not comparable
  return wire_bytes(format, workload, columns) <= wire_bytes(than, workload, columns) &&
         wire_parts(format, workload.codecs, columns).size() <= wire_parts(than, workload.codecs, columns).size() &&
         codec_startup(gpu, format) <= codec_startup(gpu, than) && (!is_known || own->second >= other->second);
}

std::optional<Infeasibility> codec_infeasibility(WireFormat format, const Workload& workload, std::int64_t columns) {
  if (!workload.codecs.allowed.contains(format)) return "the workload does not allow the codec";
  const std::int64_t row = columns * size_of(workload.dtype), encoded = wire_bytes(format, workload, columns);
  if (encoded < row) return std::nullopt;
  return Infeasibility(Constraint::Limit, row - 1, encoded, "the codec makes rows no smaller");
}

}  // namespace moeplan
