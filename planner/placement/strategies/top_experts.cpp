// The policies with which [Pro-Prophet] compares its planner (sec. VI-C): the heaviest two or three experts on all
// ranks.
#include <algorithm>

#include "planner/placement/shadow.hpp"
#include "planner/placement/strategies/strategy.hpp"

namespace moeplan::planner {

namespace {

class TopExperts final : public PlacementStrategy {
 public:
  explicit TopExperts(int experts) : experts_(experts) {}
  std::string_view name() const override { return experts_ == 2 ? "top2" : "top3"; }
  std::string_view summary() const override {
    return experts_ == 2 ? "the two heaviest experts on every rank [Pro-Prophet VI-C]"
                         : "the three heaviest experts on every rank [Pro-Prophet VI-C]";
  }
  bool replans() const override { return true; }

 protected:
  PlacementAnswer answer(const PlacementProblem& problem) const override {
    Placement placement = contiguous_placement(problem.experts(), problem.devices.ranks);
    std::vector<std::int64_t> free = slots_free(placement, problem.devices);
    std::vector<std::size_t> order = heaviest_first(problem.counts.expert_load());
    order.resize(std::min(order.size(), static_cast<std::size_t>(experts_)));
    for (const std::size_t e : order) shadow(placement.experts[e], free);
    return {std::move(placement)};
  }

 private:
  int experts_;
};

}  // namespace

std::unique_ptr<PlacementStrategy> make_top_experts_placement(int experts) {
  return std::make_unique<TopExperts>(experts);
}

}  // namespace moeplan::planner
