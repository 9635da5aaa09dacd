#include "model/specs/origins.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace moeplan {

namespace {

constexpr std::array<std::string_view, 4> kKinds{"measured:", "datasheet:", "published:", "assumed:"};

bool says_where_from(const Node& value) {
  if (value.kind != Node::Kind::Scalar) return false;
  const std::string_view text = value.scalar;
  return std::any_of(kKinds.begin(), kKinds.end(), [&](std::string_view kind) {
    return text.starts_with(kind) && text.find_first_not_of(' ', kind.size()) != std::string_view::npos;
  });
}

}  // namespace

void read_origins(MapReader& document) {
  const Node* origins = document.find("origins");
  if (!origins) return;
  if (origins->kind != Node::Kind::Map) {
    document.complain("origins", "expected a map from key paths to where their numbers come from");
    return;
  }
  for (const Entry& e : origins->entries) {
    if (says_where_from(e.value)) continue;
    document.diagnostics().add(
        e.value.where, fmt::format("origins.{}", e.key),
        "expected a text that begins with measured:, datasheet:, published: or assumed: and then "
        "names the source or the reason");
  }
}

}  // namespace moeplan
