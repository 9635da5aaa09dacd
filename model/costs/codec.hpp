// Codecs: what the rows of an MoE layer are sent as. An extension point: a codec is a line of the table, a WireFormat
// and the buffers that it is sent in.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/machine/gpu.hpp"
#include "model/program/program.hpp"
#include "model/workload/workload.hpp"

namespace moeplan {

struct CodecEntry {
  std::string_view name;
  WireFormat format;
  std::string_view summary;
};

/// All built-in codecs but "none": the one visible table.
[[nodiscard]] std::span<const CodecEntry> codecs();

/// What is sent of one row.
struct WirePart {
  std::string_view suffix;  // of the buffer's name
  std::int64_t columns;
  Dtype dtype;
};
/// Of rows of so many columns. Each part is a message of its own.
[[nodiscard]] std::vector<WirePart> wire_parts(WireFormat format, const CodecOptions& options, std::int64_t columns);

/// Codecs to the experts and back.
struct CodecPair {
  std::optional<WireFormat> there;
  std::optional<WireFormat> back;
  bool operator==(const CodecPair&) const = default;
};

/// "zfp" for both ways, "int8/none" for there and back; nothing where a name is unknown.
[[nodiscard]] std::optional<CodecPair> parse_codec_pair(std::string_view name);
/// What is wrong with the name of a pair, with the nearest name; "" if nothing is.
[[nodiscard]] std::string codec_pair_error(std::string_view name);
[[nodiscard]] std::string codec_pair_name(const CodecPair& pair);

/// All pairs that the workload allows, without a codec first.
[[nodiscard]] std::vector<CodecPair> codec_pairs(const Workload& workload);

/// Whether rows of so many columns take `format` no longer to encode, send and decode than `than`, whatever is sent: no
/// more bytes, in no more messages, and as fast a kernel.
[[nodiscard]] bool never_slower(WireFormat format, WireFormat than, const Workload& workload, const GpuSpec& gpu,
                                std::int64_t columns);

/// Why rows of these cannot be sent so, as a short counted reason; "" if they can: what is sent must be fewer bytes.
[[nodiscard]] std::string codec_infeasibility(WireFormat format, const Workload& workload, std::int64_t columns);

}  // namespace moeplan
