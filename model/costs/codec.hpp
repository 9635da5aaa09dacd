// Codecs: the encodings in which the rows of an MoE layer are sent. Extension point: a codec is one line of the table,
// a WireFormat, and the buffers that it is sent in.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/infeasibility.hpp"
#include "model/machine/gpu.hpp"
#include "model/program/program.hpp"
#include "model/workload/workload.hpp"

namespace moeplan {

struct CodecEntry {
  std::string_view name;
  WireFormat format;
  std::string_view summary;
};

/// The table of all built-in codecs, without "none".
[[nodiscard]] std::span<const CodecEntry> codecs();

/// One part of an encoded row.
struct WirePart {
  std::string_view suffix;  // suffix of the buffer's name
  std::int64_t columns;
  Dtype dtype;
};
/// The parts of an encoded row of `columns` columns. Each part is sent as a message of its own.
[[nodiscard]] std::vector<WirePart> wire_parts(WireFormat format, const CodecOptions& options, std::int64_t columns);

/// The codecs of an MoE layer's dispatch and combine.
struct CodecPair {
  std::optional<WireFormat> dispatch;
  std::optional<WireFormat> combine;
  bool operator==(const CodecPair&) const = default;
};

/// Parses "zfp" (dispatch and combine) or "int8/none" (dispatch / combine); none if a name is unknown.
[[nodiscard]] std::optional<CodecPair> parse_codec_pair(std::string_view name);
/// The error in the name of a pair, with the nearest valid name; "" if it is valid.
[[nodiscard]] std::string codec_pair_error(std::string_view name);
[[nodiscard]] std::string codec_pair_name(const CodecPair& pair);

/// All pairs that the workload allows, the pair without codecs first.
[[nodiscard]] std::vector<CodecPair> codec_pairs(const Workload& workload);

/// Whether the products of linear layers by this recipe multiply rows in `format`, so that rows sent in it need no
/// decoding.
[[nodiscard]] bool is_operand(WireFormat format, const std::optional<Precision>& precision);

/// The time of a call of the codec's encoder or decoder before its first byte.
[[nodiscard]] Seconds codec_startup(const GpuSpec& gpu, WireFormat format);

/// Whether encoding, sending and decoding rows of `columns` columns in `format` takes no longer than in `than`, for any
/// number of rows: no more bytes, no more messages, and at least as fast a kernel.
[[nodiscard]] bool never_slower(WireFormat format, WireFormat than, const Workload& workload, const GpuSpec& gpu,
                                std::int64_t columns);

/// The reason, in short form for counting, why rows of this workload cannot be sent in `format`; none if they can. An
/// encoded row must have fewer bytes than the row.
[[nodiscard]] std::optional<Infeasibility> codec_infeasibility(WireFormat format, const Workload& workload,
                                                               std::int64_t columns);

}  // namespace moeplan
