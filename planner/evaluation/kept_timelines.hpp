// Timelines of the fastest candidates that were simulated: what is predicted for them needs no second simulation.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "model/analysis/timeline.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// Keeps the Timelines, with all their spans, of the candidates of least makespan. Thread-safe; which it keeps has no
/// effect on any result.
class KeptTimelines {
 public:
  /// From now on keeps so many; at first none. Those kept before are dropped.
  void keep(std::size_t most);
  [[nodiscard]] bool keeps_any() const { return most_ > 0; }

  void offer(const Candidate& candidate, Timeline timeline);
  /// The candidate's Timeline, which is no longer kept.
  [[nodiscard]] std::optional<Timeline> take(const Candidate& candidate);

 private:
  struct Kept {
    Candidate candidate;
    Timeline timeline;
  };
  std::size_t most_ = 0;
  std::mutex mutex_;
  std::vector<Kept> kept_;
};

}  // namespace moeplan::planner
