// The group of ranks that runs a collective.
#pragma once

#include <cstdint>

namespace moeplan {

/// A group of ranks, spread evenly over nodes (NVLink domains).
struct GroupShape {
  std::int64_t ranks = 2;
  std::int64_t nodes = 1;
  bool operator==(const GroupShape&) const = default;
  [[nodiscard]] constexpr double per_node() const { return static_cast<double>(ranks) / static_cast<double>(nodes); }
};

}  // namespace moeplan
