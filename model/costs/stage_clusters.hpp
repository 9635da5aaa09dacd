// The sub-clusters of pipeline stages, the costs of messages between stages and prices of communication in them.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "model/costs/operation_price.hpp"
#include "model/machine/sub_cluster.hpp"

namespace moeplan {

/// Cost of a message that every rank of a stage sends concurrently to the rank at the same position in another stage.
struct StageTransfer {
  Seconds startup;          // including the latency of the longest route
  SecondsPerByte per_byte;  // of the most loaded link, or at the measured bandwidth
  Seconds alone_startup;    // lower bound: of the rank with the cheapest route, its message alone on the links
  SecondsPerByte alone_per_byte;
  bool operator==(const StageTransfer&) const = default;

  [[nodiscard]] Seconds together(std::int64_t bytes) const {
    return startup + Bytes(static_cast<double>(bytes)) * per_byte;
  }
  [[nodiscard]] Seconds alone(std::int64_t bytes) const {
    return alone_startup + Bytes(static_cast<double>(bytes)) * alone_per_byte;
  }
};

/// A cache of sub-clusters, transfer costs and prices, created once per cluster and shared by all candidates of a
/// search. Thread-safe.
class StageClusters {
 public:
  /// `cluster` must outlive this.
  explicit StageClusters(const Cluster& cluster) : cluster_(cluster) {}

  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  /// The sub-cluster of stage `stage` of `stages` equal ones.
  [[nodiscard]] const SubCluster& of(std::int64_t stages, std::int64_t stage);
  /// The first stage's sub-cluster; with one stage, the whole cluster.
  [[nodiscard]] const Cluster& first_of(std::int64_t stages) { return stages == 1 ? cluster_ : of(stages, 0).cluster; }
  /// The least p, a divisor of `stages`, for which the sub-clusters of stages that are equal modulo p are provably
  /// equivalent: 1 if those of all stages are, `stages` if none are.
  [[nodiscard]] std::int64_t period(std::int64_t stages);
  /// Whether the sub-clusters of all stages are provably equivalent.
  [[nodiscard]] bool are_equivalent(std::int64_t stages) { return period(stages) == 1; }
  /// Where what happens inside `stage`, one of the first period(stages), may be computed once: on the sub-cluster of
  /// the first stage to which its own corresponds.
  struct Equivalent {
    std::int64_t stage;
    std::vector<LinkId> links;  // in the stage's own sub-cluster, by LinkId in the other: corresponding_links()
  };
  /// Stages of very many ranks are only found equivalent to themselves.
  [[nodiscard]] const Equivalent& equivalent(std::int64_t stages, std::int64_t stage);
  [[nodiscard]] StageTransfer transfer(std::int64_t stages, std::int64_t from, std::int64_t to);
  /// Of communications on the cluster and these sub-clusters.
  [[nodiscard]] CommunicationPrices& prices() { return prices_; }

 private:
  [[nodiscard]] const SubCluster& known(std::int64_t stages, std::int64_t stage);
  [[nodiscard]] const StageTransfer& known_transfer(std::int64_t stages, std::int64_t from, std::int64_t to);

  const Cluster& cluster_;
  std::mutex mutex_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::unique_ptr<SubCluster>> machines_;
  std::map<std::int64_t, std::int64_t> periods_;
  std::map<std::int64_t, std::deque<Equivalent>> equivalents_;  // by number of stages and stage
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, StageTransfer> transfers_;
  CommunicationPrices prices_;
};

}  // namespace moeplan
