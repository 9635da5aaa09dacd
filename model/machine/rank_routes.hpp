// The routes between ranks, for callers that look up the same pairs repeatedly.
#pragma once

#include <memory>

#include "model/base/ids.hpp"
#include "model/machine/topology.hpp"

namespace moeplan {

struct Cluster;

/// A cache of the routes between ranks of one cluster, stored with it: every candidate of a search asks for the same
/// pairs. Thread-safe. Memory is proportional to the number of distinct pairs looked up.
class RankRoutes {
 public:
  RankRoutes();
  ~RankRoutes();
  RankRoutes(RankRoutes&&) noexcept;
  RankRoutes& operator=(RankRoutes&&) noexcept;

  /// Cluster::route(from, to) of the cluster that this is stored with; valid as long as the cluster.
  [[nodiscard]] const Route& between(const Cluster& cluster, RankId from, RankId to) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moeplan
