// A cache of the routes between ranks, for callers that look up the same pairs repeatedly.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "model/machine/cluster.hpp"

namespace moeplan {

/// Not thread-safe. `cluster` must outlive it. Memory is proportional to the number of distinct pairs looked up.
class RankRoutes {
 public:
  explicit RankRoutes(const Cluster& cluster) : cluster_(cluster) {}

  const Route& between(RankId from, RankId to) {
    const auto key = static_cast<std::uint64_t>(from.value()) << 32U | static_cast<std::uint32_t>(to.value());
    const auto [it, is_new] = routes_.try_emplace(key);
    if (is_new) it->second = cluster_.route(from, to);
    return it->second;
  }

 private:
  const Cluster& cluster_;
  std::unordered_map<std::uint64_t, Route> routes_;
};

}  // namespace moeplan
