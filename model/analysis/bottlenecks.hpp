// Attribution of an operation's time to bottlenecks: its duration divided into intervals, each with one bottleneck.
// Used by critical_path().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "model/analysis/bottleneck.hpp"
#include "model/base/sim_time.hpp"
#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"

namespace moeplan {

/// An interval of an operation with its bottleneck.
struct LimitedTime {
  Bottleneck limited_by;
  SimTime duration;
  std::optional<LinkId> link{};
};

/// Computes attributions and caches the loads of communications, so that repeated queries are cheap.
class BottleneckAttribution {
 public:
  BottleneckAttribution(const Program& program, const Cluster& cluster);

  /// The intervals of a computation that took `duration`, in order; they sum to `duration`.
  [[nodiscard]] std::vector<LimitedTime> of_computation(const Operation& operation, RankId rank,
                                                        SimTime duration) const;

  /// The intervals of a communication, from the arrival of the last peer of `rank`.
  [[nodiscard]] std::vector<LimitedTime> of_communication(BlockId block, std::int32_t operation, RankId rank,
                                                          SimTime duration);

  /// The intervals of a Send by `rank`, from the moment it was reached.
  [[nodiscard]] std::vector<LimitedTime> of_message(const Operation& send, RankId rank, SimTime duration);

  /// The ranks that `rank` sends bytes to or receives bytes from, ascending. O(its flows).
  [[nodiscard]] const std::vector<RankId>& peers(BlockId block, std::int32_t operation, RankId rank);

 private:
  /// The intervals of a transfer that takes `capped` at its measured rate and `linked` over its most loaded link, in
  /// order, at the end of `out`. They sum to what is left of `duration`; the last takes up rounding.
  void append_transfer(std::vector<LimitedTime>& out, SimTime left, SimTime duration, Seconds capped, Seconds linked,
                       std::optional<LinkId> busiest) const;
  /// One rank's part of a communication.
  struct Part {
    Seconds startup;                // including the latency of the slowest of its routes
    Seconds capped;                 // at the measured bandwidth, of the rank and its peers
    Seconds linked;                 // over the most loaded link that it uses
    std::optional<LinkId> busiest;  // that link
  };
  /// Load of all groups of a communication together.
  struct Load {
    std::vector<double> link_seconds;  // by LinkId
    std::vector<double> out, in;       // bytes by rank
  };
  const Part& part(BlockId block, std::int32_t operation, RankId rank);
  const Load& load(BlockId block, std::int32_t operation);
  void add_equal_ranks(const Operation& operation, Load& all) const;

  const Program& program_;
  const Cluster& cluster_;
  const SymmetricView* view_ = nullptr;  // if all ranks are equal
  std::map<std::tuple<BlockId, std::int32_t, RankId>, std::vector<RankId>> peers_;
  std::map<std::tuple<BlockId, std::int32_t, RankId>, Part> parts_;
  std::map<std::pair<BlockId, std::int32_t>, Load> loads_;
};

}  // namespace moeplan
