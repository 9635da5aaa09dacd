// The links of a cluster that the stages of a pipeline use, and which stages are equivalent in them.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "model/base/ids.hpp"
#include "model/costs/stage_clusters.hpp"
#include "model/program/stage_segments.hpp"

namespace moeplan::sim {

class StageLinks {
 public:
  /// Links of the whole cluster that a stage uses.
  struct OfStage {
    std::vector<LinkId> links;  // by LinkId in the sub-cluster of machine(stage); below 0: none
    /// By the number of stages that a message moves: the parts of it that all ranks together send over each link.
    std::map<std::int64_t, std::vector<std::pair<LinkId, double>>> of_messages;
  };

  /// The arguments must outlive this. Unless links are asked for (`for_each_stage`, `watched`), stages are equivalent
  /// also where it is not known which links of two of them correspond.
  StageLinks(const StageSegments& stages, StageClusters& machines, std::int64_t ranks_per_stage, bool are_asked_for);

  /// The stage on whose sub-cluster what happens inside `stage` is simulated: the first one that is equivalent.
  [[nodiscard]] std::size_t machine(std::size_t stage) const { return machines_of_[stage % machines_of_.size()]; }

  /// Which links of the machines some links of the whole cluster are.
  struct Watched {
    struct OfStage {
      std::size_t of_machine, of_cluster;  // indices in `by_machine` of the stage's machine, and in the links given
    };
    std::vector<std::vector<LinkId>> by_machine;  // by stage that is one's own machine, of its sub-cluster
    std::vector<std::vector<OfStage>> by_stage;
  };
  [[nodiscard]] Watched watched(const std::vector<LinkId>& links);

  /// Calls visit(stage, links) for every stage, in order, with the parts of all messages that it sends.
  template <class Visit>
  void for_each_stage(Visit visit) {
    std::vector<OfStage> last;  // of the last stages so far, modulo the period
    for (std::size_t s = 0; s < stages_.order.size(); ++s) {
      if (s < machines_of_.size()) {
        last.push_back({links_of(s), {}});
      } else {
        shift(last[s % last.size()]);
      }
      OfStage& own = last[s % last.size()];
      for (const std::size_t i : stages_.order[s]) add_messages(s, stages_.segments[i], own);
      visit(s, std::as_const(own));
    }
  }

 private:
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(stages_.order.size()); }
  [[nodiscard]] std::int64_t period(bool are_asked_for) const;
  [[nodiscard]] std::vector<LinkId> links_of(std::size_t stage) const;
  void shift(OfStage& stage) const;
  void add_messages(std::size_t stage, const Segment& segment, OfStage& own) const;
  [[nodiscard]] std::vector<std::pair<LinkId, double>> shares_of_message(std::size_t stage, std::int64_t shift) const;

  const StageSegments& stages_;
  StageClusters& machines_;
  std::int64_t ranks_;
  std::int64_t period_;                   // what happens takes the same time on stages that are equal modulo this
  std::vector<std::size_t> machines_of_;  // machine() of the stages below the period
};

}  // namespace moeplan::sim
