// [SmartMoE] (ATC'23) as described in MODELS section 10: experts by descending load, each to the least loaded rank with
// a free slot.
#include <algorithm>

#include "model/base/whole_numbers.hpp"
#include "planner/placement/shadow.hpp"
#include "planner/placement/strategies/strategy.hpp"

namespace moeplan::planner {

namespace {

class SmartMoe final : public PlacementStrategy {
 public:
  std::string_view name() const override { return "smartmoe"; }
  std::string_view summary() const override {
    return "experts by load to the least loaded rank, as many on each, none twice [SmartMoE]";
  }

 protected:
  PlacementAnswer answer(const PlacementProblem& problem) const override {
    const std::vector<std::int64_t> loads = problem.counts.expert_load();
    const auto ranks = static_cast<std::size_t>(problem.devices.ranks);
    std::vector<std::int64_t> load(ranks, 0), held(ranks, 0), homes(loads.size());
    const std::int64_t most = ceil_div(problem.experts(), problem.devices.ranks);
    for (const std::size_t e : heaviest_first(loads)) {
      std::size_t best = ranks;
      for (std::size_t r = 0; r < ranks; ++r) {
        if (held[r] < most && (best == ranks || load[r] < load[best])) best = r;
      }
      homes[e] = static_cast<std::int64_t>(best);
      load[best] += loads[e];
      ++held[best];
    }
    return {placement_of_homes(homes)};
  }
};

}  // namespace

std::unique_ptr<PlacementStrategy> make_smartmoe_placement() { return std::make_unique<SmartMoe>(); }

}  // namespace moeplan::planner
