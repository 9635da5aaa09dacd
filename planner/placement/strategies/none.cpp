// The strategy without rebalancing, the reference for all others.
#include "planner/placement/strategies/strategy.hpp"

namespace moeplan::planner {

namespace {

class NoPlacement final : public PlacementStrategy {
 public:
  std::string_view name() const override { return kContiguous; }
  std::string_view summary() const override { return "rank p holds the p-th share of the experts, in order"; }

 protected:
  PlacementAnswer answer(const PlacementProblem& problem) const override {
    return {contiguous_placement(problem.experts(), problem.devices.ranks)};
  }
};

}  // namespace

std::unique_ptr<PlacementStrategy> make_no_placement() { return std::make_unique<NoPlacement>(); }

}  // namespace moeplan::planner
