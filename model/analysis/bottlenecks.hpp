// What held one operation while it ran: its time cut into stretches, each by one holder. Used by critical_path().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "model/analysis/critical_path.hpp"
#include "model/machine/rank_routes.hpp"

namespace moeplan {

/// A stretch of an operation.
struct LimitedTime {
  Bottleneck held_by;
  SimTime duration;
  std::optional<LinkId> link{};
};

/// Remembers loads of communications, so that one asked about again costs little.
class BottleneckAttribution {
 public:
  BottleneckAttribution(const Program& program, const Cluster& cluster);

  /// Stretches of a computation that took `duration`, in order; they sum to it.
  [[nodiscard]] std::vector<LimitedTime> of_computation(const Operation& operation, RankId rank,
                                                        SimTime duration) const;

  /// Of a communication, from the arrival of the last peer of `rank` on.
  [[nodiscard]] std::vector<LimitedTime> of_communication(BlockId block, std::int32_t operation, RankId rank,
                                                          SimTime duration);

  /// Of a Send by `rank`, from when it was reached on.
  [[nodiscard]] std::vector<LimitedTime> of_message(const Operation& send, RankId rank, SimTime duration);

  /// The ranks that `rank` sends bytes to or receives bytes from, ascending.
  [[nodiscard]] const std::vector<RankId>& peers(BlockId block, std::int32_t operation, RankId rank);

 private:
  /// One rank's part of a communication.
  struct Part {
    std::vector<RankId> peers;
    Seconds startup;                // with the latency of the slowest of its routes
    Seconds capped;                 // at the measured rate, of the rank and those it talks to
    Seconds linked;                 // over the most loaded link that it uses
    std::optional<LinkId> busiest;  // that link
  };
  /// Of all groups of a communication together.
  struct Load {
    std::vector<double> link_seconds;  // by LinkId
    std::vector<double> out, in;       // bytes by rank
  };
  const Part& part(BlockId block, std::int32_t operation, RankId rank);
  const Load& load(BlockId block, std::int32_t operation);
  void add_equal_ranks(const Operation& operation, Load& all) const;

  const Program& program_;
  const Cluster& cluster_;
  const SymmetricView* view_ = nullptr;  // where all ranks are equal
  std::map<std::tuple<BlockId, std::int32_t, RankId>, Part> parts_;
  std::map<std::pair<BlockId, std::int32_t>, Load> loads_;
  RankRoutes routes_;
};

}  // namespace moeplan
