// The machines that pipeline stages run on, and what a message between them costs.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "model/machine/sub_cluster.hpp"

namespace moeplan {

/// A message that every rank of a stage sends to the rank at the same place of another at once.
struct StageTransfer {
  Seconds startup;          // with the latency of the longest route
  SecondsPerByte per_byte;  // of the most loaded link, or at the measured rate
  Seconds alone_startup;    // of the rank that has it easiest, its message alone on the links: a lower bound
  SecondsPerByte alone_per_byte;

  [[nodiscard]] Seconds together(std::int64_t bytes) const {
    return startup + Bytes(static_cast<double>(bytes)) * per_byte;
  }
  [[nodiscard]] Seconds alone(std::int64_t bytes) const {
    return alone_startup + Bytes(static_cast<double>(bytes)) * alone_per_byte;
  }
};

/// Made once for a cluster and asked by all candidates of a search; safe to share between threads.
class StageClusters {
 public:
  /// `cluster` must outlive this.
  explicit StageClusters(const Cluster& cluster) : cluster_(cluster) {}

  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  /// Ranks of stage `stage` of `stages` equal ones.
  [[nodiscard]] const SubCluster& of(std::int64_t stages, std::int64_t stage);
  /// The first stage's machine; of one stage, the whole cluster.
  [[nodiscard]] const Cluster& first_of(std::int64_t stages) { return stages == 1 ? cluster_ : of(stages, 0).cluster; }
  /// Whether all stages have provably equal machines.
  [[nodiscard]] bool alike(std::int64_t stages);
  [[nodiscard]] StageTransfer transfer(std::int64_t stages, std::int64_t from, std::int64_t to);

 private:
  const Cluster& cluster_;
  std::mutex mutex_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::unique_ptr<SubCluster>> machines_;
  std::map<std::int64_t, bool> alike_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, StageTransfer> transfers_;
};

}  // namespace moeplan
