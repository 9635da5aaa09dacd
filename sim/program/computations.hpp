// The computations in progress on simulated GPUs.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "model/base/sim_time.hpp"
#include "model/costs/communication.hpp"
#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"
#include "sim/flows/network_flows.hpp"
#include "sim/program/event_queue.hpp"

namespace moeplan::sim {

/// Ranks that share a GPU share its speed equally, and computations on it are slowed down while communications are open
/// on it, by the largest of their factors (slowdown_beside, and kTwoWaves for persistent kernels); in turn, the
/// network's flows learn which ranks' GPUs compute. The end of each computation is an event of kind ComputeEnd; where
/// the GPU's speed changes before, another event replaces it, and the older one is void.
class Computations {
 public:
  /// `program`, `cluster`, `events` and `flows` must outlive the computations.
  Computations(const Program& program, const Cluster& cluster, std::size_t ranks, EventQueue& events,
               NetworkFlows& flows);

  void start(RankId r, BlockId block, std::int32_t operation);
  /// Ends the computation of an event of kind ComputeEnd; false if the event is void.
  bool end(const Event& event);

  /// Begins the host's launches or a copy to or from its memory, which nothing on the GPU slows down; they end with an
  /// event of kind OperationEnd.
  void start_host(RankId r, BlockId block, std::int32_t operation);

  void begin_communication(RankId r, const Operation& communication) {
    change_gpu(r, {slowdown_beside(communication, cluster_), 1}, 0);
  }
  void end_communication(RankId r, const Operation& communication) {
    change_gpu(r, {slowdown_beside(communication, cluster_), -1}, 0);
  }

 private:
  /// A computation in progress.
  struct Computing {
    std::int32_t operation;
    double remaining_ps;  // remaining time at full speed, as of `since`
    SimTime since;
    std::uint64_t version;  // of its end event
    bool is_persistent;
  };

  /// The activity of the ranks on one GPU, which determines their speed.
  struct Gpu {
    std::vector<std::pair<double, std::int32_t>> open;  // numbers of open communications by their factor
    std::int32_t computing_ranks = 0;
  };

  /// The time that the operation takes on a GPU that does nothing else.
  SimTime duration(RankId r, BlockId block, std::int32_t operation);
  Gpu& gpu_of(RankId r) { return gpus_[r.index() / static_cast<std::size_t>(cluster_.ranks_per_gpu)]; }
  /// What slows down computations on a GPU: the factor of its open communications, and the ranks that compute on it.
  struct Speed {
    double by_communication;
    std::int32_t computing_ranks;
    bool operator==(const Speed&) const = default;
  };
  [[nodiscard]] Speed speed(const Gpu& gpu) const;
  /// The factor by which a computation takes longer.
  [[nodiscard]] double slowdown(const Speed& speed, const Computing& computing) const;
  void schedule_end(RankId r, Computing& computing);
  /// Updates the speed of computations in progress on the rank's GPU when communication or computation begins or ends
  /// on the rank.
  void change_gpu(RankId r, std::pair<double, std::int32_t> communications, std::int32_t computing_ranks);

  const Program& program_;
  const Cluster& cluster_;
  EventQueue& events_;
  NetworkFlows& flows_;
  std::vector<std::vector<Computing>> computing_;  // by rank
  std::vector<Gpu> gpus_;
  std::vector<std::vector<SimTime>> durations_;  // by block, then rank and operation; negative: not computed yet
  std::uint64_t versions_ = 0;
};

}  // namespace moeplan::sim
