// The placement of a layer's experts: the ranks that hold each expert, and the division of its tokens among them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/ids.hpp"
#include "planner/placement/devices.hpp"

namespace moeplan::planner {

inline constexpr const char* kContiguous = "contiguous";  // rank p holds the p-th of equal ranges of the experts

/// A rank that holds an expert's parameters.
struct ExpertHolder {
  RankId rank;
  std::int64_t share = 1;   // weight in the division of tokens, relative to the sum over the expert's holders
  std::int64_t copies = 1;  // slots that the expert fills on this rank
  bool operator==(const ExpertHolder&) const = default;
};

/// The ranks of one expert.
struct ExpertPlacement {
  RankId home;                        // keeps the optimizer states; sends parameters, collects gradients
  std::vector<ExpertHolder> holders;  // by rank, including the home
  bool operator==(const ExpertPlacement&) const = default;

  [[nodiscard]] const ExpertHolder* holder(RankId rank) const;
};

/// The tokens that stay near their source before the rest is divided by shares.
enum class Nearest {
  Off,   // no tokens: every source's tokens are divided over all holders
  Rank,  // a source that holds the expert keeps its tokens
  Node   // in addition, a source with holders in its node divides its tokens among these alone
};

/// The placement of all experts of a layer. Every token reaches a holder of its expert; divide.hpp defines which one.
struct Placement {
  Nearest nearest = Nearest::Rank;
  std::vector<ExpertPlacement> experts;
  bool operator==(const Placement&) const = default;
};

/// The validation error of a placement of `experts` experts, or none. In a valid placement every expert has its home
/// among its holders, holders are distinct ranks in order, shares are non-negative with a positive sum, copies are
/// positive, and no rank fills more slots than it has.
[[nodiscard]] std::optional<std::string> placement_error(const Placement& placement, const PlacementDevices& devices,
                                                         std::int64_t experts);

/// The number of filled slots by rank.
[[nodiscard]] std::vector<std::int64_t> slots_filled(const Placement& placement, std::int64_t ranks);

/// The default placement of a Program: rank p is the home of the p-th range of consecutive experts (share_begin).
[[nodiscard]] Placement contiguous_placement(std::int64_t experts, std::int64_t ranks);

/// A placement in which every expert has a single holder, its home.
[[nodiscard]] Placement placement_of_homes(const std::vector<std::int64_t>& homes);

/// Adds a holder with a share, or another copy if the rank already holds the expert.
void add_holder(ExpertPlacement& place, RankId rank, std::int64_t share);

}  // namespace moeplan::planner
