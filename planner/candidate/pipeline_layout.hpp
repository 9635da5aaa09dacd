// A pipeline layout: what each part of a pipeline holds, in the notation of Megatron-LM
// (--pipeline-model-parallel-layout).
//
// Letters: E the embedding, t a transformer layer, m a multi-token-prediction layer, L the output head with the loss.
// "|" separates the parts, which pass through the stages in order: with pp stages, part p is on stage p mod pp. "t*4"
// is "tttt", "(tt|)*3" is "tt|tt|tt|", and commas have no meaning: "Et|(tt|)*30L".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace moeplan::planner {

/// What one part holds, in the order of a forward pass.
struct LayoutPart {
  bool embedding = false;
  std::int64_t layers = 0;
  std::int64_t mtp_layers = 0;
  bool head = false;
  bool operator==(const LayoutPart&) const = default;
};

/// All parts; none: the planner divides the layers evenly by FLOPs.
struct PipelineLayout {
  std::vector<LayoutPart> parts = {};
  bool operator==(const PipelineLayout&) const = default;

  [[nodiscard]] bool empty() const { return parts.empty(); }
  [[nodiscard]] std::int64_t layers() const;
  [[nodiscard]] std::int64_t mtp_layers() const;
  /// "Ett|tt|tmL", without repeats; "" without parts.
  [[nodiscard]] std::string text() const;
};

inline constexpr std::size_t kLongestLayout = 65'536;  // letters and separators after expansion

/// Parses a layout: one E, in the first part, one L, in the last one, and no empty part. Otherwise the message.
[[nodiscard]] std::variant<PipelineLayout, std::string> parse_layout(std::string_view text);

/// The layout that Megatron-LM gives without --pipeline-model-parallel-layout: equal numbers of layers, where embedding
/// and head may count as a layer each (--account-for-embedding-in-pipeline-split, ...-loss-...), with the
/// multi-token-prediction layers in the last part. Empty if the layers do not divide in any of these manners.
[[nodiscard]] PipelineLayout even_layout(std::int64_t layers, std::int64_t mtp_layers, std::int64_t parts);

}  // namespace moeplan::planner
