#include "planner/evaluation/kept_timelines.hpp"

#include <algorithm>
#include <utility>

namespace moeplan::planner {

void KeptTimelines::keep(std::size_t most) {
  const std::lock_guard lock(mutex_);
  most_ = most;
  kept_.clear();
}

void KeptTimelines::offer(const Candidate& candidate, Timeline timeline) {
  const std::lock_guard lock(mutex_);
  const auto known = std::any_of(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.candidate == candidate; });
  if (most_ == 0 || known) return;
  if (kept_.size() < most_) {
    kept_.push_back({candidate, std::move(timeline)});
    return;
  }
  const auto slowest = std::max_element(kept_.begin(), kept_.end(), [](const Kept& a, const Kept& b) {
    return a.timeline.makespan < b.timeline.makespan;
  });
  if (timeline.makespan < slowest->timeline.makespan) *slowest = {candidate, std::move(timeline)};
}

std::optional<Timeline> KeptTimelines::take(const Candidate& candidate) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.candidate == candidate; });
  if (found == kept_.end()) return std::nullopt;
  Timeline timeline = std::move(found->timeline);
  kept_.erase(found);
  return timeline;
}

}  // namespace moeplan::planner
