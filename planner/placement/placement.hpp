// Which ranks hold which expert of a layer, and who serves whose tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/ids.hpp"
#include "planner/placement/devices.hpp"

namespace moeplan::planner {

inline constexpr const char* kContiguous = "contiguous";  // the p-th rank holds the p-th share of the experts

/// A rank with an expert's parameters.
struct ExpertHolder {
  RankId rank;
  std::int64_t share = 1;   // of the tokens that are divided, among the shares of the expert's holders
  std::int64_t copies = 1;  // slots that the expert fills on this rank
  bool operator==(const ExpertHolder&) const = default;
};

struct ExpertPlacement {
  RankId home;                        // keeps the optimizer states; sends parameters, collects gradients
  std::vector<ExpertHolder> holders;  // by rank, the home among them
  bool operator==(const ExpertPlacement&) const = default;

  [[nodiscard]] const ExpertHolder* holder(RankId rank) const;
};

/// Which tokens stay near before the others are divided by shares.
enum class Nearest {
  Off,   // none: every source's tokens are divided over all holders
  Rank,  // a source that holds the expert keeps its tokens
  Node   // that, and a source with holders in its node divides its tokens among these alone
};

/// Every token reaches a holder of its expert: divide.hpp says which.
struct Placement {
  Nearest nearest = Nearest::Rank;
  std::vector<ExpertPlacement> experts;
  bool operator==(const Placement&) const = default;
};

/// What is wrong with a placement of `experts` experts; none if nothing is: every expert has its home among its
/// holders, holders are different ranks in order, shares are not negative and add up to something, copies are positive,
/// and no rank fills more slots than it has.
[[nodiscard]] std::optional<std::string> flaw(const Placement& placement, const PlacementDevices& devices,
                                              std::int64_t experts);

/// Slots filled, by rank.
[[nodiscard]] std::vector<std::int64_t> slots_filled(const Placement& placement, std::int64_t ranks);

/// Rank p is the home of the p-th share of the experts in order, the first ranks having one more where they do not
/// divide: the placement of a Program without any.
[[nodiscard]] Placement contiguous_placement(std::int64_t experts, std::int64_t ranks);

/// A placement in which every expert has one holder: its home.
[[nodiscard]] Placement placement_of_homes(const std::vector<std::int64_t>& homes);

/// Adds a holder of a share, or a copy where the rank is one already.
void add_holder(ExpertPlacement& place, RankId rank, std::int64_t share);

}  // namespace moeplan::planner
