#include "cli/options/destination_uniform_routing.hpp"

#include <fmt/format.h>

#include <cassert>
#include <optional>

#include "model/base/diagnostics.hpp"
#include "model/text/document.hpp"
#include "model/text/reader.hpp"

namespace moeplan::cli {

namespace {

const std::string kOption = "--routing";

/// The key of the number that may follow a shape's name.
std::optional<std::string> number_key(const std::string& shape) {
  if (shape == "zipf") return "zipf_exponent";
  if (shape == "lognormal") return "lognormal_sigma";
  if (shape == "hot_expert" || shape == "hot_rank" || shape == "spread") return "hot_factor";
  if (shape == "zero_load") return "hot_fraction";
  return std::nullopt;
}

Node document_of(const std::string& text) {
  if (text.starts_with('{')) return parse_yaml(text, kOption);
  const std::size_t colon = text.find(':');
  const std::string shape = text.substr(0, colon);
  Node document = Node::map();
  document.where = {kOption};
  Node name = Node::text(shape);
  name.where = {kOption};
  document.set("shape", std::move(name));
  if (colon == std::string::npos) return document;
  const auto key = number_key(shape);
  if (!key) {
    // Unknown shapes are reported by the reader.
    for (const auto& [s, known] : kRoutingShapeNames) {
      if (known == shape) throw InputError(Diagnostic{{kOption}, "", fmt::format("{} takes no number", shape)});
    }
    return document;
  }
  Node number = Node::text(text.substr(colon + 1));
  number.where = {kOption};
  number.is_string = false;
  document.set(*key, std::move(number));
  return document;
}

}  // namespace

RoutingScenario parse_column_routing(const std::string& text) {
  const Node document = document_of(text);
  Diagnostics wrong;
  const RoutingScenario scenario = read_routing(MapReader(document, "", wrong));
  wrong.throw_if_any();
  if (scenario.sampled || scenario.shape == RoutingShape::Ragged) {
    throw InputError(Diagnostic{{kOption},
                                "",
                                fmt::format("{} differs between sources; traffic by column is the same for all",
                                            scenario.sampled ? "what is sampled" : "ragged")});
  }
  return scenario;
}

std::vector<double> column_bytes(const RoutingScenario& scenario, std::int64_t ranks, std::int64_t size) {
  const RoutingCounts counts = make_routing(scenario, ranks, ranks, size, 1, 1);
  assert(counts.same_for_all_sources() && "what differs between sources was refused");
  std::vector<double> bytes;
  for (std::int64_t d = 0; d < ranks; ++d) {
    bytes.push_back(static_cast<double>(counts.at(RankId(0), ExpertId(static_cast<std::int32_t>(d)))));
  }
  return bytes;
}

}  // namespace moeplan::cli
