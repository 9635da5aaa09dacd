#include "planner/placement/placement_document.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

namespace moeplan::planner {

namespace {

constexpr std::array<std::pair<Nearest, std::string_view>, 3> kNearestNames{
    {{Nearest::Off, "off"}, {Nearest::Rank, "rank"}, {Nearest::Node, "node"}}};
constexpr std::int64_t kMostShares = 1'000'000'000;
constexpr std::int64_t kMostSlots = 65'536;

template <class Value>
Node numbers(const std::vector<ExpertHolder>& holders, Value value) {
  Node list = Node::list();
  for (const ExpertHolder& h : holders) list.items.push_back(Node::integer(value(h)));
  return list;
}

std::vector<std::int64_t> read_numbers(MapReader& reader, std::string_view key, std::int64_t least, std::int64_t most) {
  std::vector<std::int64_t> out;
  for (const auto& [node, path] : reader.list(key)) {
    const bool is_number = node->kind == Node::Kind::Scalar && !node->is_string;
    const auto parsed = parse_number(is_number ? node->scalar : "");
    const double* value = std::get_if<double>(&parsed);
    const bool is_whole = value && *value >= static_cast<double>(least) && *value <= static_cast<double>(most) &&
                          *value == static_cast<double>(static_cast<std::int64_t>(*value));
    if (is_whole) {
      out.push_back(static_cast<std::int64_t>(*value));
    } else {
      reader.diagnostics().add(node->where, path, fmt::format("expected a whole number from {} to {}", least, most));
    }
  }
  return out;
}

void read_holders(MapReader entry, std::int64_t ranks, Placement& placement) {
  const std::int64_t experts = std::ssize(placement.experts);
  const std::int64_t expert = entry.integer("expert", 0, std::max<std::int64_t>(0, experts - 1));
  const std::vector<std::int64_t> limited_by = read_numbers(entry, "ranks", 0, ranks - 1);
  const std::vector<std::int64_t> shares = read_numbers(entry, "shares", 0, kMostShares);
  const std::vector<std::int64_t> slots = read_numbers(entry, "slots", 1, kMostSlots);
  entry.finish();
  if (experts == 0) return;
  if (shares.size() != limited_by.size() || slots.size() != limited_by.size()) {
    return entry.complain("ranks", fmt::format("{} ranks, {} shares, {} slots; expected as many of each",
                                               limited_by.size(), shares.size(), slots.size()));
  }
  ExpertPlacement& place = placement.experts[static_cast<std::size_t>(expert)];
  place.holders.clear();
  for (std::size_t i = 0; i < limited_by.size(); ++i) {
    if (i > 0 && limited_by[i] <= limited_by[i - 1]) return entry.complain("ranks", "are not in ascending order");
    place.holders.push_back({RankId(static_cast<std::int32_t>(limited_by[i])), shares[i], slots[i]});
  }
}

}  // namespace

Node placement_document(const Placement& placement) {
  Node out = Node::map();
  out.set("nearest", Node::text(std::string(name_of<Nearest>(kNearestNames, placement.nearest))));
  Node homes = Node::list(), holders = Node::list();
  for (std::size_t e = 0; e < placement.experts.size(); ++e) {
    const ExpertPlacement& place = placement.experts[e];
    homes.items.push_back(Node::integer(place.home.value()));
    if (place.holders == std::vector<ExpertHolder>{{place.home, 1, 1}}) continue;
    Node entry = Node::map();
    entry.set("expert", Node::integer(static_cast<long long>(e)));
    entry.set("ranks", numbers(place.holders, [](const ExpertHolder& h) { return h.rank.value(); }));
    entry.set("shares", numbers(place.holders, [](const ExpertHolder& h) { return h.share; }));
    entry.set("slots", numbers(place.holders, [](const ExpertHolder& h) { return h.copies; }));
    holders.items.push_back(std::move(entry));
  }
  out.set("homes", std::move(homes));
  out.set("holders", std::move(holders));
  return out;
}

Placement read_placement(MapReader reader, std::int64_t ranks) {
  const Nearest nearest = reader.choice<Nearest>("nearest", kNearestNames);
  Placement placement = placement_of_homes(read_numbers(reader, "homes", 0, ranks - 1));
  placement.nearest = nearest;
  for (const auto& [node, path] : reader.list_or_empty("holders"))
    read_holders(MapReader(*node, path, reader.diagnostics()), ranks, placement);
  reader.finish();
  if (reader.diagnostics().empty()) {
    PlacementDevices any{};
    any.ranks = ranks;
    any.slots = kMostSlots;
    if (const auto wrong = placement_error(placement, any, std::ssize(placement.experts))) reader.complain("", *wrong);
  }
  return placement;
}

}  // namespace moeplan::planner
